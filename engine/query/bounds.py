"""Windows as a graph: inputs are nodes, a bound is an edge, and shortest paths close it.

Here: the closure, and the circle of bounds that can never hold. Where bounds come from is
windows.py's business (paper 3, footnote 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from engine.query.model import Bound

US_PER_S = 1_000_000
US_MAX = 10_000 * 366 * 86_400 * US_PER_S  # sums of eight still fit 64 bits


def everywhere(inputs: int, us: int) -> list[Bound]:
    """One window between all inputs, both ways."""
    return [Bound(i, j, us) for i, j in product(range(inputs), repeat=2) if i != j]


def after(early: int, inputs: int, us: int) -> list[Bound]:
    """CQL's RANGE on one stream: no other is later than it by more."""
    return [Bound(early, late, us) for late in range(inputs) if late != early]


def close(inputs: int, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    """The tightest bound between every two inputs that bounds connect (Floyd and Warshall)."""
    far = {(n, n): 0 for n in range(inputs)}
    for bound in bounds:
        _shorten(far, (bound.early, bound.late), bound.us)
    for via, i, j in product(range(inputs), repeat=3):
        if (i, via) in far and (via, j) in far:
            _shorten(far, (i, j), far[i, via] + far[via, j])
    return tuple(Bound(i, j, us) for (i, j), us in sorted(far.items()) if i != j)


def _shorten(far: dict[tuple[int, int], int], pair: tuple[int, int], us: int) -> None:
    far[pair] = min(far.get(pair, us), us)


def contradiction(inputs: int, bounds: Sequence[Bound]) -> list[int]:
    """The places in `bounds` of a circle whose sum is negative, in order; empty if there is none.

    Bellman and Ford: a node that still gets nearer after as many rounds as there are nodes lies
    behind such a circle.
    """
    far, last = [0] * inputs, [-1] * inputs
    nearer = -1
    for _ in range(inputs):
        nearer = -1
        for place, bound in enumerate(bounds):
            if far[bound.early] + bound.us < far[bound.late]:
                far[bound.late] = far[bound.early] + bound.us
                last[bound.late] = place
                nearer = bound.late
    if nearer < 0:
        return []
    for _ in range(inputs):  # step back until surely on the circle
        nearer = bounds[last[nearer]].early
    circle = [last[nearer]]
    while bounds[circle[-1]].early != nearer:
        circle.append(last[bounds[circle[-1]].early])
    return circle[::-1]
