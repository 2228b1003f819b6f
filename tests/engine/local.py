"""The engine without Spark: ticks in this process, the shuffle a dictionary. Everything else is the real thing.

`LocalTicker` replaces the two places where a `Ticker` asks Spark to run something; manifests, commits, files,
recovery, watermarks and the functions that tasks run are the engine's own. So a thousand queries take a minute.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from engine import ingest, pulse
from engine.adapt.side import Found, Job, SideJobs
from engine.adapt.tasks import Work, quietly
from engine.admission import Admission
from engine.arrow_map import ArrowMap
from engine.brief import Brief
from engine.errors import SpillwayError
from engine.exchange import CONTROL, Packing, packed_bytes
from engine.hashing import FULL_MASK
from engine.outcome import Outcome, outcome_of
from engine.plan.build import build_plan
from engine.plan.fingerprint import describe, differences
from engine.plan.matching import current
from engine.query.model import Field, QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse
from engine.query.types import arrow_type
from engine.recovery import recover
from engine.reports import TickReport
from engine.setup import Setup
from engine.sinks import open_sink, side_directory
from engine.stage import SIDE_KINDS, Stage
from engine.state.commits import CommitLog
from engine.state.files import Tiers
from engine.tick import Ticker

Rows = dict[str, pa.Table]  # by stream
Batches = Sequence[Sequence[pa.RecordBatch]]  # of each map task


@dataclass
class Clock:
    """A clock that tests set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class LocalTicker(Ticker):
    """Ticks in this process."""

    def step(self, rows: Any, brief: Brief) -> Outcome:
        if not self.setup.goes_on(self.planned):
            self.planned = self.setup  # as the runner does
        standing = brief.standing or self.standing
        if rows is None:
            packed = list(self._control())
        else:
            packed = [
                out for task in rows for out in Packing(standing.layouts, brief).run(iter(task))
            ]
        for number in range(self.planned.flow.stages):
            stage = Stage(standing, number)
            packed = [out for part in _shuffled(packed) for out in stage.run(iter(part), brief)]
        found = [
            tuple(column[row].as_py() for column in b.columns)
            for b in packed
            for row in range(b.num_rows)
        ]
        return outcome_of(self.setup.flow, found)

    def on_nodes(self, function: ArrowMap, schema: str) -> list[tuple[Any, ...]]:
        rows = [out for batch in self._control() for out in function(iter([batch]))]
        return [tuple(row.values()) for batch in rows for row in batch.to_pylist()]

    def homes(self) -> pulse.Homes:
        return {row[0]: row[1] for row in self.on_nodes(pulse.answer, pulse.ANSWER)}

    def _control(self) -> Iterator[pa.RecordBatch]:
        for node, token in enumerate(self.setup.tokens):
            yield packed_bytes(token, node, 0, 0, CONTROL, pa.py_buffer(b""))


class LocalSide(SideJobs):
    """Side jobs in this process, done when the test says so: files are read as they are by then."""

    def __init__(self, ticker: Ticker) -> None:
        self.ticker, self.eager = ticker, False
        self.waiting: list[tuple[Brief, Future[Found]]] = []

    def start(self, job: Job) -> Future[Found]:
        future: Future[Found] = Future()
        self.waiting.append((self.brief(job), future))
        if self.eager:
            self.work()
        return future

    def work(self) -> None:
        """Do what waits."""
        for brief, future in self.waiting:
            try:
                future.set_result(
                    {
                        node: json.loads(
                            json.dumps(quietly(Work(self.ticker.standing, brief, node), orders))
                        )
                        for node, orders in brief.work.items()
                    }
                )
            except SpillwayError as error:
                future.set_exception(error)
        self.waiting = []

    def wait(self, future: Future[Found]) -> None:
        self.work()

    def close(self) -> None:
        self.waiting = []


