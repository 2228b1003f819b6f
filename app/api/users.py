"""/users and /tokens. Passwords come in here and nowhere else, and go on as hashes."""

from __future__ import annotations

from typing import Any

from app import tokens
from app.api.about import check_password
from app.api.schema import BOOL, name, number, obj, one_of, page, text
from app.api.shapes import schema_of, shown
from app.api.table import DONE, Call, Route
from app.auth import PASSWORD_LENGTH_MAX, password_fault
from app.problems import Problem
from control.people import Role, Token, User

HIDDEN = ("password_hash",)
PASSWORD = {**text(PASSWORD_LENGTH_MAX, 1), "format": "password"}
USER = schema_of(User, HIDDEN)
TOKEN = schema_of(Token, ("sha256",), mine_now=BOOL)


def listed(call: Call) -> dict[str, Any]:
    return {"items": [shown(user, HIDDEN) for user in call.store.users.all()], "next": None}


def _hashed(call: Call) -> str:
    password = call.body["password"]
    if fault := password_fault(password):
        raise Problem("invalid", f"body.password: {fault}")
    return call.parts.passwords.hash(password)


def added(call: Call) -> dict[str, Any]:
    body = {"name": call.body["name"], "role": call.body["role"], "password_hash": _hashed(call)}
    return call.do("user.add", body)


def role(call: Call) -> dict[str, Any]:
    return call.do("user.role", {"name": call.path["name"], "role": call.body["role"]})


def password(call: Call) -> dict[str, Any]:
    return call.do("user.password", {"name": call.path["name"], "password_hash": _hashed(call)})


def own_password(call: Call) -> dict[str, Any]:
    """All sessions of the user end with it, this one too."""
    check_password(call, call.body["current"], "password")
    return call.do("password", {"password_hash": _hashed(call)})


def _named(kind: str) -> Any:
    def tell(call: Call) -> dict[str, Any]:
        return call.do(kind, {"name": call.path["name"]})

    return tell


def own_tokens(call: Call) -> dict[str, Any]:
    rows = call.store.tokens.of(call.actor.user)
    items = [{**shown(row, ("sha256",)), "mine_now": row.id == call.who.token} for row in rows]
    return {"items": items, "next": None}


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
    _post("password", "a new password; ends sessions", password, obj({"password": PASSWORD})),
    Route(
        "POST", "/session/password", "session_password", Role.VIEWER,
        "another password of one's own; ends all one's sessions", own_password, DONE,
        body=obj({"current": PASSWORD, "password": PASSWORD}), tokens=False,
    ),
    Route("GET", "/tokens", "tokens", Role.VIEWER, "one's own tokens", own_tokens, page(TOKEN)),
    Route(
        "POST", "/tokens", "token_add", Role.VIEWER,
        "a token of one's own; it is shown only in this answer", token_added,
        obj({**DONE["properties"], "token": text()}), confirm=True,
        body=obj({"name": name(), "scope": one_of(Role)}, {"expires_s": number(0, 1e11)}),
    ),
    Route(
        "DELETE", "/tokens/{id}", "token_revoke", Role.VIEWER, "end one", token_revoked, DONE
    ),
)  # fmt: skip
