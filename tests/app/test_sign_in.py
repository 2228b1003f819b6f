"""Signing in: passwords, lockout, sessions and their ends, cookies, where one is sent afterwards."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth import DELAY_S_MAX, FREE_TRIES, Passwords, Tried, delay_s, password_fault
from app.guard import local_path
from control.people import Role
from tests.app.made import CHEAP, PASSWORD, Browser, Clock, Console, begin


def test_signed_in_sees_the_status_page(console: Console) -> None:
    page = console.signed_in("vic").client.get("/status")
    assert page.status_code == 200
    assert "vic" in page.text
    assert "viewer" in page.text


def test_without_a_session_pages_lead_to_the_form_and_back(console: Console) -> None:
    answer = console.browser().get("/api?x=1")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=/api%3Fx%3D1"
    browser = Browser(console, console.browser())
    done = browser.sign_in("ada", PASSWORD, next="/api?x=1")
    assert done.headers["Location"] == "/api?x=1"


@pytest.mark.parametrize("user", ["ada", "nobody", "' OR 1=1 --", "<script>alert(1)</script>"])
def test_wrong_passwords_say_the_same_whoever_it_is(console: Console, user: str) -> None:
    answer = Browser(console, console.browser()).sign_in(user, "wrong")
    assert answer.status_code == 401
    assert "User or password is not right." in answer.text
    assert "<script>" not in answer.text
    assert not any("session" in name for name in answer.headers.getlist("Set-Cookie"))


def test_a_disabled_user_cannot_sign_in_and_is_out_at_once(console: Console) -> None:
    browser = console.signed_in("vic")
    assert console.post("/users/vic/disable").status_code == 200
    assert browser.client.get("/").status_code == 303
    assert Browser(console, console.browser()).sign_in("vic", PASSWORD).status_code == 401


def test_the_form_has_csrf_of_its_own(console: Console) -> None:
    client = console.browser()
    client.get("/sign-in")
    sent = {"user": "ada", "password": PASSWORD}
    assert client.post("/sign-in", data=sent).status_code == 403
    assert client.post("/sign-in", data={**sent, "csrf": "0" * 64}).status_code == 403
    theirs = Browser(console, console.browser()).form()  # of another browser's cookie
    assert client.post("/sign-in", data={**sent, "csrf": theirs}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_a_form_on_another_site_is_refused(console: Console, headers: dict[str, str]) -> None:
    browser = Browser(console, console.browser())
    sent = {"user": "ada", "password": PASSWORD, "csrf": browser.form()}
    assert browser.client.post("/sign-in", data=sent, headers=headers).status_code == 403
    assert browser.client.post("/sign-in", data=sent).status_code == 303


def test_a_form_open_over_a_restart_can_still_be_sent(console: Console) -> None:
    browser = Browser(console, console.browser())
    token, cookie = browser.form(), browser.cookie("form")
    after = console.again()
    client = after.browser()
    client.set_cookie(f"spillway_form_{after.settings.port}", cookie)
    sent = {"user": "ada", "password": PASSWORD, "csrf": token}
    assert client.post("/sign-in", data=sent).status_code == 303


def test_lockout_grows_and_survives_a_restart(tmp_path: Path) -> None:
    console = begin(tmp_path)
    for _ in range(FREE_TRIES):
        assert Browser(console, console.browser()).sign_in("ada", "wrong").status_code == 401
    console = console.again()
    locked = Browser(console, console.browser()).sign_in("ada", PASSWORD)
    assert locked.status_code == 429
    wait_s = int(locked.headers["Retry-After"])
    assert wait_s >= 1
    console.clock.pause(wait_s)
    assert Browser(console, console.browser()).sign_in("ada", "wrong").status_code == 401
    again = Browser(console, console.browser()).sign_in("ada", PASSWORD)
    assert again.status_code == 429
    assert int(again.headers["Retry-After"]) > wait_s
    console.clock.pause(DELAY_S_MAX)
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 303
    for _ in range(FREE_TRIES - 1):  # signing in began the count anew
        assert Browser(console, console.browser()).sign_in("ada", "wrong").status_code == 401
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 303
    console.store.close()


def test_lockout_is_by_user_and_address(console: Console) -> None:
    for _ in range(FREE_TRIES):
        Browser(console, console.browser()).sign_in("ada", "wrong")
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 429
    assert Browser(console, console.browser()).sign_in("vic", PASSWORD).status_code == 303
    elsewhere = console.browser()
    elsewhere.environ_base["REMOTE_ADDR"] = "127.0.0.9"
    assert Browser(console, elsewhere).sign_in("ada", PASSWORD).status_code == 303


def test_unlocking_lets_sign_in_at_once(console: Console) -> None:
    for _ in range(FREE_TRIES):
        Browser(console, console.browser()).sign_in("vic", "wrong")
    assert console.post("/users/vic/unlock").status_code == 200
    assert Browser(console, console.browser()).sign_in("vic", PASSWORD).status_code == 303


@given(st.integers(0, 10_000))
def test_delays_only_grow_and_are_bounded(failures: int) -> None:
    assert 0 <= delay_s(failures) <= delay_s(failures + 1) <= DELAY_S_MAX
    assert (delay_s(failures) == 0) == (failures < FREE_TRIES)


def test_tries_at_the_same_time_are_all_counted(console: Console) -> None:
    def attempt() -> None:
        console.passwords.check(console.store, "ada", "wrong", "10.0.0.1", console.clock())

    threads = [threading.Thread(target=attempt) for _ in range(FREE_TRIES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = console.store.users.lockout("ada", "10.0.0.1")
    assert found.failures == FREE_TRIES


def test_at_most_two_passwords_are_checked_at_once(console: Console) -> None:
    taken = [console.passwords._gate.acquire() for _ in range(2)]
    answer = Browser(console, console.browser()).sign_in("ada", PASSWORD)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    for _ in taken:
        console.passwords._gate.release()
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 303


def test_an_unknown_user_takes_as_long_as_a_known_one(console: Console) -> None:
    """With the real hasher's work, in CPU time; what differs must be far less than that work."""
    slow = Passwords()
    console.store.users.set_password("ada", slow.hash(PASSWORD))

    def took(user: str, tries: int = 9) -> float:
        found = []
        for _ in range(tries):
            begun = time.process_time()
            slow.check(console.store, user, "wrong", f"{user}{len(found)}", console.clock())
            found.append(time.process_time() - begun)
        return statistics.median(found)

    took("ada", 2)
    known, unknown = took("ada"), took("nobody")
    assert abs(known - unknown) < 0.35 * max(known, unknown)


