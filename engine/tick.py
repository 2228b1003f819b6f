"""A tick on the driver: route, step, commit, publish, tidy up, report. One query's ticks, one at a time.

`Ticker` owns the manifest: nothing else makes a new version. A tick that fails leaves it as it was.
The streaming query that calls it is runner.py's; what happens on a node is stage.py's; going on from a
checkpoint is recovery.py's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import lasting, pulse, tidy, watermarks
from engine.adapt import edits
from engine.adapt.orders import NONE as NO_ORDERS
from engine.adapt.orders import Orders, frozen_counts
from engine.admission import OPEN, Admission
from engine.affinity import Anchor
from engine.arrow_map import ArrowMap, map_in_arrow
from engine.brief import Brief, give
from engine.cluster import check_seen, executor_ids, written
from engine.exchange import PACKED, Pack
from engine.outcome import (
    Admissions,
    Outcome,
    figures_of,
    outcome_of,
    promised,
    releases_of,
    remaining,
    staged_of,
    tick_report,
)
from engine.reports import ReportPort, TickReport, Totals
from engine.session import use_pool
from engine.setup import Setup
from engine.sinks import Sink
from engine.stage import Stage, Standing
from engine.state import hosts
from engine.state.commits import RESULTS, SNAPSHOT_EVERY, Commit, CommitLog
from engine.state.model import Manifest, Place, Runs
from engine.state.ranges import Ranges
from engine.state.replan import Replan
from engine.state.stats import GroupDelta, GroupStats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from engine.flow import Op
    from engine.sinks.parquet import ParquetDirectory

EVERYBODY: Admissions = MappingProxyType({})


class _Begun(NamedTuple):
    """When a tick's input ended, on the clock on the wall; when it began, on the one that only goes forward."""

    until_s: float
    counter_s: float


