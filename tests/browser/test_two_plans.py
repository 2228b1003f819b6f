"""Two plans at once in Chromium: both trees are drawn, operators of either can be chosen, and one is left when it ends."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.accessible import SERIOUS
from tests.browser.conftest import Visit
from tests.browser.stage import QUERY, Stage


def tree(first: int, *aliases: str) -> dict[str, object]:
    """Left-deep; operators are numbered from `first` on."""
    leaves = [
        {"id": f"scan-{name}", "kind": "stream", "alias": name, "streams": [name]}
        for name in aliases
    ]
    root: dict[str, object] = leaves[0]
    for number, leaf in enumerate(leaves[1:], start=first):
        inputs = list(aliases[: number - first + 2])
        root = {"id": f"join-{number}", "kind": "window_join", "inputs": inputs, "groups": 240, "on": [],
                "within": [], "children": [root, leaf]}  # fmt: skip
    return root


def test_both_trees_are_drawn_while_both_plans_run(stage: Stage, visit: Visit) -> None:
    def told(beside: dict[str, object] | None) -> None:
        plan = {"root": tree(1, "a", "b", "c"), "beside": beside}
        about = {"plan": plan, "operators": ["join-1"], "groups": 240}
        stage.store.queries.told(QUERY, "running", "", about, stage.clock.now_s)
        stage.tick(2.0)

    told(tree(3, "a", "c", "b"))
    page, watch = visit("/queries")
    expect(page.locator("#queries-plan .pt")).to_have_count(2)
    expect(page.locator("#queries-plan .pt-op")).to_have_count(4)
    expect(page.locator("#queries-plan")).to_contain_text("Beside it, until no old row")
    expect(page.locator("#queries-plan-sub")).to_contain_text("beside it")
    page.locator("#queries-plan .pt").nth(1).locator(".pt-op").last.click()
    expect(page.locator("#queries-plan .pt-op.on")).to_have_count(1)
    expect(page.locator("#queries-plan .pt").nth(1).locator(".pt-op.on")).to_have_count(1)
    found = Axe().run(page).response["violations"]
    assert not [one["id"] for one in found if one["impact"] in SERIOUS]
    told(None)
    expect(page.locator("#queries-plan .pt")).to_have_count(1)
    expect(page.locator("#queries-plan .pt-op.on")).to_have_count(1)
    watch.nothing()
