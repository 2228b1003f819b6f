"""Alerts: one open line for each condition and subject, ended when it is over."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select, update

from control.ledger import Alert
from db.files import File
from db.kinds import made
from db.pages import page
from db.schema import ALERTS

OPEN = ALERTS.c.until_s.is_(None)


class Alerts:
    def __init__(self, file: File) -> None:
        self.file = file

    def open(self) -> list[Alert]:
        chosen = select(ALERTS).where(OPEN).order_by(ALERTS.c.since_s, ALERTS.c.id)
        with self.file.read() as db:
            return made(Alert, db.execute(chosen))

    def page(self, *, before: int | None = None, most: int = 100) -> list[Alert]:
        with self.file.read() as db:
            return made(Alert, db.execute(page(ALERTS, before, most)))

    def raised(self, kind: str, subject: str, text: str, now_s: float) -> bool:
        """Open it, or say that it lasts; True when it is new."""
        with self.file.write() as db:
            wanted = _open(kind, subject)
            lasts = {"text": text, "last_s": now_s}
            if db.execute(update(ALERTS).where(wanted).values(lasts)).rowcount:
                return False
            new = {"kind": kind, "subject": subject, "since_s": now_s, "silenced_until_s": 0.0}
            db.execute(insert(ALERTS).values(**new, **lasts))
            return True

    def said(self, kind: str, subject: str, text: str) -> None:
        """Another text for an open alert whose condition does not hold at the moment."""
        self._change(_open(kind, subject) & (ALERTS.c.text != text), text=text)

    def ended(self, kind: str, subject: str, now_s: float) -> bool:
        return self._change(_open(kind, subject), until_s=now_s)

    def acknowledge(self, id: int, user: str) -> bool:
        return self._change(ALERTS.c.id == id, acknowledged_by=user)

    def silence(self, id: int, until_s: float) -> bool:
        return self._change(ALERTS.c.id == id, silenced_until_s=until_s)

    def _change(self, wanted: Any, **changed: Any) -> bool:
        with self.file.write() as db:
            return bool(db.execute(update(ALERTS).where(wanted).values(changed)).rowcount)


def _open(kind: str, subject: str) -> Any:
    return OPEN & (ALERTS.c.kind == kind) & (ALERTS.c.subject == subject)
