"""Before every request: Host, who it is, their role, CSRF. One place, and what is not registered is refused."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from flask import Flask, Request, Response, g, has_request_context, redirect, request
from flask_login import LoginManager, UserMixin, current_user

from app import tokens
from app.parts import SAFE_METHODS, Need, Parts, parts_of
from app.problems import Problem, is_for_programs
from control.people import Actor, AuditLine, Role, Session, Source, User

SUBJECT_MAX = 200
CHANGE = "/password"  # where one's own password is changed without scripts
CLIENT_HEADER = "X-Spillway-Client"  # ctl says so; it changes only what the audit shows


@dataclass(frozen=True)
class Who(UserMixin):  # type: ignore[misc]
    """Who asks: by a session or by a token. What flask-login calls the user."""

    actor: Actor
    user: User
    session: Session | None = None

    def get_id(self) -> str:
        return self.user.name


def who() -> Who:
    found: Who = g.who
    return found


def confirm(parts: Parts) -> None:
    """Whoever asks has given their password just now: it holds for the rest of this request, too."""
    found = who()
    assert found.session is not None
    g.who = replace(found, session=parts.sessions.confirm(found.session, g.now_s))


def asker() -> str | None:
    """Whose allowance a request is on: a token has one of its own, a user's browsers share one. None outside of
    requests."""
    found: Who | None = g.get("who") if has_request_context() else None
    if found is None:
        return None
    return f"token {found.actor.token}" if found.actor.token else f"user {found.user.name}"


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def local_path(wanted: str) -> str:
    """Where to go after sign-in: a path of ours, whatever was asked for."""
    plain = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    if not plain or any(ord(c) < 33 or c == "\\" or ord(c) == 127 for c in wanted):
        return "/"
    split = urlsplit(wanted)
    return wanted if not split.scheme and not split.netloc and len(wanted) <= 2_000 else "/"


def guard(app: Flask) -> None:
    """Put it before everything else, also before what is added to the app later. Who asks is loaded anew for every
    request, from the store: flask-login's own cookies are not used, and mean nothing here."""

    def before() -> Response | None:
        return _check(parts_of(app))

    def load(_: Request) -> Who | None:
        need: Need | None = g.get("need")
        return identify(parts_of(app), need, g.now_s) if need is not None else None

    manager = LoginManager()
    manager.session_protection = None
    manager.request_loader(load)
    app.secret_key = secrets.token_bytes(32)
    manager.init_app(app)
    app.before_request_funcs.setdefault(None, []).insert(0, before)


def _check(parts: Parts) -> Response | None:
    if host_name(request.host) not in parts.settings.host_names:
        raise Problem("host", "This host name is not configured (setting `hosts`).")
    if request.endpoint is None:
        return None  # 404 or 405, which Flask answers
    need = parts.registry.need(request.endpoint, request.method)
    if need is None:
        raise Problem("role", "This address has no role; it is closed.")
    g.now_s = parts.clock()
    if need.role is None:
        return None
    g.need = need
    if not current_user.is_authenticated:
        return _signed_out()
    found: Who = current_user._get_current_object()
    if found.session is not None:
        _same_site(parts, found.session)
        if found.user.must_change and not need.before_change:
            return _must_change()
    if not found.actor.role.covers(need.role):
        _note_refusal(parts, found.actor, need.role)
        text = f"This needs the role {need.role}; you are {found.actor.role}."
        raise Problem("role", text, needed=need.role.value, role=found.actor.role.value)
    if found.session is not None and need.active:
        parts.sessions.touch(found.session, g.now_s)
    g.who = found
    return None


def _note_refusal(parts: Parts, actor: Actor, needed: Role) -> None:
    """Who tried to change what they may not is in the audit, as if the dispatcher had refused it."""
    if request.method in SAFE_METHODS:
        return
    what, detail = str(request.endpoint).removeprefix("api."), f"needs the role {needed}"
    parts.store.audit.add(
        AuditLine(
            g.now_s,
            str(actor),
            actor.source,
            actor.address,
            what,
            request.path[:SUBJECT_MAX],
            "refused",
            detail,
            token=actor.token,
        )
    )


def identify(parts: Parts, need: Need, now_s: float) -> Who | None:
    """By token when one was sent, and then by nothing else; otherwise by session."""
    sent = tokens.bearer(request)
    if sent is not None:
        bearer = tokens.find(parts.store, sent, now_s) if need.tokens else None
        if bearer is None:
            return None
        source = Source.CLI if request.headers.get(CLIENT_HEADER) == "ctl" else Source.API
        actor = Actor(
            bearer.user.name, bearer.role, source, address=address(), token=bearer.token.id
        )
        return Who(actor, bearer.user)
    session = parts.sessions.find(request, now_s) if need.sessions else None
    user = parts.store.users.find(session.user) if session is not None else None
    if session is None or user is None or user.disabled:
        return None
    return Who(Actor(user.name, user.role, Source.CONSOLE, address=address()), user, session)


def address() -> str:
    return request.remote_addr or ""


def _same_site(parts: Parts, session: Session) -> None:
    """A session's cookie is sent by other sites' pages too; the header is not."""
    if request.method in SAFE_METHODS:
        return
    same_origin()
    if not parts.sessions.csrf_matches(request, session):
        raise Problem("csrf", "The CSRF token is missing or wrong: load the page again.")


def same_origin() -> None:
    """Browsers say where a form comes from; a wrong answer is refused, none is not."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise Problem("csrf", "The request comes from another site.")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Problem("csrf", "The request comes from another site.")


def _must_change() -> Response:
    """Whoever signed in with a password that another knows does nothing else before there is one of their own."""
    if is_for_programs(request.path) or request.method not in SAFE_METHODS:
        raise Problem("change-password", "Choose a password of your own first.", at=CHANGE)
    return redirect(CHANGE, 303)  # type: ignore[return-value]


def _signed_out() -> Response:
    if is_for_programs(request.path) or request.method not in SAFE_METHODS:
        raise Problem("signed-out", "No valid session or token came with the request.")
    wanted = request.full_path.rstrip("?")
    target = "/sign-in" if wanted == "/" else f"/sign-in?next={quote(wanted, safe='/')}"
    return redirect(target, 303)  # type: ignore[return-value]
