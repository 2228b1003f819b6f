"""The audit log: lines are added and read. Triggers in the file refuse anything else."""

from __future__ import annotations

from sqlalchemy import insert

from control.people import AuditLine
from db.files import File
from db.kinds import made, values
from db.pages import page
from db.schema import AUDIT


class Audit:
    def __init__(self, file: File) -> None:
        self.file = file

    def add(self, line: AuditLine) -> None:
        """Numbered here, whatever its `id` says."""
        with self.file.write() as db:
            db.execute(insert(AUDIT).values(values(line, "id")))

    def page(
        self,
        *,
        before: int | None = None,
        most: int = 100,
        user: str = "",
        what: str = "",
        subject: str = "",
    ) -> list[AuditLine]:
        chosen = page(AUDIT, before, most, user=user, what=what, subject=subject)
        with self.file.read() as db:
            return made(AuditLine, db.execute(chosen))
