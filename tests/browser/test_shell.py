"""The frame: signing in, URL state, theme, keys, help, hold, signed out, lost; nothing leaves the machine."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from app.pages.all import pages
from tests.browser.conftest import Visit
from tests.browser.overview import LONG_MS, ready
from tests.browser.stage import Stage


def test_a_deep_link_survives_signing_in_and_reloading(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/overview?range=1h&refresh=5s")
    ready(page)
    assert page.url == f"{stage.url}/overview?range=1h&refresh=5s"
    expect(page.locator("#tb-range")).to_have_value("1 h")
    expect(page.locator("#tb-refresh")).to_have_value("5 s")
    page.reload()
    ready(page)
    expect(page.locator("#tb-range")).to_have_value("1 h")
    watch.nothing()


def test_what_is_chosen_is_in_the_url_and_back_leads_back(visit: Visit, stage: Stage) -> None:
    page, watch = visit()
    ready(page)
    page.locator("#tb-range").click()
    page.get_by_role("option", name="15 min").click()
    expect(page).to_have_url(f"{stage.url}/overview?range=15m")
    page.get_by_role("link", name="Placement").click()
    expect(page).to_have_url(re.compile(r"/placement\?range=15m"))
    expect(page.locator("[data-go=p] .nv")).to_have_attribute("aria-current", "page")
    page.go_back()
    expect(page).to_have_url(f"{stage.url}/overview?range=15m")
    ready(page)
    expect(page.locator("#tb-range")).to_have_value("15 min")
    watch.nothing()


def test_the_theme_changes_at_once_charts_too_and_stays(visit: Visit) -> None:
    page, watch = visit(theme="light")
    ready(page)
    root, ink = (
        page.locator("html"),
        "#overview-output .scatterlayer .trace:first-child path.js-line",
    )

    def line() -> str:
        found: str = page.evaluate(f"getComputedStyle(document.querySelector('{ink}')).stroke")
        return found

    expect(root).to_have_attribute("data-theme", "light")
    assert line() == "rgb(35, 42, 52)"
    page.get_by_label("You: theme, sign out").click()
    page.locator("#theme-dark").click()
    expect(root).to_have_attribute("data-theme", "dark")
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")
    page.wait_for_function(
        "(ink) => getComputedStyle(document.querySelector(ink)).stroke === 'rgb(221, 227, 235)'",
        arg=ink,
    )
    page.reload()
    ready(page)
    expect(root).to_have_attribute("data-theme", "dark")
    watch.nothing()


def test_local_time_and_utc(visit: Visit, browser_name: str) -> None:
    page, watch = visit()
    ready(page)
    page.locator("#tb-zone").get_by_text("Local").click()
    page.reload()
    ready(page)
    assert page.evaluate("localStorage.getItem('spillway.zone')") == "Local"
    expect(page.locator("#tb-zone input[value=Local]")).to_be_checked()
    watch.nothing()


def test_keys_lead_everywhere_and_can_be_switched_off(visit: Visit, stage: Stage) -> None:
    page, watch = visit()
    ready(page)
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile("/placement"))
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile("/overview"))
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys and help")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Held in flight")
    dialog.locator("#keys-on").press("Space")
    expect(dialog.locator("#keys-on")).not_to_be_checked()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.keyboard.press("?")
    page.wait_for_timeout(500)
    expect(dialog).to_be_hidden()
    expect(page).to_have_url(re.compile("/overview"))
    watch.nothing()


def test_help_is_beside_each_figure(visit: Visit) -> None:
    page, watch = visit()
    ready(page)
    page.get_by_label("What is source lag?").click()
    pop = page.locator(".help-pop", has_text="How far the query is behind its sources.")
    expect(pop).to_be_visible()
    expect(pop).to_contain_text("What to do")
    watch.nothing()


def test_hold_is_said_with_who_and_until_when_to_everybody(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/overview?refresh=1s")
    ready(page)
    other, _ = visit("/overview?refresh=1s", user="vic")
    ready(other)
    page.locator("#hold").click()
    for one in (page, other):
        expect(one.locator("#hold")).to_have_attribute("aria-checked", "true")
        expect(one.locator("#hold-note")).to_contain_text("by olga until ")
    assert stage.store.audit.page(what="hold")[0].user == "olga"
    page.locator("#hold").click()
    for one in (page, other):
        expect(one.locator("#hold")).to_have_attribute("aria-checked", "false")
    watch.nothing()


def test_signed_out_is_said_and_what_was_shown_stays(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/overview?refresh=1s", user="vic")
    ready(page)
    shown = page.locator("#overview-strip .nc").count()
    stage.store.users.set_disabled("vic", True)
    try:
        banner = page.locator("#banner")
        expect(banner).to_contain_text("You are signed out.", timeout=LONG_MS)
        expect(banner.get_by_role("link", name="Sign in")).to_have_attribute(
            "href", re.compile(r"^/sign-in\?next=%2Foverview")
        )
        assert page.locator("#overview-strip .nc").count() == shown
        watch.nothing("401")
    finally:
        stage.store.users.set_disabled("vic", False)


def test_signing_out_ends_the_session(visit: Visit, stage: Stage) -> None:
    page, watch = visit()
    ready(page)
    page.get_by_label("You: theme, sign out").click()
    page.locator("#sign-out").click()
    expect(page).to_have_url(f"{stage.url}/sign-in")
    page.goto(f"{stage.url}/overview")
    expect(page).to_have_url(re.compile("/sign-in"))
    assert not watch.elsewhere


def test_a_console_that_is_away_is_said(visit: Visit) -> None:
    page, _ = visit("/overview?refresh=1s")
    ready(page)
    page.route("**/_dash-update-component*", lambda route: route.abort())
    expect(page.locator("#banner")).to_contain_text("The console does not answer.", timeout=LONG_MS)
    expect(page.locator("#live")).to_contain_text("No answer")
    page.unroute("**/_dash-update-component*")
    expect(page.locator("#banner")).to_be_hidden(timeout=LONG_MS)
    expect(page.locator("#live")).to_contain_text("Live")


@pytest.mark.parametrize("width", [1280, 1920, 390])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_nothing_hangs_over_the_edge(visit: Visit, width: int, theme: str) -> None:
    page, watch = visit(width=width, theme=theme)
    ready(page)
    over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert over <= 0
    watch.nothing()


def test_scripts_are_packed_and_kept(visit: Visit, stage: Stage) -> None:
    page, _ = visit()
    ready(page)
    sizes = {}
    page.on(
        "response",
        lambda r: (
            sizes.update({r.url: r.headers}) if "/assets/" in r.url or "suites" in r.url else None
        ),
    )
    page.reload()
    ready(page)
    scripts = {
        url: h for url, h in sizes.items() if ".js" in url and h.get("content-length") != "0"
    }
    assert len(scripts) > 10
    marked = re.compile(r"\?v=|\.v[\w-]+m\d+\.")
    for url, headers in scripts.items():
        if marked.search(url):
            assert "immutable" in headers["cache-control"], url
            assert headers.get("content-encoding") == "gzip", url
    assert [url for url in scripts if "plotly" in url and marked.search(url)]
    assert not [url for url in scripts if "plotly" in url and not marked.search(url)]


def test_names_from_outside_are_only_text(visit: Visit, stage: Stage) -> None:
    evil = "<img src=x onerror=document.title='owned'>"
    stage.store.alerts.raised("lag_growing", evil, evil, stage.clock())
    stage.tick(times=3)
    try:
        page, watch = visit("/overview?refresh=1s")
        ready(page)
        expect(page.locator("#overview-alerts")).to_contain_text(evil)
        assert page.title() == "Overview – Spillway"
        watch.nothing()
    finally:
        stage.store.alerts.ended("lag_growing", evil, stage.clock())


def test_no_page_is_wider_than_a_phone(visit: Visit) -> None:
    page, watch = visit("/overview", "ada", width=390, height=844)
    wide = {}
    for one in pages():
        page.goto(watch.url + one.href)
        page.wait_for_selector("#content > *")
        expect(page.locator("#live")).to_contain_text("Live")
        wide[one.href] = page.evaluate("document.documentElement.scrollWidth")
    assert max(wide.values()) <= 390, wide
    watch.nothing()
