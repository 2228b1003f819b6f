"""The generator's options: one table of name, default and help, and the frozen values they parse to.

Not here: what the options mean for keys (schedule.py), times and columns (generator.py).
"""

from __future__ import annotations

import datetime as dt
import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import QueryFileError

PRESETS = ("plain", "prices", "volumes", "reviews")
MAX_KEYS = 20_000_000
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0,
          "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Knobs:
    """What to generate. One field for each row of OPTIONS, in its order."""

    preset: str
    rate: float
    rows: int | None
    rows_per_tick: int
    catch_up: float
    pace: str
    partitions: int
    tuple_range: int | None
    join_ratio: int
    fresh_keys: bool
    keys: int | None
    zipf: float
    shift: int
    groups: int
    classes: int
    class_of: str
    class_shares: tuple[float, ...]
    join_ratios: tuple[int, ...]
    skew: float
    skew_period: float
    arrivals: str
    out_of_order: float
    max_delay: float
    null_keys: float
    payload_bytes: int
    columns: tuple[str, ...]
    start: int | None  # microseconds since 1970; None: when the query first starts
    seed: int
    stream_seed: int


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: the default is written as a user would write it ("" is none)."""

    default: str
    read: Callable[[str], Any]
    help: str


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text.replace("_", "").strip())
        except ValueError:
            raise ValueError("a whole number is wanted") from None
        return int(_within(value, low, high))

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text.replace("_", ""))
        except ValueError:
            raise ValueError("a number is wanted") from None
        return _within(value, low, high)

    return read


def _within(value: float, low: float, high: float) -> float:
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"it must lie between {low:g} and {high:g}")
    return value


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        found = re.fullmatch(r"\s*([\d_]*\.?\d+)\s*([a-z]*?)(s?)\s*", text.lower())
        unit = (found[2] or (found[3] and "s") or "s") if found else ""
        if not found or unit not in _UNITS:
            raise ValueError('a duration is wanted, such as "90", "500 ms" or "5 minutes"')
        return _within(float(found[1].replace("_", "")) * _UNITS[unit], low, high)

    return read


def _list(read_one: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    return lambda text: tuple(read_one(part) for part in text.split(",") if part.strip())


def _choice(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"it must be one of {', '.join(names)}")
        return text

    return read


def _flag(text: str) -> bool:
    return _choice("true", "false")(text.lower()) == "true"


def _instant(text: str) -> int | None:
    if text == "now":
        return None
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError('a time is wanted, such as "2026-01-01T00:00:00Z", or "now"') from None
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _name(text: str) -> str:
    if not re.fullmatch(r"\s*\w+\s*", text):
        raise ValueError("column names are wanted, separated by commas")
    return text.strip()


_RATIO = _integer(1, 1_000_000)
OPTIONS: dict[str, Option] = {
    "preset": Option("plain", _choice(*PRESETS), "plain (k, ts, v) or a market feed's stream"),
    "rate": Option("1000", _number(0.001, 1e9), "rows per second of event time (and of real time)"),
    "rows": Option("", _integer(0, 10**12), "end after so many rows; --once needs it"),
    "rows_per_tick": Option("100000", _integer(1, 10**9), "most rows in one tick"),
    "catch_up": Option(
        "10 s", _seconds(0.1, 86400), "after a pause, make up at most so much of it"
    ),
    "pace": Option(
        "realtime", _choice("realtime", "unpaced"), "unpaced: do not wait for the clock"
    ),
    "partitions": Option("4", _integer(1, 1024), "most read tasks per tick (one per 100 000 rows)"),
    "tuple_range": Option(
        "", _integer(1, MAX_KEYS), "rows after which all keys have had their turn"
    ),
    "join_ratio": Option("1", _RATIO, "how often each key occurs within a tuple range"),
    "fresh_keys": Option("false", _flag, "each tuple range deals keys that none before it had"),
    "keys": Option(
        "", _integer(1, MAX_KEYS), "distinct keys, when they are drawn (no tuple_range)"
    ),
    "zipf": Option("0", _number(0, 10), "exponent by which drawn keys are skewed; 0 is uniform"),
    "shift": Option(
        "0", _integer(0, MAX_KEYS), "other keys are the hot ones, or another class is first"
    ),
    "groups": Option("256", _integer(1, 1 << 20), "the query's groups, to tell the class of a key"),
    "classes": Option("", _integer(1, 128), "classes of groups, e.g. one per node"),
    "class_of": Option(
        "node",
        _choice("node", "contiguous"),
        "node: a class is the groups that start on one of `classes` nodes; contiguous: neighbours",
    ),
    "class_shares": Option("", _list(_number(1e-3, 1e3)), "each class's share of groups and rows"),
    "join_ratios": Option("", _list(_RATIO), "a join ratio per class, instead of join_ratio"),
    "skew": Option("1", _number(1, 1000), "the class whose turn it is gets so many times the rows"),
    "skew_period": Option(
        "300 s", _seconds(0.001, 1e9), "how long a class's turn lasts (event time)"
    ),
    "arrivals": Option("even", _choice("even", "poisson"), "gaps between event times"),
    "out_of_order": Option("0", _number(0, 1), "share of rows whose event time lies back"),
    "max_delay": Option("5 s", _seconds(0, 1e9), "how far it lies back at most"),
    "null_keys": Option("0", _number(0, 1), "share of rows whose key is null"),
    "payload_bytes": Option("0", _integer(0, 1 << 20), "width of one more column, `payload`"),
    "columns": Option("", _list(_name), "other names for the columns, in their order"),
    "start": Option("2026-01-01T00:00:00Z", _instant, "event time of the first row; or now"),
    "seed": Option("0", _integer(-(2**63), 2**63 - 1), "other data, same shape"),
    "stream_seed": Option("0", _integer(0, 2**64 - 1), "set by the engine from the stream's name"),
}
# What decides keys, rate aside; and what may be changed while a query runs (workload.py).
KEY_KNOBS = (
    "tuple_range", "join_ratio", "keys", "zipf", "shift",
    "classes", "class_shares", "join_ratios", "skew", "skew_period",
)  # fmt: skip
LIVE = frozenset(
    {*KEY_KNOBS, "rate", "rows_per_tick", "catch_up", "arrivals"}
    | {"out_of_order", "max_delay", "null_keys"}
)


def read_knobs(options: Mapping[str, str]) -> Knobs:
    """Options as given (names in any case) to Knobs; QueryFileError names the option at fault."""
    given = {name.lower(): text for name, text in options.items()}
    for name in given.keys() - OPTIONS.keys():
        raise _unknown(name)
    values = {name: _value(name, given.get(name, "")) for name in OPTIONS}
    knobs = Knobs(**_with_classes(values))
    _check_together(knobs, given)
    return knobs


def _value(name: str, text: str) -> Any:
    option = OPTIONS[name]
    text = str(text).strip() or option.default
    is_list = name in ("class_shares", "join_ratios", "columns")
    if not text:
        return () if is_list else None
    try:
        return option.read(text)
    except ValueError as bad:
        raise _error(name, f'"{text}" is not possible: {bad}', option.help) from None


def _with_classes(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in `classes` and what follows from it."""
    shares, ratios = values["class_shares"], values["join_ratios"]
    classes = values["classes"] or len(ratios) or len(shares) or 1
    shares = shares or (1.0,) * classes
    ratios = ratios or (values["join_ratio"],) * classes
    return {**values, "classes": classes, "class_shares": shares, "join_ratios": ratios}


