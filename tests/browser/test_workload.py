"""Workload in Chromium: sliders by key, a slow node, less memory, hot keys; what the engine said of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from app.feed import SLOW_S
from control.ledger import Command, CommandState, QueryRow, Wanted
from control.plans import SetBudget, plan_from_json
from tests.browser.conftest import Visit
from tests.browser.stage import BUDGET, QUERY, Stage

FILE = {
    "preset": "prices",
    "rate": "2000",
    "tuple_range": "10000",
    "join_ratio": "4",
    "fresh_keys": "true",
}
LIVE = {
    "rate": "2000",
    "tuple_range": "10000",
    "join_ratio": "4",
    "zipf": "0",
    "skew": "1",
    "shift": "0",
    "keys": "",
}


@pytest.fixture(autouse=True)
def told(stage: Stage) -> None:
    tell(stage)
    ended(stage)


def tell(stage: Stage, **options: str) -> None:
    """As the engine tells it after a change."""
    streams = {"prices": {"format": "generator", "options": {**LIVE, **options}, "file": FILE}}
    stage.store.queries.told(
        QUERY, "running", "", {"nodes": stage.nodes, "streams": streams}, stage.clock.now_s
    )
    stage.tick(SLOW_S)


def ended(stage: Stage, text: str = "done") -> list[Command]:
    """The engine takes what is there, and says this of it."""
    found = stage.store.commands.take(stage.clock.now_s)
    for one in found:
        stage.store.commands.end(one.id, CommandState.DONE, {"text": text}, stage.clock.now_s)
    return list(found)


def ready(page: Page) -> None:
    expect(page.locator(".wl-s")).to_have_count(1)
    expect(page.locator("#workload-nodes .wl-n").first).to_be_visible()


def test_a_slider_is_turned_by_key_and_its_change_is_followed(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/workload")
    ready(page)
    change = page.get_by_role("button", name="Change prices")
    expect(change).to_be_disabled()
    page.get_by_role("slider").first.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".wl-f")).to_contain_text("rate 2.00 k/s → 2.40 k/s")
    change.click()
    log = page.locator("#workload-log")
    expect(log).to_contain_text("prices: rate 2400")
    expect(log).to_contain_text("waits for the engine")
    assert [dict(one.body) for one in ended(stage, "prices changes with the next tick")] == [
        {"stream": "prices", "options": {"rate": "2400"}}
    ]
    tell(stage, rate="2400")
    expect(log).to_contain_text("prices changes with the next tick")
    expect(page.locator(".wl-now")).to_contain_text("rate 2.40 k/s")
    expect(change).to_be_disabled()
    watch.nothing()


def test_a_node_is_made_slow_and_fast_again(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/workload")
    ready(page)
    page.fill("#workload-slow-s", "0.2")
    page.locator("#workload-slow-s").press("Tab")
    page.click("#workload-slow")
    expect(page.locator("#workload-log")).to_contain_text("n0 slow: 0.2 s for 1 000 rows")
    page.click("#workload-fast")
    expect(page.locator("#workload-log")).to_contain_text("n0 as fast as ever")
    assert [dict(one.body) for one in ended(stage)] == [{"slow": {"0": 0.2}}, {"slow": {"0": 0.0}}]
    watch.nothing()


def test_memory_is_taken_away_by_a_proposal(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/workload")
    ready(page)
    expect(page.locator("#workload-memory-now")).to_have_text("400 MB → 240 MB")
    page.click("#workload-memory")
    expect(page.locator("#proposal-body")).to_contain_text("Set budget")
    found = stage.store.proposals.page(query=QUERY, most=1)[0]
    assert plan_from_json(found.plan).steps == (SetBudget(0, round(BUDGET * 0.6)),)
    watch.nothing()


def test_hot_keys_are_shifted_once_there_are_any(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/workload")
    ready(page)
    page.click("#workload-shift")
    expect(page.locator("#workload-said")).to_contain_text("give the streams skew first")
    assert not ended(stage)
    tell(stage, zipf="1")
    expect(page.locator("#workload-shift-now")).to_contain_text("skewed: prices")
    page.click("#workload-shift")
    expect(page.locator("#workload-log")).to_contain_text("prices: shift 833")
    watch.nothing()


def test_a_query_that_is_no_demo_has_nothing_to_turn(visit: Visit, stage: Stage) -> None:
    stage.store.queries.add(
        QueryRow("orders", 'name = "orders"\n', "", 2, Wanted.STOPPED, False, 0.0)
    )
    stage.tick(SLOW_S)
    page, watch = visit("/workload?query=orders")
    expect(page.locator("#workload-none")).to_contain_text("orders is not a demo")
    expect(page.locator("#workload-slow")).to_be_hidden()
    stage.store.queries.drop("orders")
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/workload", "vic", width=390, theme="light")
    ready(page)
    expect(page.locator("#workload-slow")).to_be_disabled()
    expect(page.locator("#workload-why")).to_have_text("Needs the role operator; you are viewer.")
    watch.nothing()
