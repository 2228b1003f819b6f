"""Pages by cursor: newest first, those before a given one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, select

MOST = 10_000


def page(
    table: Table, before: int | None, most: int, **equal: Any
) -> Select[Any]:  # by the numbered `id`
    chosen = _equal(select(table), table, equal).order_by(table.c.id.desc()).limit(bounded(most))
    return chosen if before is None else chosen.where(table.c.id < before)


def page_by_seq(table: Table, before: str | None, most: int, **equal: Any) -> Select[Any]:
    """For what has a name as its `id` and a number as its `seq`. An unknown cursor gives nothing."""
    chosen = _equal(select(table), table, equal).order_by(table.c.seq.desc()).limit(bounded(most))
    return chosen if before is None else chosen.where(table.c.seq < seq_of(table, before))


def seq_of(table: Table, id: str) -> Any:
    return select(table.c.seq).where(table.c.id == id).scalar_subquery()


def bounded(most: int) -> int:
    return max(0, min(most, MOST))


def _equal(chosen: Select[Any], table: Table, equal: dict[str, Any]) -> Select[Any]:
    """Filters; an empty one filters nothing."""
    wanted: list[ColumnElement[bool]] = [table.c[n] == v for n, v in equal.items() if v]
    return chosen.where(*wanted)
