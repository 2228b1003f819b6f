"""Browsers that are signed in."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from control.people import Session
from db.files import File
from db.kinds import first, made, values
from db.schema import SESSIONS


class Sessions:
    def __init__(self, file: File) -> None:
        self.file = file

    def find(self, id_hash: str) -> Session | None:
        with self.file.read() as db:
            return first(Session, db.execute(select(SESSIONS).where(SESSIONS.c.id_hash == id_hash)))

    def of(self, user: str) -> list[Session]:
        wanted = select(SESSIONS).where(SESSIONS.c.user == user)
        with self.file.read() as db:
            order = (SESSIONS.c.active_s.desc(), SESSIONS.c.id_hash)
            return made(Session, db.execute(wanted.order_by(*order)))

    def add(self, session: Session) -> None:
        with self.file.write() as db:
            db.execute(insert(SESSIONS).values(values(session)))

    def touch(self, id_hash: str, active_s: float) -> None:
        self._change(id_hash, active_s=active_s)

    def confirm(self, id_hash: str, confirmed_s: float) -> None:
        self._change(id_hash, confirmed_s=confirmed_s)

    def end(self, id_hash: str) -> None:
        with self.file.write() as db:
            db.execute(delete(SESSIONS).where(SESSIONS.c.id_hash == id_hash))

    def end_others(self, user: str, id_hash: str) -> int:
        others = (SESSIONS.c.user == user) & (SESSIONS.c.id_hash != id_hash)
        with self.file.write() as db:
            return db.execute(delete(SESSIONS).where(others)).rowcount

    def drop_before(self, active_s: float, created_s: float) -> int:
        """Those idle since before the one, or begun before the other."""
        old = (SESSIONS.c.active_s < active_s) | (SESSIONS.c.created_s < created_s)
        with self.file.write() as db:
            return db.execute(delete(SESSIONS).where(old)).rowcount

    def _change(self, id_hash: str, **changed: float) -> None:
        """One that has ended meanwhile stays ended."""
        with self.file.write() as db:
            db.execute(update(SESSIONS).where(SESSIONS.c.id_hash == id_hash).values(changed))
