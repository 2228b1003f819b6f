"""Overview in Chromium: nodes, charts that move with time, the menu, a proposal, stale, empty, a hundred nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from control.ledger import Wanted
from tests.app.made import PASSWORD
from tests.browser.conftest import Visit, Watch, sign_in
from tests.browser.overview import CARDS, LONG_MS, ready
from tests.browser.stage import QUERY, Stage


def points(page: Page, graph: str = "overview-output", trace: int = 0) -> list[float]:
    found: list[float] = page.evaluate(
        "([id, n]) => document.querySelector('#' + id + ' .js-plotly-plot').data[n].x.map(Number)",
        [graph, trace],
    )
    return found


def test_the_answer_first_then_nodes_charts_menu_and_locks(visit: Visit) -> None:
    page, watch = visit()
    ready(page)
    expect(page.locator(CARDS)).to_have_count(6)
    expect(page.locator("#overview-say")).to_contain_text("n2 is full in")
    expect(page.locator("#overview-say")).to_contain_text("Move 8 groups n2 → n3 is under way.")
    expect(page.locator(f"{CARDS}.hot .nc-id")).to_have_text("n2")
    expect(page.locator("#overview-menu .mi").first).to_be_visible(timeout=LONG_MS)
    expect(page.locator("#overview-menu")).to_contain_text("Do nothing")
    expect(page.locator("#overview-locks")).to_contain_text("best_gain", timeout=LONG_MS)
    expect(page.locator("#overview-alerts")).to_contain_text("none")
    lanes = page.locator("#overview-output .annotation-text")
    expect(lanes.filter(has_text="move failed")).to_have_count(1)
    expect(page.locator("#live")).to_contain_text("Live")
    assert page.title() == "Overview – Spillway"
    assert page.evaluate("document.documentElement.lang") == "en"
    watch.nothing()


def test_it_moves_with_time(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/overview?refresh=1s&range=5m")
    ready(page)
    before, tick = points(page), page.locator("#nav-procs").inner_text()
    lanes_before = points(page, "overview-memory")
    stage.tick(times=4)
    expect(page.locator("#nav-procs")).not_to_have_text(tick)
    page.wait_for_function(
        "([was]) => document.querySelector('#overview-output .js-plotly-plot').data[0].x.length !== was",
        arg=[len(before)],
    )
    after = points(page)
    assert after == sorted(after)
    assert len(set(after)) == len(after)
    assert set(before) & set(after), "the chart has grown; it was not drawn anew"
    assert after[-1] > before[-1]
    assert points(page, "overview-memory")[-1] > lanes_before[-1]
    watch.nothing()


def test_a_pause_stops_the_polls(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/overview?refresh=1s")
    ready(page)
    page.get_by_label("Pause refresh").click()
    expect(page.locator("#live")).to_contain_text("Paused")
    page.wait_for_timeout(300)  # what was under way is answered
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    stage.tick()
    page.wait_for_timeout(2_500)
    assert not [url for url in asked if "update-component" in url]
    page.get_by_label("Pause refresh").click()
    expect(page.locator("#live")).to_contain_text("Live")
    watch.nothing()


@pytest.fixture
def idle(stage: Stage) -> Iterator[Stage]:
    """Nothing is under way, so that something can be proposed."""
    stage.going(False)
    stage.tick()
    yield stage
    stage.going(True)
    stage.tick()


def test_an_option_of_the_menu_is_previewed_and_applied(visit: Visit, idle: Stage) -> None:
    page, watch = visit()
    ready(page)
    idle.tick()
    page.locator("#overview-menu").get_by_role("button", name="Preview").first.click()
    panel = page.locator(".pv")
    expect(panel).to_contain_text("nothing has happened yet", timeout=LONG_MS)
    for word in (
        "before",
        "after",
        "results put off",
        "confidence",
        "Applied is exactly what is shown",
    ):
        expect(panel).to_contain_text(word)
    made = idle.store.proposals.page()[0]
    assert (made.user, made.source, made.state) == ("olga", "console", "open")
    idle.tick()
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("Waits for the engine")
    expect(panel).to_contain_text("handed to the engine")
    made = idle.store.proposals.find(made.id)
    assert made.state == "applied"
    command = idle.store.commands.find(made.command)
    assert (command.kind, command.user, command.query) == ("apply", "olga", QUERY)
    assert command.body["plan"] == made.plan
    taken = idle.store.commands.take(idle.clock(), 9)
    assert made.command in [one.id for one in taken]
    expect(panel).to_contain_text("Taken by the engine")
    idle.store.commands.end(made.command, "done", {"actions": ["01e-0"]}, idle.clock())
    expect(panel.get_by_role("link", name="Move 8 groups n2 → n3")).to_have_attribute(
        "href", "/actions?action=01e-0"
    )
    watch.nothing()


def test_a_proposal_can_be_saved_and_dropped(visit: Visit, idle: Stage) -> None:
    page, watch = visit()
    ready(page)
    idle.tick()
    save = page.locator("#overview-menu").get_by_role("button", name="Save as proposal")
    if not save.count():
        pytest.skip("nothing pays: only the first option that does can be saved")
    save.click()
    expect(page.locator("#toast")).to_contain_text("Saved as a proposal")
    saved = idle.store.proposals.page()[0]
    assert saved.state == "open"
    idle.tick()
    page.locator("#overview-menu").get_by_role("button", name="Preview").first.click()
    panel = page.locator(".pv")
    panel.get_by_role("button", name="Dismiss").click()
    expect(panel).to_be_hidden()
    assert idle.store.proposals.page()[0].state == "dismissed"
    watch.nothing()


def test_a_stale_proposal_is_refused_with_the_drift(visit: Visit, idle: Stage) -> None:
    page, watch = visit()
    ready(page)
    idle.tick()
    page.locator("#overview-menu").get_by_role("button", name="Preview").first.click()
    panel = page.locator(".pv")
    expect(panel).to_contain_text("nothing has happened yet", timeout=LONG_MS)
    fingerprint = idle.store.proposals.page()[0].fingerprint
    group = fingerprint["touched"][0][1]
    idle.moved[group] = (fingerprint["touched"][0][2] + 1) % idle.nodes
    idle.tick()
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text(f"group {group} of join-1: node was")
    expect(panel).to_contain_text("Propose it again")
    expect(panel.get_by_role("button", name="Propose again")).to_be_enabled()
    idle.moved.clear()
    idle.tick()
    watch.nothing()


def test_a_viewer_sees_everything_and_why_nothing_can_be_done(visit: Visit) -> None:
    page, watch = visit(user="vic")
    ready(page)
    preview = page.locator("#overview-menu button").first
    expect(preview).to_be_disabled(timeout=LONG_MS)
    expect(preview).to_have_attribute("title", "Needs the role operator; you are viewer.")
    expect(page.locator("#hold")).to_be_disabled()
    expect(page.locator("#hold")).to_have_attribute(
        "title", "Needs the role operator; you are viewer."
    )
    page.wait_for_timeout(3_000)
    expect(page.locator("#toast")).to_be_hidden()
    watch.nothing()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_stale_looks_stale_and_recovers(visit: Visit, stage: Stage, theme: str) -> None:
    page, watch = visit("/overview?refresh=1s", theme=theme)
    ready(page)
    stage.clock.pause(192.0)
    stage.beat("engine")
    expect(page.locator("#overview-say")).to_contain_text(
        "The engine has not answered for 3 min 12 s."
    )
    expect(page.locator("#frame")).to_have_class("app stale")
    expect(page.locator("#live")).to_contain_text("Stale")
    expect(page.locator("#overview-menu")).to_contain_text("Waits for the engine")
    expect(page.locator(CARDS).first).to_contain_text("as of ")
    expect(page.locator("#nav-procs")).to_contain_text("no answer")
    grey = page.evaluate(
        "getComputedStyle(document.querySelector('#overview-strip .seg.mem')).backgroundColor"
    )
    parts = [int(part) for part in grey[4:-1].split(",")]
    assert max(parts) - min(parts) < 30, f"a state colour on old data: {grey}"
    notes = page.locator("#overview-output .annotation-text")
    expect(notes.filter(has_text="no data")).to_have_count(1)
    stage.tick()
    expect(page.locator("#frame")).to_have_class("app")
    expect(page.locator("#live")).to_contain_text("Live")
    watch.nothing()


def test_a_paused_query_is_not_stale(visit: Visit, stage: Stage) -> None:
    stage.store.queries.want(QUERY, Wanted.PAUSED)
    stage.store.queries.told(QUERY, "paused", "", {}, stage.clock())
    try:
        page, watch = visit("/overview?refresh=1s")
        stage.clock.pause(60.0)
        stage.beat()
        expect(page.locator("#overview-say")).to_contain_text("market is paused", timeout=LONG_MS)
        expect(page.locator("#live")).to_contain_text("Not running")
        expect(page.locator("#frame")).to_have_class("app")
        watch.nothing()
    finally:
        stage.store.queries.want(QUERY, Wanted.RUNNING)
        stage.store.queries.told(QUERY, "running", "", {}, stage.clock())
        stage.tick()


@pytest.fixture
def other(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """A page on a stage of its own: `other(Stage(...))`."""
    made: list[Any] = []

    def open_page(stage: Stage) -> tuple[Page, Watch]:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        made.append((stage, context))
        page = context.new_page()
        watch = Watch(page, stage.url)
        sign_in(page, stage.url, "/overview", "olga", PASSWORD)
        return page, watch

    yield open_page
    for stage, context in made:
        context.close()
        stage.close()


def test_an_empty_console_says_what_to_do(other: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path).prepare(10.0)
    stage.store.queries.want(QUERY, Wanted.STOPPED)
    stage.store.queries.told(QUERY, "stopped", "", {}, stage.clock())
    assert stage.store.queries.drop(QUERY)
    page, watch = other(stage.serve())
    expect(page.locator("#overview-say")).to_contain_text("There is no query yet.", timeout=LONG_MS)
    expect(page.locator("#overview-strip")).to_contain_text("No node yet")
    watch.nothing()


def test_a_hundred_nodes_are_the_worst_ones_and_the_rest(other: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path, nodes=100, groups=10_000).prepare(1_800.0, 60.0)
    page, watch = other(stage.serve())
    ready(page)
    expect(page.locator(CARDS)).to_have_count(12)
    expect(page.locator(f"{CARDS}.rest")).to_contain_text("89 other nodes")
    expect(page.locator("#overview-strip .nc.hot .nc-id").first).to_have_text("n2")
    expect(
        page.locator("#overview-memory .annotation-text").filter(has_text="others")
    ).to_have_count(1)
    watch.nothing()
