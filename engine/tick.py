"""A tick on the driver: route, step, commit, publish, tidy up, report. One query's ticks, one at a time.

`Ticker` owns the manifest: nothing else makes a new version. A tick that fails leaves it as it was.
The streaming query that calls it is runner.py's; what happens on a node is node_task.py's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import exchange
from engine.admission import OPEN, Admission
from engine.arrow_map import map_in_arrow
from engine.errors import CheckpointError
from engine.node_task import REPORT, Release, Step, StepPlan
from engine.plan.tree import Plan
from engine.query.model import JoinQuery
from engine.rehome import REHOMED, Rehome, RehomePlan
from engine.reports import NodeReport, ReportPort, TickReport
from engine.sinks import Sink, StagedFile
from engine.sinks.parquet import ParquetDirectory
from engine.state import files
from engine.state.commits import SNAPSHOT_EVERY, Commit, CommitLog
from engine.state.files import Tiers
from engine.state.model import Change, Hold, Manifest, Place, Run
from engine.state.stats import NOTHING, GroupDelta, GroupStats, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXACT = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "boolean"}


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same from tick to tick."""

    plan: Plan
    query: JoinQuery
    union: exchange.Union
    tiers: Tiers
    tokens: tuple[int, ...]
    slots: int  # tasks at once
    hash_mask: int
    slow: Mapping[int, float] = field(default_factory=dict)

    @property
    def exact_hash(self) -> bool:
        """Is the hash of a key as good as the key? (xxhash64 of one fixed-width integer is a bijection.)"""
        kinds = self.query.key_types
        return len(kinds) == 1 and kinds[0] in _EXACT and self.hash_mask == (1 << 64) - 1


@dataclass(slots=True)
class Totals:
    """Counts over the query's life."""

    rows_in: int = 0
    rows_out: int = 0
    null_key_rows: int = 0
    late_rows: int = 0


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The nodes' reports of one tick, put together."""

    heads: dict[int, dict[str, Any]]
    changes: dict[Place, Change]
    holds: list[Hold]
    staged: dict[str, list[list[Any]]]
    delta: GroupDelta

    def total(self, name: str) -> int:
        return sum(head[name] for head in self.heads.values())


