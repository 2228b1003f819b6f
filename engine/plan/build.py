"""From a checked query to the plan: scans, an exchange before every operator, joins, one projection.

Here: the tree of operators and which columns go from one to the next. Which tree it is was decided
when the query was read (engine/query/order.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.plan.placement import even, weighted
from engine.plan.tree import Exchange, Join, Plan, Project, Scan, Union
from engine.query.model import (
    Bound,
    Field,
    JoinInput,
    JoinQuery,
    QuerySpec,
    Tree,
    key_id,
    time_id,
)
from engine.query.order import leaves

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")*)\"""")


def build_plan(spec: QuerySpec, query: JoinQuery) -> Plan:
    """The plan with its initial placement."""
    order = query.order if query.order is not None else tuple(range(len(query.inputs)))
    builder = _Builder(spec, query)
    join = builder.join(order, frozenset(used_ids(query)), root=True)
    project = Project("project-1", join, query.where, query.outputs)
    return Plan(spec.name, project, spec.sink, spec.nodes, query.inputs)


def used_ids(query: JoinQuery) -> set[str]:
    """The ids of columns that WHERE and SELECT read from the joined row."""
    texts = [output.expr for output in query.outputs] + [query.where]
    plain = {output.source for output in query.outputs if output.source is not None}
    return plain | {name for text in texts if text for name in _identifiers(text)}


def _identifiers(sql: str) -> Iterator[str]:
    """The quoted names in DuckDB SQL, leaving out what only looks like one inside a text."""
    for found in _QUOTED.finditer(sql):
        if found.group(1) is not None:
            yield found.group(1).replace('""', '"')


@dataclass(slots=True)
class _Builder:
    """Builds operators bottom-up; they are numbered as they are finished."""

    spec: QuerySpec
    query: JoinQuery
    count: int = 0
    placement: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        spec = self.spec
        shares = spec.placement
        self.placement = weighted(spec.groups, shares) if shares else even(spec.groups, spec.nodes)

    def join(self, tree: Tree, needed: frozenset[str], *, root: bool = False) -> Join:
        """The operator of a subtree, of whose rows `needed` is read above."""
        assert isinstance(tree, tuple)
        key = self._key(tree)
        bounds = self._bounds(tree)
        below = needed | {part.name for part in key} | self._times(bounds)
        children = [child if isinstance(child, int) else self.join(child, below) for child in tree]
        self.count += 1
        return Join(
            f"join-{self.count}",
            "window_join" if len(tree) == 2 and self.query.order is not None else "multi_join",
            tuple(self._exchange(child, key) for child in children),
            key,
            self.spec.groups,
            self.placement,
            bounds,
            () if root else tuple(f for f in self._available(tree) if f.name in needed),
        )

    def _exchange(self, child: int | Join, key: tuple[Field, ...]) -> Exchange:
        if isinstance(child, int):
            given = self.query.inputs[child]
            return Exchange(f"exchange-{given.alias}", self._source(given))
        same = (child.key, child.groups, child.placement)
        fused = same == (key, self.spec.groups, self.placement)
        return Exchange(f"exchange-{child.id}", child, fused)

    def _source(self, given: JoinInput) -> Scan | Union:
        streams, name = self.spec.streams, f"scan-{given.alias}"
        if not given.more:
            return Scan(name, streams[given.stream], given)
        parts = enumerate((given, *given.more), start=1)
        scans = tuple(Scan(f"{name}-{n}", streams[part.stream], part) for n, part in parts)
        return Union(f"union-{given.alias}", scans)

    def _key(self, tree: tuple[Tree, ...]) -> tuple[Field, ...]:
        """The classes that the children share."""
        members = [{n for i in leaves(child) for n in self._classes(i)} for child in tree]
        types = {p.number: p.type for given in self.query.inputs for p in given.keys}
        shared = [n for n in sorted(types) if sum(n in child for child in members) > 1]
        return tuple(Field(key_id(n), types[n]) for n in shared)

    def _classes(self, position: int) -> Iterator[int]:
        return (part.number for part in self.query.inputs[position].keys)

    def _bounds(self, tree: tuple[Tree, ...]) -> tuple[Bound, ...]:
        """The windows between inputs of different children; those within one it has checked."""
        side = {i: n for n, child in enumerate(tree) for i in leaves(child)}
        pairs = [b for b in self.query.bounds if b.early in side and b.late in side]
        return tuple(b for b in pairs if side[b.early] != side[b.late])

    def _times(self, bounds: tuple[Bound, ...]) -> frozenset[str]:
        inputs = {n for bound in bounds for n in (bound.early, bound.late)}
        return frozenset(time_id(self.query.inputs[n].alias) for n in inputs)

    def _available(self, tree: Tree) -> Iterator[Field]:
        """All columns that the rows of a subtree could have: classes, times, payload."""
        given = [self.query.inputs[n] for n in sorted(leaves(tree))]
        types = {p.number: p.type for one in given for p in one.keys}
        yield from (Field(key_id(n), types[n]) for n in sorted(types))
        yield from (Field(time_id(i.alias), self._time_type(i)) for i in given if i.time)
        yield from (Field(i.column_id(f.name), f.type) for i in given for f in i.payload)

    def _time_type(self, given: JoinInput) -> str:
        fields = self.spec.streams[given.stream].fields
        return next(f.type for f in fields if f.name == given.time)
