"""Placement in Chromium: selecting by box, filter, key and table; what would come of it; drafts; proposing."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.pages.placement_filter import figures, matching
from control.plans import Move, Part, plan_from_json
from tests.browser.conftest import Visit
from tests.browser.stage import MB, OPERATOR, QUERY, Stage


@pytest.fixture
def idle(stage: Stage) -> Stage:
    """Nothing runs: what is proposed is not refused."""
    stage.act("01e-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 60, 20.0)
    stage.tick()
    return stage


def drawn(page: Page) -> None:
    expect(page.locator("#placement-map canvas")).to_have_count(6)
    expect(page.locator("#placement-counts")).to_contain_text("240 groups")


def drag(page: Page, band: int, wide: int = 100, high: int = 12) -> None:
    """A box over the first tiles of a node's row."""
    box: Any = page.locator("#placement-map canvas").nth(band).bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + wide, box["y"] + high, steps=4)
    page.mouse.up()


def selected(page: Page) -> int:
    found = page.locator("#placement-summary")
    expect(found).to_contain_text(re.compile(r"\d+ groups? on"))
    return int(found.inner_text().split()[0])


def chose(page: Page, count: int) -> None:
    words = "1 group on" if count == 1 else f"{count} groups on"
    expect(page.locator("#placement-summary")).to_contain_text(words)


