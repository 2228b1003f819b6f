"""CAST after the exchange: which casts DuckDB can do exactly as Spark in ANSI mode, and how.

A cast that is not here is refused: text to numbers, fractions to text, timestamps to text differ.
"""

from __future__ import annotations

import re
from datetime import datetime

from engine.query.types import INTEGERS, decimal_of, duck_type

_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?\Z")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_FLOATS = ("float", "double")


def castable(source: str, target: str, literal: str | None = None) -> bool:
    """Whether we can prove that the cast does what Spark does."""
    if source == target or source == "void":
        return duck_type(target) is not None
    if source in _TIMES and target in _TIMES:
        return True
    if source == "string":
        return literal is not None and (_good_time(target, literal) or _fits(target, literal))
    if target == "string":
        return source in INTEGERS or source in ("date", "boolean") or source.startswith("decimal")
    if source == "boolean":
        return target in INTEGERS
    return _castable_number(source, target)


def _castable_number(source: str, target: str) -> bool:
    if decimal_of(source):
        return (
            target in _FLOATS
            or decimal_of(target) is not None
            or (target == "boolean" and source in INTEGERS)
        )
    return source in _FLOATS and (target in INTEGERS or (source, target) == ("float", "double"))


def _good_time(target: str, literal: str) -> bool:
    pattern = {"date": _DATE, "timestamp": _TIME, "timestamp_ntz": _TIME}.get(target)
    if pattern is None or not pattern.match(literal):
        return False
    try:
        datetime.fromisoformat(literal)
    except ValueError:
        return False
    return True


def _fits(target: str, literal: str) -> bool:
    """Whether the text is a plain number that the decimal holds digit by digit."""
    digits = decimal_of(target) if target.startswith("decimal") else None
    if digits is None or not _NUMBER.match(literal):
        return False
    whole, _, fraction = literal.lstrip("-").partition(".")
    return len(fraction) <= digits[1] and len(whole.lstrip("0")) <= digits[0] - digits[1]


def duck_cast(sql: str, source: str, target: str) -> str:
    """DuckDB SQL of a castable cast."""
    if source == target:
        return sql
    kind = duck_type(target)
    if source.startswith("decimal") and target in _FLOATS:
        return f"CAST(CAST({sql} AS VARCHAR) AS {kind})"  # the only way that rounds correctly
    if target in INTEGERS and (source in _FLOATS or source.startswith("decimal")):
        return f"CAST(trunc({sql}) AS {kind})"
    if {source, target} == {"timestamp", "timestamp_ntz"}:
        return f"timezone('UTC', {sql})"
    if source == "string" and target == "timestamp":
        return f"timezone('UTC', CAST({sql} AS TIMESTAMP))"
    return f"CAST({sql} AS {kind})"
