"""The best join tree by intermediate rows and state: dynamic programming over connected sets of inputs.

Exact for what model.py says: a set's rows and state do not depend on how it is joined below, so the best tree of a
set is made of best trees of its parts. A cross product is never looked at, as no key joins its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control.errors import PlanError
from control.migration.model import Model, TreeLoad, load_of
from control.migration.trees import Mask, Tree, connected, joins, leaves, single

INPUTS_MAX = 8
Shape = Literal["any", "left", "right"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What a row a second from one operator to the next costs, and a byte of state: in the same unit."""

    row: float
    byte: float


def weights_from(now: TreeLoad) -> Weights:
    """Measured by the tree that runs: as many rows as it makes in between cost 1, and so does its state. One
    that makes none (an n-way join) is measured by the rows that come in."""
    rows = now.between_per_s or now.rows_in_per_s
    return Weights(
        1 / rows if rows > 0 else 1.0, 1 / now.state_bytes if now.state_bytes > 0 else 0.0
    )


def score(load: TreeLoad, weights: Weights) -> float:
    """What the optimiser makes small."""
    return weights.row * load.between_per_s + weights.byte * load.state_bytes


@dataclass(frozen=True, slots=True)
class Found:
    """The best tree, with what it takes and its score."""

    tree: Tree
    load: TreeLoad
    score: float


@dataclass(frozen=True, slots=True)
class _Way:
    cost: float
    levels: int
    order: tuple[int, ...]
    tree: Tree

    @property
    def rank(self) -> tuple[float, int, tuple[int, ...]]:
        """Among equals the flatter tree: each level is a stage of every tick; then the query's order."""
        return self.cost, self.levels, self.order


def best(model: Model, weights: Weights, shape: Shape = "any") -> Found:
    """The tree of two-way joins with the least score. PlanError for more inputs than can be searched."""
    count = len(model.rates)
    if count > INPUTS_MAX:
        raise PlanError(f"{count} inputs; at most {INPUTS_MAX} are searched", where="join order")
    if not connected(model.classes, model.everything):
        raise PlanError("not every input shares a key with another", where="join order")
    ways: dict[Mask, _Way] = {1 << n: _Way(0.0, 0, (n,), n) for n in range(count)}
    for mask in range(3, 1 << count):
        if not single(mask) and connected(model.classes, mask):
            way = _way(model, weights, shape, mask, ways)
            if way is not None:
                ways[mask] = way
    tree = ways[model.everything].tree
    load = load_of(model, tree)
    return Found(tree, load, score(load, weights))


def _way(
    model: Model, weights: Weights, shape: Shape, mask: Mask, ways: dict[Mask, _Way]
) -> _Way | None:
    """The best last join of these inputs. Which side is left does not matter for the cost."""
    made = weights.row * model.rate(mask) if mask != model.everything else 0.0
    chosen: _Way | None = None
    low = mask & -mask  # each split is looked at once: this input is on the first side
    rest = mask ^ low
    part = rest
    while part:
        a, b = mask ^ part, part
        part = (part - 1) & rest
        if a not in ways or b not in ways or (shape != "any" and not (single(a) or single(b))):
            continue
        kept = model.state_bytes(a, b) + model.state_bytes(b, a)
        cost = ways[a].cost + ways[b].cost + made + weights.byte * kept
        if chosen is None or cost <= chosen.cost:
            way = _joined(ways[a], ways[b], cost, shape)
            if chosen is None or way.rank < chosen.rank:
                chosen = way
    return chosen


def _joined(a: _Way, b: _Way, cost: float, shape: Shape) -> _Way:
    """The side with more inputs on the left (on the right for a right-deep tree), then the query's order."""
    first, second = sorted((a, b), key=lambda way: (-len(way.order), way.order))
    if shape == "right" or (
        shape == "any" and len(first.order) == 1 and first.order > second.order
    ):
        first, second = second, first
    tree: Tree = (first.tree, second.tree)
    return _Way(cost, 1 + max(a.levels, b.levels), first.order + second.order, tree)


def shape_of(tree: Tree) -> str:
    """A word for people: left-deep, right-deep, bushy, or one join of all."""
    if not isinstance(tree, int) and all(isinstance(part, int) for part in tree):
        return "one join"
    nodes = [parts for parts in joins(tree) if any(not isinstance(part, int) for part in parts)]
    if any(sum(not isinstance(part, int) for part in parts) > 1 for parts in nodes):
        return "bushy"
    deep = {next(n for n, part in enumerate(parts) if not isinstance(part, int)) for parts in nodes}
    if deep == {0}:
        return "left-deep"
    return "right-deep" if all(not isinstance(p[-1], int) for p in nodes) else "linear"


def same_joins(one: Tree, other: Tree) -> bool:
    """Whether two trees make the same rows in between, whichever side they stand on."""
    return _sets(one) == _sets(other)


def _sets(tree: Tree) -> frozenset[frozenset[int]]:
    return frozenset(frozenset(leaves(parts)) for parts in joins(tree))
