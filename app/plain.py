"""The pages that work without scripts, rendered here: sign-in and a plain status page. The console is Dash's."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, g, make_response, redirect, render_template, request

from app import guard
from app.auth import Tried, Try
from app.health import processes
from app.parts import Need, Parts, parts_of
from app.problems import Problem
from control.people import AuditLine, Role, Source

HTML = "text/html; charset=utf-8"
SAID = {
    Tried.WRONG: "User or password is not right.",
    Tried.LOCKED: "Too many wrong passwords. Try again in {wait}.",
    Tried.BUSY: "Many are signing in just now. Try again in a moment.",
}
STATUS = {Tried.WRONG: 401, Tried.LOCKED: 429, Tried.BUSY: 503}
PUBLIC = Need(None)


def install(app: Flask) -> None:
    parts = parts_of(app)
    page = Need(Role.VIEWER, tokens=False, active=True)
    _add(app, "/sign-in", "sign_in_form", "GET", PUBLIC, lambda: _form(parts))
    _add(app, "/sign-in", "sign_in", "POST", Need(None, own_csrf=True), lambda: _sign_in(parts))
    _add(app, "/sign-out", "sign_out", "POST", page, lambda: _sign_out(parts))
    _add(app, "/status", "status", "GET", page, lambda: _status(parts))


def _add(app: Flask, rule: str, endpoint: str, method: str, need: Need, view: Any) -> None:
    app.add_url_rule(rule, endpoint, view, methods=[method], provide_automatic_options=False)
    parts_of(app).registry.add(endpoint, method, need)


def _form(parts: Parts, said: str = "", status: int = 200, name: str = "") -> Response:
    cookie: list[str] = []
    token = parts.sessions.form_token(request, cookie)
    wanted = guard.local_path(request.values.get("next", "/"))
    page = render_template("sign_in.html", csrf=token, next=wanted, said=said, name=name)
    response = make_response(page, status)
    parts.sessions.set_form_cookie(response, cookie[0])
    return response


def _sign_in(parts: Parts) -> Response:
    guard.same_origin()
    if not parts.sessions.form_matches(request):
        return _form(parts, "This page was too old. Please try again.", 403)
    name = request.form.get("user", "").strip()
    address = guard.address()
    tried = parts.passwords.check(
        parts.store, name, request.form.get("password", ""), address, g.now_s
    )
    if tried.outcome is not Tried.LOCKED and tried.outcome is not Tried.BUSY:
        note(parts, name, "sign-in", tried.outcome is Tried.RIGHT, g.now_s)
    if tried.user is None:
        return _not_in(parts, tried, name)
    before = request.cookies.get(parts.sessions.cookie, "")
    held, session = parts.sessions.begin(tried.user.name, address, g.now_s, before)
    parts.store.users.seen(tried.user.name, g.now_s)
    response = make_response(redirect(guard.local_path(request.form.get("next", "/")), 303))
    parts.sessions.set_cookies(response, held, session)
    return response


def _not_in(parts: Parts, tried: Try, name: str) -> Response:
    said = SAID[tried.outcome].format(wait=_spoken(tried.wait_s))
    response = _form(parts, said, STATUS[tried.outcome], name)
    if tried.wait_s:
        response.headers["Retry-After"] = str(max(1, round(tried.wait_s + 0.5)))
    return response


def _spoken(seconds: float) -> str:
    whole = max(1, round(seconds + 0.5))
    return f"{whole} s" if whole < 120 else f"{round(whole / 60)} min"


def note(parts: Parts, user: str, what: str, good: bool, now_s: float) -> None:
    """Into the audit: signing in and out do not go through the dispatcher."""
    outcome = "accepted" if good else "refused"
    line = AuditLine(now_s, user[:64], Source.CONSOLE, guard.address(), what, user[:64], outcome)
    parts.store.audit.add(line)


def _sign_out(parts: Parts) -> Response:
    found = guard.who()
    if found.session is None:
        raise Problem("signed-out", "There is no session.")
    note(parts, found.user.name, "sign-out", True, g.now_s)
    parts.sessions.end(request)
    response = make_response(redirect("/sign-in", 303))
    parts.sessions.clear_cookies(response)
    return response


def _status(parts: Parts) -> Response:
    found = guard.who()
    assert found.session is not None
    page = render_template(
        "status.html",
        who=found,
        csrf=found.session.csrf,
        processes=processes(parts.store, parts.settings, g.now_s),
        queries=parts.store.queries.all(),
        alerts=parts.store.alerts.open(),
    )
    return Response(page, content_type=HTML)
