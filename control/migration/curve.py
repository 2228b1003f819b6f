"""What moving state and the parallel track would cost were windows of another length, and where both cost the same."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from control.cost.outlook import Outlook
from control.migration.lengths import scaled
from control.migration.strategies import Change, Pace
from control.migration.terms import Pricing

RANGE = 64.0  # how much longer or shorter windows the crossover is looked for at
POINTS = 25  # so many of them


@dataclass(frozen=True, slots=True)
class Point:
    """What both strategies take at windows of another length. Cost: the direct one, and what is lost until the new
    plan stands."""

    factor: float
    moving_s: float
    moving_row_s: float
    parallel_s: float
    parallel_row_s: float


def at_windows(outlook: Outlook, change: Change, pace: Pace, factor: float) -> Point:
    """Both strategies, were windows so many times as long; later benefit included, memory left out."""
    old, new = change.old.tree, change.new.tree
    there = Pricing(outlook, pace, Change.of(scaled(change.model, factor), old, new))
    moved, beside = there.parts("moving"), there.parts("parallel")
    return Point(
        factor,
        moved.estimate.length_s,
        moved.until_stands_row_s,
        beside.estimate.length_s,
        beside.until_stands_row_s,
    )


def curve_of(outlook: Outlook, change: Change, pace: Pace) -> tuple[Point, ...]:
    """From windows far shorter than today's to far longer ones; empty where there are none."""
    if not isfinite(change.model.span_s):
        return ()
    factors = np.geomspace(1 / RANGE, RANGE, POINTS).tolist()
    return tuple(at_windows(outlook, change, pace, factor) for factor in factors)


def crossing(outlook: Outlook, change: Change, pace: Pace, curve: tuple[Point, ...]) -> float:
    """How many times as long windows would be where both cost the same; the nearest such point to today's. 0:
    moving state costs more at all of them; infinite: the parallel track does, or there are no windows."""
    if not curve:
        return inf
    points = [point.factor for point in curve]
    values = [_dearer(point) for point in curve]
    turns = [n for n in range(len(points) - 1) if (values[n] > 0) != (values[n + 1] > 0)]
    if not turns:
        return 0.0 if values[len(values) // 2] > 0 else inf
    at = min(turns, key=lambda n: abs(np.log(points[n] * points[n + 1])))
    low, high, up = points[at], points[at + 1], values[at] > 0
    for _ in range(30):
        middle = (low * high) ** 0.5
        over = _dearer(at_windows(outlook, change, pace, middle)) > 0
        low, high = (middle, high) if over == up else (low, middle)
    return float((low * high) ** 0.5)


def _dearer(point: Point) -> float:
    """How much more moving state costs."""
    return point.moving_row_s - point.parallel_row_s
