"""Users in Chromium: adding one, a password that differs, another role, disabling; tokens that are shown once."""

from __future__ import annotations

from playwright.sync_api import Page, Route, expect

from app.tokens import PREFIX
from control.people import Role, User
from tests.app.made import PASSWORD, Passwords
from tests.browser.conftest import Visit, sign_in
from tests.browser.stage import START_S, Stage


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
    expect(said).to_contain_text("at least 12 characters")
    fill(page, "zoe", "a long one 1", "a long one 1")
    expect(said).to_contain_text("zoe is added as viewer")
    page.get_by_role("textbox", name="Role of zoe").click()
    page.get_by_role("option", name="operator").click()
    expect(page.locator("#users-confirm-text")).to_be_visible()
    page.click("#users-confirm-yes")
    expect(page.locator("#users-said")).to_contain_text("zoe is operator now")
    assert stage.store.users.find("zoe").role is Role.OPERATOR
    page.get_by_role("button", name="Disable zoe").click()
    page.click("#users-confirm-yes")
    expect(page.get_by_role("button", name="Enable zoe")).to_be_visible()
    assert stage.store.users.find("zoe").disabled
    watch.nothing()


def test_a_press_is_answered_though_the_list_is_drawn_anew_meanwhile(
    visit: Visit, stage: Stage
) -> None:
    page, _ = visit("/users?refresh=1s", "ada")
    button = page.get_by_role("button", name="Disable vic")
    expect(button).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.evaluate("one => { window.kept = one }", button.element_handle())
    held: dict[str, Route] = {}

    def hold(route: Route) -> None:
        told = route.request.post_data_json
        for what, changed in (("users-list", "poll"), ("users-ask", "user.disable")):
            asks = what in told["output"] and changed in told["changedPropIds"][0]
            if asks and len(told["changedPropIds"]) == 1 and what not in held:
                held[what] = route
                return
        route.continue_()

    def asked(what: str) -> None:
        for _ in range(100):
            if what in held:
                return
            page.wait_for_timeout(100)
        raise AssertionError(f"nobody asks for {what}")

    stage.store.users.add(User("zed", Role.VIEWER, Passwords().hash(PASSWORD), False, START_S))
    page.route("**/_dash-update-component*", hold)
    asked("users-list")
    button.click()
    asked("users-ask")
    held["users-list"].continue_()
    page.wait_for_function("() => !window.kept.isConnected")
    page.wait_for_timeout(500)
    held["users-ask"].continue_()
    expect(page.locator("#users-confirm-text")).to_be_visible()


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
    stage.store.users.set_password("vic", before, stage.clock.now_s)
    watch.nothing("401")
