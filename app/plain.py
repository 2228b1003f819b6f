"""The pages that work without scripts, rendered here: sign-in and a plain status page. The console is Dash's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import Flask, Response, g, make_response, redirect, render_template, request

from app import guard
from app.auth import Tried, Try
from app.health import processes
from app.parts import Need, Parts, parts_of
from app.password_rules import LENGTH_MAX, LENGTH_MIN, password_fault
from app.problems import Problem
from app.redacted import seen_by
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
    _add(app, "/sign-in", "sign_in", "POST", Need(None), lambda: _sign_in(parts))
    always = replace(page, before_change=True)
    _add(app, "/sign-out", "sign_out", "POST", always, lambda: _sign_out(parts))
    _add(app, guard.CHANGE, "password_form", "GET", always, lambda: _password_form())
    _add(app, guard.CHANGE, "password", "POST", always, lambda: _password(parts))
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
        parts.store,
        name,
        request.form.get("password", ""),
        address,
        g.now_s,
        device=parts.sessions.device(request, name),
    )
    if tried.outcome is not Tried.LOCKED and tried.outcome is not Tried.BUSY:
        note(parts, name, "sign-in", tried.outcome is Tried.RIGHT, g.now_s)
    if tried.user is None:
        return _not_in(parts, tried, name)
    parts.store.users.seen(tried.user.name, g.now_s)
    return _begun(parts, tried.user.name, guard.local_path(request.form.get("next", "/")))


def _begun(parts: Parts, user: str, target: str) -> Response:
    """A session begins, and the browser is sent on."""
    held, session = parts.sessions.begin(request, user, guard.address(), g.now_s)
    response = make_response(redirect(target, 303))
    parts.sessions.set_cookies(response, held, session)
    return response


def _password_form(said: str = "", status: int = 200) -> Response:
    found = guard.who()
    assert found.session is not None
    page = render_template(
        "password.html", who=found, csrf=found.session.csrf, said=said, least=LENGTH_MIN
    )
    return make_response(page, status)


def _password(parts: Parts) -> Response:
    """Another password of one's own. All one's sessions end with it; a new one begins here."""
    name, sent = guard.who().user.name, request.form
    new, now = sent.get("password", ""), sent.get("current", "")
    if fault := own_fault(name, now, new, sent.get("again", "")):
        return _password_form(f"{fault[:1].upper()}{fault[1:]}.", 422)
    tried = again(parts, now, "password")
    if tried.outcome is not Tried.RIGHT:
        said = SAID[tried.outcome].format(wait=_spoken(tried.wait_s))
        if tried.outcome is Tried.WRONG:
            said = "Your password until now is not that."
        return _password_form(said, STATUS[tried.outcome])
    body = {"password_hash": parts.passwords.hash(new)}
    answer = parts.dispatcher.dispatch("password", body, guard.who().actor)
    if not answer.accepted:
        return _password_form(answer.text, 409)
    return _begun(parts, name, "/")


def own_fault(user: str, now: str, new: str, again: str) -> str:
    """What is wrong with another password of one's own; empty when nothing is."""
    if not now:
        return "your password until now is needed"
    if new != again:
        return "the two new passwords differ"
    if new == now:
        return "the new password is the one that you have"
    return password_fault(new, user)


def again(parts: Parts, password: str, what: str) -> Try:
    """The password again of whoever is signed in: counted for the session alone, and noted as `what`."""
    found = guard.who()
    device = found.session.id_hash if found.session is not None else ""
    tried = parts.passwords.check(
        parts.store,
        found.user.name,
        password[:LENGTH_MAX],
        guard.address(),
        g.now_s,
        device=device,
    )
    if tried.outcome in (Tried.RIGHT, Tried.WRONG):
        note(parts, found.user.name, what, tried.outcome is Tried.RIGHT, g.now_s)
    return tried


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
        queries=[seen_by(row, found.actor.role) for row in parts.store.queries.all()],
        alerts=parts.store.alerts.open(),
    )
    return Response(page, content_type=HTML)
