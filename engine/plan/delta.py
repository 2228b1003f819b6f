"""The plan without intermediate state: each input's new rows meet the others' rows, one input after the other. Pure.

A *base* keeps the rows of some inputs sorted by one key, in runs as any operator has them; a *probe* joins rows on their
way through an input's order with a base's, and keeps nothing. Each input's order is compiled as the left-deep tree that
it is, so that keys, windows and columns are those of any tree's joins. From a tree to this plan nothing is computed: a
base's runs are shared with the tree's, or sorted anew where the key is another. What runs it is probe_step.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.flow import Flow, Op, Probe, Side, Source, Target, compile_flow
from engine.plan.build import build_plan
from engine.plan.tree import Exchange, GroupBy, Join, Operator, Plan, Project, Scan, Union
from engine.query.model import JoinQuery, QuerySpec, Tree, time_id
from engine.state.replan import Named, Replan

Orders = tuple[tuple[int, ...], ...]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """One input's order as a left-deep tree."""

    plan: Plan
    flow: Flow

    @property
    def probes(self) -> list[Op]:
        return [op for op in self.flow.ops if op.grouping is None]

    @property
    def keys(self) -> list[Key]:
        return [key_of(op) for op in self.probes]


@dataclass(frozen=True, slots=True)
class Base:
    """The key of a base, and the inputs whose rows it has, by alias."""

    key: Key
    aliases: tuple[str, ...]


def key_of(op: Op) -> Key:
    return tuple(f.name for f in op.sides[0].columns[: op.keys])


def bases_of(spec: QuerySpec, query: JoinQuery, orders: Orders) -> list[Base]:
    """What the orders need, each key once."""
    names = [given.alias for given in query.inputs]
    found: dict[Key, set[str]] = {}
    for line in _drafts(spec, query, orders):
        for op in line.probes:
            found.setdefault(key_of(op), set()).update(op.sides[1].aliases)
    return [Base(key, tuple(n for n in names if n in mine)) for key, mine in found.items()]


def plan_of(
    spec: QuerySpec, query: JoinQuery, replan: Replan, *, exact: bool = True
) -> tuple[Plan, Flow]:
    """The plan that a manifest describes."""
    assert replan.delta is not None
    orders = replan.delta.orders
    bases = bases_of(spec, query, orders)
    named = dict(zip((base.key for base in bases), replan.operators, strict=False))
    rest, lines = list(replan.operators[len(bases) :]), list[_Line]()
    above = [one for one in rest if query.group is not None][-1:]
    for n in range(len(orders)):
        count = len(query.inputs) - 1
        mine = (*rest[n * count : (n + 1) * count], *above)
        lines.append(_line(spec, query, orders[n], mine, replan, exact))
    flow = _Composing(query, bases, list(named.values()), lines).flow(replan.sources)
    return _plan(spec, query, lines, bases, named), flow


def _drafts(spec: QuerySpec, query: JoinQuery, orders: Orders) -> list[_Line]:
    """The lines under names that do not matter."""
    names = tuple(Named(f"draft-{n}", (0,)) for n in range(len(query.inputs)))
    bare = Replan(None, names, spec.nodes, 0, ())
    return [_line(spec, query, order, names, bare, True) for order in orders]


def _line(
    spec: QuerySpec,
    query: JoinQuery,
    order: Sequence[int],
    named: tuple[Named, ...],
    replan: Replan,
    exact: bool,
) -> _Line:
    tree: Tree = order[0]
    for other in order[1:]:
        tree = (tree, other)
    moved = replace(query, order=tree)
    plan = build_plan(spec, moved, replace(replan, operators=named, delta=None))
    return _Line(plan, compile_flow(plan, moved, exact=exact))


def _plan(
    spec: QuerySpec,
    query: JoinQuery,
    lines: Sequence[_Line],
    bases: Sequence[Base],
    named: Mapping[Key, Named],
) -> Plan:
    """All operators; for whoever draws it, one join of all inputs."""
    first = lines[0].plan
    leaves = _leaves(first.joins)
    joins = {tuple(f.name for f in join.key): join for line in lines for join in line.plan.joins}
    parts: list[Operator] = [
        Join(
            named[base.key].id,
            "base",
            tuple(leaves[alias] for alias in base.aliases),
            joins[base.key].key,
            joins[base.key].groups,
            joins[base.key].placement,
        )
        for base in bases
    ]
    parts += [join for line in lines for join in line.plan.joins]
    every = tuple(leaves[given.alias] for given in query.inputs)
    top = first.joins[-1]
    whole = Join("delta", "delta_join", every, (), top.groups, top.placement, query.bounds)
    drawn: Operator = whole
    if isinstance(first.root.child, GroupBy):
        parts.append(first.root.child)
        drawn = replace(first.root.child, child=Exchange("exchange-delta", whole))
    root = Project(first.root.id, drawn, first.root.where, first.root.outputs)
    return replace(first, root=root, parts=tuple(parts))


