"""Passwords: argon2 with rehash, the same work for unknown users, at most two at once, and lockout.

Wrong passwords are counted in two ways, both in the store, so that a restart forgets nothing:

- by user and address, with growing delays. A browser that has signed in before as this user is known by a cookie
  (sessions.py) and counted by itself, as is a session that is asked for its password again: whoever tries passwords from
  an address that many share does not lock out those who are known.
- by address, whoever is named: ADDRESS_TRIES at once and one every ADDRESS_EACH_S from then on, so that one password
  cannot be tried on many users.

A try is counted before the password is checked, so that tries at the same time cannot slip through.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import StrEnum

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from app.password_rules import LENGTH_MAX
from control.people import Lockout, User
from control.ports import Store

AT_ONCE_MAX = 2
QUEUE_S = 0.5  # so long a try waits for the others to be through
FREE_TRIES = 5  # before the first delay
FIRST_DELAY_S = 2.0
DELAY_S_MAX = 900.0
FORGET_S = 86_400.0  # wrong passwords older than that no longer count
ADDRESS_TRIES = 30  # wrong ones from one address, before it waits
ADDRESS_EACH_S = 60.0  # and then one in so long
NAME_LENGTH_MAX = 64
ANYBODY = ""  # the user of a lockout that counts whoever was named


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
        device: str = "",
    ) -> Try:
        """Try a password. `device`: what a known browser or session is counted by, in place of its address."""
        name = name[:NAME_LENGTH_MAX]
        if not self._gate.acquire(timeout=QUEUE_S):
            return Try(Tried.BUSY, wait_s=1.0)
        try:
            counts = _Counts(store, name, "" if device else address, device)
            if (wait_s := counts.count(now_s)) > 0:
                return Try(Tried.LOCKED, wait_s=wait_s)
            user = store.users.find(name)
            if not self._matches(user, password):
                return Try(Tried.WRONG)
            assert user is not None
            counts.take_back()
            self._rehash(store, user, password)
            return Try(Tried.RIGHT, user)
        finally:
            self._gate.release()

    def _matches(self, user: User | None, password: str) -> bool:
        """The same work whether there is such a user or not, disabled or not."""
        known = user is not None and not user.disabled
        try:
            right = self._hasher.verify(
                user.password_hash if user is not None else self._dummy,
                password[:LENGTH_MAX],
            )
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
        return known and right

    def _rehash(self, store: Store, user: User, password: str) -> None:
        if self._hasher.check_needs_rehash(user.password_hash):
            store.users.rehash(user.name, self._hasher.hash(password))


@dataclass(frozen=True, slots=True)
class _Counts:
    """What one try is counted by."""

    store: Store
    name: str
    address: str
    device: str

    def count(self, now_s: float) -> float:
        """Count this try as wrong, until it turns out right; or how long it still has to wait."""
        with self.store.together():
            own = self._own(now_s)
            if (wait_s := max(own[0], self._of_address(now_s)[0])) > 0:
                return wait_s
            self.store.users.keep_lockout(own[1])
            if self.address and self.name != ANYBODY:
                self.store.users.keep_lockout(self._of_address(now_s)[1])
        return 0.0

    def take_back(self) -> None:
        """It was right: the user's count begins anew, the address gets this one try back."""
        with self.store.together():
            self.store.users.forget_lockout(self.name, self.address, self.device)
            found = self.store.users.lockout(ANYBODY, self.address) if self.address else None
            if found is not None:
                until_s = found.until_s - ADDRESS_EACH_S
                fewer = replace(found, failures=max(0, found.failures - 1), until_s=until_s)
                self.store.users.keep_lockout(fewer)

    def _own(self, now_s: float) -> tuple[float, Lockout]:
        """Of the user at this address, or at this known browser: growing delays."""
        if self.name == ANYBODY:  # nobody was named: that is counted by address
            return self._of_address(now_s)
        found = self.store.users.lockout(self.name, self.address, self.device)
        if found is not None and now_s < found.until_s <= now_s + DELAY_S_MAX:
            return found.until_s - now_s, found
        recent = found is not None and now_s - found.last_s < FORGET_S
        failures = (found.failures if found is not None and recent else 0) + 1
        until_s = now_s + delay_s(failures) if delay_s(failures) else 0.0
        return 0.0, Lockout(self.name, self.address, failures, now_s, until_s, self.device)

    def _of_address(self, now_s: float) -> tuple[float, Lockout]:
        """Of everybody at this address: each wrong try is owed for ADDRESS_EACH_S, and so many may be owed at once.
        `until_s` is when nothing is owed any more."""
        most_s = ADDRESS_TRIES * ADDRESS_EACH_S
        found = self.store.users.lockout(ANYBODY, self.address) if self.address else None
        owed_s = max(0.0, found.until_s - now_s) if found is not None else 0.0
        if owed_s > most_s:  # more than can be owed: the clock was set back
            owed_s = 0.0
        failures = found.failures if found is not None and owed_s > 0 else 0
        until_s = now_s + owed_s + ADDRESS_EACH_S
        more = Lockout(ANYBODY, self.address, failures + 1, now_s, until_s)
        return max(0.0, owed_s + ADDRESS_EACH_S - most_s), more
