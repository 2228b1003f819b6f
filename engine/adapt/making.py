"""The state of another plan, made from the running plan's while ticks go on, and the commit that puts it in place.

What both plans have is shared as it is, what has another key is sorted anew, what nobody has is computed, bottom-up:
first from what is there, then from what has come meanwhile, in the end from the last bit between two ticks. Which
plan that is, and which steps its action has, is migrating.py's and bridging.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from control.plans import Migrate
from control.snapshot import NO_LIMIT
from engine import lasting, watermarks
from engine.adapt.derive import Derive, Derived, Onto, Resort, runs_of
from engine.adapt.overflow import part
from engine.adapt.progress import LATER, Course, Log, names
from engine.adapt.quiet import Quiet
from engine.adapt.side import TICK_BYTES, Found, Job
from engine.flow import Op
from engine.hashing import FULL_MASK
from engine.plan import matching
from engine.plan.matching import Origin, Transition
from engine.state import ranges
from engine.state.files import Tiers, in_order
from engine.state.model import Manifest, Place, Run, Runs

if TYPE_CHECKING:
    from engine.adapt.desk import Desk

CATCH_UPS = 6  # rounds for what has come since, before the last one, which the next tick waits for
LAST_BYTES = 400_000  # so little is left to that one at once; else as soon as rounds do not halve it any more
Side = tuple[int, int]  # of an operator of the new plan, by number
Order = tuple[Side, Resort | Derive]  # with the side that it is for


def way_to(desk: Desk, step: Migrate) -> Transition:
    """The way from the running plan to an order; BadOrder if there is none."""
    setup, ticker = desk.ticker.setup, desk.ticker
    assert setup.spec is not None
    return matching.transition(
        setup.spec,
        setup.query,
        setup.flow,
        ticker.placements,
        matching.tree_of(setup.query, step.order),
        ticker.manifest.plan,
        exact=setup.hash_mask == FULL_MASK,
        anew=step.strategy == "parallel",
    )


def needed(desk: Desk, way: Transition) -> Iterator[tuple[Origin, tuple[str, ...]]]:
    """The old plan's states that the new one is made from, with the inputs of each."""
    sides = {op.id: op.sides for op in desk.flow.ops}
    for origin in way.origins.values():
        if origin is not None:
            yield origin, sides[origin.op][origin.side].aliases


