"""What cannot be taken back wants a password that was given lately: in the console as in the API."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Request, g

from app import desk
from app.api.all import ROUTES
from app.components.confirm import Ask
from app.guard import Who
from app.sessions import Sessions
from control.kinds import KINDS
from control.people import Actor, Role, Source
from tests.app.dashed import call, said
from tests.app.made import PASSWORD, Browser, Console

LONG_S = 1_000.0  # longer than a password is good for, shorter than a session
OTHER = {"budget_set": "budget.daily", "query_nodes": "nodes"}
AUTO = 'name = "even"\nmode = "auto"\nevery = "15s"\n\n[policy]\nname = "relocate"\n'
# For kinds where the body decides: one that asks, one that does not.
BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "apply": ({"proposal": "x", "override": True}, {"proposal": "x"}),
    "rule.save": ({"text": AUTO}, {"text": AUTO.replace("auto", "propose")}),
    "rule.mode": ({"rule": "x", "mode": "auto"}, {"rule": "x", "mode": "off"}),
}
DISABLE = Ask("user.disable", "Disable vic?", "", "Disable", {"name": "vic"}).to_json()


def test_it_is_the_same_as_in_the_api() -> None:
    wanted = {route.name for route in ROUTES if route.confirm}
    asked = {kind for kind, known in KINDS.items() if known.confirm}
    assert {OTHER.get(name, name.replace("_", ".", 1)) for name in wanted} == asked


def test_no_page_does_without_it_what_wants_it(console: Console) -> None:
    """Every kind, through the one function by which pages do anything, whatever page forgot to ask."""
    assert {kind for kind, known in KINDS.items() if callable(known.confirm)} == set(BODIES)
    ada = console.store.users.find("ada")
    _, session = Sessions(console.store, console.settings).begin(
        Request({}), "ada", "", console.clock()
    )
    console.clock.pause(LONG_S)
    for kind, known in KINDS.items():
        bodies = BODIES.get(kind, ({}, {}))
        for body, asks in zip(bodies, (bool(known.confirm), known.confirm is True), strict=True):
            with console.app.test_request_context("/overview"):
                g.now_s = console.clock()
                g.who = Who(Actor("ada", Role.ADMIN, Source.CONSOLE), ada, session)
                refused = "password again" in desk.act(kind, body).text
            assert refused == asks, (kind, body)


def press(browser: Browser, ask: Any, password: str | None = None) -> dict[str, Any]:
    return call(
        browser,
        "users-done.data",
        "users-confirm-yes.n_clicks",
        {"users-confirm-yes.n_clicks": 1},
        {"users-ask.data": ask, "users-confirm-password.value": password},
    )


@pytest.mark.parametrize(
    ("password", "text"), [(None, "password is needed again"), ("wrong", "password is not right")]
)
def test_without_the_right_password_nothing_is_done(
    console: Console, password: str | None, text: str
) -> None:
    browser = console.signed_in("ada")
    console.clock.pause(LONG_S)
    answer = press(browser, DISABLE, password)
    assert text in said(answer["users-confirm-said"])
    assert "users-done" not in answer
    assert not console.store.users.find("vic").disabled


def test_with_it_the_thing_is_done_and_the_next_is_not_asked_for(console: Console) -> None:
    browser = console.signed_in("ada")
    console.clock.pause(LONG_S)
    assert press(browser, DISABLE, PASSWORD)["users-done"]["data"]["text"]
    assert console.store.users.find("vic").disabled
    enable = Ask("user.enable", "", "", "", {"name": "vic"}).to_json()
    assert press(browser, enable)["users-done"]["data"]["text"]
    assert not console.store.users.find("vic").disabled
    assert [line.what for line in console.store.audit.page(user="ada", most=3)] == [
        "user.enable", "user.disable", "confirm",
    ]  # fmt: skip


def test_what_is_refused_is_said_in_the_dialog(console: Console) -> None:
    browser = console.signed_in("ada")
    answer = press(browser, {**DISABLE, "body": {"name": "ada"}})
    assert "the last admin" in said(answer["users-confirm-said"])


@pytest.mark.parametrize(
    "ask",
    [
        None,
        7,
        {},
        {"kind": "query.unregister"},
        {**DISABLE, "kind": "hold"},
        {"kind": ["user.disable"]},
    ],
)
def test_a_page_does_only_what_is_its_own(console: Console, ask: Any) -> None:
    """Whatever the browser says that it was asked."""
    browser = console.signed_in("ada")
    assert press(browser, ask) == {}
    assert not console.store.users.find("vic").disabled


@pytest.mark.parametrize("body", [{"name": 7}, {"name": "vic", "more": 1}, [], {}])
def test_bodies_are_the_dispatchers_to_check(console: Console, body: Any) -> None:
    answer = press(console.signed_in("ada"), {**DISABLE, "body": body})
    assert "users-done" not in answer
    assert not console.store.users.find("vic").disabled