def test_an_old_hash_is_made_anew_at_sign_in(console: Console) -> None:
    older = Passwords(type(CHEAP)(time_cost=2, memory_cost=8, parallelism=1))
    console.store.users.set_password("vic", older.hash(PASSWORD))
    before = console.store.users.find("vic").password_hash
    console.signed_in("vic")
    after = console.store.users.find("vic").password_hash
    assert after != before
    assert not CHEAP.check_needs_rehash(after)
    console.signed_in("vic")
    assert console.store.users.find("vic").password_hash == after


def test_a_broken_hash_lets_nobody_in(console: Console) -> None:
    console.store.users.set_password("vic", "not a hash")
    tried = console.passwords.check(console.store, "vic", PASSWORD, "x", console.clock())
    assert tried.outcome is Tried.WRONG


# -- sessions ---------------------------------------------------------------------------------------


def test_a_session_ends_when_idle_and_polls_are_not_activity(console: Console) -> None:
    browser = console.signed_in()
    for _ in range(10):
        console.clock.pause(console.settings.idle_s / 8)
        browser.client.get("/api/v1/queries")  # a poll
    assert browser.client.get("/api/v1/queries").status_code == 401
    assert browser.client.get("/").status_code == 303


def test_a_session_goes_on_while_its_user_is_there_but_not_for_ever(console: Console) -> None:
    browser, begun_s = console.signed_in(), console.clock()
    step_s = console.settings.idle_s * 0.9  # never idle
    while console.clock() + step_s - begun_s <= console.settings.absolute_s:
        console.clock.pause(step_s)
        assert browser.client.get("/status").status_code == 200
    console.clock.pause(step_s)
    assert browser.client.get("/").status_code == 303
    assert browser.client.get("/api/v1/queries").status_code == 401


def test_sign_in_begins_a_new_session_and_ends_the_old_one(console: Console) -> None:
    browser = console.signed_in("vic")
    before = browser.cookie("session")
    assert browser.sign_in("ada", PASSWORD).status_code == 303
    assert browser.cookie("session") != before
    thief = console.browser()
    thief.set_cookie(f"spillway_session_{console.settings.port}", before)
    assert thief.get("/api/v1/queries").status_code == 401


def test_a_session_that_somebody_chose_is_not_taken_over(console: Console) -> None:
    browser = Browser(console, console.browser())
    browser.client.set_cookie(f"spillway_session_{console.settings.port}", "chosen")
    assert browser.sign_in("ada", PASSWORD).status_code == 303
    assert browser.cookie("session") != "chosen"


def test_sign_out_ends_the_session(console: Console) -> None:
    browser = console.signed_in()
    held = browser.cookie("session")
    assert (
        browser.client.post("/sign-out", data={"csrf": browser.cookie("csrf")}).status_code == 303
    )
    assert browser.cookie("session") == ""
    thief = console.browser()
    thief.set_cookie(f"spillway_session_{console.settings.port}", held)
    assert thief.get("/api/v1/queries").status_code == 401


