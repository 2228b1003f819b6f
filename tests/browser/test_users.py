"""Users in Chromium: adding one, a password that differs, another role, disabling; tokens that are shown once."""

from __future__ import annotations

from contextlib import suppress

from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as Late

from app.tokens import PREFIX
from control.people import Role
from tests.app.made import PASSWORD
from tests.browser.conftest import Visit, sign_in
from tests.browser.stage import Stage


def fill(page: Page, name: str, password: str, again: str) -> None:
    page.fill("#users-name", name)
    page.fill("#users-password", password)
    page.fill("#users-again", again)
    page.click("#users-add")


def test_a_user_is_added_changed_and_disabled(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/users", "ada")
    said = page.locator("#users-add-said")
    fill(page, "zoe", "a long one 1", "a long one 2")
    expect(said).to_contain_text("The two passwords differ.")
    fill(page, "zoe", "short", "short")
    expect(said).to_contain_text("at least 10 characters")
    fill(page, "zoe", "a long one 1", "a long one 1")
    expect(said).to_contain_text("zoe is added as viewer.")
    page.get_by_role("textbox", name="Role of zoe").click()
    page.get_by_role("option", name="operator").click()
    expect(page.locator("#users-confirm-text")).to_be_visible()
    page.click("#users-confirm-yes")
    expect(page.locator("#users-said")).to_contain_text("zoe is operator now")
    assert stage.store.users.find("zoe").role is Role.OPERATOR
    asked(page, "Disable zoe")
    page.click("#users-confirm-yes")
    expect(page.get_by_role("button", name="Enable zoe")).to_be_visible()
    assert stage.store.users.find("zoe").disabled
    watch.nothing()


def asked(page: Page, button: str) -> None:
    """Press until one is asked: the list is drawn anew after a role has changed, and a press just then may be lost."""
    for _ in range(3):
        page.get_by_role("button", name=button).click()
        with suppress(Late):
            page.locator("#users-confirm-yes").wait_for(state="visible", timeout=5000)
            return
    raise AssertionError(f"{button}: nobody asks")


def test_a_role_that_is_not_confirmed_is_not_changed(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/users", "ada")
    role = page.get_by_role("textbox", name="Role of vic")
    role.click()
    page.get_by_role("option", name="admin").click()
    page.click("#users-confirm-no")
    expect(role).to_have_value("viewer")
    assert stage.store.users.find("vic").role is Role.VIEWER
    watch.nothing()


def test_the_last_admin_stays(visit: Visit, stage: Stage) -> None:
    page, _ = visit("/users", "ada")
    page.get_by_role("button", name="Disable ada").click()
    page.click("#users-confirm-yes")
    expect(page.locator("#users-confirm-said")).to_contain_text("the last admin")
    assert not stage.store.users.find("ada").disabled


def test_a_token_is_shown_once_and_revoked(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/users", "vic")
    expect(page.locator("#users-list")).to_contain_text("It needs the role admin; you are viewer.")
    expect(page.locator("#users-add")).to_be_hidden()
    page.fill("#users-token-name", "nightly")
    page.click("#users-token-add")
    shown = page.locator("#users-token-said code").first
    expect(shown).to_contain_text(PREFIX)
    token = shown.inner_text()
    answer = page.request.get(
        f"{stage.url}/api/v1/session", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.json()["user"] == "vic"
    page.get_by_role("button", name="Revoke nightly").click()
    expect(page.locator("#users-tokens")).to_contain_text("revoked")
    assert token not in page.content()
    watch.nothing()


def test_everybody_changes_their_own_password(visit: Visit, stage: Stage) -> None:
    """And is signed out with it; afterwards the old one is back, for the other tests."""
    page, watch = visit("/users", "vic")
    said, change = page.locator("#users-own-said"), page.locator("#users-own-change")
    page.fill("#users-own-now", "not my password")
    page.fill("#users-own-new", "another one 2")
    page.fill("#users-own-again", "another one 2")
    change.click()
    expect(said).to_contain_text("Your password until now is not that.")
    expect(page.locator("#users-own-new")).to_have_value("another one 2")
    page.fill("#users-own-now", PASSWORD)
    page.fill("#users-own-again", "another one 3")
    change.click()
    expect(said).to_contain_text("The two new passwords differ.")
    before = stage.store.users.find("vic").password_hash
    page.fill("#users-own-now", PASSWORD)
    page.fill("#users-own-again", "another one 2")
    change.click()
    expect(said).to_contain_text("you are signed out everywhere")
    expect(page.locator("#banner")).to_contain_text("You are signed out")
    assert stage.store.users.find("vic").password_hash != before
    line = next(one for one in stage.store.audit.page() if one.outcome == "refused")
    assert (line.user, line.what) == ("vic", "password")
    sign_in(page, stage.url, "/users", "vic", "another one 2")
    expect(page.locator("#user-name")).to_have_text("vic")
    stage.store.users.set_password("vic", before)
    watch.nothing("401")
