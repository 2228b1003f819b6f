"""Actions as the engine last told them. The engine's commits are the truth, these rows a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, insert, select, tuple_, update

from control.actions import FINAL, State
from control.ledger import ActionRow, Used
from db.files import File
from db.kinds import first, made, values
from db.pages import bounded, seq_of
from db.schema import ACTIONS

KEPT_IF_EMPTY = ("predicted", "actual", "receipt", "command", "rule")
LOCAL = "local"  # whose own spills: no coordinator decided them


class Actions:
    def __init__(self, file: File) -> None:
        self.file = file

    def keep(self, rows: Sequence[ActionRow]) -> None:
        """Insert, or replace what the engine tells. What it does not tell (predictions, who asked) stays."""
        if not rows:
            return
        with self.file.write() as db:
            ids = [row.id for row in rows]
            there = set(db.execute(select(ACTIONS.c.id).where(ACTIONS.c.id.in_(ids))).scalars())
            for row in rows:
                told = values(row)
                if row.id not in there:
                    db.execute(insert(ACTIONS).values(told))
                    there.add(row.id)
                    continue
                told = {n: v for n, v in told.items() if v or n not in KEPT_IF_EMPTY}
                db.execute(update(ACTIONS).where(ACTIONS.c.id == row.id).values(told))

    def find(self, id: str) -> ActionRow | None:
        with self.file.read() as db:
            return first(ActionRow, db.execute(select(ACTIONS).where(ACTIONS.c.id == id)))

    def page(
        self,
        *,
        before: str | None = None,
        most: int = 100,
        query: str = "",
        state: str = "",
        since_s: float = 0.0,
    ) -> list[ActionRow]:
        """Newest first, by when they began."""
        c = ACTIONS.c
        wanted: list[ColumnElement[bool]] = [c.started_s >= since_s] if since_s else []
        wanted += [c.query == query] if query else []
        wanted += [c.state == state] if state else []
        if before is not None:
            began = select(c.started_s).where(c.id == before).scalar_subquery()
            cursor = tuple_(began, seq_of(ACTIONS, before))
            wanted.append(tuple_(c.started_s, c.seq) < cursor)
        chosen = select(ACTIONS).where(*wanted).order_by(c.started_s.desc(), c.seq.desc())
        return self._made(chosen.limit(bounded(most)))

    def asked(
        self,
        *,
        before: str | None = None,
        most: int = 100,
        query: str = "",
        state: str = "",
        ruled: bool | None = None,
    ) -> list[ActionRow]:
        """What people and rules asked for, newest command first: nodes' own spills, many times as many, are not
        even looked at, because ids sort by time and theirs begin with another letter."""
        c = ACTIONS.c
        wanted: list[ColumnElement[bool]] = [c.id < (before if before is not None else f"{LOCAL}-")]
        wanted += [c.query == query] if query else []
        wanted += [c.state == state] if state else []
        wanted += [] if ruled is None else [c.rule != "" if ruled else c.rule == ""]
        return self._made(select(ACTIONS).where(*wanted).order_by(c.id.desc()).limit(bounded(most)))

    def running(self) -> list[ActionRow]:
        going = [state.value for state in State if state not in FINAL]
        wanted = select(ACTIONS).where(ACTIONS.c.state.in_(going))
        return self._made(wanted.order_by(ACTIONS.c.started_s, ACTIONS.c.seq))

    def since(self, since_s: float) -> list[ActionRow]:
        """Ended or begun after; oldest first."""
        c = ACTIONS.c
        wanted = select(ACTIONS).where((c.started_s > since_s) | (c.ended_s > since_s))
        return self._made(wanted.order_by(c.started_s, c.seq))

    def unlearned(self, most: int = 100) -> list[ActionRow]:
        """Done, with what was predicted and what it was, and not yet learned from."""
        c = ACTIONS.c
        wanted = (c.state == State.DONE.value) & ~c.learned & (c.predicted != {}) & (c.actual != {})
        chosen = select(ACTIONS).where(wanted).order_by(c.ended_s, c.seq)
        return self._made(chosen.limit(bounded(most)))

    def used(self, since_s: float) -> Used:
        """What actions that ended since then took, local spills left out."""
        c = ACTIONS.c
        ended = (c.ended_s > since_s) & (c.by != LOCAL) & ~c.id.startswith(f"{LOCAL}-")
        wanted = select(c.bytes, c.rule, c.actual).where(ended)
        with self.file.read() as db:
            rows = list(db.execute(wanted))
        pauses = [float(row.actual.get("pause_s") or 0.0) for row in rows]
        ruled = [bool(row.rule) for row in rows]
        return Used(
            sum(row.bytes for row in rows),
            sum(pauses),
            sum(row.bytes for row in rows if row.rule),
            sum(pause for pause, rule in zip(pauses, ruled, strict=True) if rule),
        )

    def _made(self, chosen: Select[Any]) -> list[ActionRow]:
        with self.file.read() as db:
            return made(ActionRow, db.execute(chosen))
