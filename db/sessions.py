"""Browsers that are signed in."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from control.people import Session
from db.files import File
from db.kinds import first, values
from db.schema import SESSIONS


class Sessions:
    def __init__(self, file: File) -> None:
        self.file = file

    def find(self, id_hash: str) -> Session | None:
        with self.file.read() as db:
            return first(Session, db.execute(select(SESSIONS).where(SESSIONS.c.id_hash == id_hash)))

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

    def drop_before(self, active_s: float, created_s: float) -> int:
        """Those idle since before the one, or begun before the other."""
        old = (SESSIONS.c.active_s < active_s) | (SESSIONS.c.created_s < created_s)
        with self.file.write() as db:
            return db.execute(delete(SESSIONS).where(old)).rowcount

    def _change(self, id_hash: str, **changed: float) -> None:
        """One that has ended meanwhile stays ended."""
        with self.file.write() as db:
            db.execute(update(SESSIONS).where(SESSIONS.c.id_hash == id_hash).values(changed))
