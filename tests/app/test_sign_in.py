"""Signing in: passwords, lockout, sessions and their ends, cookies, where one is sent afterwards."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth import (
    ADDRESS_EACH_S,
    ADDRESS_TRIES,
    DELAY_S_MAX,
    FORGET_S,
    FREE_TRIES,
    Passwords,
    Tried,
    delay_s,
)
from app.guard import local_path
from app.password_rules import password_fault
from control.people import Role
from db.retention import tidy
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


def test_a_known_browser_gets_in_while_others_are_locked_out(console: Console) -> None:
    """Everybody who comes through one proxy or tunnel has one address."""
    known = console.signed_in("ada")
    assert known.client.post("/sign-out", data={"csrf": known.cookie("csrf")}).status_code == 303
    for _ in range(FREE_TRIES):
        assert Browser(console, console.browser()).sign_in("ada", "wrong").status_code == 401
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 429
    assert known.sign_in("vic", "wrong").status_code == 401, "known as ada, not as vic"
    assert known.sign_in("ada", PASSWORD).status_code == 303


def test_a_known_browser_has_no_more_tries_than_others(console: Console) -> None:
    known = console.signed_in("ada")
    for _ in range(FREE_TRIES):
        assert known.sign_in("ada", "wrong").status_code == 401
    assert known.sign_in("ada", PASSWORD).status_code == 429
    assert Browser(console, console.browser()).sign_in("ada", PASSWORD).status_code == 303


@pytest.mark.parametrize("change", ["x", "", "number", "user"])
def test_a_browser_cannot_say_by_itself_that_it_is_known(console: Console, change: str) -> None:
    real = console.signed_in("vic" if change == "user" else "ada").cookie("device")
    number, _, sign = real.partition(".")
    held = {"number": f"{number}x.{sign}", "user": real}.get(change, change)
    for _ in range(FREE_TRIES):
        Browser(console, console.browser()).sign_in("ada", "wrong")
    browser = Browser(console, console.browser())
    browser.client.set_cookie(f"spillway_device_{console.settings.port}", held)
    assert browser.sign_in("ada", PASSWORD).status_code == 429


def test_a_session_is_asked_for_its_password_whatever_others_try(console: Console) -> None:
    browser = console.signed_in("ada")
    for _ in range(FREE_TRIES):
        Browser(console, console.browser()).sign_in("ada", "wrong")
    sent = {"password": PASSWORD}
    assert browser.send("POST", "/session/confirm", sent).status_code == 200
    for _ in range(FREE_TRIES):
        assert browser.send("POST", "/session/confirm", {"password": "no"}).status_code == 401
    assert browser.send("POST", "/session/confirm", sent).status_code == 429


def test_one_address_cannot_try_one_password_on_many_users(console: Console) -> None:
    def attempt(number: int) -> int:
        return Browser(console, console.browser()).sign_in(f"user{number}", "wrong").status_code

    assert [attempt(n) for n in range(ADDRESS_TRIES)] == [401] * ADDRESS_TRIES
    locked = Browser(console, console.browser()).sign_in("vic", PASSWORD)
    assert locked.status_code == 429
    assert 1 <= int(locked.headers["Retry-After"]) <= ADDRESS_EACH_S + 1
    console.clock.pause(ADDRESS_EACH_S)
    assert attempt(500) == 401
    assert attempt(501) == 429, "one more in each minute"
    console.clock.pause(ADDRESS_EACH_S)
    for _ in range(3):  # the right ones cost nothing
        assert Browser(console, console.browser()).sign_in("vic", PASSWORD).status_code == 303
    elsewhere = console.browser()
    elsewhere.environ_base["REMOTE_ADDR"] = "127.0.0.9"
    assert Browser(console, elsewhere).sign_in("ada", PASSWORD).status_code == 303
    assert console.post("/users/vic/unlock").status_code == 200, "the way out for an admin"
    assert [attempt(n) for n in range(600, 603)] == [401] * 3


def test_nobodys_name_is_counted_too(console: Console) -> None:
    codes = [
        Browser(console, console.browser()).sign_in(" ", "wrong").status_code
        for _ in range(ADDRESS_TRIES + 1)
    ]
    assert codes == [401] * ADDRESS_TRIES + [429]


def test_wrong_passwords_of_yesterday_are_forgotten_in_the_store_too(console: Console) -> None:
    for number in range(3):
        Browser(console, console.browser()).sign_in(f"user{number}", "wrong")
    console.clock.pause(FORGET_S / 2)
    Browser(console, console.browser()).sign_in("user1", "wrong")
    console.clock.pause(FORGET_S / 2 + 1)
    tidy(console.store, console.clock())
    assert console.store.users.lockout("user0", "127.0.0.1") is None
    assert console.store.users.lockout("user1", "127.0.0.1").failures == 2
    console.clock.pause(FORGET_S)
    tidy(console.store, console.clock())
    with console.store.ledger_file.read() as db:
        assert db.exec_driver_sql("SELECT count(*) FROM lockouts").scalar() == 0


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
    console.store.users.set_password("ada", slow.hash(PASSWORD), console.clock())

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


def test_an_old_hash_is_made_anew_at_sign_in_and_ends_nothing(console: Console) -> None:
    older = Passwords(type(CHEAP)(time_cost=2, memory_cost=8, parallelism=1))
    console.store.users.set_password("vic", older.hash(PASSWORD), console.clock())
    before = console.store.users.find("vic").password_hash
    elsewhere, token = console.signed_in("ada"), console.token(Role.VIEWER)
    console.signed_in("vic")
    assert elsewhere.client.get("/api/v1/queries").status_code == 200
    sent = {"Authorization": f"Bearer {token}"}
    assert console.browser().get("/api/v1/queries", headers=sent).status_code == 200
    after = console.store.users.find("vic").password_hash
    assert after != before
    assert not CHEAP.check_needs_rehash(after)
    console.signed_in("vic")
    assert console.store.users.find("vic").password_hash == after


def test_a_broken_hash_lets_nobody_in(console: Console) -> None:
    console.store.users.set_password("vic", "not a hash", console.clock())
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
    ada = console.signed_in("ada")
    changed = ada.send("POST", "/users/vic/password", {"password": "another good one"})
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
    device = next(c for c in cookies if c.startswith(f"spillway_device_{port}="))
    assert "HttpOnly" in session
    assert "HttpOnly" in device
    assert "HttpOnly" not in csrf  # the page's script sends it back
    for cookie in (session, csrf, device):
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
    assert console.signed_in("ada").send("POST", "/users", body).status_code == 422


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
    assert console.post("/users/vic/unlock").status_code == 200, "a token is left open on no desk"


def test_the_clock_set_back_does_not_lock_out_for_long(console: Console) -> None:
    clock = Clock(console.clock() + 10 * DELAY_S_MAX)
    for _ in range(FREE_TRIES):
        console.passwords.check(console.store, "ada", "wrong", "x", clock())
    tried = console.passwords.check(console.store, "ada", PASSWORD, "x", console.clock())
    assert tried.outcome is Tried.RIGHT


# -- a password that another person chose --------------------------------------------------------------


def test_a_first_password_is_good_for_nothing_but_changing_it(console: Console) -> None:
    ada = console.signed_in("ada")
    made = {"name": "eve", "role": "admin", "password": "lent by ada 77"}
    assert ada.send("POST", "/users", made).status_code == 200
    eve = console.signed_in("eve", "lent by ada 77")
    assert eve.client.get("/overview").headers["Location"] == "/password"
    refused = eve.send("POST", "/hold")
    assert refused.get_json()["type"] == "/api#change-password"
    assert eve.client.get("/api/v1/users").status_code == 403
    assert eve.client.get("/api/v1/session").get_json()["must_change"]
    assert "known to others" in eve.client.get("/password").text

    def change(current: str, new: str, again: str) -> tuple[int, str]:
        sent = {"csrf": eve.cookie("csrf"), "current": current, "password": new, "again": again}
        answer = eve.client.post("/password", data=sent)
        return answer.status_code, answer.text

    good = "my very own 78"
    assert "differ" in change("lent by ada 77", good, "another one 3")[1]
    assert "is the one that you have" in change("lent by ada 77", *["lent by ada 77"] * 2)[1]
    assert "at least 12 characters" in change("lent by ada 77", "short", "short")[1]
    assert change("not the one 1", good, good)[0] == 401
    assert eve.client.get("/overview").status_code == 303
    assert change("lent by ada 77", good, good)[0] == 303
    assert eve.client.get("/overview").status_code == 200, "and signed in with it"
    assert not console.store.users.find("eve").must_change
    console.signed_in("eve", good)
    assert ada.send("POST", "/users/eve/password", {"password": "lent again 79"}).status_code == 200
    assert console.store.users.find("eve").must_change


def test_a_short_password_of_before_is_good_until_it_is_changed(console: Console) -> None:
    console.store.users.set_password("vic", console.passwords.hash("tenletters"), console.clock())
    vic = console.signed_in("vic", "tenletters")
    assert vic.client.get("/overview").status_code == 200
    sent = {"current": "tenletters", "password": "elevenlett1"}
    answer = vic.send("POST", "/session/password", sent)
    assert answer.status_code == 422
    assert "at least 12" in answer.get_json()["detail"]


# -- one's own sessions --------------------------------------------------------------------------------


def test_ones_sessions_are_listed_and_ended_but_nobody_elses(console: Console) -> None:
    here, other, third = (console.signed_in("vic") for _ in range(3))
    theirs = console.signed_in("ada")
    items = here.client.get("/api/v1/sessions").get_json()["items"]
    assert len(items) == 3
    assert [one["mine_now"] for one in items].count(True) == 1
    assert {one["address"] for one in items} == {"127.0.0.1"}
    id = next(
        one["id"]
        for one in other.client.get("/api/v1/sessions").get_json()["items"]
        if one["mine_now"]
    )
    assert theirs.send("DELETE", f"/sessions/{id}").status_code == 404
    assert here.send("DELETE", f"/sessions/{id}").status_code == 200
    assert other.client.get("/api/v1/queries").status_code == 401
    assert here.send("POST", "/sessions/end-others").get_json()["text"] == "1 other session ended"
    assert third.client.get("/api/v1/queries").status_code == 401
    assert here.client.get("/api/v1/queries").status_code == 200
    assert theirs.client.get("/api/v1/queries").status_code == 200
    lines = console.store.audit.page(user="vic", most=2)
    assert [line.what for line in lines] == ["session.others", "session.end"]
