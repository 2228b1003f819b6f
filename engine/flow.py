"""The plan as the tasks see it: stages of operators, their sides, and which column comes from where.

`compile_flow` turns a plan into plain values that travel to workers. A stage is what runs between two
shuffles: every operator in it gets its rows from the exchange before it, or from a fused child in the
same task. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.operators.group_by import Grouping
from engine.operators.multi_join import HASH, Limit
from engine.plan.build import used_ids
from engine.plan.fingerprint import scans
from engine.plan.tree import Exchange, GroupBy, Join, Operator, Plan, Scan, Union, inputs_below
from engine.query.model import Bound, Field, JoinQuery, key_id, offset_id, time_id
from engine.query.types import arrow_type

_EXACT = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "boolean"}


@dataclass(frozen=True, slots=True)
class Side:
    """One input of an operator. `columns` in state, after the hash: the operator's key first."""

    columns: tuple[Field, ...]
    times: tuple[str, ...]  # event time columns among them
    aliases: tuple[str, ...]  # base inputs below
    fused: int | None = None  # number of the operator in the same stage that feeds it
    span_us: int | None = None  # runs that end further apart in time are not merged; None: any are

    def schema(self) -> pa.Schema:
        """Of a sorted batch."""
        columns = [(f.name, arrow_type(f.type)) for f in self.columns]
        return pa.schema([(HASH, pa.uint64()), *columns])


@dataclass(frozen=True, slots=True)
class Target:
    """Where an operator's results go: a side of another operator."""

    op: int
    side: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Whose rows an operator meets, that keeps none itself: those of a base's side; `fresh`: also those that came in
    this very tick, so that of two new rows one meets the other and no more."""

    base: int
    side: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Op:
    """One stateful operator. Operators are numbered bottom-up over the plan."""

    id: str
    number: int
    stage: int  # 0: straight after the first exchange
    sides: tuple[Side, ...]
    keys: int
    groups: int
    exact_hash: bool
    limits: tuple[Limit, ...]
    wanted: tuple[tuple[str, ...], ...]  # of each side, for the result
    target: Target | None  # None: the sink
    grouping: Grouping | None = None  # of window functions; None: a join
    # While another plan runs beside this one's (tracks.py): each side's rows all of whose parts came since are kept
    # apart from the others, and `spares`: results of such rows alone are the other plan's to make.
    parted: bool = False
    spares: bool = False
    withholds: bool = False  # its results are not to be seen yet
    # Of the plan without intermediate state (delta.py): a base keeps rows and joins nothing, a probe joins its first
    # side's rows with a base's and keeps nothing.
    base: bool = False
    probe: Probe | None = None

    @property
    def places(self) -> int:
        """How many sorts of rows it takes in: of each side; if parted, of each side's old rows, then of each side's
        new; a probe's are of its first side alone."""
        if self.probe is not None:
            return 1
        return len(self.sides) * (2 if self.parted else 1)

    @property
    def joins(self) -> bool:
        """Does it keep rows of all its sides and join them, as an operator of a tree does?"""
        return self.grouping is None and not self.base and self.probe is None

    def side_of(self, place: int) -> Side:
        return self.sides[place % len(self.sides)]

    def place(self, side: int, *, new: bool) -> int:
        """Where rows for a side are kept."""
        return side + len(self.sides) if new and self.parted else side


@dataclass(frozen=True, slots=True)
class Source:
    """One scan: which side of which operator it feeds. `base` numbers the inputs of the query."""

    op: int
    side: int
    base: int
    scan: Scan
    time: str | None  # its event time among the side's columns
    also: tuple[Target, ...] = ()  # sides of another plan's operators that it feeds too

    @property
    def mark(self) -> str:
        """The name of its watermark: each stream under UNION ALL has its own."""
        return self.scan.id.removeprefix("scan-")

    @property
    def feeds(self) -> tuple[Target, ...]:
        """All sides that get its rows."""
        return (Target(self.op, self.side), *self.also)


