"""The filter of groups, as typed: `node:3 memory prod:>30 size:<50 group:10-20`. Words are anded; a pure function.

What is not understood is said, with what would be; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from app.errors import AppError
from control.snapshot import Bools, ClusterSnapshot, Doubles

TEXT_MAX = 200
_RANGE = re.compile(r"^n?(\d+)(?:-n?(\d+))?$")
_BOUND = re.compile(r"^(>=|<=|>|<)?(\d+(?:\.\d+)?)(k|M|G)?$")
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, None: 1.0, "": 1.0}


class FilterError(AppError):
    """A word of a filter that is not one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A snapshot's columns in the units that are shown and typed."""

    productivity: Doubles  # results per MB in memory and second
    size: Doubles  # MB, in memory and on disk
    rate: Doubles  # results per second
    age: Doubles  # seconds since the last row


def figures(snapshot: ClusterSnapshot) -> Figures:
    groups = snapshot.groups
    megabytes = groups.memory_bytes / 1e6
    with np.errstate(divide="ignore", invalid="ignore"):
        prod = np.where(megabytes > 0, groups.rows_out_per_s / megabytes, 0.0)
    return Figures(
        np.asarray(prod, dtype=np.float64),
        (groups.memory_bytes + groups.disk_bytes) / 1e6,
        groups.rows_out_per_s,
        np.maximum(snapshot.time_s - groups.last_insert_s, 0.0),
    )


Test = Callable[[ClusterSnapshot, Figures], Bools]
STATES: Mapping[str, Test] = {
    "memory": lambda s, f: s.groups.memory_bytes > 0,
    "disk": lambda s, f: s.groups.spilled,
    "flight": lambda s, f: s.groups.in_flight,
    "empty": lambda s, f: (s.groups.memory_bytes == 0) & ~s.groups.spilled,
}
COLUMNS: Mapping[str, str] = {"prod": "productivity", "size": "size", "rate": "rate", "age": "age"}
NUMBERED: Mapping[str, str] = {"node": "owner", "group": "group", "gen": "generations"}
KNOWN = (*STATES, *(f"{name}:" for name in (*NUMBERED, *COLUMNS)))


def matching(text: str, snapshot: ClusterSnapshot, found: Figures) -> Bools:
    """Which rows a filter's text names; all of them when it is empty. FilterError says which word is wrong."""
    keep = np.ones(len(snapshot.groups), dtype=np.bool_)
    if len(text) > TEXT_MAX:
        raise FilterError(f"the filter is over {TEXT_MAX} characters")
    for word in text.split():
        keep &= _test(word)(snapshot, found)
    return keep


def _test(word: str) -> Test:
    wanted = word[1:] if word.startswith("-") and len(word) > 1 else word
    name, colon, value = wanted.partition(":")
    if not colon:
        test = STATES.get(name) or _bare(name)
    elif name in NUMBERED:
        test = _numbered(word, NUMBERED[name], value)
    elif name in COLUMNS:
        test = _bound(word, COLUMNS[name], value)
    else:
        raise _unknown(word, name + ":")
    return test if wanted is word else lambda s, f: ~test(s, f)


def _bare(name: str) -> Test:
    """`g102` is a group, `n3` a node: as they are written on the page."""
    if re.fullmatch(r"g\d{1,9}", name):
        return _numbered(name, "group", name[1:])
    if re.fullmatch(r"n\d{1,9}", name):
        return _numbered(name, "owner", name[1:])
    raise _unknown(name, name)


def _numbered(word: str, column: str, value: str) -> Test:
    ranges = [_RANGE.match(part) for part in value.removeprefix("g").split(",")]
    if not all(ranges) or len(value) > 60:
        raise FilterError(f"{word}: expected a number, a range or several", hint="node:1,3-5")
    spans = [(int(r.group(1)), int(r.group(2) or r.group(1))) for r in ranges if r]

    def test(snapshot: ClusterSnapshot, _: Figures) -> Bools:
        values = getattr(snapshot.groups, column)
        found = np.zeros(len(values), dtype=np.bool_)
        for low, high in spans:
            found |= (values >= low) & (values <= high)
        return found

    return test


def _bound(word: str, column: str, value: str) -> Test:
    read = _BOUND.match(value)
    if read is None:
        raise FilterError(f"{word}: expected a figure", hint=f"{word.partition(':')[0]}:>30")
    sign, limit = read.group(1) or ">=", float(read.group(2)) * _SCALE[read.group(3)]
    compare = {">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal}[sign]
    return lambda s, f: np.asarray(compare(getattr(f, column), limit), dtype=np.bool_)


def _unknown(word: str, name: str) -> FilterError:
    close = get_close_matches(name, KNOWN, 1, 0.5)
    hint = f"did you mean {close[0]}?" if close else f"known are {' '.join(KNOWN)}"
    return FilterError(f"{word} is not known", hint=hint)
