"""Users and tokens. Passwords and tokens come as hashes: nothing here, nor in the audit, knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from control.handling.base import Handler, Ports, missing
from control.kinds import Answer, Asked, Status
from control.people import Role, Token, User

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
HEX = re.compile(r"[0-9a-f]{64}")


def add(ports: Ports, asked: Asked) -> Answer:
    name, role = asked.body["name"], _role(asked.body["role"])
    if not NAME.fullmatch(name):
        return Answer(Status.INVALID, "a user's name has letters, digits and . _ @ -, 64 at most")
    if role is None:
        return _no_role(asked.body["role"])
    if ports.store.users.find(name) is not None:
        return Answer(Status.CONFLICT, f"there is a user {name!r} already")
    ports.store.users.add(User(name, role, asked.body["password_hash"], False, asked.now_s))
    return Answer(Status.ACCEPTED, "added", name)


def change_role(ports: Ports, asked: Asked) -> Answer:
    name, role = asked.body["name"], _role(asked.body["role"])
    if role is None:
        return _no_role(asked.body["role"])
    if ports.store.users.find(name) is None:
        return missing("user", name)
    if role is not Role.ADMIN and _last_admin(ports, name):
        return Answer(Status.REFUSED, f"{name} is the last admin who can sign in")
    ports.store.users.set_role(name, role)
    return Answer(Status.ACCEPTED, f"{name} is {role} now", name)


def disable(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["name"]
    if ports.store.users.find(name) is None:
        return missing("user", name)
    if _last_admin(ports, name):
        return Answer(Status.REFUSED, f"{name} is the last admin who can sign in")
    ports.store.users.set_disabled(name, True)
    return Answer(Status.ACCEPTED, f"{name} cannot sign in any more", name)


def enable(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["name"]
    if ports.store.users.find(name) is None:
        return missing("user", name)
    ports.store.users.set_disabled(name, False)
    return Answer(Status.ACCEPTED, f"{name} can sign in", name)


def password(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["name"]
    if ports.store.users.find(name) is None:
        return missing("user", name)
    ports.store.users.set_password(name, asked.body["password_hash"])
    return Answer(Status.ACCEPTED, f"{name} has a new password", name)


def own_password(ports: Ports, asked: Asked) -> Answer:
    """Whoever asks has said the one that was good until now: app/ sees to that."""
    name = asked.actor.user
    if ports.store.users.find(name) is None:
        return missing("user", name)
    ports.store.users.set_password(name, asked.body["password_hash"])
    return Answer(Status.ACCEPTED, f"{name} has a new password", name)


def unlock(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["name"]
    count = ports.store.users.unlock(name)
    return Answer(Status.ACCEPTED, f"wrong passwords of {name} forgotten ({count} addresses)", name)


def add_token(ports: Ports, asked: Asked) -> Answer:
    """Of one's own, and never more than one may do oneself."""
    scope = _role(asked.body["scope"])
    if scope is None:
        return _no_role(asked.body["scope"])
    if not HEX.fullmatch(asked.body["sha256"]) or not 0 < len(asked.body["name"]) <= 64:
        return Answer(Status.INVALID, "a token has a name of 1 to 64 letters and a SHA-256")
    if not asked.actor.role.covers(scope):
        return Answer(Status.FORBIDDEN, f"a token cannot be {scope}; {asked.actor.user} is not")
    expires = asked.body.get("expires_s")
    if expires is not None and expires <= asked.now_s:
        return Answer(Status.INVALID, "the token would have expired already")
    id = ports.id(asked.now_s)
    ports.store.tokens.add(
        Token(
            id,
            asked.actor.user,
            asked.body["name"],
            asked.body["sha256"],
            scope,
            asked.now_s,
            expires,
        )
    )
    return Answer(Status.ACCEPTED, "added", id)


def revoke(ports: Ports, asked: Asked) -> Answer:
    id = asked.body["token"]
    if not any(token.id == id for token in ports.store.tokens.of(asked.actor.user)):
        return missing("token of yours", id)
    ports.store.tokens.revoke(id, asked.now_s)
    return Answer(Status.ACCEPTED, "revoked", id)


def _role(text: str) -> Role | None:
    return Role(text) if text in list(Role) else None


def _no_role(text: str) -> Answer:
    return Answer(Status.INVALID, f"no role {text!r}: one of {', '.join(Role)}")


def _last_admin(ports: Ports, name: str) -> bool:
    admins = {u.name for u in ports.store.users.all() if u.role is Role.ADMIN and not u.disabled}
    return admins == {name}


HANDLERS: Mapping[str, Handler] = {
    "user.add": add,
    "user.role": change_role,
    "user.disable": disable,
    "user.enable": enable,
    "user.password": password,
    "password": own_password,
    "user.unlock": unlock,
    "token.add": add_token,
    "token.revoke": revoke,
}