@dataclass(frozen=True, slots=True)
class Flow:
    """All operators and scans. `stages` says how many exchanges there are in a row."""

    ops: tuple[Op, ...]
    sources: tuple[Source, ...]

    @property
    def stages(self) -> int:
        return 1 + max(op.stage for op in self.ops)

    @property
    def root(self) -> Op:
        return self.ops[-1]

    @property
    def roots(self) -> tuple[Op, ...]:
        """The operators whose results go to the sink: one; two while two plans run; or the last probe of each stream."""
        return tuple(op for op in self.ops if op.target is None and not op.base)


def compile_flow(
    plan: Plan, query: JoinQuery, *, exact: bool = True, sources_like: Sequence[str] = ()
) -> Flow:
    """The flow of a plan. `exact=False`: no hash is trusted to stand for its key (tests). `sources_like`: the order of
    the sources, by the names of their watermarks, where it is not the tree's: Spark knows its sources by it."""
    joins = plan.operators
    number = {join.id: n for n, join in enumerate(joins)}
    stages = _stages(joins)
    ops: list[Op] = []
    found: list[Source] = []
    for join in joins:
        sides = tuple(_side(join, child, query, number) for child in join.children)
        make = _group if isinstance(join, GroupBy) else _op
        ops.append(make(join, number, stages, sides, joins, query, plan, exact))  # type: ignore[arg-type]
        for at, child in enumerate(join.children):
            found += _sources(ops[-1], at, child, query)
    places = {mark: n for n, mark in enumerate(sources_like)}
    return Flow(tuple(ops), tuple(sorted(found, key=lambda one: places.get(one.mark, 0))))


def _op(
    join: Join,
    number: dict[str, int],
    stages: dict[str, int],
    sides: tuple[Side, ...],
    joins: Sequence[Join],
    query: JoinQuery,
    plan: Plan,
    exact: bool,
) -> Op:
    wanted = _needed(join, query, plan)
    return Op(
        id=join.id,
        number=number[join.id],
        stage=stages[join.id],
        sides=tuple(replace(side, span_us=_span(join, at, plan)) for at, side in enumerate(sides)),
        keys=len(join.key),
        groups=join.groups,
        exact_hash=exact and _exact(join.key),
        limits=tuple(_limit(b, sides, query) for b in join.bounds),
        wanted=_owned(sides, wanted),
        target=_target(join, joins, number),
    )


