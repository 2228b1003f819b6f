"""Users, tokens and sessions. Passwords and tokens come as hashes: nothing here, nor in the audit, knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from control.handling.base import Handler, Ports, missing
from control.kinds import Answer, Asked, Status
from control.people import Role, Source, Token, User

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
HEX = re.compile(r"[0-9a-f]{64}")
DAY_S = 86_400.0
SKEW_S = 60.0  # by so much a client's clock may be ahead when it asks for the longest life


def add(ports: Ports, asked: Asked) -> Answer:
    name, role = asked.body["name"], _role(asked.body["role"])
    if not NAME.fullmatch(name):
        return Answer(Status.INVALID, "a user's name has letters, digits and . _ @ -, 64 at most")
    if role is None:
        return _no_role(asked.body["role"])
    if ports.store.users.find(name) is not None:
        return Answer(Status.CONFLICT, f"there is a user {name!r} already")
    user = User(
        name,
        role,
        asked.body["password_hash"],
        False,
        asked.now_s,
        must_change=_chosen_by_another(asked, name),
    )
    ports.store.users.add(user)
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
    ports.store.users.set_password(
        name,
        asked.body["password_hash"],
        asked.now_s,
        must_change=_chosen_by_another(asked, name),
    )
    return Answer(Status.ACCEPTED, f"{name} has a new password", name)


def own_password(ports: Ports, asked: Asked) -> Answer:
    """Whoever asks has said the one that was good until now: app/ sees to that."""
    name = asked.actor.user
    if ports.store.users.find(name) is None:
        return missing("user", name)
    ports.store.users.set_password(name, asked.body["password_hash"], asked.now_s)
    return Answer(Status.ACCEPTED, f"{name} has a new password", name)


def unlock(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["name"]
    count = ports.store.users.unlock(name)
    return Answer(Status.ACCEPTED, f"wrong passwords of {name} forgotten ({count} addresses)", name)


def add_token(ports: Ports, asked: Asked) -> Answer:
    """Of one's own, and never more than one may do oneself."""
    scope = _role(asked.body["scope"])
    if scope is not None and not asked.actor.role.covers(scope):
        return Answer(Status.FORBIDDEN, f"a token cannot be {scope}; {asked.actor.user} is not")
    return _token_added(ports, asked, asked.actor.user, asked.body["name"])


def add_token_for(ports: Ports, asked: Asked) -> Answer:
    """For any user, by whoever can write to the store anyway: run.py user, on the machine itself."""
    if asked.actor.source is not Source.CLI:
        return Answer(Status.FORBIDDEN, "only run.py user does this, on the machine itself")
    owner = ports.store.users.find(asked.body["name"])
    if owner is None:
        return missing("user", asked.body["name"])
    scope = _role(asked.body["scope"])
    if scope is not None and not owner.role.covers(scope):
        return Answer(Status.FORBIDDEN, f"a token cannot be {scope}; {owner.name} is not")
    return _token_added(ports, asked, owner.name, asked.body["label"])


def _token_added(ports: Ports, asked: Asked, owner: str, name: str) -> Answer:
    scope, sha256 = _role(asked.body["scope"]), asked.body["sha256"]
    if scope is None:
        return _no_role(asked.body["scope"])
    if not HEX.fullmatch(sha256) or not 0 < len(name) <= 64:
        return Answer(Status.INVALID, "a token has a name of 1 to 64 letters and a SHA-256")
    last_s = asked.now_s + ports.token_s
    expires_s = float(asked.body.get("expires_s", last_s))
    if expires_s <= asked.now_s:
        return Answer(Status.INVALID, "the token would have expired already")
    if expires_s > last_s + SKEW_S:
        days = ports.token_s / DAY_S
        text = f"a token lives {days:g} days at most (setting token_days)"
        return Answer(Status.INVALID, text)
    id = ports.id(asked.now_s)
    token = Token(id, owner, name, sha256, scope, asked.now_s, min(expires_s, last_s))
    ports.store.tokens.add(token)
    return Answer(Status.ACCEPTED, "added", id)


def revoke(ports: Ports, asked: Asked) -> Answer:
    """One's own; an admin ends anybody's."""
    id, actor = asked.body["token"], asked.actor
    token = ports.store.tokens.named(id)
    if token is None or (token.user != actor.user and actor.role is not Role.ADMIN):
        return missing("token of yours", id)
    ports.store.tokens.revoke(id, asked.now_s)
    return Answer(Status.ACCEPTED, f"revoked: {token.name} of {token.user}", id)


def end_session(ports: Ports, asked: Asked) -> Answer:
    id = asked.body["session"]
    if not any(session.id_hash == id for session in ports.store.sessions.of(asked.actor.user)):
        return missing("session of yours", id)
    ports.store.sessions.end(id)
    return Answer(Status.ACCEPTED, "the session has ended", id)


def end_other_sessions(ports: Ports, asked: Asked) -> Answer:
    """All of one's own but the one that is named."""
    count = ports.store.sessions.end_others(asked.actor.user, asked.body.get("session", ""))
    ended = "1 other session" if count == 1 else f"{count} other sessions"
    return Answer(Status.ACCEPTED, f"{ended} ended", asked.actor.user)


def _chosen_by_another(asked: Asked, name: str) -> bool:
    """Whether the user must choose a password anew: another person knows this one. At the command line on the
    machine itself it is most often the user who types it."""
    return asked.actor.user != name and asked.actor.source is not Source.CLI


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
    "user.token": add_token_for,
    "token.revoke": revoke,
    "session.end": end_session,
    "session.others": end_other_sessions,
}