class Ticker:
    """Runs ticks and commits them."""

    def __init__(
        self,
        spark: SparkSession,
        setup: Setup,
        log: CommitLog,
        sink: Sink,
        sides: Mapping[str, ParquetDirectory],
        ports: Sequence[ReportPort],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spark, self.setup, self.log, self.sink = spark, setup, log, sink
        self.planned = setup  # what Spark's streaming query was begun with
        self.sides, self.ports, self.clock = sides, ports, clock
        self.manifest, self.totals = Manifest(), Totals()
        self.wall: Callable[[], float] = time.time
        self.carried_out: tuple[str, ...] = ()  # actions that the log's last commits name
        self.orders: Callable[[], Orders] = lambda: NO_ORDERS
        self.noticed: Callable[[Outcome, Commit], None] = lambda _outcome, _commit: None
        self.stats = {op.id: GroupStats(op.groups) for op in setup.flow.ops}
        self.arrived: dict[str, float] = dict.fromkeys(setup.delays_us(), clock())

    @property
    def placements(self) -> dict[str, tuple[int, ...]]:
        """The node of each group of each operator, now."""
        return {
            op.id: self.manifest.placement.get(op.id, op.placement)
            for op in self.setup.plan.operators
        }

    def tick(
        self,
        rows: DataFrame | None,
        batch: int | None,
        admissions: Admissions = EVERYBODY,
        planned_s: float | None = None,
    ) -> TickReport:
        """Process one batch (or none: then held rows may be released), commit it, publish it. `rows` are
        those of `stages`: to look at them is to run the tick. `planned_s`: where its input ends; now without."""
        began = self._begun(planned_s)
        orders = self.orders()
        admissions = {
            op.id: self._complete(op.id, admissions.get(op.id, OPEN), orders)
            for op in self.setup.flow.ops
        }
        marks = self.marks()  # once: what expires, what is late and what is promised must agree
        flow, lasts = self.setup.flow, orders.lasting
        expired = lasting.expired(flow, self.setup.query, self.manifest, marks, lasts)
        fronts, wake = watermarks.due(self.setup.flow, self.manifest, marks)
        brief = self.brief(admissions, self.manifest.without(expired), marks, orders)
        outcome = self.step(rows, replace(brief, fronts=fronts, wake=wake))
        self.arrived |= dict.fromkeys(outcome.seen, self.clock())
        released = {g: a for g, a in admissions.items() if a.release}
        commit = self.commit(
            outcome,
            batch,
            released,
            expired=expired,
            marks=marks,
            fronts={op: until for op, (_, until) in fronts.items()},
            orders=orders,
        )
        if self.anchor:
            self.anchor.settle(outcome.homes())
        self.noticed(outcome, commit)
        return self._tell(outcome, batch, began, commit)

    def replan(self, setup: Setup, commit: Commit) -> TickReport:
        """Go on with another plan, which a commit has put in place."""
        self.setup = setup
        self.stats = {op.id: self._stats_of(op) for op in setup.flow.ops}
        self.__dict__.pop("_one_stage", None)
        return self._tell(Outcome({}, {}, [], {}, {}, {}, {}), None, self._begun(), commit)

    def _stats_of(self, op: Op) -> GroupStats:
        return self.stats[op.id] if op.id in self.stats else GroupStats(op.groups)

    def amend(
        self,
        outcome: Outcome,
        placement: Mapping[str, tuple[int, ...]],
        disk: Mapping[Place, Runs],
        actions: tuple[str, ...],
        orders: Orders,
    ) -> TickReport:
        """Commit and publish a change that came about beside the ticks."""
        began = self._begun()
        commit = self.commit(
            outcome, None, EVERYBODY, placement=placement, disk=disk, actions=actions, orders=orders
        )
        return self._tell(outcome, None, began, commit)

    def _tell(
        self, outcome: Outcome, batch: int | None, began: _Begun, commit: Commit
    ) -> TickReport:
        """Publish a commit's results, and its report."""
        self._publish(commit)
        report = self._report(outcome, batch, began, commit)
        for port in self.ports:
            port.publish(report)
        return report

    def _begun(self, planned_s: float | None = None) -> _Begun:
        now_s = self.wall() if planned_s is None else planned_s
        return _Begun(now_s, time.perf_counter())

    def due(self) -> bool:
        """Is there something to do without input: rows on hold, or rows that the watermark has passed?"""
        kept = self.orders().hold
        return (
            any(set(h.groups) - kept.get(h.operator, frozenset()) for h in self.manifest.holds)
            or watermarks.due(self.setup.flow, self.manifest, self.marks())[1]
        )

    def waiting(self) -> str:
        """What to tell whoever expects all results at the end of the input, where rows wait for the watermark."""
        return watermarks.waiting(self.manifest)

    def marks(self) -> dict[str, int]:
        """The watermark of each source whose time matters."""
        idle = watermarks.idle(self.setup.flow, self.arrived, self.clock())
        return watermarks.watermarks(self.manifest.seen, self.setup.delays_us(), idle)

    def _complete(self, operator: str, admission: Admission, orders: Orders) -> Admission:
        """A group with rows still waiting keeps its new rows waiting: order inside a group stands."""
        waiting = {
            g for hold in self.manifest.holds if hold.operator == operator for g in hold.groups
        }
        held = orders.hold.get(operator, frozenset())
        if operator in orders.open:
            return Admission(tuple(sorted(held)), tuple(sorted(waiting - held)))
        let_in = {*admission.release, *orders.release.get(operator, ())} - held
        release = waiting & let_in
        return Admission(
            tuple(sorted(({*admission.hold} - release) | held | waiting - release)),
            tuple(sorted(release)),
        )

    def stages(self, rows: DataFrame) -> DataFrame:
        """The tick as a query over the rows of `ingest`: planned once, run once for every tick."""
        self.planned = self.setup
        few = rows.coalesce(self.setup.slots)
        pack = Pack(self.setup.union.layouts, self.setup.slots)
        return self._stages(map_in_arrow(few, pack, PACKED))

    def _stages(self, packed: DataFrame) -> DataFrame:
        for number in range(self.setup.flow.stages):
            packed = map_in_arrow(self.exchange(packed), Stage(self.standing, number), PACKED)
        return packed

    @property
    def standing(self) -> Standing:
        """What the tasks know, whatever the tick."""
        return Standing(
            self.setup.flow,
            self.setup.tiers,
            self.setup.query,
            self.setup.union.layouts,
            str(self.sink.directory),
            self.sink.compression,
            self.setup.side_folder,
            self.setup.plan.nodes,
        )

    def on_nodes(self, function: ArrowMap, schema: str) -> list[tuple[Any, ...]]:
        """Run a function once on every node, between ticks; what they return."""
        rows = map_in_arrow(self.exchange(self.control()), function, schema)
        return [tuple(row) for row in rows.collect()]

    def homes(self) -> pulse.Homes:
        """Ask every node where it runs, in a small job of its own, for which a thread of its own waits."""
        use_pool(self.spark, pulse.POOL)
        return dict(self.on_nodes(pulse.answer, pulse.ANSWER))

    def executors_up(self) -> frozenset[str] | None:
        """Spark's names for the executors that are up; None where there is only the driver."""
        return executor_ids(self.spark) if self.anchor else None

    def exchange(self, packed: DataFrame) -> DataFrame:
        """Each node's rows in the partition that is its own."""
        return (
            self.anchor.route(packed)
            if self.anchor
            else packed.repartition(self.setup.plan.nodes, "token")
        )

    @cached_property
    def anchor(self) -> Anchor | None:
        """Where the nodes are at home, on a cluster."""
        return Anchor(self.control(), self.setup.plan.nodes) if self.setup.folders.owner else None

    def control(self) -> DataFrame:
        """One empty row for every node, so that each runs even without input."""
        return self.setup.control(self.spark)

    @property
    def _idle_stages(self) -> DataFrame:
        """The tick without input. Spark does not run a shuffle's map side again for the same plan, so where there is
        work on a map side the plan is made anew."""
        return self._stages(self.control()) if self.setup.flow.stages > 1 else self._one_stage

    @cached_property
    def _one_stage(self) -> DataFrame:
        return self._stages(self.control())

    def step(self, rows: DataFrame | None, brief: Brief) -> Outcome:
        """Run every stage; the reports of all of them come back together."""
        give(self.spark.sparkContext, brief, Path(self.setup.folders.durable).with_name("briefs"))
        found = (self._idle_stages if rows is None else rows).collect()
        flow = self.setup.flow
        return outcome_of(flow, [tuple(row) for row in found]).checked(flow, brief)

    def brief(
        self,
        admissions: Admissions,
        manifest: Manifest,
        marks: Mapping[str, int],
        orders: Orders = NO_ORDERS,
    ) -> Brief:
        """What the nodes have to know for one tick."""
        setup, nodes = self.setup, range(self.setup.plan.nodes)
        placements = self.placements
        return Brief(
            version=manifest.version + 1,
            marks=marks,
            routes={
                op.number: setup.route(op.number, placements[op.id], admissions.get(op.id, OPEN))
                for op in setup.flow.ops
            },
            runs={
                (op.id, n): manifest.at(op.id, n, op.places) for op in setup.flow.ops for n in nodes
            },
            releases=releases_of(manifest.holds, admissions, placements),
            slow=dict(setup.slow),  # at once: other threads change it
            everyone=bool(
                orders.settle or orders.work or any(a.release for a in admissions.values())
            ),
            work=orders.work,
            standing=None if setup is self.planned else self.standing,
            since=orders.since,
            frozen=frozen_counts(setup.flow, manifest, orders),
            limits=orders.limits,
            victims=orders.victims,
            settle=orders.settle,
        )

    # -- commit -------------------------------------------------------------------------------------

    def commit(
        self,
        outcome: Outcome,
        batch: int | None,
        released: Admissions,
        *,
        expired: Mapping[Place, Mapping[str, Ranges]] = MappingProxyType({}),
        marks: Mapping[str, int] = MappingProxyType({}),
        fronts: Mapping[str, int] = MappingProxyType({}),
        placement: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
        orders: Orders = NO_ORDERS,
        disk: Mapping[Place, Runs] | None = None,
        actions: tuple[str, ...] = (),
        plan: Replan | None = None,
    ) -> Commit:
        """Make the outcome the next version, and delete what only the version before needed."""
        tick = self.manifest.tick if batch is None else batch
        holds = (*remaining(self.manifest.holds, released), *outcome.holds)
        seen = promised(self.manifest.seen, marks, self.setup.delays_us(), outcome.seen)
        commit = Commit(
            self.manifest.version + 1,
            tick,
            outcome.changes,
            holds,
            outcome.staged,
            figures_of(outcome, self.setup.flow, self.wall()),
            placement,
            self.setup.plan.nodes,
            expired,
            seen,
            fronts,
            edits.after_tick(self.setup.flow, self.manifest, outcome, orders)
            if disk is None
            else disk,
            actions or tuple(sorted({s.action for s in orders.settle.values() if s.action})),
            plan,
        )
        if self.anchor:
            check_seen(
                written(
                    commit,
                    self.setup.folders.durable,
                    str(self.sink.directory),
                    self.setup.side_folder,
                )
            )
        after = commit.apply(self.manifest)
        self.log.append(commit)
        before, self.manifest = self.manifest, after
        self.count(commit)
        tidy.drop(self.setup.folders, before, self.manifest, orders.pins)
        return commit

    def release(self) -> None:
        """Give the memory of other hosts back, at an orderly end."""
        if self.anchor:
            self.on_nodes(hosts.Release(self.setup.folders), "node int")

    def count(self, commit: Commit) -> None:
        """Take a commit's figures into the statistics."""
        stats = commit.stats
        for op, raw in stats["groups"].items():
            if op in self.stats:  # at a restart, not one that a migration has left behind
                self.stats[op].add(
                    GroupDelta.unpack(raw), version=commit.version, time_s=stats["time_s"]
                )
        for name in Totals.__slots__:
            setattr(self.totals, name, getattr(self.totals, name) + stats[name])

    def _publish(self, commit: Commit) -> None:
        self.sink.publish(commit.version, staged_of(commit, RESULTS))
        for name, side in self.sides.items():
            side.publish(staged_of(commit, name))
        if commit.version % SNAPSHOT_EVERY == 0:
            self.log.snapshot(self.manifest, self._packed_stats())
            since = self.orders().since
            self.sweep(self.manifest.version if since is None else since - 1)
        self.sink.maybe_compact()

    def _packed_stats(self) -> dict[str, Any]:
        totals = {name: getattr(self.totals, name) for name in Totals.__slots__}
        groups = {op: stats.pack() for op, stats in self.stats.items()}
        return {"version": self.manifest.version, "groups": groups, "totals": totals}

    def sweep(self, version: int | None) -> None:
        """Delete what no version needs. None: nothing runs yet."""
        tidy.sweep(self.setup.folders, self.manifest, version, self.orders().pins)

    # -- report -------------------------------------------------------------------------------------

    def _report(
        self, outcome: Outcome, batch: int | None, began: _Begun, commit: Commit
    ) -> TickReport:
        return tick_report(
            self.setup.plan.name,
            self.setup.flow,
            self.manifest,
            outcome,
            commit,
            self.placements,
            self.stats,
            batch,
            began.until_s,
            time.perf_counter() - began.counter_s,
            self.setup.plan.nodes,
        )
