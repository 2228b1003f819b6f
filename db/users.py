"""Users, and wrong passwords counted by user and address."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select, update

from control.errors import StoreError
from control.people import Lockout, Role, User
from db.files import File
from db.kinds import first, made, values
from db.schema import LOCKOUTS, SESSIONS, TOKENS, USERS


class Users:
    def __init__(self, file: File) -> None:
        self.file = file

    def all(self) -> list[User]:
        with self.file.read() as db:
            return made(User, db.execute(select(USERS).order_by(USERS.c.name)))

    def find(self, name: str) -> User | None:
        with self.file.read() as db:
            return first(User, db.execute(select(USERS).where(USERS.c.name == name)))

    def add(self, user: User) -> None:
        with self.file.write() as db:
            db.execute(insert(USERS).values(values(user)))

    def set_password(
        self, name: str, password_hash: str, now_s: float, *, must_change: bool = False
    ) -> None:
        """The user's sessions and tokens end with it."""
        c = TOKENS.c
        valid = (c.user == name) & c.revoked_s.is_(None) & ~c.local
        with self.file.write() as db:
            self._change(name, password_hash=password_hash, must_change=must_change)
            db.execute(delete(SESSIONS).where(SESSIONS.c.user == name))
            db.execute(update(TOKENS).where(valid).values(revoked_s=now_s))

    def rehash(self, name: str, password_hash: str) -> None:
        """The same password, hashed anew."""
        self._change(name, password_hash=password_hash)

    def set_role(self, name: str, role: Role) -> None:
        self._change(name, role=role)

    def set_disabled(self, name: str, disabled: bool) -> None:
        """A disabled user's sessions end."""
        with self.file.write() as db:
            self._change(name, disabled=disabled)
            if disabled:
                db.execute(delete(SESSIONS).where(SESSIONS.c.user == name))

    def seen(self, name: str, now_s: float) -> None:
        self._change(name, seen_s=now_s)

    def lockout(self, user: str, address: str, device: str = "") -> Lockout | None:
        with self.file.read() as db:
            return first(
                Lockout, db.execute(select(LOCKOUTS).where(_counted(user, address, device)))
            )

    def keep_lockout(self, lockout: Lockout) -> None:
        wanted = _counted(lockout.user, lockout.address, lockout.device)
        with self.file.write() as db:
            db.execute(delete(LOCKOUTS).where(wanted))
            db.execute(insert(LOCKOUTS).values(values(lockout)))

    def forget_lockout(self, user: str, address: str, device: str = "") -> None:
        with self.file.write() as db:
            db.execute(delete(LOCKOUTS).where(_counted(user, address, device)))

    def unlock(self, user: str) -> int:
        """With what is counted by address alone, which would keep the user out too."""
        with self.file.write() as db:
            wanted = LOCKOUTS.c.user.in_((user, ""))
            return db.execute(delete(LOCKOUTS).where(wanted)).rowcount

    def _change(self, name: str, **changed: Any) -> None:
        with self.file.write() as db:
            if not db.execute(update(USERS).where(USERS.c.name == name).values(changed)).rowcount:
                raise StoreError(f"no user {name!r}", hint="run.py user list", again=False)


def _counted(user: str, address: str, device: str) -> ColumnElement[bool]:
    c = LOCKOUTS.c
    return (c.user == user) & (c.address == address) & (c.device == device)
