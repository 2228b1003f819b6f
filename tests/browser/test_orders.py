"""Join orders in Chromium: better ones are found, one is typed with a mistake and rightly, previewed, proposed, applied;
what is on its way and what has been done stand above the plan. The engine is played; the real one is in the story.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from app.feed import SLOW_S
from control.migration.model import Model
from control.migration.trees import Tree, joins, show
from control.plans import Migrate
from tests.browser.accessible import SERIOUS
from tests.browser.conftest import Visit, Watch
from tests.browser.stage import QUERY, Stage
from tests.control.migration.made import joins_of

NAMES = ("a", "b", "c", "d")
RUNNING: Tree = (((0, 1), 2), 3)
BETTER = "(((c d) b) a)"
MODEL = Model.of(
    [900.0, 1_200.0, 700.0, 400.0], [[0, 1], [1, 2], [2, 3]], [2e-4, 4e-5, 3e-5], 40.0,
    names=NAMES, row_bytes=(60.0, 60.0, 40.0, 30.0),
)  # fmt: skip


def outline(tree: Tree) -> dict[str, object]:
    if isinstance(tree, int):
        name = NAMES[tree]
        return {"id": f"scan-{name}", "kind": "stream", "alias": name, "streams": [name]}
    number = len(list(joins(tree)))
    children = [outline(part) for part in tree]
    return {"id": f"join-{number}", "kind": "join", "children": children, "groups": 240}


@pytest.fixture(autouse=True)
def joined(stage: Stage) -> Iterator[None]:
    """Four streams in a bad order, whose ticks have told so; nothing else runs."""
    stage.going(still=False)
    stage.joins = joins_of(MODEL, RUNNING)
    about = {"plan": {"root": outline(RUNNING)}, "operators": ["join-1"], "groups": 240}
    stage.store.queries.told(QUERY, "running", "", about, stage.clock.now_s)
    stage.tick(SLOW_S)
    yield
    stage.joins = None


def opened(visit: Visit, user: str = "olga", **how: object) -> tuple[Page, Watch]:
    page, watch = visit("/queries", user, **how)
    page.get_by_role("button", name="Propose a better order").click()
    expect(page.locator("#queries-order-list")).to_contain_text(BETTER)
    return page, watch


def looked(page: Page, order: str = BETTER) -> None:
    page.get_by_role("button", name=f"Preview {order}").click()
    expect(page.locator(".mg-tree")).to_have_count(2)
    expect(page.locator(".advice")).to_contain_text("moving state")


def test_better_orders_are_found_and_one_is_previewed(visit: Visit) -> None:
    page, watch = opened(visit)
    assert "order=better" in page.url
    rows = page.locator("#queries-order-list tbody tr")
    expect(rows.first).to_contain_text(show(RUNNING, NAMES))
    expect(rows.first).to_contain_text("runs")
    looked(page)
    expect(page.locator(".mg-tree").nth(0).locator(".pt-op")).to_have_count(3)
    expect(page.locator(".mg-tree").nth(1).locator(".pt-op")).to_have_count(3)
    expect(page.locator(".mg-tree").nth(0).locator(".st.dropped")).to_have_count(4)
    expect(page.locator("#queries-order-chart .main-svg").first).to_be_visible()
    assert f"order={quote(BETTER, safe='()').replace('%20', '+')}" in page.url.replace(
        "%28", "("
    ).replace("%29", ")")
    page.reload()
    expect(page.locator(".mg-tree")).to_have_count(2)
    page.get_by_role("button", name="Close the join orders").click()
    expect(page.locator("#queries-order-box")).to_be_hidden()
    assert "order=" not in page.url
    watch.nothing()


def test_a_typed_order_says_where_it_is_wrong(visit: Visit) -> None:
    page, watch = opened(visit)
    page.fill("#queries-order-text", "((a c) (b d))")
    page.keyboard.press("Enter")
    expect(page.locator("#queries-order-error")).to_contain_text("column 2")
    expect(page.locator("#queries-order-list")).to_contain_text(BETTER)
    expect(page.locator("#queries-order-text")).to_have_value("((a c) (b d))")
    page.fill("#queries-order-text", "((a b) (c d))")
    page.click("#queries-order-try")
    expect(page.locator("#queries-order-error")).to_be_empty()
    expect(page.locator(".mg-tree").nth(1)).to_contain_text("ab ⋈ cd")
    watch.nothing()


def test_it_is_proposed_applied_followed_and_told(visit: Visit, stage: Stage) -> None:
    page, watch = opened(visit)
    looked(page)
    page.get_by_role("button", name=f"Propose {BETTER} by moving state").click()
    panel = page.locator("#proposal-top")
    expect(panel).to_contain_text(f"Change order to {BETTER}")
    expect(panel).to_contain_text("rows in between")
    page.get_by_role("button", name=re.compile("^Apply ")).click()
    expect(page.locator("#proposal-course")).to_contain_text("Waits for the engine")
    command = stage.store.commands.page(most=1)[0]
    (step,) = command.body["plan"]["steps"]
    assert (step["do"], step["order"], step["strategy"]) == ("migrate", BETTER, "moving")
    step = Migrate(BETTER, "moving", 1)
    stage.act("02m-0", step, 3.0, None)
    stage.tick(SLOW_S)
    way = page.locator("#queries-way")
    expect(way).to_contain_text("on its way")
    expect(way).to_contain_text("40 %")
    stage.act("02m-0", step, 8.0, 6.0, actual={"pause_s": 0.4}, predicted={"duration_s": 7.0})
    stage.tick(SLOW_S)
    expect(way).to_contain_text("took 6.0 s, predicted 7.0 s")
    expect(way).to_contain_text("stood still for 0.40 s")
    page.locator("#proposal-foot").get_by_role("button", name="Close").click()
    way.get_by_role("link").click()
    page.wait_for_url(re.compile("action=02m-0"))
    expect(page.locator("#actions-foot")).to_contain_text("the join order from before")
    watch.nothing()


def test_the_menu_opens_its_preview(visit: Visit) -> None:
    page, watch = visit("/overview")
    row = page.locator(".mi", has_text="Change order")
    expect(row.first).to_contain_text("rows in between")
    row.first.get_by_role("button", name=re.compile("Preview")).click()
    panel = page.locator("#proposal-top")
    expect(panel).to_contain_text("Change order to")
    panel.get_by_role("link", name="Both plans side by side").click()
    expect(page.locator(".mg-tree")).to_have_count(2)
    expect(panel).to_be_hidden()  # it would lie over what was asked for
    watch.nothing()


@pytest.mark.parametrize(("theme", "width"), [("dark", 1_280), ("light", 1_920), ("dark", 390)])
def test_it_fits_and_axe_finds_nothing_serious(visit: Visit, theme: str, width: int) -> None:
    page, watch = opened(visit, "vic", width=width, theme=theme)
    looked(page)
    expect(page.locator(".rc-b")).to_contain_text("Needs the role operator")
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{wide} px wider than the window"
    if width > 900:
        cut = page.evaluate(
            "[...document.querySelectorAll('.mg-low *, .mg-trees .num, .mg-list td, .st')]"
            ".filter(e => !e.classList.contains('clip') && !e.closest('.chart, .help, .sr') && e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
            ".map(e => e.className + ': ' + e.textContent)"
        )
        assert not cut, cut
    page.wait_for_load_state("networkidle")
    found = Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {node['html'][:300]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"][:4]
    ]
    assert not serious, "\n".join(serious)
    watch.nothing()
