"""Series that grow: what a browser has already, and the Patch that adds what is new and drops what is old.

A browser keeps a cursor (which picture, which step, the newest time, how many points); everything else it
needs is in the chart itself. Another picture, step or gap in between: the whole figure is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import Patch

from control.samples import Series
from control.snapshot import Doubles

SPAN_S = 120.0  # of a chart at least, however little there is to show
GAP_S = 5.0  # ticks that are less apart are a slow query, not a gap
NEW_MAX = 120  # more new points than this: the whole again


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a browser is: kept in a store, checked when it comes back."""

    picture: str
    step_s: float
    last_s: float
    points: int

    def to_json(self) -> list[Any]:
        return [self.picture, self.step_s, self.last_s, self.points]

    @staticmethod
    def of(raw: Any) -> Cursor | None:
        if not isinstance(raw, list) or len(raw) != 4 or not isinstance(raw[0], str):
            return None
        if not all(isinstance(value, int | float) for value in raw[1:]):
            return None
        return Cursor(raw[0], float(raw[1]), float(raw[2]), int(raw[3]))


def complete(series: Series, now_s: float) -> Series:
    """Without the newest mean while it can still change."""
    if not series.step_s or not len(series.time_s):
        return series
    keep = series.time_s + series.step_s <= now_s
    return rows(series, np.flatnonzero(keep))


def since(series: Series, now_s: float, range_s: float) -> float:
    """Where a chart begins: at the range's begin, or where there is something when that is later."""
    first = float(series.time_s[0]) if len(series.time_s) else now_s
    return min(max(now_s - range_s, first), now_s - min(range_s, SPAN_S))


def with_gaps(series: Series) -> Series:
    """A point without values wherever more than three steps are missing: lines must not bridge what is not known."""
    times = series.time_s
    if len(times) < 3:
        return series
    apart = np.diff(times)
    usual = series.step_s or float(np.median(apart))
    after = np.flatnonzero(apart > max(3 * usual, GAP_S))
    if not len(after):
        return series
    values = {
        name: np.insert(column.astype(np.float64), after + 1, np.nan, axis=0)
        for name, column in series.values.items()
    }
    return Series(np.insert(times, after + 1, times[after] + usual), values, series.step_s)


def rows(series: Series, index: Any) -> Series:
    values = {name: column[index] for name, column in series.values.items()}
    return Series(series.time_s[index], values, series.step_s)


def begin(picture: str, series: Series) -> Cursor:
    last = float(series.time_s[-1]) if len(series.time_s) else 0.0
    return Cursor(picture, series.step_s, last, len(series.time_s))


def new_rows(cursor: Cursor | None, picture: str, series: Series) -> Any:
    """Which rows the browser has not got; None: it must have the whole figure."""
    if cursor is None or cursor.picture != picture or cursor.step_s != series.step_s:
        return None
    if not cursor.points or not len(series.time_s):
        return None
    fresh = np.flatnonzero(series.time_s > cursor.last_s + 1e-6)
    return fresh if len(fresh) <= min(NEW_MAX, len(series.time_s) - 1) else None


def grow(
    patch: Patch, traces: Mapping[int, tuple[Doubles, Doubles]], drop: int, to_list: Any
) -> None:
    """Add points to traces and take as many away in front."""
    for trace, (x, y) in traces.items():
        for name, column in (("x", x), ("y", y)):
            if len(column):
                patch["data"][trace][name].extend(to_list(column))
            for _ in range(drop):
                del patch["data"][trace][name][0]


def after(cursor: Cursor, series: Series, fresh: Sequence[int], most: int) -> tuple[Cursor, int]:
    """The next cursor, and how many old points go."""
    points = cursor.points + len(fresh)
    drop = max(0, points - most)
    last = float(series.time_s[-1]) if len(fresh) else cursor.last_s
    return Cursor(cursor.picture, cursor.step_s, last, points - drop), drop
