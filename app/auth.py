"""Passwords: argon2 with rehash, the same work for unknown users, at most two at once, and lockout.

Whoever asks too often waits: by (user, address), with growing delays that the store keeps across a restart.
A try is counted before the password is checked, so that tries at the same time cannot slip through.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from control.people import Lockout, User
from control.ports import Store

AT_ONCE_MAX = 2
QUEUE_S = 0.5  # so long a try waits for the others to be through
FREE_TRIES = 5  # before the first delay
FIRST_DELAY_S = 2.0
DELAY_S_MAX = 900.0
FORGET_S = 86_400.0  # wrong passwords older than that no longer count
PASSWORD_LENGTH_MIN = 10
PASSWORD_LENGTH_MAX = 1_000
NAME_LENGTH_MAX = 64


class Tried(StrEnum):
    """What came of a password."""

    RIGHT = "right"
    WRONG = "wrong"  # also: no such user, user disabled
    LOCKED = "locked"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Try:
    outcome: Tried
    user: User | None = None
    wait_s: float = 0.0


def delay_s(failures: int) -> float:
    """How long to wait after so many wrong passwords in a row: 0 … 0, 2, 4, 8 … 900 s."""
    over = failures - FREE_TRIES
    return 0.0 if over < 0 else min(DELAY_S_MAX, FIRST_DELAY_S * 2.0 ** min(over, 20))


def password_fault(password: str) -> str:
    """What is wrong with a new password; empty when nothing is."""
    if len(password) < PASSWORD_LENGTH_MIN:
        return f"a password needs at least {PASSWORD_LENGTH_MIN} characters"
    if len(password) > PASSWORD_LENGTH_MAX:
        return f"a password may have {PASSWORD_LENGTH_MAX} characters"
    if len(set(password)) < 4:
        return "a password needs at least four different characters"
    return ""


class Passwords:
    """Hashes and checks them. One for each process: it holds the gate for two at once."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._gate = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._dummy = self._hasher.hash("nobody has this password")

    def hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def check(
        self,
        store: Store,
        name: str,
        password: str,
        address: str,
        now_s: float,
        *,
        renew: bool = True,
    ) -> Try:
        """Try a password. `renew`: an old hash may be made anew, which ends the user's sessions."""
        name = name[:NAME_LENGTH_MAX]
        if not self._gate.acquire(timeout=QUEUE_S):
            return Try(Tried.BUSY, wait_s=1.0)
        try:
            wait_s = _count(store, name, address, now_s)
            if wait_s > 0:
                return Try(Tried.LOCKED, wait_s=wait_s)
            user = store.users.find(name)
            if not self._matches(user, password):
                return Try(Tried.WRONG)
            assert user is not None
            store.users.keep_lockout(Lockout(name, address, 0, now_s))
            if renew:
                self._renew(store, user, password)
            return Try(Tried.RIGHT, user)
        finally:
            self._gate.release()

    def _matches(self, user: User | None, password: str) -> bool:
        """The same work whether there is such a user or not, disabled or not."""
        known = user is not None and not user.disabled
        try:
            right = self._hasher.verify(
                user.password_hash if user is not None else self._dummy,
                password[:PASSWORD_LENGTH_MAX],
            )
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
        return known and right

    def _renew(self, store: Store, user: User, password: str) -> None:
        if self._hasher.check_needs_rehash(user.password_hash):
            store.users.set_password(user.name, self._hasher.hash(password))


def _count(store: Store, name: str, address: str, now_s: float) -> float:
    """Count this try as wrong, until it turns out right; or how long it still has to wait."""
    with store.together():
        found = store.users.lockout(name, address)
        if found is not None and now_s < found.until_s <= now_s + DELAY_S_MAX:
            return found.until_s - now_s
        recent = found is not None and now_s - found.last_s < FORGET_S
        failures = (found.failures if found is not None and recent else 0) + 1
        until_s = now_s + delay_s(failures) if delay_s(failures) else 0.0
        store.users.keep_lockout(Lockout(name, address, failures, now_s, until_s))
    return 0.0