class Ticker:
    """Runs ticks and commits them."""

    def __init__(self, spark: SparkSession, setup: Setup, log: CommitLog, sink: Sink,
                 sides: Sequence[ParquetDirectory], ports: Sequence[ReportPort]) -> None:
        self.spark, self.setup, self.log, self.sink = spark, setup, log, sink
        self.sides, self.ports = sides, ports
        self.manifest, self.totals = Manifest(), Totals()
        self.stats = GroupStats(setup.plan.join.groups)

    @property
    def placement(self) -> tuple[int, ...]:
        """The node of each group of the join, now."""
        join = self.setup.plan.join
        return self.manifest.placement.get(join.id, join.placement)

    # -- recovery -----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Go on from the last commit: finish what it had to do, drop what never counted."""
        found = self.log.recover()
        self.manifest = found.manifest
        if found.stats is not None:
            self.stats = GroupStats.unpack(found.stats["groups"])
            self.totals = Totals(**found.stats["totals"])
        since = found.stats["version"] if found.stats is not None else 0
        for commit in found.tail:
            if commit.version > since:
                self._count(commit)
        self.sink.recover([(c.version, _staged(c, "results")) for c in found.tail])
        for i, side in enumerate(self.sides):
            side.recover([(c.version, _staged(c, f"null_keys/{i}")) for c in found.tail])
        self._check_durable()
        self._sweep(None)  # nothing runs yet: what no manifest names is an earlier life's
        self._settle()
        self._warm()

    def _settle(self) -> None:
        """Give every group a node: as it was, or anew where the number of nodes is another one."""
        join, nodes = self.setup.plan.join, self.setup.plan.nodes
        if self.manifest.nodes == nodes:
            return
        known = {place.node for place, runs in self.manifest.runs.items() if runs}
        changes: dict[Place, Change] = {}
        if known:
            plan = RehomePlan(self.manifest.version + 1, self.setup.tiers, join.placement, self._everything())
            packed = self._control(self.spark).repartition(nodes, "token")
            rows = map_in_arrow(packed, Rehome(plan), REHOMED).collect()
            changes = {Place(join.id, n, i): Change(0, ()) for n in known for i in range(len(join.children))}
            changes |= {Place(join.id, r.node, i): Change(0, (Run.unpack(raw),))
                        for r in rows for i, raw in enumerate(json.loads(r.runs)) if raw}
        self._commit(_Outcome({}, changes, [], {}, NOTHING), None, OPEN, {join.id: join.placement})

    def _everything(self) -> tuple[tuple[Run, ...], ...]:
        """All runs of each input, whatever the node."""
        return tuple(
            tuple(run for place, runs in self.manifest.runs.items() if place.input == i for run in runs)
            for i in range(len(self.setup.plan.join.children)))

    def _check_durable(self) -> None:
        folder = self.setup.tiers.durable
        for name, size in _sizes(self.manifest).items():
            path = os.path.join(folder, name)
            have = os.path.getsize(path) if os.path.exists(path) else -1
            if have != size:
                what = "state file is missing" if have < 0 else f"state file has {have} bytes instead of {size}"
                raise CheckpointError(what, where=path,
                                      hint="Restore the checkpoint from a copy, or start with a new one.")

    def _warm(self) -> None:
        """Bring every node's state into memory, and the Python workers up, before the first tick."""
        self._step(self._control(self.spark), self._step_plan(OPEN))

    # -- ticks --------------------------------------------------------------------------------------

    def tick(self, rows: DataFrame | None, batch: int | None, admission: Admission = OPEN) -> TickReport:
        """Process one batch (or none), commit it, publish it."""
        started = time.perf_counter()
        admission = self._complete(admission)
        if rows is None:
            packed = self._control(self.spark)
        else:
            packed = self._pack(rows, admission)
            if admission.release:
                packed = packed.unionAll(self._control(rows.sparkSession))
        outcome = self._step(packed, self._step_plan(admission))
        commit = self._commit(outcome, batch, admission)
        self._publish(commit)
        report = self._report(outcome, batch, started, commit)
        for port in self.ports:
            port.publish(report)
        return report

    def _complete(self, admission: Admission) -> Admission:
        """A group with rows still waiting keeps its new rows waiting: order inside a group stands."""
        waiting = {g for hold in self.manifest.holds for g in hold.groups}
        release = waiting.intersection(admission.release)
        return Admission(tuple(sorted({*admission.hold} | waiting - release)), tuple(sorted(release)))

    def _pack(self, rows: DataFrame, admission: Admission) -> DataFrame:
        setup = self.setup
        writer = self._writer(admission)
        routing = exchange.routing_of(self.placement, setup.tokens, admission.hold, writer,
                                      setup.hash_mask)
        few = rows.coalesce(setup.slots)
        return map_in_arrow(few, exchange.Pack(setup.union, routing), exchange.PACKED)

    def _writer(self, admission: Admission) -> int:
        """A node with no group on hold, to write those of others down."""
        busy = {self.placement[g] for g in admission.hold}
        return next((n for n in range(self.setup.plan.nodes) if n not in busy), 0)

    def _control(self, spark: SparkSession) -> DataFrame:
        """One empty row for every node, so that each runs even without input."""
        tokens = ",".join(str(t) for t in self.setup.tokens)
        return spark.range(0, self.setup.plan.nodes, 1, 1).selectExpr(
            f"element_at(cast(split('{tokens}', ',') as array<int>), cast(id as int) + 1) as token",
            "cast(id as int) as node", "0 as input", "0 as kind", "cast('' as binary) as body")

    def _step(self, packed: DataFrame, plan: StepPlan) -> _Outcome:
        routed = packed.repartition(self.setup.plan.nodes, "token")
        rows = map_in_arrow(routed, Step(plan), REPORT).collect()
        return _outcome(plan.operator, [tuple(r) for r in rows], self.setup.plan.join.groups)

    def _step_plan(self, admission: Admission) -> StepPlan:
        setup, join = self.setup, self.setup.plan.join
        nodes = range(setup.plan.nodes)
        return StepPlan(
            version=self.manifest.version + 1, operator=join.id, tiers=setup.tiers, query=setup.query,
            layouts=setup.union.layouts, exact_hash=setup.exact_hash,
            runs={n: self.manifest.at(join.id, n, len(join.children)) for n in nodes},
            sink=str(self.sink.directory), compression=self.sink.compression,
            sides=tuple(str(side.path) for side in self.sides),
            releases=_releases(self.manifest.holds, admission, self.placement), slow=setup.slow)

    # -- commit -------------------------------------------------------------------------------------

    def _commit(self, outcome: _Outcome, batch: int | None, admission: Admission,
                placement: Mapping[str, tuple[int, ...]] = MappingProxyType({})) -> Commit:
        tick = self.manifest.tick if batch is None else batch
        holds = (*_remaining(self.manifest.holds, set(admission.release)), *outcome.holds)
        null_rows = sum(sum(head["null_rows"]) for head in outcome.heads.values())
        stats = {"time_s": time.time(), "groups": outcome.delta.pack(), "rows_in": outcome.total("rows_in"),
                 "rows_out": outcome.total("rows_out"), "null_key_rows": null_rows}
        commit = Commit(self.manifest.version + 1, tick, outcome.changes, holds, outcome.staged, stats,
                        placement, self.setup.plan.nodes)
        after = commit.apply(self.manifest)
        self.log.append(commit)
        before, self.manifest = self.manifest, after
        self._count(commit)
        self._drop(before)
        return commit

    def _count(self, commit: Commit) -> None:
        stats = commit.stats
        delta = GroupDelta.unpack(stats["groups"])
        self.stats.add(delta, version=commit.version, time_s=stats["time_s"])
        self.totals.rows_in += stats["rows_in"]
        self.totals.rows_out += stats["rows_out"]
        self.totals.null_key_rows += stats["null_key_rows"]

    def _publish(self, commit: Commit) -> None:
        self.sink.publish(commit.version, _staged(commit, "results"))
        for i, side in enumerate(self.sides):
            side.publish(_staged(commit, f"null_keys/{i}"))
        if commit.version % SNAPSHOT_EVERY == 0:
            self.log.snapshot(self.manifest, self._packed_stats())
            self._sweep(self.manifest.version)
        self.sink.maybe_compact()

    def _packed_stats(self) -> dict[str, Any]:
        totals = {name: getattr(self.totals, name) for name in Totals.__slots__}
        return {"version": self.manifest.version, "groups": self.stats.pack(), "totals": totals}

    def _drop(self, before: Manifest) -> None:
        """Delete the files that only the version before needed."""
        tiers = self.setup.tiers
        for folder, old, new in (
            (tiers.memory, before.memory_files(), self.manifest.memory_files()),
            (tiers.durable, before.durable_files(), self.manifest.durable_files()),
        ):
            for name in old - new:
                Path(folder, name).unlink(missing_ok=True)

    def _sweep(self, version: int | None) -> None:
        tiers = self.setup.tiers
        files.sweep(Path(tiers.memory), self.manifest.memory_files(), version=version)
        files.sweep(Path(tiers.durable), self.manifest.durable_files(), version=version)

    # -- report -------------------------------------------------------------------------------------

    def _report(self, outcome: _Outcome, batch: int | None, started: float, commit: Commit) -> TickReport:
        join, manifest = self.setup.plan.join, self.manifest
        held = manifest.held_rows(join.groups)
        placement = np.array(self.placement, dtype=np.int64)
        nodes = []
        for n in range(self.setup.plan.nodes):
            head = outcome.heads.get(n, {})
            nodes.append(NodeReport(
                n, head.get("rows_in", 0), head.get("rows_out", 0), head.get("cpu_s", 0.0),
                head.get("wall_s", 0.0), manifest.memory_bytes(n), 0, manifest.durable_bytes(n),
                int(held[placement == n].sum())))
        return TickReport(
            self.setup.plan.name, manifest.version, batch, commit.stats["time_s"],
            time.perf_counter() - started, outcome.total("rows_in"), outcome.total("rows_out"),
            commit.stats["null_key_rows"], 0, int(held.sum()), tuple(nodes),
            (self.stats.report(join.id, placement),))


