"""Settings in Chromium: what runs here, what was learned, webhooks; admins only where secrets could be."""

from __future__ import annotations

import sqlite3

import pytest
from playwright.sync_api import expect

from control.ledger import Learned
from db.secrets import FOLDER, SecretFolder
from tests.browser.conftest import Visit
from tests.browser.stage import Stage


@pytest.fixture(scope="module", autouse=True)
def learned(stage: Stage) -> None:
    line = Learned(
        stage.clock.now_s, "01c-0", "move_cpu_s", 2.0, 3.0, "transfer_s_per_byte", 2e-9, 2.5e-9
    )
    estimate = {"log_value": -19.8, "variance": 0.2, "noise": 0.25, "drift": 0.002, "count": 1}
    stage.store.learning.learn([line], {"transfer_s_per_byte": estimate})


def test_what_runs_here_and_what_was_learned(visit: Visit) -> None:
    page, watch = visit("/settings", "ada")
    expect(page.locator("#settings-about")).to_contain_text(sqlite3.sqlite_version)
    expect(page.locator("#settings-about")).to_contain_text("console serving")
    row = page.locator("#settings-lines tbody tr").first
    expect(row).to_contain_text("copying, CPU s")
    expect(row).to_contain_text("+50 %")
    expect(page.locator("#settings-learned")).to_contain_text("1 action")
    watch.nothing()


def test_a_webhook_is_refused_added_and_dropped(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/settings", "ada")
    page.fill("#settings-url", "http://example.org/hook")
    page.click("#settings-add")
    expect(page.locator("#settings-said")).to_contain_text("https")
    page.fill("#settings-url", "http://127.0.0.1:9/hook")
    page.click("#settings-add")
    expect(page.locator("#settings-said")).to_contain_text("webhook_ports")
    page.fill("#settings-url", "https://example.org/hook")
    page.click("#settings-add")
    expect(page.locator("#settings-said code")).to_be_visible()
    hook = stage.store.webhooks.all()[0]
    assert page.locator("#settings-said code").inner_text() == hook.secret
    page.get_by_role("button", name="Drop https://example.org/hook").click()
    page.click("#settings-confirm-yes")
    expect(page.locator("#settings-hooks")).to_contain_text("No webhook")
    watch.nothing()


def test_a_secret_is_kept_listed_and_dropped(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/settings", "ada")
    page.fill("#settings-secret-name", "kafka")
    page.fill("#settings-secret-value", "abc")
    page.click("#settings-secret-keep")
    expect(page.locator("#settings-secret-said")).to_contain_text("at least 4 characters")
    page.fill("#settings-secret-value", "two words")
    page.click("#settings-secret-keep")
    expect(page.locator("#settings-secret-said")).to_contain_text("kafka: kept")
    expect(page.locator("#settings-secrets")).to_contain_text("no query")
    expect(page.locator("#settings-secret-value")).to_have_value("")
    assert SecretFolder(stage.folder / FOLDER).value("kafka") == "two words"
    assert "two words" not in page.content()
    page.get_by_role("button", name="Drop kafka").click()
    page.click("#settings-confirm-yes")
    expect(page.locator("#settings-secrets")).to_contain_text("No secret")
    watch.nothing()


def test_a_viewer_sees_neither_settings_nor_webhooks(visit: Visit) -> None:
    page, watch = visit("/settings", "vic", width=390, theme="light")
    expect(page.locator("#settings-table")).to_contain_text(
        "It needs the role admin; you are viewer."
    )
    expect(page.locator("#settings-hooks")).to_contain_text(
        "It needs the role admin; you are viewer."
    )
    expect(page.locator("#settings-add")).to_be_hidden()
    watch.nothing()
