"""Sizes and times as people write them in a rule: `"50MB"`, `"15s"`, `"2h"`; and back."""

from __future__ import annotations

import math
import re
from typing import Any

from control.errors import RuleError

SIZES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b)\s*", re.IGNORECASE)
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")


def size_bytes(value: Any, where: str) -> int:
    """A whole number of bytes, or a text with a unit."""
    if type(value) is int and value >= 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    size = float(found[1]) * SIZES[found[2].upper()] if found else math.inf
    if not math.isfinite(size):
        raise RuleError(f"{value!r} is not a size", where=where, hint='for example "50MB"')
    return int(size)


def seconds(value: Any, where: str) -> float:
    """A number of seconds, or a text with a unit."""
    if type(value) in (int, float) and 0 <= value < float("inf"):
        return float(value)
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    time_s = float(found[1]) * TIMES[found[2]] if found else math.inf
    if not math.isfinite(time_s):
        raise RuleError(f"{value!r} is not a time", where=where, hint='for example "15s" or "2h"')
    return time_s


def said(seconds_: float) -> str:
    """A time as a person reads it: the two largest units."""
    left, out = round(seconds_), []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size:
            out.append(f"{left // size} {unit}")
            left %= size
    return " ".join(out[:2]) or "0 s"
