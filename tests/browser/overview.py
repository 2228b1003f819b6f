"""When the overview is there."""

from __future__ import annotations

from playwright.sync_api import Page, expect

CARDS = "#overview-strip .nc"
LINE = "#overview-output .scatterlayer .trace:first-child path.js-line"
LONG_MS = 60_000


def ready(page: Page) -> None:
    """The nodes' cards are there, and a line, maybe in several pieces: Plotly draws one for each stretch without a gap."""
    expect(page.locator(CARDS).first.locator(".nc-big")).to_be_visible(timeout=LONG_MS)
    expect(page.locator(LINE).first).to_be_attached(timeout=LONG_MS)