def _leaves(joins: Sequence[Join]) -> dict[str, Exchange]:
    """Where each input comes in, by alias."""
    return {
        exchange.child.input.alias: exchange
        for join in joins
        for exchange in join.children
        if isinstance(exchange.child, Scan | Union)
    }


@dataclass(frozen=True, slots=True)
class _Composing:
    """Bases first, then the probes of every line, then what is above the joins."""

    query: JoinQuery
    bases: Sequence[Base]
    named: Sequence[Named]
    lines: Sequence[_Line]

    def flow(self, sources: Sequence[str]) -> Flow:
        ops = [self._base(n) for n in range(len(self.bases))]
        per = len(self.query.inputs) - 1
        top = len(ops) + per * len(self.lines)
        for number, line in enumerate(self.lines):
            shift = len(self.bases) + per * number
            ops += [self._probe(number, op, shift, top) for op in line.probes]
        above = self.lines[0].flow.root
        if above.grouping is not None:
            stage = 1 + max(op.stage for op in ops)
            sides = tuple(replace(side, fused=None) for side in above.sides)
            ops.append(replace(above, number=top, stage=stage, sides=sides))
        places = {mark: n for n, mark in enumerate(sources)}
        found = sorted(self._sources(ops), key=lambda one: places.get(one.mark, 0))
        return Flow(tuple(ops), tuple(found))

    def _base(self, number: int) -> Op:
        base, named = self.bases[number], self.named[number]
        like = next(op for line in self.lines for op in line.probes if key_of(op) == base.key)
        return Op(
            named.id,
            number,
            0,
            tuple(self._side(base.key, alias) for alias in base.aliases),
            like.keys,
            like.groups,
            like.exact_hash,
            (),
            tuple(() for _ in base.aliases),
            None,
            base=True,
        )

    def _side(self, key: Key, alias: str) -> Side:
        """One input's rows under a key, with its time wherever any window is about it."""
        sides = (op.sides[1] for line in self.lines for op in line.probes if key_of(op) == key)
        like = next(side for side in sides if side.aliases == (alias,))
        at = [given.alias for given in self.query.inputs].index(alias)
        timed = any(at in (bound.early, bound.late) for bound in self.query.bounds)
        return replace(
            like, times=(time_id(alias),) if timed else (), span_us=self._span(at), fused=None
        )

    def _span(self, at: int) -> int | None:
        """An eighth of the longest that rows are kept, as for a tree's sides; None: for ever."""
        kept = {b.late: b.us for b in self.query.bounds if b.early == at}
        return max(1, max(kept.values()) // 8) if len(kept) == len(self.query.inputs) - 1 else None

    def _probe(self, number: int, op: Op, shift: int, top: int) -> Op:
        """An operator of one line, as a probe."""
        first, met = op.sides
        names = [given.alias for given in self.query.inputs]
        at = next(n for n, base in enumerate(self.bases) if base.key == key_of(op))
        fresh = names.index(met.aliases[0]) < number
        fused = first.fused + shift if first.fused is not None else None
        if len(first.aliases) == 1 and first.aliases[0] in self.bases[at].aliases:
            fused = at  # its rows are there already
        target = op.target
        if target is not None:
            last = target.op >= len(self.lines[number].probes)
            target = Target(top, 0) if last else Target(target.op + shift, target.side)
        return replace(
            op,
            number=op.number + shift,
            sides=(replace(first, fused=fused), met),
            target=target,
            probe=Probe(at, self.bases[at].aliases.index(met.aliases[0]), fresh),
        )

    def _sources(self, ops: Sequence[Op]) -> list[Source]:
        """Each source with all that its rows go to: bases, and its first probe where no base hands them on."""
        out = []
        for source in self.lines[0].flow.sources:
            alias = source.scan.input.alias
            feeds = [
                Target(op.number, n)
                for op in ops
                for n, side in enumerate(op.sides[: op.places])
                if op.grouping is None and side.aliases == (alias,) and side.fused is None
            ]
            first, *more = sorted(feeds, key=lambda to: to.op)
            out.append(replace(source, op=first.op, side=first.side, also=tuple(more)))
        return out
