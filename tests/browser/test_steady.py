"""What is polled is drawn anew; who presses a button just then, or has the keyboard on it, does not notice."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.overview import CARDS, LONG_MS, ready
from tests.browser.stage import Stage
from tests.up import until

PREVIEW = "#overview-menu button"


def kept(page: Page, selector: str) -> None:
    """Remember the element that stands there now."""
    page.evaluate("name => { window.kept = document.querySelector(name) }", selector)


def gone(page: Page) -> bool:
    return bool(page.evaluate("!window.kept.isConnected"))


def drawn_anew(page: Page, stage: Stage) -> None:
    """Ticks until what was remembered stands there no more."""

    def looked() -> bool:
        stage.tick(5.0)
        page.wait_for_timeout(300)
        return gone(page)

    until(looked, 60, "the same drawn anew")


def middle(page: Page, selector: str) -> tuple[float, float]:
    """Of what stands there now: between two drawings there may be nothing for a moment."""
    box: Any = until(
        lambda: page.locator(selector).first.bounding_box(), 60, f"a box of {selector}"
    )
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.fixture
def page(visit: Visit, stage: Stage) -> Page:
    page, _ = visit("/overview?refresh=1s")
    ready(page)
    stage.tick()
    expect(page.locator(PREVIEW).first).to_be_enabled(timeout=LONG_MS)
    return page


def test_answers_wait_for_a_press_and_a_long_press_is_carried_over(
    page: Page, stage: Stage
) -> None:
    kept(page, PREVIEW)
    page.mouse.move(*middle(page, PREVIEW))
    page.mouse.down()
    drawn_anew(page, stage)
    expect(page.locator(".pv")).to_be_hidden()
    page.mouse.up()
    expect(page.locator(".pv")).to_be_visible(timeout=LONG_MS)


def test_a_press_that_is_taken_elsewhere_is_no_click(page: Page, stage: Stage) -> None:
    kept(page, PREVIEW)
    page.mouse.move(*middle(page, PREVIEW))
    page.mouse.down()
    drawn_anew(page, stage)
    page.mouse.move(*middle(page, "#overview-output"))
    page.mouse.up()
    stage.tick()
    page.wait_for_timeout(1_000)
    expect(page.locator(".pv")).to_be_hidden()


def test_a_card_that_is_drawn_anew_can_be_clicked(page: Page, stage: Stage) -> None:
    kept(page, CARDS)
    page.mouse.move(*middle(page, CARDS))
    page.mouse.down()
    drawn_anew(page, stage)
    page.mouse.up()
    page.wait_for_url("**/nodes?node=0*", timeout=LONG_MS)


def test_the_keyboard_stays_where_it_was(page: Page, stage: Stage) -> None:
    kept(page, PREVIEW)
    page.locator(PREVIEW).first.focus()
    id = page.evaluate("document.activeElement.id")
    assert id
    drawn_anew(page, stage)
    page.wait_for_function("id => document.activeElement.id === id", arg=id, timeout=LONG_MS)
    page.keyboard.press("Enter")
    expect(page.locator(".pv")).to_be_visible(timeout=LONG_MS)
