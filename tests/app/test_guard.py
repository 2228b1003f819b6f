"""Who may call what: every route of the app, enumerated; roles, tokens, CSRF, Host, headers."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from app.api.all import ROUTES
from app.api.table import PREFIX, Route
from app.console import PAGES, SUITES, WANTED
from app.guard import host_name
from app.headers import FIXED
from app.parts import SAFE_METHODS, parts_of
from control.kinds import KINDS, Status
from control.people import Actor, Role, Source
from tests.app.made import PASSWORD, Browser, Console, begin, with_query

FILLED = {"node": "1", "group": "1", "number": "1"}


def address(rule: str) -> str:
    """A rule's path with something in its places."""
    return re.sub(r"[<{](?:\w+:)?(\w+)[>}]", lambda found: FILLED.get(found.group(1), "x"), rule)


def every_route(console: Console) -> list[tuple[str, str, str]]:
    """(endpoint, method, address) of everything the app serves."""
    return [
        (rule.endpoint, method, address(rule.rule))
        for rule in console.app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD"})
    ]


def changing(console: Console) -> list[tuple[str, str, str]]:
    return [found for found in every_route(console) if found[1] not in SAFE_METHODS]


# What Dash and Flask add by themselves and nobody registers: closed.
CLOSED = {
    ("_dash_assets.static", "GET"),  # ours, `static`, comes first
    ("_dash_assets.static", "OPTIONS"),
    *((f"/{name}", "OPTIONS") for name in WANTED),
}


def test_every_route_is_in_the_registry_and_nothing_else_is(console: Console) -> None:
    served = {(endpoint, method) for endpoint, method, _ in every_route(console)}
    assert served - CLOSED == parts_of(console.app).registry.keys()
    assert served >= CLOSED
    assert len(served) > 60


def test_only_these_are_for_anybody(console: Console) -> None:
    registry = parts_of(console.app).registry
    public = {
        (endpoint, method)
        for endpoint, method, _ in every_route(console)
        if (need := registry.need(endpoint, method)) is not None and need.role is None
    }
    allowed = {("health", "GET"), ("sign_in_form", "GET"), ("sign_in", "POST"), ("static", "GET"),
               (SUITES, "GET")}  # fmt: skip
    assert public - {("static", "OPTIONS")} == allowed


def test_a_route_that_is_not_registered_is_closed(console: Console) -> None:
    console.app.add_url_rule("/forgotten", "forgotten", lambda: "secret", methods=["GET"])
    for role in (None, Role.ADMIN):
        answer = console.call("GET", "/forgotten", role)
        assert answer.status_code == 403
        assert "secret" not in answer.text
    assert console.signed_in().client.get("/forgotten").status_code == 403


def test_without_session_or_token_nothing_is_served(console: Console) -> None:
    for endpoint, method, path in every_route(console):
        if endpoint in ("health", "sign_in_form", "sign_in", "static", SUITES):
            continue
        if endpoint == "_dash_assets.static":  # `static` answers
            continue
        answer = console.browser().open(path, method=method)
        page = endpoint in ("status", "api_docs", "home", "password_form") or endpoint.startswith(
            PAGES
        )
        expected = 403 if (endpoint, method) in CLOSED else 303 if page else 401
        assert answer.status_code == expected, (method, path)


def test_cookies_of_flask_login_and_flask_mean_nothing(console: Console) -> None:
    for name in ("remember_token", "session"):
        client = console.app.test_client()
        client.set_cookie(name, f"ann|{'0' * 128}")
        answer = client.get("/api/v1/queries")
        assert answer.status_code == 401, answer.get_data(as_text=True)


def test_an_invalid_token_is_refused_even_beside_a_good_session(console: Console) -> None:
    browser = console.signed_in()
    for sent in ("Bearer spw_wrong", "Bearer ", "Basic YTpi", "spw_x", "Bearer spw_a b"):
        answer = browser.client.get("/api/v1/queries", headers={"Authorization": sent})
        assert answer.status_code == 401, sent
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_lower_roles_are_refused_and_told_why(console: Console, route: Route) -> None:
    for role in Role:
        if role.covers(route.role):
            continue
        answer = console.call(route.method, address(PREFIX + route.path), role)
        if route.tokens:
            assert answer.status_code == 403
            body = answer.get_json()
            assert body["needed"] == route.role
            assert body["role"] == role