def _check_together(knobs: Knobs, given: Mapping[str, str]) -> None:
    for name, entries in (("class_shares", knobs.class_shares), ("join_ratios", knobs.join_ratios)):
        if len(entries) != knobs.classes:
            raise _error(name, f"it has {len(entries)} entries for {knobs.classes} classes", "")
    if knobs.classes > knobs.groups:
        raise _error("classes", f"{knobs.classes} classes of {knobs.groups} groups", "use fewer")
    if knobs.tuple_range:
        for name in ("keys",) if knobs.fresh_keys else ("keys", "zipf"):
            if given.get(name):
                raise _error(name, "it has no place beside tuple_range", "leave one of them out")
    else:
        for name in ("join_ratio", "join_ratios", "fresh_keys"):
            if given.get(name):
                raise _error(name, "it needs tuple_range", "set tuple_range, e.g. 30000")
    if knobs.fresh_keys and given.get("join_ratios"):
        raise _error("join_ratios", "fresh keys have one ratio", "use skew, for a time each")
    if knobs.skew > 1 and knobs.classes == 1:
        raise _error("skew", "it needs at least two classes to take turns", "set classes = 2")
    if knobs.preset != "plain" and (knobs.payload_bytes or knobs.columns):
        name = "columns" if knobs.columns else "payload_bytes"
        raise _error(name, f"preset {knobs.preset} has columns of its own", "leave it out")
    width = 4 if knobs.payload_bytes else 3
    if knobs.columns and len({c.lower() for c in knobs.columns}) != width:
        raise _error("columns", f"{width} different names are wanted", 'such as "k, ts, v"')


def _unknown(name: str) -> QueryFileError:
    near = difflib.get_close_matches(name, OPTIONS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(OPTIONS)}"
    return _error(name, "the generator has no such option", hint)


def _error(name: str, what: str, hint: str) -> QueryFileError:
    return QueryFileError(what, where=f"generator option {name}", hint=hint)
