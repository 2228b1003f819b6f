"""Join orders: the one that a query begins with where nobody asks for one.

A class is given by the inputs that have a member in it. How an order is read and written is in control/join_order.py,
as whoever proposes one needs it too. Not here: what a class is (keys.py) and the operators that a tree becomes
(plan/build.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control.join_order import BadOrder, Span, one_key, read_order, shared
from control.migration.trees import leaves, show
from engine.query.model import Tree

__all__ = [
    "BadOrder",
    "Span",
    "apart",
    "default_order",
    "leaves",
    "one_key",
    "read_order",
    "shared",
    "show",
]


def apart(spans: Sequence[Span], inputs: int) -> list[int]:
    """The inputs that no chain of classes connects to the first."""
    reached: set[int] = {0}
    for _ in range(inputs):
        reached |= {n for span in spans if span & reached for n in span}
    return [n for n in range(inputs) if n not in reached]


@dataclass(frozen=True, slots=True)
class _Best:
    """A way to join some inputs: exchanges that follow one another, exchanges between its operators in all, joins
    on a right side, the tree."""

    levels: int
    exchanges: int
    right: int
    leaves: tuple[int, ...]
    tree: Tree

    @property
    def rank(self) -> tuple[int, int, int, tuple[int, ...]]:
        return self.levels, self.exchanges, self.right, self.leaves


_Ways = dict[tuple[int, ...], _Best]  # by the key of the last operator; () for an input


def default_order(spans: Sequence[Span], inputs: int) -> Tree | None:
    """None for one multi-way join where all inputs share every class; otherwise a tree of two-way
    joins: of all connected ones that with the fewest exchanges one after the other, as each is a stage of
    every tick; then with the fewest in all, as each takes rows through the shuffle, while sizes and rates
    are not known before the query runs; among equals a left-deep one, as its operators need state of
    one input on the right; then the order of FROM, which is how the user thinks of it.
    """
    if all(len(span) == inputs for span in spans):
        return None
    ways: dict[int, _Ways] = {1 << n: {(): _Best(0, 0, 0, (n,), n)} for n in range(inputs)}
    for mask in range(3, 1 << inputs):
        if mask & (mask - 1):
            ways[mask] = _ways(spans, mask, ways)
    return min(ways[(1 << inputs) - 1].values(), key=lambda way: way.rank).tree


def _ways(spans: Sequence[Span], mask: int, ways: dict[int, _Ways]) -> _Ways:
    """For each key that the last join of these inputs may have, the best tree."""
    found: _Ways = {}
    left = (mask - 1) & mask
    while left:
        right = mask ^ left
        key = shared(spans, (_span(left), _span(right)))
        if key and ways[left] and ways[right]:
            best = _joined(_nearest(ways[left], key), _nearest(ways[right], key))
            if key not in found or best.rank < found[key].rank:
                found[key] = best
        left = (left - 1) & mask
    return found


def _nearest(ways: _Ways, key: tuple[int, ...]) -> _Best:
    """The best way to have one side under this key: an exchange unless it is there already."""
    moved = []
    for own, way in ways.items():
        hop = own not in ((), key)
        moved.append(_Best(way.levels + hop, way.exchanges + hop, way.right, way.leaves, way.tree))
    return min(moved, key=lambda way: way.rank)


def _joined(left: _Best, right: _Best) -> _Best:
    joins = left.right + right.right + (not isinstance(right.tree, int))
    tree: Tree = (left.tree, right.tree)
    exchanges, levels = left.exchanges + right.exchanges, max(left.levels, right.levels)
    return _Best(levels, exchanges, joins, left.leaves + right.leaves, tree)


def _span(mask: int) -> Span:
    return frozenset(n for n in range(mask.bit_length()) if mask >> n & 1)
