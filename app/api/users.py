"""/users, /tokens and /sessions. Passwords come in here and nowhere else, and go on as hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import tokens
from app.api.about import check_password
from app.api.schema import BOOL, name, number, obj, one_of, page, text
from app.api.shapes import schema_of, shown
from app.api.table import DONE, Call, Route
from app.password_rules import LENGTH_MAX, password_fault
from app.plain import own_fault
from app.problems import Problem
from control.people import Role, Token, User

HIDDEN = ("password_hash",)
PASSWORD = {**text(LENGTH_MAX, 1), "format": "password"}
USER = schema_of(User, HIDDEN)
TOKEN = schema_of(Token, ("sha256",), mine_now=BOOL)
SESSION = obj(
    {
        "id": text(), "created_s": number(), "active_s": number(), "address": text(), "agent": text(400),
        "mine_now": BOOL,
    }
)  # fmt: skip


def listed(call: Call) -> dict[str, Any]:
    return {"items": [shown(user, HIDDEN) for user in call.store.users.all()], "next": None}


def _hashed(call: Call, user: str) -> str:
    password = call.body["password"]
    if fault := password_fault(password, user):
        raise Problem("invalid", f"body.password: {fault}")
    return call.parts.passwords.hash(password)


def added(call: Call) -> dict[str, Any]:
    body = {"name": call.body["name"], "role": call.body["role"], "password_hash": ""}
    body["password_hash"] = _hashed(call, body["name"])
    return call.do("user.add", body)


def role(call: Call) -> dict[str, Any]:
    return call.do("user.role", {"name": call.path["name"], "role": call.body["role"]})


def password(call: Call) -> dict[str, Any]:
    return call.do(
        "user.password",
        {"name": call.path["name"], "password_hash": _hashed(call, call.path["name"])},
    )


def own_password(call: Call) -> dict[str, Any]:
    """All sessions of the user end with it, this one too."""
    new, now = call.body["password"], call.body["current"]
    if fault := own_fault(call.actor.user, now, new, new):
        raise Problem("invalid", f"body.password: {fault}")
    check_password(call, now, "password")
    return call.do("password", {"password_hash": call.parts.passwords.hash(new)})


def _named(kind: str) -> Any:
    def tell(call: Call) -> dict[str, Any]:
        return call.do(kind, {"name": call.path["name"]})

    return tell


def own_tokens(call: Call) -> dict[str, Any]:
    return _tokens(call, call.store.tokens.of(call.actor.user))


def all_tokens(call: Call) -> dict[str, Any]:
    return _tokens(call, call.store.tokens.all())


def _tokens(call: Call, rows: Sequence[Token]) -> dict[str, Any]:
    items = [{**shown(row, ("sha256",)), "mine_now": row.id == call.actor.token} for row in rows]
    return {"items": items, "next": None}


def own_sessions(call: Call) -> dict[str, Any]:
    """The cookie of each is known to its browser alone: `id` is its SHA-256."""
    here = _session_id(call)
    rows = call.parts.sessions.of(call.actor.user, call.now_s)
    items = [
        {
            "id": row.id_hash,
            "created_s": row.created_s,
            "active_s": row.active_s,
            "address": row.address,
            "agent": row.agent,
            "mine_now": row.id_hash == here,
        }
        for row in rows
    ]
    return {"items": items, "next": None}


def session_ended(call: Call) -> dict[str, Any]:
    return call.do("session.end", {"session": call.path["id"]})


def others_ended(call: Call) -> dict[str, Any]:
    return call.do("session.others", {"session": _session_id(call)})


def _session_id(call: Call) -> str:
    return call.who.session.id_hash if call.who.session is not None else ""


def token_added(call: Call) -> dict[str, Any]:
    """The token itself is in this answer and nowhere else."""
    plain, digest = tokens.made()
    done = call.do("token.add", {**call.body, "sha256": digest})
    return {**done, "token": plain}


def token_revoked(call: Call) -> dict[str, Any]:
    return call.do("token.revoke", {"token": call.path["id"]})


def _post(verb: str, help: str, handle: Any, body: Any = None) -> Route:
    path = f"/users/{{name}}/{verb}"
    return Route(
        "POST", path, f"user_{verb}", Role.ADMIN, help, handle, DONE, body=body, confirm=True
    )


NAME = name("letters, digits and . _ @ -")
ROUTES = (
    Route("GET", "/users", "users", Role.ADMIN, "every user", listed, page(USER)),
    Route(
        "POST", "/users", "user_add", Role.ADMIN, "a new user", added, DONE, confirm=True,
        body=obj({"name": NAME, "role": one_of(Role), "password": PASSWORD}),
    ),
    _post("role", "another role", role, obj({"role": one_of(Role)})),
    _post("disable", "end sessions, refuse sign-in", _named("user.disable")),
    _post("enable", "let sign in again", _named("user.enable")),
    _post("unlock", "forget wrong passwords", _named("user.unlock")),
    _post("password", "a new password; ends sessions and tokens", password, obj({"password": PASSWORD})),
    Route(
        "POST", "/session/password", "session_password", Role.VIEWER,
        "another password of one's own; ends all one's sessions and tokens", own_password, DONE,
        body=obj({"current": PASSWORD, "password": PASSWORD}), tokens=False, before_change=True,
    ),
    Route("GET", "/sessions", "sessions", Role.VIEWER, "where one is signed in", own_sessions, page(SESSION)),
    Route("DELETE", "/sessions/{id}", "session_drop", Role.VIEWER, "end one of one's own", session_ended, DONE),
    Route(
        "POST", "/sessions/end-others", "session_others", Role.VIEWER,
        "end all one's sessions but the one that asks", others_ended, DONE,
    ),
    Route("GET", "/tokens", "tokens", Role.VIEWER, "one's own tokens", own_tokens, page(TOKEN)),
    Route("GET", "/tokens/all", "tokens_all", Role.ADMIN, "everybody's tokens", all_tokens, page(TOKEN)),
    Route(
        "POST", "/tokens", "token_add", Role.VIEWER,
        "a token of one's own, not with a token; it is shown only in this answer", token_added,
        obj({**DONE["properties"], "token": text()}), confirm=True,
        body=obj({"name": name(), "scope": one_of(Role)}, {"expires_s": number(0, 1e11)}),
    ),
    Route(
        "DELETE", "/tokens/{id}", "token_revoke", Role.VIEWER, "end one; admins: anybody's", token_revoked,
        DONE,
    ),
)  # fmt: skip
