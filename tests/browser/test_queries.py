"""Queries & plans in Chromium: the tree and its figures, starting and stopping, registering with a mistake and rightly."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from app.feed import SLOW_S
from app.pages.queries_new import FILE_EXAMPLE
from control.ledger import QueryRow, Wanted
from tests.app.made import PASSWORD
from tests.browser.conftest import Visit
from tests.browser.stage import OPERATOR, QUERY, START_S, Stage

ROOT = {
    "id": OPERATOR, "kind": "multi_join", "inputs": ["p", "v"], "groups": 240, "on": ["p.k = v.k (bigint)"],
    "within": [],
    "children": [
        {"id": "scan-p", "kind": "stream", "alias": "p", "streams": ["prices"], "format": "generator"},
        {"id": "scan-v", "kind": "stream", "alias": "v", "streams": ["volumes"], "format": "generator"},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def told(stage: Stage) -> None:
    """What the engine tells of the query: its plan. Nothing else is registered."""
    for row in stage.store.queries.all():
        if row.name != QUERY:
            stage.store.queries.drop(row.name)
    about = {"plan": {"root": ROOT}, "operators": [OPERATOR], "groups": 240}
    stage.store.queries.want(QUERY, Wanted.RUNNING)
    stage.store.queries.told(QUERY, "running", "", about, stage.clock.now_s)
    stage.tick(SLOW_S)


def other(stage: Stage, name: str, state: str) -> None:
    stage.store.queries.add(
        QueryRow(name, f'name = "{name}"\n', "", 2, Wanted.STOPPED, False, START_S)
    )
    stage.store.queries.told(name, state, "", {}, START_S)
    stage.tick(SLOW_S)


def drawn(page: Page) -> None:
    expect(page.locator("#queries-plan .pt-op")).to_have_count(1)


def test_the_tree_has_live_figures_of_each_operator_and_node(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/queries")
    drawn(page)
    groups = stage.store.metrics.newest(QUERY).snapshot.groups
    sigma = groups.rows_out_per_s.sum() / groups.rows_in_per_s.sum()
    box = page.locator(".pt-op")
    expect(box).to_contain_text("p ⋈ v")
    expect(box).to_contain_text(f"{sigma:.2f}")
    expect(page.locator(".pt-leaf")).to_have_count(2)
    rows = page.locator("#queries-nodes tbody tr")
    expect(rows).to_have_count(stage.nodes)
    counts = [int(rows.nth(n).locator("td").nth(1).inner_text()) for n in range(stage.nodes)]
    assert sum(counts) == len(groups)
    expect(page.locator("#queries-operator")).to_contain_text("p.k = v.k")
    watch.nothing()


def test_an_operator_is_chosen_by_key(visit: Visit) -> None:
    page, watch = visit("/queries")
    drawn(page)
    page.locator(".pt-op").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".pt-op")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#queries-operator-sub")).to_have_text(OPERATOR)
    watch.nothing()


def test_another_query_is_looked_at_by_its_name(visit: Visit, stage: Stage) -> None:
    other(stage, "orders", "stopped")
    page, watch = visit("/queries")
    page.get_by_role("link", name="orders").click()
    page.wait_for_url(re.compile("query=orders"))
    expect(page.locator("#queries-list tr.on")).to_contain_text("orders")
    expect(page.locator("#queries-plan")).to_contain_text("No plan yet")
    watch.nothing()


def test_pausing_is_told_and_stopping_is_asked_first(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/queries")
    page.get_by_role("button", name=f"Pause {QUERY}").click()
    expect(page.locator("#queries-did-said")).to_contain_text("pausing")
    assert stage.store.queries.find(QUERY).wanted is Wanted.PAUSED
    page.get_by_role("button", name=f"Stop {QUERY}").click()
    expect(page.locator("#queries-confirm-text")).to_contain_text("after the running tick")
    page.click("#queries-confirm-no")
    expect(page.locator("#queries-confirm-text")).to_be_hidden()
    assert stage.store.queries.find(QUERY).wanted is Wanted.PAUSED
    page.get_by_role("button", name=f"Stop {QUERY}").click()
    page.click("#queries-confirm-yes")
    expect(page.locator("#queries-did-said")).to_contain_text("stopping")
    assert stage.store.queries.find(QUERY).wanted is Wanted.STOPPED
    watch.nothing()


def test_a_query_is_registered_with_a_mistake_and_then_rightly(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/queries", "ada")
    page.click("#queries-open")
    page.click("#queries-example")
    expect(page.locator("#queries-text")).to_have_value(FILE_EXAMPLE)
    wrong = FILE_EXAMPLE.replace("FROM prices", "FROM pricez")
    page.fill("#queries-text", wrong)
    page.click("#queries-register")
    expect(page.locator("#queries-said")).to_contain_text("did you mean `prices`?")
    expect(page.locator("#queries-text")).to_have_value(wrong)
    page.fill("#queries-text", FILE_EXAMPLE)
    page.click("#queries-register")
    expect(page.locator("#queries-said")).to_contain_text("feed is registered and starts.")
    page.keyboard.press("Escape")
    expect(page.locator("#queries-list")).to_contain_text("feed")
    assert stage.store.queries.find("feed").wanted is Wanted.RUNNING
    watch.nothing()


def test_unregistering_wants_the_password_when_it_was_given_long_ago(
    visit: Visit, stage: Stage
) -> None:
    other(stage, "orders", "stopped")
    page, watch = visit("/queries", "ada")
    expect(page.locator("#queries-list")).to_contain_text("orders")
    stage.tick(1_000.0)
    page.get_by_role("button", name="Unregister orders").click()
    page.fill("#queries-confirm-password", "not it")
    page.click("#queries-confirm-yes")
    expect(page.locator("#queries-confirm-said")).to_contain_text("not right")
    page.fill("#queries-confirm-password", PASSWORD)
    page.click("#queries-confirm-yes")
    expect(page.locator("#queries-did-said")).to_contain_text("forgotten")
    assert stage.store.queries.find("orders") is None
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/queries", "vic", width=390, theme="light")
    button = page.get_by_role("button", name=f"Pause {QUERY}")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "Needs the role operator; you are viewer.")
    page.click("#queries-open")
    expect(page.locator("#queries-register")).to_be_disabled()
    watch.nothing()
