"""Bearer tokens: made here, stored as SHA-256, each with a scope that is never above its user's role."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from flask import Request

from app.sessions import sha256
from control.people import Role, Token, User
from control.ports import Store

PREFIX = "spw_"
NOTE_S = 60.0  # use is noted at most so often
LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token that is good now: whose, and what it may do."""

    token: Token
    user: User
    role: Role


def made() -> tuple[str, str]:
    """A new token, and its SHA-256."""
    plain = PREFIX + secrets.token_urlsafe(32)
    return plain, sha256(plain)


def lower(one: Role, other: Role) -> Role:
    return one if other.covers(one) else other


def bearer(request: Request) -> str | None:
    """What the Authorization header brings; None when there is none."""
    sent = request.headers.get("Authorization")
    if sent is None:
        return None
    scheme, _, token = sent.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def find(store: Store, plain: str, now_s: float) -> Bearer | None:
    """Whose token this is, unless it was revoked, has expired, or its user is disabled."""
    token = store.tokens.find(sha256(plain)) if 0 < len(plain) <= LENGTH_MAX else None
    if token is None or token.revoked_s is not None:
        return None
    if token.expires_s is not None and now_s >= token.expires_s:
        return None
    user = store.users.find(token.user)
    if user is None or user.disabled:
        return None
    if token.used_s is None or now_s - token.used_s >= NOTE_S:
        store.tokens.used(token.id, now_s)
    return Bearer(token, user, lower(token.scope, user.role))
