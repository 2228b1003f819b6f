"""Alerts in Chromium: looked after, silenced, heard again; what is over is kept below."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.stage import QUERY, Stage

NASTY = '<img src=x onerror="document.title=1">'


@pytest.fixture(autouse=True)
def raised(stage: Stage) -> None:
    """One that lasts, one that is over."""
    now_s = stage.clock.now_s
    stage.store.alerts.raised("full_soon", QUERY, f"node 2 in 5 min {NASTY}", now_s - 600)
    stage.store.alerts.raised("late_rows", NASTY, "12 rows came too late", now_s - 300)
    stage.store.alerts.ended("late_rows", NASTY, now_s - 100)
    stage.tick()


def test_an_alert_is_looked_after_and_silenced(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/alerts")
    card = page.locator(".al-card").first
    expect(card).to_contain_text("Full soon")
    expect(card).to_contain_text(NASTY)
    expect(card).to_contain_text("for 10 min")
    page.get_by_role("button", name="I look after it: Full soon").click()
    expect(card).to_contain_text("olga looks after it")
    page.get_by_role("button", name="Silence for 1 h: Full soon").click()
    expect(card).to_contain_text("silent until")
    assert stage.store.alerts.open()[0].acknowledged_by == "olga"
    page.get_by_role("button", name="Hear it again: Full soon").click()
    expect(card).not_to_contain_text("silent until")
    assert page.title() != "1"
    watch.nothing()


def test_what_is_over_is_kept(visit: Visit) -> None:
    page, watch = visit("/alerts")
    row = page.locator("#alerts-past tbody tr").first
    expect(row).to_contain_text("Late rows")
    expect(row).to_contain_text(NASTY)
    expect(row).to_contain_text("3 min 20 s")
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/alerts", "vic", width=390, theme="light")
    button = page.get_by_role("button", name="Silence for 8 h").first
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "Needs the role operator; you are viewer.")
    watch.nothing()