def _sizes(manifest: Manifest) -> dict[str, int]:
    runs = [run for runs in manifest.runs.values() for run in runs]
    sizes = {s.file: s.bytes for run in runs for s in run.durable}
    return sizes | {hold.segment.file: hold.segment.bytes for hold in manifest.holds}


def _staged(commit: Commit, name: str) -> list[StagedFile]:
    return [StagedFile(*item) for item in commit.staged.get(name, [])]


def _releases(holds: Sequence[Hold], admission: Admission, placement: Sequence[int]) -> dict[int, tuple[Release, ...]]:
    out: dict[int, list[Release]] = {}
    chosen = set(admission.release)
    for hold in holds:
        by_node: dict[int, list[int]] = {}
        for group in chosen.intersection(hold.groups):
            by_node.setdefault(placement[group], []).append(group)
        for node, groups in by_node.items():
            out.setdefault(node, []).append(Release(hold.input, hold.segment, tuple(sorted(groups))))
    return {node: tuple(items) for node, items in out.items()}


def _remaining(holds: Sequence[Hold], released: set[int]) -> list[Hold]:
    out = []
    for hold in holds:
        kept = [(g, r) for g, r in zip(hold.groups, hold.rows, strict=True) if g not in released]
        if kept:
            groups, rows = zip(*kept, strict=True)
            out.append(Hold(hold.operator, hold.input, hold.segment, groups, rows))
    return out


def _outcome(operator: str, rows: list[tuple[int, str, bytes]], groups: int) -> _Outcome:
    heads: dict[int, dict[str, Any]] = {}
    changes: dict[Place, Change] = {}
    holds: list[Hold] = []
    staged: dict[str, list[list[Any]]] = {}
    deltas = []
    for node, text, body in rows:
        head = heads[node] = json.loads(text)
        for index, (kept, added) in head["changes"].items():
            changes[Place(operator, node, int(index))] = Change(kept, tuple(Run.unpack(r) for r in added))
        holds += [Hold.unpack(raw) for raw in head["holds"]]
        for name, some in head["staged"].items():
            staged.setdefault(name, []).extend(some)
        deltas.append(GroupDelta(*np.frombuffer(body, dtype=np.int64).reshape(4, -1)))
    return _Outcome(heads, changes, holds, staged, together(deltas, groups))
