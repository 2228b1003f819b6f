"""From one plan of a query to another with the same results: which state both of them have. Pure.

A state is known by what its rows are (Zhu et al.'s schema id): the set of inputs below, the columns with the key
first, and where its groups are. An operator whose states are all the same keeps its name, and with it everything
that it has; all others are new, and each of their states is shared with an old one, sorted anew from one with
another key or placement, or computed from the states of the operator below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine import tracks
from engine.flow import Flow, Op, Side, compile_flow
from engine.plan import delta
from engine.plan.build import build_plan
from engine.plan.placement import even, weighted
from engine.plan.tree import Plan
from engine.query.model import Field, JoinQuery, QuerySpec, Tree
from engine.query.order import read_order, show
from engine.state.replan import Delta, Named, Replan

Key = tuple[Field, ...]
Placements = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Origin:
    """A side of an operator of the old plan; `shared`: its runs serve as they are."""

    op: str
    side: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """A new plan. `origins`: of each side of each operator that is new, by its number, where its rows are now; None:
    nowhere, they are the results of the operator below."""

    query: JoinQuery
    plan: Plan
    flow: Flow
    replan: Replan
    origins: Mapping[tuple[int, int], Origin | None]
    dropped: tuple[str, ...]  # operators of the old plan that the new one has not

    @property
    def new(self) -> tuple[Op, ...]:
        """The operators that the old plan has not, children first."""
        fresh = {number for number, _ in self.origins}
        return tuple(op for op in self.flow.ops if op.number in fresh)

    @property
    def computed(self) -> tuple[Op, ...]:
        """The operators whose results must be computed, children first."""
        wanted = {at for at, origin in self.origins.items() if origin is None}
        return tuple(
            op
            for op in self.flow.ops
            if op.target is not None and (op.target.op, op.target.side) in wanted
        )


def names_of(query: JoinQuery) -> list[str]:
    return [given.alias for given in query.inputs]


def spans_of(query: JoinQuery) -> list[frozenset[int]]:
    """For each key class the inputs that have a member in it."""
    numbers = sorted({part.number for given in query.inputs for part in given.keys})
    has = [{part.number for part in given.keys} for given in query.inputs]
    return [frozenset(i for i, mine in enumerate(has) if n in mine) for n in numbers]


def tree_of(query: JoinQuery, text: str) -> Tree | None:
    """The tree that a text asks for; BadOrder if it gives other results, or none."""
    return read_order(text, names_of(query), spans_of(query))


def shown(query: JoinQuery) -> str:
    """The query's order, as it is written."""
    whole: Tree = tuple(range(len(query.inputs)))
    return show(query.order if query.order is not None else whole, names_of(query))


def current(
    spec: QuerySpec, query: JoinQuery, plan: Plan, replan: Replan | None, *, exact: bool = True
) -> tuple[JoinQuery, Plan, Flow]:
    """What a checkpoint runs by now: the file's query and plan, unless they were migrated."""
    if replan is None:
        return query, plan, compile_flow(plan, query, exact=exact)
    moved = replace(query, order=replan.tree)
    if replan.delta is not None:
        return moved, *delta.plan_of(spec, moved, replan, exact=exact)
    built = build_plan(spec, moved, replan)
    flow = compile_flow(built, moved, exact=exact, sources_like=replan.sources)
    if replan.track is None:
        return moved, built, flow
    _, second, other = current(spec, query, plan, replan.track.plan, exact=exact)
    top = second.joins[-1]
    both = tracks.beside(flow, other, withholds=replan.track.withholds)
    return moved, replace(built, beside=top), both


def transition(
    spec: QuerySpec,
    query: JoinQuery,
    old: Flow,
    placements: Placements,
    tree: Tree | None,
    before: Replan | None,
    *,
    exact: bool = True,
    anew: bool = False,
) -> Transition:
    """The way to `tree`. `placements`: where the old plan's groups are now; `before`: what it is known as; `anew`:
    no join is to have anything of the old plan's."""
    moved = replace(query, order=tree)
    following = _following(old, before)
    draft = _draft(spec, moved, len(placements), exact)
    named, stay, origins = [], set[str](), {}
    for op in draft.ops:
        twins = (o for o in old.ops if o.grouping is not None or (o.joins and not anew))
        twin = next((o for o in twins if _same(o, op)), None)
        if twin is not None:
            named.append(Named(twin.id, placements[twin.id]))
            stay.add(twin.id)
            continue
        owner = _placement(spec, op, old, placements)
        named.append(Named(f"join-{following}", owner))
        following += 1
        for at, side in enumerate(op.sides):
            origins[op.number, at] = _origin(side, op.keys, owner, old, placements)
    sources = tuple(source.mark for source in old.sources)
    replan = Replan(tree, tuple(named), spec.nodes, following, sources)
    plan = build_plan(spec, moved, replan)
    flow = compile_flow(plan, moved, exact=exact, sources_like=sources)
    dropped = tuple(op.id for op in old.ops if op.id not in stay)
    return Transition(moved, plan, flow, replan, origins, dropped)


