"""Values in query files: durations, sizes, and tables read key by key with nothing left over."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from control.redaction import redacted
from engine.errors import QueryFileError
from engine.query.scope import closest

_UNITS_S = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_UNITS_B = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def duration_s(text: str) -> float | None:
    """Seconds in "60 seconds" or "1 minute 30 s"; None if it is not a duration."""
    return _total(text, {**_UNITS_S, **{u + "s": f for u, f in _UNITS_S.items() if len(u) > 1}})


def size_bytes(text: str) -> int | None:
    """Bytes in "200MB" (10⁶) or "1 GiB" (2³⁰); None if it is not a size."""
    found = _total(text, dict(_UNITS_B))
    return None if found is None else int(found)


def _total(text: str, units: Mapping[str, float]) -> float | None:
    total, at = 0.0, 0
    while text[at:].strip():
        found = _AMOUNT.match(text, at)
        if not found or found.group(2).lower() not in units:
            return None
        total += float(found.group(1)) * units[found.group(2).lower()]
        at = found.end()
    return total if at and math.isfinite(total) else None


@dataclass(slots=True)
class Table:
    """One TOML table; every key is taken once, and `close` refuses the ones that nobody took."""

    file: str
    name: str
    values: Mapping[str, object]
    taken: list[str] = field(default_factory=list)

    def error(self, what: str, key: str = "", hint: str = "") -> QueryFileError:
        place = ".".join(part for part in (self.name, key) if part)
        return QueryFileError(
            what, where=f"{self.file}: {place}" if place else self.file, hint=hint
        )

    def has(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: str | None = None, *, hint: str = "") -> str:
        found = self._take(key, default, hint)
        if not isinstance(found, str):
            raise self.error(f"must be a text in quotes, not {_shown(found)}", key)
        if not found.strip() and default is None:
            raise self.error("is empty", key, hint)
        return found

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        found = self._take(key, default)
        if isinstance(found, bool) or not isinstance(found, int):
            raise self.error(f"must be a whole number, not {_shown(found)}", key)
        if not low <= found <= high:
            raise self.error(f"is {found}; it must be {low} to {high}", key)
        return found

    def duration(self, key: str) -> float | None:
        if not self.has(key):
            return None
        found = self._take(key)
        seconds = duration_s(found) if isinstance(found, str) else None
        if seconds is None:
            raise self.error(
                f"must be a duration, not {_shown(found)}",
                key,
                'write for example "60 seconds" or "2 minutes"',
            )
        return seconds

    def size(self, key: str) -> int | None:
        if not self.has(key):
            return None
        found = self._take(key)
        size = size_bytes(found) if isinstance(found, str) else found
        if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
            raise self.error(
                f"must be a size, not {_shown(found)}", key, 'write for example "200MB" or "1 GiB"'
            )
        return size

    def is_table(self, key: str) -> bool:
        return isinstance(self.values.get(key), dict)

    def table(self, key: str, *, hint: str = "") -> Table:
        found = self._take(key, None, hint)
        if not isinstance(found, dict):
            raise self.error(f"must be a table, not {_shown(found)}", key, hint)
        return Table(self.file, ".".join(part for part in (self.name, key) if part), found)

    def shares(self, key: str) -> dict[int, float] | None:
        """Node to share of the groups."""
        if not self.has(key):
            return None
        found: dict[int, float] = {}
        for node, share in self.table(key).values.items():
            good = isinstance(share, int | float) and not isinstance(share, bool)
            if not is_number(node) or not good or not _is_share(share):
                raise self.error(
                    f"must give shares by node, not {node} = {_shown(share)}",
                    key,
                    "write for example { 0 = 0.67, 1 = 0.33 }",
                )
            found[int(node)] = float(share)  # type: ignore[arg-type]
        return found

    def close(self) -> None:
        """Refuses keys that mean nothing here."""
        for key in self.values:
            if key not in self.taken:
                hint = closest(key, self.taken) or f"allowed are: {', '.join(sorted(self.taken))}"
                raise self.error("is not known", key, hint)

    def allow(self, *keys: str) -> None:
        """Marks keys as known although they are not there."""
        self.taken += [key for key in keys if key not in self.taken]

    def _take(self, key: str, default: object = None, hint: str = "") -> object:
        self.allow(key)
        if key in self.values:
            return self.values[key]
        if default is None:
            raise self.error("is missing", key, hint)
        return default


def is_number(key: str) -> bool:
    """Whether a table's key is a node's number: plain digits, and few enough to be one."""
    return key.isascii() and key.isdigit() and len(key) <= 9


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1


def _shown(value: object) -> str:
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a table",
    }
    return f"{kinds.get(type(value), type(value).__name__)} ({redacted(repr(value))})"[:80]
