"""Frozen values as JSON, and the JSON Schema of what comes out: both from the dataclass itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from app.api.schema import Schema, or_null


def shown(value: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A dataclass's fields as plain JSON."""
    return {
        item.name: plain(getattr(value, item.name))
        for item in fields(value)
        if item.name not in without
    }


def plain(value: Any) -> Any:
    """Anything we keep as plain JSON; what is not a number (gaps in series) becomes null."""
    if value is None or isinstance(value, bool | int) or type(value) is str:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return numbers(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if is_dataclass(value) and not isinstance(value, type):
        return shown(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def numbers(column: np.ndarray[Any, Any]) -> list[Any]:
    """A column as a list; times to milliseconds, what is small to millionths; gaps as null."""
    if column.dtype.kind != "f":
        found: list[Any] = column.tolist()
        return found
    whole = column.astype(np.float64)
    rounded = np.where(np.abs(whole) >= 1e6, np.round(whole, 3), np.round(whole, 6))
    if np.isfinite(rounded).all():
        all_there: list[Any] = rounded.tolist()
        return all_there
    with_gaps = rounded.astype(object)
    with_gaps[~np.isfinite(rounded)] = None
    gaps: list[Any] = with_gaps.tolist()
    return gaps


def schema_of(kind: type[Any], without: tuple[str, ...] = (), **more: Schema) -> Schema:
    """The schema of `shown(value)`, with fields that a handler adds or changes."""
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind) if item.name not in without]
    properties = {name: _of(hints[name]) for name in names} | dict(more)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _of(hint: Any) -> Schema:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in inside:
        rest = [item for item in inside if item is not NoneType]
        return or_null(_of(rest[0]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [item.value for item in hint]}
    if isinstance(hint, type) and is_dataclass(hint):
        return schema_of(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object"}
    if origin is not None:
        return {"type": "array", "items": _of(inside[0]) if inside else {}}
    return {}
