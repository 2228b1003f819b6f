"""Nodes in Chromium: the table, one node in detail, its address, draining, budgets, how many there are."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from control.plans import Move, Part, SetBudget, plan_from_json
from tests.browser.conftest import Visit
from tests.browser.stage import MB, OPERATOR, QUERY, Stage


@pytest.fixture
def idle(stage: Stage) -> Stage:
    stage.act("01e-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, 20.0)
    stage.tick()
    return stage


def shown(page: Page, name: str) -> None:
    expect(page.locator("#nodes-title .nd-id")).to_have_text(name)
    expect(page.locator("#nodes-stats")).to_contain_text("in memory")


def test_the_node_in_most_trouble_is_shown_and_another_when_chosen(visit: Visit) -> None:
    page, watch = visit("/nodes")
    shown(page, "n2")
    rows = page.locator("#nodes-table .ag-center-cols-container [role=row]")
    expect(rows).to_have_count(6)
    rows.nth(4).click()
    shown(page, "n4")
    page.wait_for_url(re.compile(r"node=4"))
    page.reload()
    shown(page, "n4")
    expect(page.locator("#nodes-table [role=row].ag-row-selected")).to_contain_text("n4")
    watch.nothing()


def test_what_a_node_has_adds_up(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/nodes?node=1")
    shown(page, "n1")
    snapshot = stage.store.metrics.newest(QUERY).snapshot
    mine = snapshot.on(1)
    row = page.locator("#nodes-operators tbody tr").first
    expect(row).to_contain_text(OPERATOR)
    assert row.locator("td").nth(1).inner_text() == str(len(mine))
    largest = mine[snapshot.groups.memory_bytes[mine].argmax()]
    number = int(snapshot.groups.group[largest])
    group = page.locator("#nodes-largest").get_by_role("link").first
    expect(group).to_have_text(f"g{number}")
    group.click()
    page.wait_for_url(re.compile(rf"/placement\?.*groups={number}(&|$)"))
    expect(page.locator("#placement-summary")).to_contain_text("1 group on n1")
    watch.nothing()


def test_draining_is_proposed_or_refused_with_why(visit: Visit, idle: Stage) -> None:
    page, _ = visit("/nodes?node=3")
    shown(page, "n3")
    page.click("#nodes-drain")
    expect(page.locator("#proposal-body")).to_contain_text("clean them up first")


def test_a_budget_is_proposed(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/nodes?node=5")
    shown(page, "n5")
    page.click("#nodes-set")
    expect(page.locator("#proposal-body")).to_contain_text("A budget is a number of MB")
    page.locator("#proposal-body").get_by_role("button", name="Close").click()
    expect(page.locator("#proposal-body")).to_be_hidden()
    page.fill("#nodes-budget", "500")
    page.locator("#nodes-budget").press("Tab")
    page.click("#nodes-set")
    expect(page.locator("#proposal-body")).to_contain_text("nothing has happened yet")
    found = idle.store.proposals.page(query=QUERY, most=1)[0]
    assert plan_from_json(found.plan).steps == (SetBudget(5, 500 * MB),)
    watch.nothing()


def test_only_admins_change_how_many_there_are(visit: Visit, stage: Stage) -> None:
    page, _ = visit("/nodes", "olga")
    shown(page, "n2")
    expect(page.locator("#nodes-more")).to_be_disabled()
    expect(page.locator("#nodes-more")).to_have_attribute(
        "title", "Needs the role admin; you are operator."
    )
    page, watch = visit("/nodes", "ada")
    shown(page, "n2")
    page.click("#nodes-more")
    expect(page.locator("#nodes-confirm-text")).to_contain_text("7 nodes instead of 6")
    page.click("#nodes-confirm-yes")
    expect(page.locator("#nodes-confirm-text")).to_be_hidden()
    assert stage.store.queries.find(QUERY).nodes == 7
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/nodes", "vic", width=390, theme="light")
    shown(page, "n2")
    expect(page.locator("#nodes-drain")).to_be_disabled()
    expect(page.locator("#nodes-why")).to_have_text("Needs the role operator; you are viewer.")
    watch.nothing()