def asked(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def newest(stage: Stage) -> Any:
    return stage.store.proposals.page(query=QUERY, most=1)[0]


def test_a_box_is_priced_and_becomes_a_proposal(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/placement")
    drawn(page)
    drag(page, 2)
    count = selected(page)
    assert count > 1
    expect(page.locator("#placement-what")).to_contain_text("least / most memory")
    expect(page.locator("#placement-from")).to_have_text("n2")
    expect(page.locator("#placement-propose")).to_be_enabled()
    target = page.locator("#placement-to").input_value()
    page.click("#placement-propose")
    expect(page.locator("#proposal-body")).to_contain_text("nothing has happened yet")
    step = plan_from_json(newest(idle).plan).steps[0]
    assert isinstance(step, Move)
    assert (step.source, f"n{step.target} ") == (2, target[:3])
    owner = idle.owner()
    assert all(owner[group] == 2 for part in step.parts for group in part.groups)
    assert sum(len(part.groups) for part in step.parts) == count
    watch.nothing()


def test_another_target_is_taken_when_it_is_chosen(visit: Visit, idle: Stage) -> None:
    page, _ = visit("/placement?groups=2,14")
    drawn(page)
    expect(page.locator("#placement-to")).to_have_value(re.compile("n"))
    first = page.locator("#placement-to").input_value()
    page.click("#placement-to")
    other = page.locator(".mantine-Select-option:not([data-combobox-disabled]):visible").nth(2)
    name = other.inner_text()
    assert name != first
    other.click()
    expect(page.locator("#placement-to")).to_have_value(name)
    expect(page.locator("#placement-map .dst .pl-node")).to_have_text(name.split()[0])
    page.click("#placement-propose")
    expect(page.locator("#proposal-body")).to_contain_text(name.split()[0])
    step = plan_from_json(newest(idle).plan).steps[0]
    assert isinstance(step, Move)
    assert f"n{step.target}" == name.split()[0]


def test_a_filter_selects_what_it_names_and_says_what_it_does_not_know(
    visit: Visit, stage: Stage
) -> None:
    page, watch = visit("/placement")
    drawn(page)
    page.locator("body").press("/")
    expect(page.locator("#placement-filter")).to_be_focused()
    text = "node:2 memory prod:>20"
    page.keyboard.type(text)
    snapshot = stage.store.metrics.newest(QUERY).snapshot
    count = int(matching(text, snapshot, figures(snapshot)).sum())
    assert 0 < count < 40
    expect(page.locator("#placement-matches")).to_have_text(f"Select {count} matches")
    page.click("#placement-matches")
    chose(page, count)
    assert asked(page)["filter"] == text
    page.fill("#placement-filter", "nod:2")
    expect(page.locator("#placement-wrong")).to_contain_text("did you mean node:")
    watch.nothing()


def test_keys_select_and_escape_clears(visit: Visit) -> None:
    page, watch = visit("/placement")
    drawn(page)
    page.focus("#placement-map")
    for name in ("ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(name)
    chose(page, 1)
    expect(page.locator("#placement-say")).to_contain_text("on n0, in memory")
    for name in ("ArrowDown", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(name)
    chose(page, 4)
    page.keyboard.press("Escape")
    expect(page.locator("#placement-summary")).to_have_text("Nothing selected")
    watch.nothing()


def test_the_table_selects_too_and_the_address_keeps_it(visit: Visit) -> None:
    page, watch = visit("/placement?colour=size&order=id&shape=scale")
    drawn(page)
    boxes = page.locator("#placement-table .ag-center-cols-container [role=row]")
    expect(boxes.first).to_be_visible()
    for at in (0, 1):
        page.locator("#placement-table .ag-row .ag-checkbox-input").nth(at).click()
    chose(page, 2)
    page.wait_for_url(re.compile("groups="))
    told = asked(page)
    assert (told["colour"], told["order"], told["shape"]) == ("size", "id", "scale")
    page.reload()
    drawn(page)
    chose(page, 2)
    expect(page.locator("#placement-colour input:checked")).to_have_value("size")
    watch.nothing()


def test_a_draft_of_two_steps_becomes_one_proposal(visit: Visit, idle: Stage) -> None:
    page, watch = visit("/placement?groups=2,14,20")
    drawn(page)
    expect(page.locator("#placement-add")).to_be_enabled()
    page.click("#placement-add")
    expect(page.locator("#placement-draft-list")).to_contain_text("1 step")
    expect(page.locator("#placement-summary")).to_have_text("Nothing selected")
    drag(page, 4)
    assert selected(page) > 0
    page.get_by_role("button", name="Spill", exact=True).click()
    expect(page.locator("#placement-head")).to_contain_text("Spill")
    page.click("#placement-add")
    expect(page.locator("#placement-draft-list")).to_contain_text("2 steps")
    expect(page.locator("#placement-what")).to_contain_text("least / most memory")
    page.click("#placement-propose-draft")
    expect(page.locator("#proposal-body")).to_contain_text("and 1 more")
    kinds = [type(step).__name__ for step in plan_from_json(newest(idle).plan).steps]
    assert kinds == ["Move", "Spill"]
    page.get_by_role("button", name="Keep for later").click()
    page.get_by_role("button", name="Take step 1 out").click()
    expect(page.locator("#placement-draft-list")).to_contain_text("1 step")
    watch.nothing()


def test_what_speaks_against_it_is_said_before(visit: Visit, stage: Stage) -> None:
    """A move that runs: the dispatcher would refuse another."""
    stage.act("01f-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 5, None)
    stage.tick()
    page, _ = visit("/placement?groups=4")
    drawn(page)
    expect(page.locator("#placement-what")).to_contain_text("01f-0")
    page.click("#placement-propose")
    expect(page.locator("#proposal-body")).to_contain_text("Not proposed")
    expect(page.locator("#proposal-body")).to_contain_text("01f-0")
    stage.act("01f-0", Move((Part(OPERATOR, (2, 8)),), 2, 3, 55 * MB), 5, 4.0)


def test_a_viewer_may_try_but_not_propose_and_sees_why(visit: Visit) -> None:
    page, watch = visit("/placement?groups=4,10", "vic", theme="light")
    drawn(page)
    expect(page.locator("#placement-what")).to_contain_text("least / most memory")
    expect(page.locator("#placement-propose")).to_be_disabled()
    expect(page.locator("#placement-drain")).to_be_disabled()
    expect(page.locator("#placement-why")).to_have_text("Needs the role operator; you are viewer.")
    watch.nothing()


def test_the_strip_selects_columns(visit: Visit, stage: Stage) -> None:
    page, _ = visit("/placement")
    drawn(page)
    box: Any = page.locator("#placement-ids").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 90, steps=4)
    page.mouse.up()
    count = selected(page)
    assert abs(count - 0.1 * stage.groups) < 6
    page.wait_for_url(re.compile("groups="))
    low, _, high = asked(page)["groups"].partition("-")
    assert int(high) - int(low) + 1 == count
    assert np.ptp(stage.owner()[int(low) : int(high) + 1]) > 0
