"""Operators as an immutable tree. Values only: what runs them lives in tick.py and operators/.

    Sink ← Project ← Join | GroupBy ← Exchange ← Scan | Union | Join

Each stateful operator has groups and a placement (group → node) of its own. A join of more than two
children is a `multi_join` on one shared key; a join of two within windows, or in a tree, a `window_join`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.query.model import (
    Bound,
    Field,
    GroupQuery,
    JoinInput,
    OutputColumn,
    SinkSpec,
    StreamSpec,
)


@dataclass(frozen=True, slots=True)
class Scan:
    """A source with its pushed-down filter and projection."""

    id: str
    stream: StreamSpec
    input: JoinInput


@dataclass(frozen=True, slots=True)
class Union:
    """Several sources under one alias (UNION ALL)."""

    id: str
    children: tuple[Scan, ...]

    @property
    def input(self) -> JoinInput:
        return self.children[0].input


@dataclass(frozen=True, slots=True)
class Exchange:
    """Routing by the parent's key to the group's node. `fused`: the rows are there already, because
    the child has the same key, groups and placement."""

    id: str
    child: Scan | Union | Join
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """An equi-join of its children on the key classes that they share.

    `key`: the classes, named by key_id, with their types; `bounds`: the windows between inputs of
    different children, by input number in the query; `columns`: what a parent needs of the result
    (key classes, times, payload by id), empty at the root, where Project says it.
    """

    id: str
    kind: str
    children: tuple[Exchange, ...]
    key: tuple[Field, ...]
    groups: int
    placement: tuple[int, ...]  # node of each group
    bounds: tuple[Bound, ...] = ()
    columns: tuple[Field, ...] = ()

    @property
    def inputs(self) -> tuple[JoinInput, ...]:
        """All inputs below, left to right."""
        return tuple(given for child in self.children for given in inputs_below(child.child))


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Window functions by key, at the root of a query. `key` is what PARTITION BY names; `query` says what
    is computed; `delay_us` for how long rows may wait for the watermark."""

    id: str
    child: Exchange
    key: tuple[Field, ...]
    groups: int
    placement: tuple[int, ...]  # node of each group
    query: GroupQuery
    delay_us: int = 0

    @property
    def children(self) -> tuple[Exchange, ...]:
        return (self.child,)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """None: what it keeps is a matter of its frames."""
        return ()

    @property
    def inputs(self) -> tuple[JoinInput, ...]:
        """All inputs below, left to right."""
        return inputs_below(self.child.child)


Operator = Join | GroupBy


def inputs_below(node: Scan | Union | Join) -> tuple[JoinInput, ...]:
    """The join inputs in a subtree, left to right."""
    return node.inputs if isinstance(node, Join) else (node.input,)


@dataclass(frozen=True, slots=True)
class Project:
    """Filter and expressions over the joined row."""

    id: str
    child: Operator
    where: str | None
    outputs: tuple[OutputColumn, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole query: the tree, its sink and how many nodes it runs on. `inputs` in the query's order."""

    name: str
    root: Project
    sink: SinkSpec
    nodes: int
    inputs: tuple[JoinInput, ...] = ()
    beside: Join | None = None  # the top join of another tree of the same query, while both run
    parts: tuple[Operator, ...] = ()  # the operators, where what runs is no tree (delta.py)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The stateful operators, children before parents."""
        if self.parts:
            return self.parts
        mine = tuple(_bottom_up(self.root.child))
        if self.beside is None:
            return mine
        joins = [operator for operator in mine if isinstance(operator, Join)]
        return (*joins, *_bottom_up(self.beside), *mine[len(joins) :])

    @property
    def joins(self) -> tuple[Join, ...]:
        """The joins among them."""
        return tuple(operator for operator in self.operators if isinstance(operator, Join))


def _bottom_up(operator: Operator) -> Iterator[Operator]:
    for child in operator.children:
        if isinstance(child.child, Join):
            yield from _bottom_up(child.child)
    yield operator