def to_delta(
    spec: QuerySpec,
    query: JoinQuery,
    old: Flow,
    placements: Placements,
    wanted: Delta,
    before: Replan | None,
    *,
    exact: bool = True,
) -> Transition:
    """The way to the plan without intermediate state. Its bases have rows of the old plan's inputs, and nothing else."""
    names = tuple(Named(f"draft-{n}", (0,)) for n in range(len(query.inputs) ** 2 * 2))
    draft = Replan(query.order, names, spec.nodes, 0, (), None, wanted)
    ops = delta.plan_of(spec, query, draft, exact=exact)[1].ops
    owners = {delta.key_of(op): _placement(spec, op, old, placements) for op in ops if op.base}
    following, named = _following(old, before), list[Named]()
    for op in ops:
        if op.grouping is None:
            name = f"{'base' if op.base else 'probe'}-{following + len(named)}"
            named.append(Named(name, owners[delta.key_of(op)]))
    following += len(named)
    named += [Named(op.id, placements[op.id]) for op in old.ops if op.grouping is not None]
    sources = tuple(source.mark for source in old.sources)
    about = query.order, tuple(named), spec.nodes, following, sources
    replan = Replan(*about, None, wanted)
    plan, flow = delta.plan_of(spec, query, replan, exact=exact)
    origins = {
        (op.number, at): _origin(side, op.keys, owners[delta.key_of(op)], old, placements)
        for op in flow.ops
        if op.base
        for at, side in enumerate(op.sides)
    }
    dropped = tuple(op.id for op in old.ops if op.grouping is None)
    return Transition(query, plan, flow, replan, origins, dropped)


def _following(old: Flow, before: Replan | None) -> int:
    """The number of the next operator that needs a name."""
    return before.following if before is not None else 1 + sum(op.joins for op in old.ops)


def _draft(spec: QuerySpec, query: JoinQuery, most: int, exact: bool) -> Flow:
    """The new plan under names that do not matter: its sides and keys do."""
    names = tuple(Named(f"draft-{n}", (0,)) for n in range(max(most, len(query.inputs))))
    plan = build_plan(spec, query, Replan(query.order, names, spec.nodes, 0, ()))
    return compile_flow(plan, query, exact=exact)


def _same(old: Op, new: Op) -> bool:
    """Do both keep the same rows, for the same purpose? What lies below does not matter."""
    return (
        [_schema(side, old.keys) for side in old.sides]
        == [_schema(side, new.keys) for side in new.sides]
        and old.limits == new.limits
        and old.wanted == new.wanted
        and old.grouping == new.grouping
    )


def _schema(side: Side, keys: int) -> tuple[object, ...]:
    return (frozenset(side.aliases), side.columns, side.columns[:keys], side.times)


def _placement(spec: QuerySpec, op: Op, old: Flow, placements: Placements) -> tuple[int, ...]:
    """Where the groups of a new operator go: to where most of its states with this key are already."""
    key, found = op.sides[0].columns[: op.keys], list[tuple[int, int]]()
    for have in _with_key(old.ops, key):
        theirs = {_schema(side, have.keys) for side in have.sides}
        same = sum(_schema(side, op.keys) in theirs for side in op.sides)
        found.append((same, -have.number))
    if found:
        return placements[old.ops[-max(found)[1]].id]
    return (
        weighted(spec.groups, spec.placement) if spec.placement else even(spec.groups, spec.nodes)
    )


def _with_key(ops: Sequence[Op], key: Key) -> Iterator[Op]:
    for op in ops:
        if _keeps(op) and op.sides[0].columns[: op.keys] == key:
            yield op


def _keeps(op: Op) -> bool:
    """Does it have rows of sides that another plan may have too?"""
    return op.joins or op.base


def _origin(
    side: Side, keys: int, owner: tuple[int, ...], old: Flow, placements: Placements
) -> Origin | None:
    """Where a side's rows are; of several places one where they are as they are wanted."""
    found = list(_origins(side, keys, owner, old, placements))
    return next((one for one in found if one.shared), found[0] if found else None)


def _origins(
    side: Side, keys: int, owner: tuple[int, ...], old: Flow, placements: Placements
) -> Iterator[Origin]:
    for op in old.ops:
        for at, have in enumerate(op.sides):
            if not _keeps(op) or frozenset(have.aliases) != frozenset(side.aliases):
                continue
            if set(have.columns) == set(side.columns):
                same = _schema(have, op.keys) == _schema(side, keys)
                yield Origin(op.id, at, same and placements[op.id] == owner)
