"""Column types that give Python values back as they were put in, and rows as frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Row, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

T = TypeVar("T")


def to_text(value: Any) -> str:
    """JSON; mappings, NumPy's numbers and arrays become what they stand for."""
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be kept as JSON")


class JsonText(TypeDecorator[Any]):
    """Any JSON value, as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return to_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return json.loads(value)


class Strings(TypeDecorator[tuple[str, ...]]):
    """A sequence of words."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return to_text(list(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...]:
        return tuple(json.loads(value))


class Word(TypeDecorator[StrEnum]):
    """A member of a StrEnum, as its value."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else self.kind(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.kind(value)


def values(thing: Any, *left_out: str) -> dict[str, Any]:
    """A dataclass as a row. An `id` of 0 is left out: the store numbers it."""
    row = {f.name: getattr(thing, f.name) for f in fields(thing) if f.name not in left_out}
    if row.get("id") == 0:
        del row["id"]
    return row


def made(kind: type[T], rows: Iterable[Row[Any]]) -> list[T]:
    """Rows as dataclasses; columns that have no field are left out."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    return [kind(**{name: row._mapping[name] for name in names}) for row in rows]


def first(kind: type[T], rows: Iterable[Row[Any]]) -> T | None:
    return next(iter(made(kind, rows)), None)
