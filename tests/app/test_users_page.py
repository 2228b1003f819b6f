"""Users, as its callbacks answer a browser: one's sessions, everybody's tokens, and who may end them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.pages.users_view import browser as browser_name
from control.people import Role
from tests.app.dashed import Many, call, said
from tests.app.made import Browser, Console


def pressed(kind: str, **at: str) -> str:
    return json.dumps({**at, "type": kind}, sort_keys=True, separators=(",", ":"))


def end(browser: Browser, id: str = "") -> dict[str, Any]:
    """One session, or the others."""
    at = pressed("users-session-end", session=id)
    changed = f"{at}.n_clicks" if id else "users-session-others.n_clicks"
    inputs = {"one.n_clicks": Many({at: 1 if id else None}), "users-session-others.n_clicks": 1}
    return call(browser, "users-session-said.children", changed, inputs)


def test_one_session_is_ended_and_then_the_others(console: Console) -> None:
    here, other, third = (console.signed_in("vic") for _ in range(3))
    theirs = console.signed_in("ada")
    found = {one.id_hash: one for one in console.store.sessions.of("vic")}
    listed = other.client.get("/api/v1/sessions").get_json()["items"]
    id = next(one["id"] for one in listed if one["mine_now"])
    assert id in found
    assert "The session has ended." in said(end(here, id)["users-session-said"])
    assert other.client.get("/api/v1/session").status_code == 401
    assert "1 other session ended." in said(end(here)["users-session-said"])
    assert third.client.get("/api/v1/session").status_code == 401
    assert here.client.get("/api/v1/session").status_code == 200
    id = console.store.sessions.of("ada")[0].id_hash
    assert "there is no session of yours" in said(end(here, id)["users-session-said"])
    assert theirs.client.get("/api/v1/session").status_code == 200


def ask(browser: Browser, token: str) -> dict[str, Any]:
    at = pressed("users-revoke-any", token=token)
    inputs = {"a.n_clicks": Many(), "b.value": Many(), "c.n_clicks": Many({at: 1})}
    return call(browser, "users-ask.data", f"{at}.n_clicks", inputs)


def test_an_admin_revokes_anybodys_token_with_the_password_not_needed(console: Console) -> None:
    console.token(Role.VIEWER)
    token = console.store.tokens.of("vic")[0]
    ada = console.signed_in("ada")
    console.clock.pause(console.settings.confirm_s + 1)
    asked = ask(ada, token.id)["users-ask"]["data"]
    assert asked["title"] == "Revoke test of vic?"
    done = call(
        ada,
        "users-done.data",
        "users-confirm-yes.n_clicks",
        {"users-confirm-yes.n_clicks": 1},
        {"users-ask.data": asked, "users-confirm-password.value": None},
    )
    assert done["users-done"]["data"]["text"] == "revoked: test of vic"
    assert console.store.tokens.named(token.id).revoked_s == console.clock()
    assert ask(ada, "none") == {}


@pytest.mark.parametrize(
    ("life", "days"), [("1", 1), ("30", 30), ("most", 90), (None, 30), ("9999", 30)]
)
def test_a_token_of_ones_own_ends(console: Console, life: Any, days: int) -> None:
    vic, at = console.signed_in("vic"), pressed("users-revoke", token="x")
    states = {"name": "nightly", "scope": "viewer", "life": life}
    answer = call(
        vic,
        "users-token-said.children",
        "users-token-add.n_clicks",
        {"users-token-add.n_clicks": 1, "one.n_clicks": Many({at: None})},
        {
            **{f"users-token-{name}.value": value for name, value in states.items()},
            "users-token-own.value": None,
        },
    )
    assert "Copy it now" in said(answer["users-token-said"])
    token = console.store.tokens.of("vic")[0]
    assert token.expires_s == console.clock() + days * 86_400


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/18.0 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
        ("curl/8.5.0", "curl"),
        ("", "unknown browser"),
    ],
)  # fmt: skip
def test_browsers_have_names(agent: str, name: str) -> None:
    assert browser_name(agent) == name
