"""Actions in Chromium: the ledger, filters in the address, one action opened, undo, cancel, proposals."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from app.pages.actions_ledger import BY
from control.plans import Cleanup, Move, Part, plan_from_json
from tests.browser.conftest import Visit
from tests.browser.stage import MB, OPERATOR, QUERY, Stage

ROWS = "#actions-grid .ag-center-cols-container [role=row]"


@pytest.fixture
def idle(stage: Stage) -> Stage:
    """Nothing runs: what is proposed is not in the way of anything."""
    stage.act("01e-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, 20.0)
    stage.tick()
    return stage


def choose(page: Page, control: str, label: str) -> None:
    page.click(f"#{control}")
    page.get_by_role("option", name=label, exact=True).click()


def test_the_ledger_leaves_out_what_nodes_do_until_asked(visit: Visit) -> None:
    page, watch = visit("/actions")
    expect(page.locator(ROWS)).to_have_count(5)
    expect(page.locator("#actions-count")).to_contain_text("5 of market")
    choose(page, "actions-by", BY["nodes"])
    expect(page.locator(ROWS)).to_have_count(9)
    page.wait_for_url(re.compile(r"by=nodes"))
    page.reload()
    expect(page.locator(ROWS)).to_have_count(9)
    expect(page.locator("#actions-by")).to_have_value(BY["nodes"])
    watch.nothing()


def test_filters_find_by_state_kind_and_text(visit: Visit) -> None:
    page, watch = visit("/actions?state=failed")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS).first).to_contain_text("n2 → n1")
    choose(page, "actions-state", "Any state")
    page.fill("#actions-find", "night_cleanup")
    expect(page.locator(ROWS)).to_have_count(1)
    page.wait_for_url(re.compile(r"find=night_cleanup"))
    page.fill("#actions-find", "nothing like it")
    expect(page.locator("#actions-count")).to_contain_text("0 of market")
    watch.nothing()


def test_an_action_opens_closes_and_has_an_address(visit: Visit) -> None:
    page, watch = visit("/actions")
    page.locator(ROWS).filter(has_text="01c-0").click()
    expect(page.locator("#actions-top .ac-ttl")).to_have_text("Move 8 groups n4 → n0")
    page.wait_for_url(re.compile(r"action=01c-0"))
    expect(page.locator("#actions-top .ac-tl")).to_have_count(9)  # the head, and the paper's eight
    expect(page.locator("#actions-effect .main-svg").first).to_be_visible()
    page.reload()
    expect(page.locator("#actions-top .ac-ttl")).to_have_text("Move 8 groups n4 → n0")
    page.keyboard.press("Escape")
    expect(page.locator("#actions-top")).to_be_hidden()
    assert "action=" not in page.url
    watch.nothing()


def test_the_back_button_closes_what_was_opened(visit: Visit) -> None:
    page, watch = visit("/actions")
    page.locator(ROWS).filter(has_text="01a-0").click()
    expect(page.locator("#actions-top .ac-ttl")).to_have_text("Spill 8 groups of n2")
    page.go_back()
    expect(page.locator("#actions-top")).to_be_hidden()
    expect(page.locator(ROWS)).to_have_count(5)
    watch.nothing()


def test_a_failed_action_says_why_and_has_no_way_back(visit: Visit) -> None:
    page, watch = visit("/actions?action=01d-0")
    expect(page.locator("#actions-top")).to_contain_text("disk full")
    expect(page.locator("#actions-foot")).to_contain_text("nothing to take back: it is failed")
    for button in page.locator("#actions-foot .btn").all():
        expect(button).to_be_disabled()
    watch.nothing()


def test_undo_is_a_proposal_that_is_seen_first(visit: Visit, idle: Stage) -> None:
    idle.moved.update(dict.fromkeys(range(8), 0))
    idle.moved.pop(7)  # it has state on disk: a move would be refused
    idle.act("01f-0", Move((Part(OPERATOR, tuple(range(7))),), 4, 0, 40 * MB), 30, 20.0)
    idle.tick()
    page, watch = visit("/actions?action=01f-0")
    page.get_by_role("button", name="Preview undo").click()
    expect(page.locator("#proposal-body")).to_contain_text("takes back action 01f-0")
    found = idle.store.proposals.page(query=QUERY, most=1)[0]
    step = plan_from_json(found.plan).steps[0]
    assert found.undo_of == "01f-0" and isinstance(step, Move)
    assert (step.source, step.target) == (0, 4)
    watch.nothing()


def test_what_runs_can_be_cancelled(visit: Visit, stage: Stage) -> None:
    stage.act("01g-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, None)
    stage.tick()
    page, watch = visit("/actions?action=01g-0")
    expect(page.locator("#actions-top .ac-head")).to_contain_text("running 40 %")
    page.locator("#actions-foot").get_by_role("button", name="Cancel").click()
    expect(page.locator("#actions-foot")).to_contain_text("on its way to the engine")
    command = stage.store.commands.page(query=QUERY, most=1)[0]
    assert (command.kind, command.body) == ("cancel", {"action": "01g-0"})
    expect(page.locator("#actions-waiting")).to_contain_text("cancel by olga")
    stage.act("01g-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, 20.0)
    watch.nothing()


def test_proposals_are_looked_at_and_dismissed(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/debt")
    page.locator("#debt-nodes .de-do .btn:enabled").first.click()
    expect(page.locator("#proposal-body")).to_contain_text("nothing has happened yet")
    made = idle.store.proposals.page(query=QUERY, most=1)[0]
    assert all(isinstance(step, Cleanup) for step in plan_from_json(made.plan).steps)
    page.goto(page.url.split("/debt")[0] + "/actions")
    one = page.locator(".ac-pr").first
    one.get_by_role("button", name="Preview").click()
    expect(page.locator("#proposal-body")).to_contain_text("Clean up")
    page.get_by_role("button", name="Keep for later").click()
    expect(page.locator("#proposal-body")).to_be_hidden()
    one.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".ac-pr").filter(has_text="Clean up")).to_have_count(0)
    assert idle.store.proposals.find(made.id).state == "dismissed"
    watch.nothing()


def test_a_viewer_sees_all_of_it_and_why_not(visit: Visit) -> None:
    page, watch = visit("/actions?action=01c-0", "vic", width=390, height=844, theme="light")
    expect(page.locator("#actions-foot")).to_contain_text(
        "Needs the role operator; you are viewer."
    )
    for button in page.locator("#actions-foot .btn").all():
        expect(button).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    watch.nothing()