@dataclass
class Making:
    """What a migration has made so far of the plan that `way` leads to. `taken`: of each side of the new plan, the old runs whose rows its operator's
    results have by now, or that were sorted anew; `made`: new runs by node; `used`: how many of these the results
    have."""

    desk: Desk
    log: Log
    way: Transition
    taken: dict[Side, set[str]] = field(default_factory=dict)
    made: dict[Side, dict[int, list[Run]]] = field(default_factory=dict)
    used: dict[tuple[Side, int], int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)  # made, by node
    rows: int = 0
    spills: bool = False  # what finds no room in memory goes straight to disk
    share: float = 0.0  # of the action that is done by now, and when all of this is
    until: float = 1.0

    def __post_init__(self) -> None:
        self.old = self.desk.flow
        self.query = self.desk.ticker.setup.query
        joins = [op for op in self.old.ops if op.grouping is None]
        # With windows, what any operator owes may need rows that the new plan would let go of.
        clean = [op for op in joins if self.query.bounds or op.id in self.way.dropped]
        self.gone = lasting.cuts(self.old, self.desk.ticker.marks(), self.manifest)
        self.quiet = Quiet(self.desk, clean)
        self.desk.lasting = frozenset(self.way.dropped)
        self.computing = {op.number for op in self.way.computed}
        self.log.pressed = "hurries" if self.spills else "gives way"

    @property
    def manifest(self) -> Manifest:
        return self.desk.ticker.manifest

    # -- before ------------------------------------------------------------------------------------

    def wait(self) -> Course:
        """Until no row to come needs any that had gone before."""
        while other := self._needs():
            if self.desk.ending:
                raise self.quiet.error(
                    f"the input has ended before rows of {other} were new enough",
                    "Rows that they may need had gone before.",
                )
            yield LATER

    def _needs(self) -> str:
        ticker = self.desk.ticker
        marks = watermarks.watermarks(ticker.manifest.seen, ticker.setup.delays_us())
        base = lasting.bases(self.old, marks, ticker.manifest)
        found = (
            lasting.missing(self.query, mine, self.gone[origin.op, origin.side], base)
            for origin, mine in needed(self.desk, self.way)
        )
        return next((other for other in found if other), "")

    # -- making states -----------------------------------------------------------------------------

    def shared_bytes(self) -> int:
        shared = [o for o in self.way.origins.values() if o is not None and o.shared]
        return sum(run.bytes for o in shared for _, run in self._old_runs(o))

    def _old_runs(self, origin: Origin) -> Iterator[tuple[int, Run]]:
        for node in range(self.desk.nodes):
            for run in self.manifest.runs.get(Place(origin.op, node, origin.side), ()):
                yield node, run

    def _reads(self) -> Iterator[tuple[Side, Origin]]:
        """The sides for which old runs are read."""
        for side, origin in self.way.origins.items():
            if origin is not None and (not origin.shared or side[0] in self.computing):
                yield side, origin

    @property
    def missing(self) -> int:
        """Bytes of old runs that were not read yet."""
        return sum(
            run.bytes
            for side, origin in self._reads()
            for _, run in self._old_runs(origin)
            if run.id not in self.taken.get(side, set())
        )

    @property
    def pressed(self) -> bool:
        """Is a node over its budget already?"""
        return any(self._room(node) < 0 for node in range(self.desk.nodes))

    def _room(self, node: int) -> int:
        """Bytes of memory that are left of a node's budget."""
        most = self.desk.budgets.get(node, NO_LIMIT)
        return most - self.bytes.get(node, 0) - self.manifest.memory_bytes(node)

    def round(self, *, at_once: bool = False) -> Course:
        """Whatever is missing now, bottom-up. The runs that are read stay as they are from now on."""
        # One node after the other while ticks go on: side jobs have one slot. What is little goes along with a tick.
        together = at_once or self.desk.ending or self.missing <= TICK_BYTES
        fresh = {side: self._fresh(side, origin) for side, origin in self._reads()}
        everybody = range(self.desk.nodes)
        turns = [everybody] if together else [range(n, n + 1) for n in everybody]
        jobs = [(op, nodes) for op in (None, *self.way.computed) for nodes in turns]
        begun, most = self.share, 0.8 * (self.until - self.share)
        for number, (op, nodes) in enumerate(jobs, start=1):
            orders = {
                node: self._joins(op, node, fresh) if op else self._sorts(node, fresh)
                for node in nodes
            }
            yield from self._do(orders, at_once)
            self.share = begun + most * number / len(jobs)
            self.desk.progress(self.log.action, self.share)

    def catch_up(self) -> Course:
        """Rounds for what has come since the one before, as long as each leaves much less than that."""
        before = 0
        for number in range(CATCH_UPS):
            left = self.missing
            if left <= LAST_BYTES or (number and 2 * left > before) or self.pressed:
                break
            before = left
            yield from self.round()

    def _fresh(self, side: Side, origin: Origin) -> frozenset[str]:
        """Old runs that were not read for this side; they count as read."""
        taken = self.taken.setdefault(side, set())
        fresh = frozenset(run.id for _, run in self._old_runs(origin) if run.id not in taken)
        taken |= fresh
        for node in range(self.desk.nodes):
            self.desk.frozen[Place(origin.op, node, origin.side)] = frozenset(taken)
        return fresh

    def _sorts(self, node: int, fresh: Mapping[Side, frozenset[str]]) -> list[Order]:
        """Of one node, old rows that are sorted anew. What is over by now need not be."""
        out: list[Order] = []
        for side, origin in self._reads():
            runs = self.manifest.runs.get(Place(origin.op, node, origin.side), ())
            mine = tuple(run for run in runs if run.id in fresh[side])
            if mine and not origin.shared:
                tiers = self.desk.ticker.setup.tiers[origin.op]
                out.append((side, Resort(mine, tiers, self._onto(side))))
        return out

    def _joins(self, op: Op, node: int, fresh: Mapping[Side, frozenset[str]]) -> list[Order]:
        """Of one operator of the new plan on a node, what its results do not have yet."""
        assert op.target is not None
        parts = [self._parts((op.number, n), node, fresh) for n in range(len(op.sides))]
        if not any(new for _, new in parts):
            return []
        old, new = tuple(a for a, _ in parts), tuple(b for _, b in parts)
        target = (op.target.op, op.target.side)
        return [(target, Derive(op, self._tiers(op), old, new, self._onto(target)))]

    def _parts(
        self, side: Side, node: int, fresh: Mapping[Side, frozenset[str]]
    ) -> tuple[Runs, Runs]:
        """Runs of a side on a node: those that the operator's results have, and those that they have not."""
        origin = self.way.origins[side]
        if origin is not None and origin.shared:
            mine = self.manifest.runs.get(Place(origin.op, node, origin.side), ())
            had = self.taken[side] - fresh[side]
            return (
                tuple(run for run in mine if run.id in had),
                tuple(run for run in mine if run.id in fresh[side]),
            )
        made, used = self.made.get(side, {}).get(node, []), self.used.get((side, node), 0)
        self.used[side, node] = len(made)
        return tuple(made[:used]), tuple(made[used:])

    def _do(self, orders: Mapping[int, list[Order]], at_once: bool) -> Course:
        """A side job, where there is anything to do."""
        work = {node: tuple(order for _, order in some) for node, some in orders.items() if some}
        if not work:
            return
        size = sum(run.bytes for some in work.values() for order in some for run in runs_of(order))
        asked_s, log = self.desk.wall_s(), self.log
        found: Found = yield Job(work, names(work), None if at_once else size, at_once)
        log.toll.job(log.costs, self.desk.wall_s() - asked_s, at_once=at_once)
        for node in work:
            every = zip(orders[node], found[node], log.costs[node], strict=True)
            for (side, order), raw, (cpu_s, _) in every:
                made = Derived.unpack(raw)
                log.toll.made(order, made, cpu_s, at_once=at_once)
                self._take(side, made)
        self._check_room()

    def _take(self, side: Side, made: Derived) -> None:
        self.rows += made.rows
        for node, runs in made.runs.items():
            self.made.setdefault(side, {}).setdefault(node, []).extend(runs)
        for node, size in made.bytes.items():
            self.bytes[node] = self.bytes.get(node, 0) + size
            self.desk.copied_bytes[node] = self.desk.copied_bytes.get(node, 0) + size
            self.log.note(size)

    def _check_room(self) -> None:
        for node in () if self.spills else self.bytes:
            if (left := self._room(node)) < 0:
                most = self.desk.budgets.get(node, NO_LIMIT)
                raise self.quiet.error(
                    f"node {node} needs {most - left:,} bytes of memory for both plans, its budget is {most:,}",
                    "Raise memory_per_node, or choose another order.",
                )

    def _onto(self, side: Side) -> Onto:
        op = self.way.flow.ops[side[0]]
        given = op.sides[side[1]]
        columns = tuple(f.name for f in given.columns)
        placement = self.way.plan.operators[op.number].placement
        mask, nodes = self.desk.ticker.setup.hash_mask, self.desk.nodes
        # Nodes that work side by side know nothing of each other.
        room = {n: max(0, self._room(n)) // nodes for n in range(nodes) if n in self.desk.budgets}
        about = columns, op.keys, given.times, placement, self._tiers(op), mask
        return Onto(*about, given.span_us, room if self.spills else {})

    def _tiers(self, op: Op) -> Tiers:
        return replace(self.desk.ticker.setup.folders, groups=op.groups)

    # -- the end -----------------------------------------------------------------------------------

    def swap(self, *, done: bool = True) -> None:
        """The commit; `done`: the action is carried out by it."""
        self.quiet.settled()
        runs: dict[Place, Runs] = {}
        shared = 0
        for (number, at), origin in self.way.origins.items():
            op = self.way.flow.ops[number]
            for node in range(self.desk.nodes):
                if origin is not None and origin.shared:
                    some = self.manifest.runs.get(Place(origin.op, node, origin.side), ())
                    shared += len(some)
                else:
                    made = self.made.get((number, at), {}).get(node, [])
                    some = in_order(tuple(made), op.sides[at].span_us)
                if some:
                    runs[Place(op.id, node, at)] = some
        disk = self._on_disk(runs)
        self.log.figures["bytes"] = sum(self.bytes.values())
        self.over()
        self.log.about = {
            "order_before": matching.shown(self.query),
            "order_after": matching.shown(self.way.query),
            "operators_kept": [o.id for o in self.way.flow.ops if o.id not in self._new_names()],
            "operators_new": sorted(self._new_names()),
            "operators_dropped": list(self.way.dropped),
            "runs_shared": shared,
            "rows_made": self.rows,
        }
        self.log.toll.swaps += 1
        self.desk.swap(self.way, runs, disk, self.log.action.id if done else "")

    def _on_disk(self, runs: dict[Place, Runs]) -> dict[Place, Runs]:
        """Groups of which anything found no room in memory begin as a generation on disk, all sides together; `runs`
        keeps the others."""
        disk: dict[Place, Runs] = {}
        for op in self.way.new:
            for node in range(self.desk.nodes):
                places = [Place(op.id, node, at) for at in range(len(op.sides))]
                gone = np.zeros(op.groups, dtype=bool)
                for run in (run for place in places for run in runs.get(place, ())):
                    gone |= (run.rows_of(op.groups) > 0) & (not run.memory)
                if not gone.any():
                    continue
                generation = self.desk.generation(node)
                for place in places:
                    mine = runs.pop(place, ())
                    kept, some = part(mine, ranges.of_mask(gone), generation, op.groups)
                    runs |= {place: kept} if kept else {}
                    disk |= {place: some} if some else {}
        return disk

    def _new_names(self) -> set[str]:
        return {op.id for op in self.way.new}

    def over(self) -> None:
        """Nothing is asked of the ticks any longer."""
        for node, size in self.bytes.items():
            self.desk.copied_bytes[node] -= size
        self.bytes = {}
        for origin in self.way.origins.values():
            if origin is not None:
                for node in range(self.desk.nodes):
                    self.desk.frozen.pop(Place(origin.op, node, origin.side), None)
        self.desk.lasting = frozenset()
        self.log.pressed = ""
        self.quiet.over()
