"""/session, /about, /settings, /processes, /budget, /openapi.json: about the caller and the system itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import request

from app import guard
from app.api.schema import (
    ANY_OBJECT,
    BOOL,
    NUMBER_OR_NULL,
    array,
    number,
    obj,
    one_of,
    text,
    whole,
)
from app.api.shapes import plain, shown
from app.api.table import DONE, Call, Route
from app.auth import Tried
from app.health import processes
from app.plain import again, note
from app.problems import Problem
from control.handling.plans import day_budget
from control.people import Role


def session(call: Call) -> dict[str, Any]:
    """Who asks, and until when."""
    found, settings = call.who.session, call.parts.settings
    ends = None
    if found is not None:
        ends = min(found.active_s + settings.idle_s, found.created_s + settings.absolute_s)
    return {
        "user": call.actor.user,
        "role": call.actor.role.value,
        "by": "token" if found is None else "session",
        "ends_s": ends,
        "confirmed": found is not None and call.parts.sessions.confirmed(found, call.now_s),
        "must_change": found is not None and call.who.user.must_change,
    }


def confirm(call: Call) -> dict[str, Any]:
    """The password again, before what cannot be taken back."""
    if call.who.session is None:
        raise Problem("invalid", "A token has no session to confirm.")
    check_password(call, call.body["password"], "confirm")
    guard.confirm(call.parts)
    return {"id": call.actor.user, "text": "confirmed", "result": {}}


def check_password(call: Call, password: str, what: str) -> None:
    """Whether it is the asker's; a wrong one ends the request. Every try is in the audit, as `what`."""
    tried = again(call.parts, password, what)
    if tried.outcome is Tried.LOCKED:
        raise Problem("locked", "Too many wrong passwords.", retry_s=tried.wait_s)
    if tried.outcome is Tried.BUSY:
        raise Problem("unavailable", "Many sign in just now.", retry_s=tried.wait_s)
    if tried.outcome is not Tried.RIGHT:
        raise Problem("wrong-password", "The password is not right.")


def sign_out(call: Call) -> dict[str, Any]:
    if call.who.session is None:
        raise Problem("invalid", "A token has no session; revoke it instead.")
    note(call.parts, call.actor.user, "sign-out", True, call.now_s)
    call.parts.sessions.end(request)
    return {"id": call.actor.user, "text": "signed out", "result": {}}


def about(call: Call) -> dict[str, Any]:
    return {**plain(dict(call.parts.settings.about)), "now_s": call.now_s}


def settings(call: Call) -> dict[str, Any]:
    return {"settings": plain(dict(call.parts.settings.shown))}


def alive(call: Call) -> dict[str, Any]:
    """/health with what each process says of itself."""
    beats = {beat.process: beat for beat in call.store.metrics.heartbeats()}
    found = processes(call.store, call.parts.settings, call.now_s)
    return {
        "items": [
            {**shown(one), "about": plain(beats[one.process].about if one.process in beats else {})}
            for one in found
        ]
    }


def budget(call: Call) -> dict[str, Any]:
    """What 24 hours may take, and what the last 24 hours took."""
    day_s = 86_400.0
    used = call.store.actions.used(call.now_s - day_s)
    return {**asdict(day_budget(call.store)), "used": shown(used)}


def budget_set(call: Call) -> dict[str, Any]:
    return call.do("budget.daily", call.body)


def openapi(call: Call) -> dict[str, Any]:
    from app.api.all import ROUTES as every  # the table has this route in it
    from app.api.openapi import document

    return document(every)


SESSION = obj(
    {
        "user": text(), "role": one_of(Role), "by": one_of(("token", "session")),
        "ends_s": NUMBER_OR_NULL, "confirmed": BOOL, "must_change": BOOL,
    }
)  # fmt: skip
PROCESS = obj(
    {
        "process": text(), "state": text(), "age_s": NUMBER_OR_NULL, "stale": BOOL,
        "about": ANY_OBJECT,
    }
)  # fmt: skip
USED = obj(
    {
        "bytes": whole(),
        "pause_s": number(),
        "automatic_bytes": whole(),
        "automatic_pause_s": number(),
    }
)
ROUTES = (
    Route("GET", "/session", "session", Role.VIEWER, "who you are", session, SESSION, before_change=True),
    Route(
        "POST", "/session/confirm", "session_confirm", Role.VIEWER,
        "the password again, for what cannot be taken back", confirm, DONE,
        body=obj({"password": {**text(1_000, 1), "format": "password"}}), tokens=False,
    ),
    Route(
        "DELETE", "/session", "session_end", Role.VIEWER, "sign out", sign_out, DONE, tokens=False, before_change=True
    ),
    Route("GET", "/about", "about", Role.VIEWER, "versions, and the time here", about, ANY_OBJECT),
    Route(
        "GET", "/settings", "settings", Role.ADMIN, "settings in force, secrets left out", settings,
        obj({"settings": ANY_OBJECT}),
    ),
    Route(
        "GET", "/processes", "processes", Role.VIEWER, "engine, control, console: alive?", alive,
        obj({"items": array(PROCESS)}),
    ),
    Route(
        "GET", "/budget", "budget", Role.VIEWER, "what 24 hours may take, and took", budget,
        obj({"bytes": whole(), "pause_s": number(), "used": USED}),
    ),
    Route(
        "POST", "/budget", "budget_set", Role.ADMIN, "bytes and pause that 24 hours may take",
        budget_set, DONE, body=obj({}, {"bytes": whole(), "pause_s": number(0, 86_400)}),
        confirm=True,
    ),
    Route(
        "GET", "/openapi.json", "openapi", Role.VIEWER, "this API as an OpenAPI 3.1 document",
        openapi, ANY_OBJECT,
    ),
)  # fmt: skip
