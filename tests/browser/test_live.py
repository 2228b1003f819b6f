"""Over the real processes: first sign-in, a demo that fills up, an action previewed, applied and seen, the engine killed."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watch, sign_in
from tests.browser.overview import CARDS, ready
from tests.up import Up, until

SLOW_MS = 240_000
# What the menu may say first, and the word for it on the chart. Another join order helps as well, but it would be another
# demo for the story (test_story.py), which goes on with this one.
WORDS = {"Move": "move", "Spill": "spill", "Clean": "clean up"}


@pytest.fixture
def up(demo: Up) -> Up:
    return demo


@pytest.fixture
def page(browser: Browser, up: Up) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    yield context.new_page()
    context.close()


OWN = "tr4ctor-vellum-9"


def enter(page: Page, up: Up, path: str) -> None:
    """As admin; with the first password, which the first visitor must change."""
    with sqlite3.connect(up.data / "ledger.db") as db:
        (must_change,) = db.execute("SELECT must_change FROM users WHERE name = 'admin'").fetchone()
    sign_in(page, up.url, path, "admin", up.password if must_change else OWN)
    if must_change:
        expect(page).to_have_url(f"{up.url}/password")
        page.fill("#current", up.password)
        page.fill("#new", OWN)
        page.fill("#again", OWN)
        page.get_by_role("button", name="Change it").click()
        page.goto(up.url + path)


@pytest.mark.timeout(600)
def test_from_the_printed_password_to_an_action_that_is_done(page: Page, up: Up) -> None:
    watch = Watch(page, up.url)
    enter(page, up, "/")
    expect(page).to_have_url(f"{up.url}/overview")
    expect(page.locator(CARDS)).to_have_count(4, timeout=SLOW_MS)
    ready(page)
    expect(page.locator("#user-name")).to_have_text("admin")
    ticks = page.locator("#nav-procs").inner_text()
    expect(page.locator("#nav-procs")).not_to_have_text(ticks, timeout=SLOW_MS)
    page.locator("#hold").click()  # the demo's own rule must not be faster
    expect(page.locator("#hold-note")).to_contain_text("by admin until")
    panel = page.locator(".pv")
    until(lambda: _proposed(page), 240, "an option that can be proposed and applied")
    expect(panel.locator(".st-row .chip")).to_have_text("done", timeout=SLOW_MS)
    link = panel.locator(".st-row a")
    expect(link).to_have_attribute("href", re.compile(r"^/actions\?action=01"))
    said = link.inner_text()
    panel.get_by_role("button", name="Close").click()
    word = WORDS[said.split()[0]]
    notes = page.locator("#overview-output .annotation-text")
    expect(notes.filter(has_text=re.compile(f"^{word} ")).first).to_be_attached(timeout=SLOW_MS)
    made = up.json("actions")["items"]
    assert [row for row in made if row["state"] == "done" and row["by"] == "admin"]
    watch.nothing()


def _proposed(page: Page) -> bool:
    """Preview the first option and apply it; False when the state has moved on, or nothing helps yet."""
    panel = page.locator(".pv")
    verb = page.locator(".mi-verb", has_text=re.compile("|".join(WORDS)))
    options = page.locator("#overview-menu .mi").filter(has=verb)
    previews = options.get_by_role("button", name="Preview")
    if not previews.count():
        return False
    previews.first.click()
    expect(panel.locator(".pv-foot button").first).to_be_visible(timeout=SLOW_MS)
    apply = panel.get_by_role("button", name="Apply")
    if apply.count():
        apply.click()
        applied = panel.get_by_text("handed to the engine")
        refused = panel.locator(".ck.no").first
        expect(applied.or_(refused)).to_be_visible(timeout=SLOW_MS)
        if applied.is_visible():
            return True
    page.get_by_role("dialog").get_by_label("Close").click()
    return False


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_an_engine_that_hangs_and_is_killed_is_seen_and_comes_back(page: Page, up: Up) -> None:
    watch = Watch(page, up.url)
    enter(page, up, "/overview?refresh=1s")
    ready(page)
    pid = up.pid("engine")
    os.kill(pid, signal.SIGSTOP)  # killed at once it would be back before anybody misses it
    expect(page.locator("#live")).to_contain_text("Stale", timeout=SLOW_MS)
    expect(page.locator("#overview-say")).to_contain_text("The engine has not answered")
    expect(page.locator("#overview-menu")).to_contain_text("Waits for the engine")
    os.kill(pid, signal.SIGKILL)
    expect(page.locator("#live")).to_contain_text("Live", timeout=2 * SLOW_MS)
    expect(page.locator("#frame")).to_have_class("app")
    watch.nothing()