def _group(
    group: GroupBy,
    number: dict[str, int],
    stages: dict[str, int],
    sides: tuple[Side, ...],
    joins: Sequence[Operator],
    query: JoinQuery,
    plan: Plan,
    exact: bool,
) -> Op:
    """Window functions: one side, and no windows between sides. Runs may merge as far as all of them is
    needed for about the same time."""
    asked, whole = group.query, used_ids(query)
    wanted = tuple(f.name for f in sides[0].columns if f.name in whole)
    grouping = Grouping(
        len(group.key),
        asked.time,
        asked.order,
        asked.aggregates,
        exact and _exact(group.key),
        wanted,
    )
    span = None if grouping.rows else max(1, (grouping.us + group.delay_us) // 8)
    return Op(
        id=group.id,
        number=number[group.id],
        stage=stages[group.id],
        sides=(replace(sides[0], span_us=span),),
        keys=len(group.key),
        groups=group.groups,
        exact_hash=grouping.exact_hash,
        limits=(),
        wanted=((*wanted, *(one.id for one in asked.aggregates)),),
        target=None,
        grouping=grouping,
    )


def _span(join: Join, at: int, plan: Plan) -> int | None:
    """An eighth of the time that a side's rows are kept: so much longer merging may keep them. They are
    kept for ever unless windows say for each other side when its rows come too late for them."""
    delays = {scan.input.alias: round(scan.stream.watermark_s * 1e6) for scan in scans(join)}
    sides = [
        [plan.inputs.index(given) for given in inputs_below(child.child)] for child in join.children
    ]
    kept = [
        max(
            (
                b.us + delays[plan.inputs[b.late].alias]
                for b in join.bounds
                if b.early in sides[at] and b.late in side
            ),
            default=None,
        )
        for other, side in enumerate(sides)
        if other != at
    ]
    known = [us for us in kept if us is not None]
    return max(1, max(known) // 8) if len(known) == len(kept) else None


def _exact(key: Sequence[Field]) -> bool:
    """Do equal hashes mean equal keys?"""
    return len(key) == 1 and key[0].type in _EXACT


def _stages(joins: Sequence[Operator]) -> dict[str, int]:
    """Each operator after its children's exchanges; a fused child waits for its parent's stage, as its
    results go no further than the task."""
    at: dict[str, int] = {}
    for join in joins:
        below = [
            (at[child.child.id], child.fused)
            for child in join.children
            if isinstance(child.child, Join)
        ]
        at[join.id] = max((stage + (not fused) for stage, fused in below), default=0)
    for join in reversed(joins):
        for child in join.children:
            if child.fused and isinstance(child.child, Join):
                at[child.child.id] = at[join.id]
    return at


def _side(join: Operator, child: Exchange, query: JoinQuery, number: dict[str, int]) -> Side:
    aliases = tuple(i.alias for i in inputs_below(child.child))
    fused = number[child.child.id] if child.fused and isinstance(child.child, Join) else None
    have = child.child.columns if isinstance(child.child, Join) else _scanned(child.child)
    keys = [f.name for f in join.key]
    columns = (*join.key, *(f for f in have if f.name not in keys))
    timed = {time_id(query.inputs[i].alias) for b in join.bounds for i in (b.early, b.late)}
    timed |= {join.query.time} if isinstance(join, GroupBy) else set()
    mine = tuple(f.name for f in columns if f.name in timed)
    return Side(columns, mine, aliases, fused)


def _scanned(node: Scan | Union) -> tuple[Field, ...]:
    """What a scan hands on: its key classes, its time, its payload."""
    given, first = node.input, node if isinstance(node, Scan) else node.children[0]
    kinds = {f.name: f.type for f in first.stream.fields}
    keys = [Field(key_id(part.number), part.type) for part in given.keys]
    times = [Field(time_id(given.alias), kinds[given.time])] if given.time else []
    offset = [Field(offset_id(given.alias), "bigint")] if given.ordered else []
    return (
        *keys,
        *times,
        *(Field(given.column_id(f.name), f.type) for f in given.payload),
        *offset,
    )


def _limit(bound: Bound, sides: tuple[Side, ...], query: JoinQuery) -> Limit:
    early, late = query.inputs[bound.early].alias, query.inputs[bound.late].alias
    side = {alias: n for n, s in enumerate(sides) for alias in s.aliases}
    return Limit(side[early], time_id(early), side[late], time_id(late), bound.us)


def _needed(join: Join, query: JoinQuery, plan: Plan) -> set[str]:
    """The result's columns that somebody needs."""
    if join is not plan.root.child:
        return {f.name for f in join.columns}
    return used_ids(query)


def _owned(sides: tuple[Side, ...], wanted: set[str]) -> tuple[tuple[str, ...], ...]:
    """Each wanted column from the first side that has it."""
    taken: set[str] = set()
    out = []
    for side in sides:
        mine = [f.name for f in side.columns if f.name in wanted and f.name not in taken]
        taken.update(mine)
        out.append(tuple(mine))
    return tuple(out)


def _target(join: Join, joins: Sequence[Operator], number: dict[str, int]) -> Target | None:
    for parent in joins:
        for at, child in enumerate(parent.children):
            if isinstance(child.child, Join) and child.child.id == join.id:
                return Target(number[parent.id], at)
    return None


def _sources(op: Op, at: int, child: Exchange, query: JoinQuery) -> list[Source]:
    if isinstance(child.child, Join):
        return []
    scans = (child.child,) if isinstance(child.child, Scan) else child.child.children
    base = next(n for n, i in enumerate(query.inputs) if i.alias == scans[0].input.alias)
    alias = scans[0].input.alias
    time = time_id(alias) if scans[0].input.time else None
    return [Source(op.number, at, base, scan, time) for scan in scans]
