"""Audit in Chromium: pages, filters, filters in the address, and who may not see it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from control.people import AuditLine, Source
from tests.browser.conftest import Visit
from tests.browser.stage import Stage

LINES = 120


@pytest.fixture(scope="module", autouse=True)
def lines(stage: Stage) -> None:
    for n in range(LINES):
        user, what = ("mira", "apply") if n % 10 == 0 else ("li", "cancel")
        stage.store.audit.add(
            AuditLine(stage.clock.now_s, user, Source.API, "::1", what, f"s{n}", "refused", "why")
        )


def test_pages_are_turned_both_ways(visit: Visit) -> None:
    page, watch = visit("/audit")
    rows = page.locator("#audit-rows tbody tr")
    expect(rows).to_have_count(50)
    first = rows.first.inner_text()
    page.click("#audit-older")
    expect(page.locator("#audit-rows")).not_to_contain_text("sign-in")
    page.click("#audit-newer")
    expect(page.locator("#audit-newer")).to_be_disabled()
    assert rows.first.inner_text() == first
    watch.nothing()


def test_filters_narrow_and_are_cleared(visit: Visit) -> None:
    page, watch = visit("/audit?user=mira")
    rows = page.locator("#audit-rows tbody tr")
    expect(rows).to_have_count(LINES // 10)
    page.fill("#audit-subject", "s20")
    expect(rows).to_have_count(1)
    page.fill("#audit-subject", "nobody")
    expect(page.locator("#audit-rows")).to_contain_text("No line is like that")
    page.click("#audit-clear")
    expect(rows).to_have_count(50)
    watch.nothing()


def test_a_viewer_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/audit", "vic")
    expect(page.locator("#content")).to_contain_text("It needs the role operator; you are viewer.")
    watch.nothing()
