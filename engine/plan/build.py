"""From a checked query to the plan: scans, an exchange before every operator, joins, one projection.

Here: the tree of operators and which columns go from one to the next. Which tree it is was decided
when the query was read (engine/query/order.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import QueryFileError
from engine.plan.placement import even, weighted
from engine.plan.tree import Exchange, GroupBy, Join, Operator, Plan, Project, Scan, Union
from engine.query.bounds import US_PER_S
from engine.query.model import (
    Bound,
    Field,
    GroupQuery,
    JoinInput,
    JoinQuery,
    OperatorSpec,
    QuerySpec,
    Tree,
    key_id,
    offset_id,
    time_id,
)
from engine.query.order import leaves
from engine.state.replan import Replan

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")*)\"""")


def build_plan(spec: QuerySpec, query: JoinQuery, replan: Replan | None = None) -> Plan:
    """The plan with its initial placement. `replan` names the operators where they are not the query file's,
    whose settings then count no longer."""
    order = query.order if query.order is not None else tuple(range(len(query.inputs)))
    builder = _Builder(spec, query, replan)
    if query.group is None:
        top: Operator = builder.join(order, frozenset(used_ids(query)), root=True)
    else:
        top = builder.group(order, query.group)
    if replan is None:
        _check_operators(spec, builder)
    project = Project("project-1", top, query.where, query.outputs)
    return Plan(spec.name, project, spec.sink, spec.nodes, query.inputs)


def _check_operators(spec: QuerySpec, builder: _Builder) -> None:
    """Settings of single operators must be of operators that there are."""
    names = [f"join-{n + 1}" for n in range(builder.count)]
    names += ["group-1"] if builder.query.group is not None else []
    for name in spec.operators:
        if name not in names:
            where = f"{spec.file}: operators.{name}"
            hint = f"operators are: {', '.join(names)} (see `query check`)"
            raise QueryFileError("there is no such operator", where=where, hint=hint)


def used_ids(query: JoinQuery) -> set[str]:
    """The ids of columns that WHERE and SELECT read from the joined row."""
    texts = [output.expr for output in query.outputs] + [query.where]
    plain = {output.source for output in query.outputs if output.source is not None}
    computed = {one.id for one in query.group.aggregates} if query.group is not None else set()
    return (plain | {name for text in texts if text for name in _identifiers(text)}) - computed


def grouped_ids(group: GroupQuery) -> set[str]:
    """The ids of columns that window functions read from the joined row."""
    computed = {argument.name for argument in group.arguments}
    read = {one.argument for one in group.aggregates if one.argument is not None} - computed
    texts = [argument.expr for argument in group.arguments if argument.expr]
    read |= {name for text in texts for name in _identifiers(text)}
    return read | {part.name for part in group.key} | {group.time, *group.order}


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
    replan: Replan | None = None
    count: int = 0

    def join(self, tree: Tree, needed: frozenset[str], *, root: bool = False) -> Join:
        """The operator of a subtree, of whose rows `needed` is read above."""
        assert isinstance(tree, tuple)
        key = self._key(tree)
        bounds = self._bounds(tree)
        below = needed | {part.name for part in key} | self._times(bounds)
        children = [child if isinstance(child, int) else self.join(child, below) for child in tree]
        self.count += 1
        name = self.replan.operators[self.count - 1].id if self.replan else f"join-{self.count}"
        placement = self._placement(name)
        return Join(
            name,
            "window_join" if len(tree) == 2 and self.query.order is not None else "multi_join",
            tuple(self._exchange(child, key, placement) for child in children),
            key,
            len(placement),
            placement,
            bounds,
            () if root else tuple(f for f in self._available(tree) if f.name in needed),
        )

    def group(self, order: Tree, group: GroupQuery) -> GroupBy:
        """The window functions over the rows of a stream, or of the joins below them."""
        needed = frozenset(used_ids(self.query) | grouped_ids(group))
        alone = len(self.query.inputs) == 1
        child = 0 if alone else self.join(order, needed)
        placement = self._placement("group-1")
        scans = (one for given in self.query.inputs for one in (given, *given.more))
        delay_s = max(self.spec.streams[one.stream].watermark_s for one in scans)
        return GroupBy(
            "group-1",
            self._exchange(child, group.key, placement),
            group.key,
            len(placement),
            placement,
            group,
            round(delay_s * US_PER_S),
        )

    def _placement(self, name: str) -> tuple[int, ...]:
        """The node of each of an operator's groups: by its own settings, or by the query's."""
        spec, own = self.spec, self.spec.operators.get(name, OperatorSpec())
        groups, shares = own.groups or spec.groups, own.placement or spec.placement
        for known in self.replan.operators if self.replan else ():
            if known.id == name:
                if self.replan and self.replan.nodes == spec.nodes:
                    return known.placement
                groups = known.groups
        return weighted(groups, shares) if shares else even(groups, spec.nodes)

    def _exchange(
        self, child: int | Join, key: tuple[Field, ...], placement: tuple[int, ...]
    ) -> Exchange:
        if isinstance(child, int):
            given = self.query.inputs[child]
            return Exchange(f"exchange-{given.alias}", self._source(given))
        fused = (child.key, child.placement) == (key, placement)
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
        yield from (Field(offset_id(i.alias), "bigint") for i in given if i.ordered)
        yield from (Field(i.column_id(f.name), f.type) for i in given for f in i.payload)

    def _time_type(self, given: JoinInput) -> str:
        fields = self.spec.streams[given.stream].fields
        return next(f.type for f in fields if f.name == given.time)