def test_who_tried_to_change_what_they_may_not_is_in_the_audit(console: Console) -> None:
    assert console.post("/hold", {}, Role.VIEWER).status_code == 403
    assert console.call("GET", "/api/v1/users", Role.VIEWER).status_code == 403
    lines = console.store.audit.page(user="vic")
    assert [(line.what, line.subject, line.outcome) for line in lines] == [
        ("hold", "/api/v1/hold", "refused")
    ]


def test_a_token_is_never_above_its_user(console: Console) -> None:
    token = console.token(Role.ADMIN, user="vic")
    answer = console.browser().get("/api/v1/users", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 403
    low = console.token(Role.VIEWER, user="ada")
    sent = {"Authorization": f"Bearer {low}"}
    assert console.browser().get("/api/v1/users", headers=sent).status_code == 403
    assert console.browser().get("/api/v1/queries", headers=sent).status_code == 200


def test_tokens_end(console: Console) -> None:
    def status(token: str) -> int:
        sent = {"Authorization": f"Bearer {token}"}
        return console.browser().get("/api/v1/session", headers=sent).status_code

    short = console.token(Role.VIEWER, expires_s=console.clock() + 60)
    assert status(short) == 200
    console.clock.pause(60)
    assert status(short) == 401
    of_vic = console.token(Role.VIEWER)
    console.store.users.set_disabled("vic", True)
    assert status(of_vic) == 401


def test_a_token_is_revoked_with_its_owners_password(console: Console) -> None:
    """By the owner, and by an admin who resets it; this machine's own token goes on."""
    ada, vic = console.signed_in("ada"), console.signed_in("vic")
    sent = {"current": PASSWORD, "password": "another good one"}

    def status(token: str) -> int:
        head = {"Authorization": f"Bearer {token}"}
        return console.browser().get("/api/v1/session", headers=head).status_code

    one, local = console.token(Role.VIEWER), console.token(Role.ADMIN, local=True)
    assert status(one) == 200
    assert vic.send("POST", "/session/password", sent).status_code == 200
    assert status(one) == 401
    two = console.token(Role.VIEWER)
    assert ada.send("POST", "/users/vic/password", {"password": "lent by ada 7"}).status_code == 200
    assert status(two) == 401
    assert ada.send("POST", "/session/password", sent).status_code == 200
    assert status(local) == 200


def test_tokens_live_no_longer_than_is_set(tmp_path: Path) -> None:
    day_s = 86_400.0
    console = begin(tmp_path, token_s=10 * day_s)
    ada = console.signed_in("ada")
    body = {"name": "ci", "scope": "viewer"}
    made = ada.send("POST", "/tokens", body).get_json()
    found = console.store.tokens.named(made["id"])
    assert found.expires_s == console.clock() + 10 * day_s, "where nothing is said"
    late = ada.send("POST", "/tokens", {**body, "expires_s": console.clock() + 11 * day_s})
    assert late.status_code == 422
    assert "10 days at most" in late.get_json()["detail"]
    soon = {**body, "expires_s": console.clock() + day_s}
    id = ada.send("POST", "/tokens", soon).get_json()["id"]
    assert console.store.tokens.named(id).expires_s == console.clock() + day_s
    console.store.close()


def test_admins_see_and_end_everybodys_tokens(console: Console) -> None:
    console.token(Role.VIEWER)
    id = console.store.tokens.of("vic")[0].id
    listed = {one["id"]: one for one in console.get("/tokens/all")["items"]}
    assert listed[id]["user"] == "vic"
    assert "sha256" not in listed[id]
    assert console.call("GET", "/api/v1/tokens/all", Role.OPERATOR).status_code == 403
    assert console.call("DELETE", f"/api/v1/tokens/{id}", Role.OPERATOR).status_code == 404
    assert console.call("DELETE", f"/api/v1/tokens/{id}").status_code == 200
    assert console.store.tokens.named(id).revoked_s == console.clock()
    line = console.store.audit.page(what="token.revoke")[0]
    assert (line.user, line.subject, line.detail) == ("ada", id, "revoked: test of vic")


def test_the_audit_names_the_token(console: Console) -> None:
    console.post("/hold", {"seconds": 60})
    console.post("/hold", {"seconds": 60}, Role.VIEWER)
    ids = {token.user: token.id for token in console.store.tokens.all()}
    found = [(line.user, line.outcome, line.token) for line in console.store.audit.page(most=2)]
    assert found == [("vic", "refused", ids["vic"]), ("ada", "accepted", ids["ada"])]
    assert console.get("/audit")["items"][1]["token"] == ids["ada"]
    console.signed_in("ada").send("POST", "/hold", {"seconds": 60})
    assert console.store.audit.page(most=1)[0].token == ""


def test_a_token_cannot_be_made_above_ones_own(console: Console) -> None:
    answer = console.signed_in("olga").send("POST", "/tokens", {"name": "big", "scope": "admin"})
    assert answer.status_code == 403
    assert "olga is not" in answer.get_json()["detail"]


def test_nobody_revokes_anothers_token(console: Console) -> None:
    console.token(Role.OPERATOR)
    id = console.store.tokens.of("olga")[0].id
    assert console.call("DELETE", f"/api/v1/tokens/{id}", Role.VIEWER).status_code == 404


# -- CSRF --------------------------------------------------------------------------------------------


def test_every_changing_route_wants_csrf_of_a_session(console: Console) -> None:
    """Missing, wrong, another session's, in the cookie only, in the header only."""
    browser, other = console.signed_in(), console.signed_in("vic")
    name = f"spillway_csrf_{console.settings.port}"
    good = browser.cookie("csrf")
    found = changing(console)
    assert len(found) > 30
    for endpoint, method, path in found:
        if endpoint == "sign_in":  # has its own: test_sign_in.py
            continue
        for sent in ({}, {"X-CSRF-Token": "wrong"}, {"X-CSRF-Token": other.cookie("csrf")}):
            answer = browser.client.open(path, method=method, headers=sent, json={})
            assert _is_csrf(answer), (method, path, sent)
        browser.client.set_cookie(name, "changed")
        answer = browser.client.open(path, method=method, headers={"X-CSRF-Token": good}, json={})
        assert _is_csrf(answer), (method, path)
        browser.client.set_cookie(name, good)
    assert browser.client.get("/status").status_code == 200  # still signed in: nothing was done


def _is_csrf(answer: TestResponse) -> bool:
    if answer.mimetype == "application/problem+json":
        return answer.status_code == 403 and answer.get_json()["type"] == "/api#csrf"
    return answer.status_code == 403 and "CSRF" in answer.text


def test_with_csrf_the_same_request_passes(console: Console) -> None:
    browser = console.signed_in()
    done = browser.client.post("/api/v1/hold", json={"seconds": 60}, headers=browser.csrf)
    assert done.status_code == 200
    assert console.get("/hold")["held"]


def test_another_sites_origin_is_refused_whatever_it_brings(console: Console) -> None:
    browser = console.signed_in()
    for sent in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
        answer = browser.client.post("/api/v1/hold", json={}, headers={**browser.csrf, **sent})
        assert _is_csrf(answer)
    sent = {**browser.csrf, "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert browser.client.post("/api/v1/hold", json={}, headers=sent).status_code == 200


def test_tokens_need_no_csrf_and_work_without_cookies(console: Console) -> None:
    assert console.post("/hold", {"seconds": 60}, Role.OPERATOR).status_code == 200


def test_what_is_for_browsers_only_takes_no_token(console: Console) -> None:
    body = {"password": PASSWORD}
    assert console.post("/session/confirm", body).status_code == 401
    assert console.call("GET", "/").status_code == 303


def test_reauthentication_is_asked_for_where_the_table_says(running: Console) -> None:
    """Of each route that may ask, with a body for which it does; and of no other that changes anything."""
    asked = {route.name for route in ROUTES if route.confirm}
    assert asked == set(BODIES)
    browser = running.signed_in()
    running.clock.pause(running.settings.confirm_s + 1)
    for route in ROUTES:
        if route.changes:
            path = address(route.path)
            answer = browser.send(route.method, path, BODIES.get(route.name, {}))
            is_asked = "confirm" in str((answer.get_json() or {}).get("type", ""))
            assert is_asked == (route.name in asked), route.name
        if route.name == "session_end":  # the session has ended with it
            browser = running.signed_in()
            running.clock.pause(running.settings.confirm_s + 1)


AUTO = 'name = "even"\nmode = "auto"\nevery = "15s"\n\n[policy]\nname = "relocate"\n'
BODIES: dict[str, Any] = {
    "apply": {"override": True},
    "query_register": {"text": "name = 1"},
    "query_unregister": {},
    "query_nodes": {"nodes": 2},
    "rule_save": {"text": AUTO},
    "rule_mode": {"mode": "auto"},
    "user_add": {"name": "eve", "role": "viewer", "password": "long enough 1"},
    "user_role": {"role": "viewer"},
    "user_disable": {},
    "user_enable": {},
    "user_unlock": {},
    "user_password": {"password": "long enough 1"},
    "token_add": {"name": "t", "scope": "viewer"},
    "secret_set": {"name": "db", "value": "long enough 1"},
    "secret_drop": {},
    "webhook_add": {"url": "https://hook.example/", "events": ["alert.raised"]},
    "webhook_drop": {},
    "budget_set": {"bytes": 1},
}
HARMLESS: dict[str, Any] = {
    "apply": {},
    "rule_save": {"text": AUTO.replace("auto", "propose")},
    "rule_mode": {"mode": "off"},
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_can_be_taken_back_asks_for_no_password(running: Console, name: str) -> None:
    browser = running.signed_in()
    running.clock.pause(running.settings.confirm_s + 1)
    route = next(route for route in ROUTES if route.name == name)
    answer = browser.send(route.method, address(route.path), HARMLESS[name])
    assert answer.status_code in (200, 404), answer.text


# -- what an API token may not do ----------------------------------------------------------------------


def test_no_token_makes_what_outlives_it(console: Console) -> None:
    """Every kind that is for persons only, by the dispatcher; then by HTTP."""
    persons = {kind for kind, known in KINDS.items() if known.person}
    assert persons == {"token.add", "user.token", "user.add", "user.password", "password"}
    actor = Actor("ada", Role.ADMIN, Source.CLI, token="t1")
    whole = {"name": "eve", "role": "admin", "password_hash": "-", "sha256": "0" * 64, "scope": "viewer",
             "label": "x"}  # fmt: skip
    for kind in persons:
        body = {name: whole[name] for name in KINDS[kind].needs}
        answer = console.app.extensions["spillway"].dispatcher.dispatch(kind, body, actor)
        assert answer.status is Status.FORBIDDEN, kind
        assert "API token" in answer.text
    before = console.store.tokens.all()
    for path, body in (
        ("/tokens", {"name": "child", "scope": "viewer"}),
        ("/users", BODIES["user_add"]),
        ("/users/ada/password", BODIES["user_password"]),
    ):
        answer = console.post(path, body)
        assert answer.status_code == 403, path
        assert answer.get_json()["type"] == "/api#role"
    assert [t.id for t in console.store.tokens.all() if t.id not in {b.id for b in before}] == [
        t.id for t in console.store.tokens.all() if t.name == "test"
    ]
    assert {user.name for user in console.store.users.all()} == {"ada", "olga", "vic"}


# -- a password that must be changed -------------------------------------------------------------------


def test_nothing_is_served_before_a_password_of_ones_own(console: Console) -> None:
    """Every route but those that are for it."""
    browser = console.signed_in("ada")
    hashed = console.store.users.find("ada").password_hash
    with console.store.ledger_file.write() as db:
        db.exec_driver_sql("UPDATE users SET must_change = 1 WHERE name = 'ada'")
    assert console.store.users.find("ada").password_hash == hashed
    registry = parts_of(console.app).registry
    free = set()
    for endpoint, method, path in every_route(console):
        need = registry.need(endpoint, method)
        if need is None or need.role is None or not need.sessions:
            continue
        if need.before_change:
            free.add((endpoint, method))
            continue
        answer = browser.client.open(path, method=method, headers=browser.csrf, json={})
        if answer.status_code == 303:
            assert answer.headers["Location"] == "/password", path
        else:
            assert answer.status_code == 403, (method, path)
            is_said = "change-password" in answer.text or "password of your own" in answer.text
            assert is_said, (method, path)
    assert free == {
        ("sign_out", "POST"), ("password_form", "GET"), ("password", "POST"), ("api.session", "GET"),
        ("api.session_end", "DELETE"), ("api.session_password", "POST"),
    }  # fmt: skip
    token = {"Authorization": f"Bearer {console.token()}"}
    assert console.browser().get("/api/v1/queries", headers=token).status_code == 200


# -- Host, proxies, headers --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8050", "[::1]:8050", "LOCALHOST:9000"])
def test_these_hosts_are_served(console: Console, host: str) -> None:
    assert console.browser().get("/sign-in", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "evil.example:8050",
     "[::2]", "", "local host", "localhost@evil.example"],
)  # fmt: skip
def test_other_hosts_are_not(console: Console, host: str) -> None:
    for path in ("/sign-in", "/health", "/api/v1/queries", "/assets/plain.css", "/nothing"):
        assert console.browser().get(path, headers={"Host": host}).status_code == 400, path


def test_further_hosts_can_be_configured(tmp_path: Path) -> None:
    console = begin(tmp_path, hosts=("spillway.example",))
    sent = {"Host": "Spillway.Example:443"}
    assert console.browser().get("/sign-in", headers=sent).status_code == 200
    console.store.close()


@given(st.text(max_size=40))
def test_a_host_name_never_has_a_port(host: str) -> None:
    assert not host_name(host).endswith(":80")


def test_proxy_headers_are_ignored_unless_configured(tmp_path: Path) -> None:
    sent = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example"}
    console = begin(tmp_path)
    browser = Browser(console, console.browser())
    token = browser.form()
    data = {"user": "ada", "password": "wrong", "csrf": token}
    assert browser.client.post("/sign-in", data=data, headers=sent).status_code == 401
    assert console.store.audit.page(user="ada")[0].address == "127.0.0.1"
    console = console.again(proxies=1)
    sent = {"X-Forwarded-For": "203.0.113.9"}
    browser = Browser(console, console.browser())
    data["csrf"] = browser.form()
    assert browser.client.post("/sign-in", data=data, headers=sent).status_code == 401
    assert console.store.audit.page(user="ada")[0].address == "203.0.113.9"
    console.store.close()


CONSOLE_HEAD = "default-src 'none'; script-src 'self' 'sha256-"


def test_headers_are_on_every_answer(console: Console) -> None:
    with_query(console)
    console.clock.pause(1)
    browser = console.signed_in()
    paths = [(method, path) for _, method, path in every_route(console)]
    paths += [("GET", "/nothing"), ("DELETE", "/"), ("GET", "/assets/plain.css")]
    for method, path in paths:
        for answer in (browser.client.open(path, method=method), console.call(method, path)):
            policy = answer.headers["Content-Security-Policy"]
            for name, value in FIXED.items():
                if name != "Content-Security-Policy" or not policy.startswith(CONSOLE_HEAD):
                    assert answer.headers[name] == value, (method, path, name)
            is_console = answer.status_code == 200 and "react-entry-point" in answer.text
            assert policy.startswith(CONSOLE_HEAD) == is_console, path
            assert "Server" not in answer.headers
            if not path.startswith("/assets"):
                assert answer.headers["Cache-Control"] == "no-store", path
            answer.close()


def test_the_policy_allows_no_eval_no_inline_and_no_frames() -> None:
    policy = FIXED["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy


def test_the_consoles_policy_allows_no_eval_and_only_scripts_with_a_hash(console: Console) -> None:
    answer = console.signed_in().client.get("/overview")
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert "unsafe-eval" not in answer.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in policy["script-src"]
    assert all("http" not in value for value in policy.values())
    inline = re.findall(r"<script(?![^>]*src=)(?![^>]*json)[^>]*>(.*?)</script>", answer.text, re.S)
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in inline]
    assert len(hashes) > 1
    assert all(f"'sha256-{one}'" in policy["script-src"] for one in hashes)


def test_pages_need_nothing_that_the_policy_forbids(running: Console) -> None:
    browser = running.signed_in()
    for path in ("/status", "/api", "/nothing"):
        page = browser.client.get(path).text
        assert "<script" not in page
        assert "style=" not in page
        assert not re.search(r"\son\w+=", page)
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        assert '<html lang="en">' in page


def test_an_error_of_ours_shows_no_traceback(console: Console, monkeypatch: Any) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret inside")

    monkeypatch.setattr(console.store.queries, "all", broken)
    monkeypatch.setattr(console.app.logger, "disabled", True)
    for answer in (
        console.call("GET", "/api/v1/queries"),
        console.signed_in().client.get("/status"),
    ):
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text


def test_a_store_that_is_away_is_said_with_when_to_try_again(console: Console) -> None:
    token = console.token()
    folder = console.folder
    console.store.close()
    (folder / "ledger.db").rename(folder / "away.db")
    answer = console.browser().get("/api/v1/queries", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.mimetype == "application/problem+json"
    (folder / "away.db").rename(folder / "ledger.db")
    answer = console.browser().get("/api/v1/queries", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
