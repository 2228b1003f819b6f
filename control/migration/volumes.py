"""Windows as volumes: how much time rows of several inputs have to meet one another.

`reach[i, j]` is how much later a row of j may be than one of i (infinite: no bound), closed by shortest paths. The
*rate volume* of m inputs, of dimension m − 1, times their rates and selectivity is results a second; the *state volume*,
of dimension m, gives the rows that can still meet a row to come. For two inputs, and where an input's reach is the same
to all others (`window = W`, CQL's RANGE), both are closed forms; otherwise they are integrated on a fixed set of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from control.snapshot import Doubles

POINTS = 512
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


def closed(
    inputs: int, bounds: Sequence[tuple[int, int, float]], ages_s: Sequence[float]
) -> Doubles:
    """The reach of every input to every other: (early, late, seconds) closed, and no longer than its input has been
    running, as no older row exists."""
    reach = np.full((inputs, inputs), np.inf)
    for early, late, seconds in bounds:
        reach[early, late] = min(reach[early, late], seconds)
    np.fill_diagonal(reach, 0.0)
    reach = np.minimum(reach, np.where(np.eye(inputs, dtype=bool), 0.0, np.array(ages_s)[:, None]))
    for via in range(inputs):
        reach = np.minimum(reach, reach[:, via, None] + reach[None, via, :])
    return np.asarray(reach, dtype=np.float64)


def longest(inputs: int, bounds: Sequence[tuple[int, int, float]]) -> float:
    """The longest window between any two inputs, whatever their age."""
    return float(closed(inputs, bounds, (np.inf,) * inputs).max())


def even(reach: Doubles) -> Doubles | None:
    """Each input's one reach to all others, where there is one."""
    count = len(reach)
    if count == 1:
        return np.zeros(1)
    off = reach[~np.eye(count, dtype=bool)].reshape(count, count - 1)
    if np.allclose(off, off[:, :1], rtol=1e-12):
        return np.asarray(off[:, 0], dtype=np.float64)
    return None


def rate_volume(reach: Doubles, inputs: Sequence[int]) -> float:
    """Volume of the times that rows of these inputs may have around a given time of the first."""
    mine = reach[np.ix_(inputs, inputs)]
    count = len(inputs)
    if count == 1:
        return 1.0
    if count == 2:
        return max(0.0, float(mine[0, 1] + mine[1, 0]))
    wide = even(mine)
    if wide is not None:
        # Whichever is last, each of the others is at most its own reach older.
        return float(sum(np.prod(np.delete(wide, last)) for last in range(count)))
    return _integrated(mine, np.zeros(count), None)


def state_volume(reach: Doubles, inputs: Sequence[int], others: Sequence[int]) -> float:
    """Volume of the ages of rows of these inputs that can still meet a row to come of any of the others."""
    mine = reach[np.ix_(inputs, inputs)]
    oldest = np.maximum(reach[np.ix_(inputs, others)].max(axis=1), 0.0)
    spans = mine[~np.eye(len(inputs), dtype=bool)].reshape(len(inputs), -1)
    if len(inputs) == 1 or (spans >= oldest[:, None] * (1 - 1e-12)).all():
        return float(np.prod(oldest))  # within these ages, all are near enough to one another
    return _integrated(mine, oldest, oldest)


def _integrated(mine: Doubles, oldest: Doubles, ages: Doubles | None) -> float:
    """Times drawn one input after the other, each from what the earlier ones leave it: the mean of the products of
    these lengths is the volume. With `ages` all times are at most so old and none is to come; without, the first
    is at 0."""
    count, skip = len(mine), int(ages is None)
    weight = np.ones(POINTS)
    times = np.zeros((POINTS, count))
    for place in range(skip, count):
        low, high = np.full(POINTS, -np.inf), np.full(POINTS, np.inf)
        if ages is not None:
            low, high = np.full(POINTS, -oldest[place]), np.zeros(POINTS)
        if place:
            low = np.maximum(low, (times[:, :place] - mine[place, :place]).max(axis=1))
            high = np.minimum(high, (times[:, :place] + mine[:place, place]).min(axis=1))
        length = np.maximum(high - low, 0.0)
        times[:, place] = low + _spread(place) * length
        weight *= length
    return float(weight.mean())


@cache
def _spread(dimension: int) -> Doubles:
    """POINTS numbers in 0..1 that fill it evenly, independently of the other dimensions (Halton's)."""
    base, index = PRIMES[dimension], np.arange(1, POINTS + 1)
    out, scale = np.zeros(POINTS), 1.0
    while index.any():
        scale /= base
        out += scale * (index % base)
        index = index // base
    out.flags.writeable = False
    return out
