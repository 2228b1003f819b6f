"""Registered queries: what they should be, and what the engine says of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from control.errors import StoreError
from control.ledger import Json, QueryRow, Wanted
from db.files import File
from db.kinds import first, made, values
from db.schema import QUERIES


class Queries:
    def __init__(self, file: File) -> None:
        self.file = file

    def all(self) -> list[QueryRow]:
        with self.file.read() as db:
            return made(QueryRow, db.execute(select(QUERIES).order_by(QUERIES.c.name)))

    def find(self, name: str) -> QueryRow | None:
        with self.file.read() as db:
            return first(QueryRow, db.execute(select(QUERIES).where(QUERIES.c.name == name)))

    def add(self, row: QueryRow) -> None:
        with self.file.write() as db:
            db.execute(insert(QUERIES).values(values(row)))

    def drop(self, name: str) -> bool:
        with self.file.write() as db:
            return bool(db.execute(delete(QUERIES).where(QUERIES.c.name == name)).rowcount)

    def want(self, name: str, wanted: Wanted) -> None:
        if not self._change(name, wanted=wanted):
            raise StoreError(f"no query {name!r}", again=False)

    def set_nodes(self, name: str, nodes: int) -> None:
        if not self._change(name, nodes=nodes):
            raise StoreError(f"no query {name!r}", again=False)

    def told(self, name: str, state: str, error: str, about: Json, now_s: float) -> None:
        """What the engine says of a query that was unregistered meanwhile is not kept."""
        self._change(name, state=state, error=error, about=about, told_s=now_s)

    def _change(self, name: str, **changed: Any) -> bool:
        with self.file.write() as db:
            done = db.execute(update(QUERIES).where(QUERIES.c.name == name).values(changed))
            return bool(done.rowcount)