def _shuffled(packed: Sequence[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """One partition for each token that occurs; batches of one row, as many as there are."""
    parts: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in packed:
        for row in range(batch.num_rows):
            parts[batch.column(0)[row].as_py()].append(batch.slice(row, 1))
    return [parts[token] for token in sorted(parts)]


def stream(
    name: str, ddl: str, *, time: str | None = None, delay: float = 0.0, idle: float | None = None
) -> StreamSpec:
    """A stream whose rows the test hands over. Its format is one that Spark reads, so that rows have slots."""
    fields = tuple(Field(*part.split()) for part in ddl.split(", "))
    return StreamSpec(name, "json", "/nowhere", fields, time, delay, idle)


@dataclass
class Local:
    """A query and its life in one folder: ticks, restarts, what came out."""

    root: Path
    sql: str
    streams: Sequence[StreamSpec]
    nodes: int = 2
    groups: int = 16
    window_s: float | None = None
    order: str | None = None
    mask: int = FULL_MASK
    segment_bytes: int = 8_000_000
    clock: Clock = field(default_factory=Clock)
    reports: list[TickReport] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # rows of state after each tick

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.ticks = 0
        self.start(self.nodes)

    def spec(self) -> QuerySpec:
        sink = SinkSpec("parquet", str(self.root / "out"))
        return QuerySpec(
            "local",
            self.sql,
            {s.name: s for s in self.streams},
            sink,
            self.root / "cp",
            self.root / "q.toml",
            self.nodes,
            self.groups,
            self.window_s,
            join_order=self.order,
        )

    def start(self, nodes: int) -> None:
        """Begin, or go on after a restart, maybe with another number of nodes."""
        self.nodes = nodes
        spec = self.spec()
        self.query = analyse(spec)
        plan, log = build_plan(spec, self.query), CommitLog(self.root / "cp" / "commits")
        before = log.open(describe(plan))
        assert not before or not differences(before, describe(plan))
        known = log.recover().manifest.plan
        exact = self.mask == FULL_MASK
        self.query, plan, flow = current(spec, self.query, plan, known, exact=exact)
        folders = [self.root / "memory", self.root / "cp" / "state"]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        tiers = {
            op.id: Tiers(str(folders[0]), str(folders[1]), op.groups, self.segment_bytes)
            for op in flow.ops
        }
        sink = open_sink(spec.sink, spec.checkpoint, None)  # type: ignore[arg-type]
        sink.prepare()
        sink.maybe_compact = lambda: 0  # type: ignore[method-assign]  # files stay as their ticks made them
        sides = {
            f"{kind}/{i.alias}": side_directory(spec.checkpoint, kind, i.alias)
            for kind in SIDE_KINDS.values()
            for i in self.query.inputs
        }
        setup = Setup(
            plan,
            self.query,
            flow,
            ingest.lay_out(flow),
            tiers,
            tuple(100 + n for n in range(nodes)),
            2,
            self.mask,
            str(spec.checkpoint / "side"),
            spec=spec,
        )
        self.ticker = LocalTicker(None, setup, log, sink, sides, (self,), self.clock)  # type: ignore[arg-type]
        recover(self.ticker)

    def publish(self, report: TickReport) -> None:
        self.reports.append(report)
        self.kept.append(self.state_rows())

    def tick(
        self, rows: Rows | None, admissions: Mapping[str, Admission] | None = None, tasks: int = 1
    ) -> TickReport:
        """One tick with these rows of each stream (None: without input)."""
        given = (
            None if rows is None else [self._batches(rows, task, tasks) for task in range(tasks)]
        )
        batch = None if rows is None else self.ticks
        self.ticks += rows is not None
        return self.ticker.tick(given, batch, admissions or {})  # type: ignore[arg-type]

    def drain(self) -> None:
        """Let in all that waits."""
        flow = self.ticker.setup.flow
        for _ in range(3 * len(flow.ops)):
            if not self.ticker.manifest.holds:
                return
            everything = {op.id: Admission((), tuple(range(op.groups))) for op in flow.ops}
            self.tick(None, everything)
        raise AssertionError("held rows do not come in")

    def results(self) -> pa.Table:
        """All rows that came out, with the version that each came out in."""
        return _read(self.root / "out")

    def aside(self, kind: str, alias: str) -> pa.Table:
        """The rows of a side output."""
        return _read(self.root / "cp" / "side" / kind / alias)

    def state_rows(self) -> int:
        return sum(run.rows for runs in self.ticker.manifest.runs.values() for run in runs)

    def _batches(self, rows: Rows, task: int, tasks: int) -> list[pa.RecordBatch]:
        """What Spark would hand the map side: every source's columns in slots."""
        setup, out = self.ticker.setup, []
        for layout, source in zip(setup.union.layouts, setup.flow.sources, strict=True):
            table = rows.get(source.scan.stream.name)
            if table is None:
                continue
            table = table.slice(
                table.num_rows * task // tasks,
                table.num_rows * (task + 1) // tasks - table.num_rows * task // tasks,
            )
            columns: list[pa.Array] = [
                pa.array([layout.number] * table.num_rows, pa.int8()),
                pa.nulls(table.num_rows, pa.string()),
            ]
            given = dict(zip(layout.slots, layout.columns, strict=True))
            for slot, kind in enumerate(setup.union.slots):
                if slot not in given:
                    columns.append(pa.nulls(table.num_rows, arrow_type(kind)))
                    continue
                name = _plain(ingest._expr(given[slot].name, source.scan.input))
                columns.append(table.column(name).combine_chunks().cast(arrow_type(kind)))
            names = ["input", "path", *(f"s{n}" for n in range(len(setup.union.slots)))]
            out.append(pa.RecordBatch.from_arrays(columns, names=names))
        return out


class Meddler(Protocol):
    """Somebody who adapts the query while it lives."""

    def boundary(self, local: Local) -> None: ...
    def finish(self, local: Local) -> None: ...


def _plain(expr: str) -> str:
    """The column of an expression that is one, maybe cast to a wider type."""
    found = re.search(r"`([^`]+)`", expr)
    assert found, expr
    return found.group(1)


def _read(folder: Path) -> pa.Table:
    import pyarrow.parquet as pq

    parts = []
    for path in sorted(folder.glob("part-*.parquet")):
        table = pq.read_table(path)
        version = pa.array([int(path.name.split("-")[1])] * table.num_rows, pa.int64())
        parts.append(table.append_column("$version", version))
    return pa.concat_tables(parts) if parts else pa.table({})


__all__ = ["Clock", "Local", "LocalSide", "LocalTicker", "Meddler", "Rows", "stream"]
