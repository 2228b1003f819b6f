"""Spill debt in Chromium: what is owed adds up, clean-ups are proposed for a node, for chosen groups, from the ranking."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from control.plans import Cleanup, Move, Part, plan_from_json
from tests.browser.conftest import Visit
from tests.browser.stage import MB, OPERATOR, QUERY, Stage


@pytest.fixture
def idle(stage: Stage) -> Stage:
    stage.act("01e-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, 20.0)
    stage.tick()
    return stage


def test_what_is_owed_is_that_of_the_groups(visit: Visit, stage: Stage) -> None:
    groups = stage.store.metrics.newest(QUERY).snapshot.groups
    page, watch = visit("/debt")
    expect(page.locator("#debt-headline")).to_contain_text("40.0 k results are owed by 8 groups")
    assert float(groups.owed_rows.sum()) == 40_000 and int(groups.spilled.sum()) == 8
    rows = page.locator("#debt-groups .ag-center-cols-container [role=row]")
    expect(rows).to_have_count(8)
    expect(page.locator("#debt-pairs .de-pair").first).to_be_visible()
    watch.nothing()


def test_chosen_groups_are_proposed(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/debt")
    expect(page.locator("#debt-propose")).to_be_disabled()
    boxes = page.locator("#debt-groups [role=row] input[type=checkbox]")
    expect(boxes.nth(1)).to_be_visible()
    boxes.nth(1).check()
    expect(page.locator("#debt-chosen")).to_have_text("1 group chosen")
    page.click("#debt-propose")
    expect(page.locator("#proposal-body")).to_contain_text("Clean up 1 group")
    steps = plan_from_json(idle.store.proposals.page(query=QUERY, most=1)[0].plan).steps
    assert len(steps) == 1 and isinstance(steps[0], Cleanup)
    watch.nothing()


def test_a_node_is_offered_what_fits(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/debt")
    page.locator("#debt-nodes .de-do .btn:enabled").first.click()
    expect(page.locator("#proposal-body")).to_contain_text("nothing has happened yet")
    watch.nothing()


def test_old_news_is_not_ranked(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/debt", theme="light")
    expect(page.locator("#debt-headline")).to_contain_text("owed")
    stage.clock.pause(120)
    stage.beat("engine")
    expect(page.locator("#frame")).to_have_class("app stale")
    expect(page.locator("#debt-advice")).to_contain_text("Not ranked")
    stage.tick()
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/debt", "vic", width=390, height=844)
    expect(page.locator("#debt-chosen")).to_have_text("Needs the role operator; you are viewer.")
    for button in page.locator("#debt-nodes .btn").all():
        expect(button).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    watch.nothing()