def test_a_new_password_ends_sessions(console: Console) -> None:
    browser = console.signed_in("vic")
    changed = console.post("/users/vic/password", {"password": "another good one"})
    assert changed.status_code == 200
    assert browser.client.get("/api/v1/queries").status_code == 401
    console.signed_in("vic", "another good one")


def test_a_session_survives_a_restart(console: Console) -> None:
    held = console.signed_in().cookie("session")
    after = console.again()
    client = after.browser()
    client.set_cookie(f"spillway_session_{after.settings.port}", held)
    assert client.get("/api/v1/queries").status_code == 200


def test_the_store_does_not_have_what_the_cookie_holds(console: Console) -> None:
    browser = console.signed_in()
    held = browser.cookie("session").encode()
    files = list(console.folder.glob("ledger.db*"))
    assert files
    assert all(held not in file.read_bytes() for file in files)


def test_cookie_flags(console: Console) -> None:
    browser = Browser(console, console.browser())
    cookies = browser.sign_in("ada", PASSWORD).headers.getlist("Set-Cookie")
    port = console.settings.port
    session = next(c for c in cookies if c.startswith(f"spillway_session_{port}="))
    csrf = next(c for c in cookies if c.startswith(f"spillway_csrf_{port}="))
    assert "HttpOnly" in session
    assert "HttpOnly" not in csrf  # the page's script sends it back
    for cookie in (session, csrf):
        assert "SameSite=Lax" in cookie
        assert "Path=/" in cookie
        assert "Secure" not in cookie
        assert "Domain" not in cookie


def test_cookies_are_secure_behind_https(tmp_path: Path) -> None:
    console = begin(tmp_path, https=True)
    client = console.browser()
    page = client.get("/sign-in", base_url="https://localhost")
    assert all("; Secure" in cookie for cookie in page.headers.getlist("Set-Cookie"))
    assert all(cookie.startswith("__Host-") for cookie in page.headers.getlist("Set-Cookie"))
    assert page.headers["Strict-Transport-Security"]
    console.store.close()


# -- where to, afterwards ---------------------------------------------------------------------------

OUTSIDE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "\t//evil.example",
    "javascript:alert(1)",
    "http:evil.example",
    "/\r\nSet-Cookie: a=b",
    "",
    "evil",
    " //evil.example",
]


@pytest.mark.parametrize("wanted", OUTSIDE)
def test_sign_in_leads_nowhere_else(console: Console, wanted: str) -> None:
    done = Browser(console, console.browser()).sign_in("ada", PASSWORD, next=wanted)
    assert done.status_code == 303
    assert done.headers["Location"] == "/"


@given(st.text(max_size=60))
def test_wherever_it_leads_it_is_a_path_here(wanted: str) -> None:
    found = local_path(wanted)
    assert found.startswith("/")
    assert not found.startswith(("//", "/\\"))
    assert "\\" not in found
    assert not any(ord(c) < 33 for c in found)


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaa", "x" * 2_000])
def test_bad_passwords_are_refused(console: Console, password: str) -> None:
    assert password_fault(password)
    body = {"name": "eve", "role": "viewer", "password": password}
    assert console.post("/users", body).status_code == 422


def test_signing_in_and_out_is_in_the_audit(console: Console) -> None:
    browser = Browser(console, console.browser())
    browser.sign_in("vic", "wrong")
    browser.sign_in("vic", PASSWORD)
    browser.client.post("/sign-out", data={"csrf": browser.cookie("csrf")})
    lines = console.store.audit.page(user="vic")
    found = [(line.what, line.outcome) for line in reversed(lines)]
    assert found == [("sign-in", "refused"), ("sign-in", "accepted"), ("sign-out", "accepted")]


def test_password_again_before_what_cannot_be_taken_back(console: Console) -> None:
    browser = console.signed_in("ada")
    body = {"name": "laptop", "scope": "viewer"}

    def add() -> int:
        return browser.client.post("/api/v1/tokens", json=body, headers=browser.csrf).status_code

    def confirm(password: str) -> int:
        sent = {"password": password}
        path = "/api/v1/session/confirm"
        return browser.client.post(path, json=sent, headers=browser.csrf).status_code

    assert add() == 200
    console.clock.pause(console.settings.confirm_s + 1)
    assert add() == 403
    assert confirm("wrong") == 401
    assert add() == 403
    assert confirm(PASSWORD) == 200
    assert add() == 200
    assert Role.ADMIN  # tokens need no session: they cannot be left open on a desk
    assert console.post("/tokens", {"name": "other", "scope": "viewer"}).status_code == 200


def test_the_clock_set_back_does_not_lock_out_for_long(console: Console) -> None:
    clock = Clock(console.clock() + 10 * DELAY_S_MAX)
    for _ in range(FREE_TRIES):
        console.passwords.check(console.store, "ada", "wrong", "x", clock())
    tried = console.passwords.check(console.store, "ada", PASSWORD, "x", console.clock())
    assert tried.outcome is Tried.RIGHT
