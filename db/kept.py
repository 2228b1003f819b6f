"""Single values by name."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select, update

from db.files import File
from db.schema import KEPT


class Kept:
    def __init__(self, file: File) -> None:
        self.file = file

    def get(self, name: str) -> Any:
        """JSON; None when there is none."""
        with self.file.read() as db:
            return db.execute(select(KEPT.c.value).where(KEPT.c.name == name)).scalar()

    def put(self, name: str, value: Any) -> None:
        with self.file.write() as db:
            wanted = KEPT.c.name == name
            if not db.execute(update(KEPT).where(wanted).values(value=value)).rowcount:
                db.execute(insert(KEPT).values(name=name, value=value))
