"""Side jobs on nodes: making runs lighter, copying groups, merging generations with the results that they owe.

One function for Spark to map over each node's partition; what there is to do is in the brief. It works in a
thread of low priority, beside the ticks. Files it writes count once the driver commits what it returns.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine import brief
from engine.adapt import derive, pieces
from engine.adapt.derive import Derive, Resort
from engine.brief import Brief
from engine.columns import concat, row_bytes
from engine.errors import SpillwayError
from engine.flow import Op
from engine.hashing import group_of, group_offsets, hash_keys
from engine.node_step import Results, joined, merged
from engine.operators.multi_join import HASH, Chunk, hashes
from engine.operators.owed import owed
from engine.state import files, hosts, ranges
from engine.state.files import Clock, Fresh
from engine.state.model import Hold, Run, Runs, Segment, Times, pack_counts
from engine.state.ranges import Ranges
from engine.state.stats import GroupDelta, by_group, sparse

if TYPE_CHECKING:
    from engine.stage import Standing

DONE = "node int, found string"
_DONE = pa.schema([("node", pa.int32()), ("found", pa.string())])
NICE = 10
CHUNK_BYTES = 48_000_000  # of all generations' rows, read at once; one group may exceed it
HOLD_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Lighten:
    """Write a run's memory anew without rows that do not count."""

    op: int
    side: int
    run: Run


@dataclass(frozen=True, slots=True)
class Copy:
    """Make a run in this node's memory of some groups of a run, which may be another node's."""

    op: int
    side: int
    run: Run
    groups: Ranges


@dataclass(frozen=True, slots=True)
class Merge:
    """Make one generation of several, and the results that they owe each other."""

    op: int
    groups: Ranges
    generations: tuple[tuple[Runs, ...], ...]  # of each: the runs of each side


Order = Lighten | Copy | Merge | Resort | Derive


@dataclass(slots=True)
class Merged:
    """What a merge made."""

    runs: tuple[Runs, ...]  # of each side
    staged: list[list[Any]] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    rows: int = 0  # results
    bytes: int = 0  # read from disk
    cpu_s: float = 0.0
    join_cpu_s: float = 0.0  # of it, for finding and writing results
    read: list[int] = field(default_factory=list)  # of each side, its rows' key hashes added up
    wrote: list[int] = field(default_factory=list)
    delta: GroupDelta | None = None

    def pack(self) -> dict[str, Any]:
        assert self.delta is not None
        return {
            "runs": [[run.pack() for run in runs] for runs in self.runs],
            "staged": self.staged,
            "holds": [hold.pack() for hold in self.holds],
            "rows": self.rows,
            "bytes": self.bytes,
            "cpu_s": self.cpu_s,
            "join_cpu_s": self.join_cpu_s,
            "read": self.read,
            "wrote": self.wrote,
            "delta": self.delta.pack(),
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Merged:
        return Merged(
            tuple(tuple(Run.unpack(r) for r in runs) for runs in raw["runs"]),
            raw["staged"],
            [Hold.unpack(hold) for hold in raw["holds"]],
            raw["rows"],
            raw["bytes"],
            raw["cpu_s"],
            raw["join_cpu_s"],
            raw["read"],
            raw["wrote"],
            GroupDelta.unpack(raw["delta"]),
        )


@dataclass(frozen=True, slots=True)
class SideTask:
    """The function that Spark maps over each node's partition."""

    plan: Standing

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            tick = brief.take()
            for batch in batches:
                for node in batch.column(1).to_pylist():
                    if orders := tick.work.get(node):
                        found = quietly(Work(self.plan, tick, node), orders)
                        yield pa.RecordBatch.from_arrays(
                            [pa.array([node], pa.int32()), pa.array([json.dumps(found)])],
                            schema=_DONE,
                        )
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error
        except OSError as error:
            raise RuntimeError(files.write_error(str(error.filename), error).encode()) from error


def quietly(work: Work, orders: Sequence[Order]) -> list[Any]:
    """In a thread of its own, as the priority that a thread gives away does not come back."""

    def run() -> list[Any]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        return [work.do(order) for order in orders]

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Work:
    def __init__(self, plan: Standing, tick: Brief, node: int) -> None:
        self.plan, self.tick, self.node = plan, tick, node
        self.fresh = Fresh(tick.version, node)

    def do(self, order: Order) -> list[Any]:
        """What came of it, and the seconds that it took: of CPU, and in all."""
        cpu, wall = time.thread_time(), time.perf_counter()
        made = self._made(order)
        return [made, time.thread_time() - cpu, time.perf_counter() - wall]

    def _made(self, order: Order) -> Any:
        if isinstance(order, Resort | Derive):
            return derive.carry_out(order, self.tick.version)
        op = self.plan.flow.ops[order.op]
        tiers = hosts.here(self.plan.tiers[op.id])
        if isinstance(order, Lighten):
            return pieces.shrink(order.run, tiers, self.fresh).pack()
        if isinstance(order, Copy):
            parts = pieces.extract(order.run, order.groups, tiers)
            if not parts:
                return None
            return pieces.build(parts, order.run, order.groups, tiers, self.fresh).pack()
        return _Merging(self, op, tiers, order).run().pack()


class _Merging:
    """One merge, some groups at a time."""

    def __init__(self, work: Work, op: Op, tiers: files.Tiers, order: Merge) -> None:
        self.work, self.op, self.tiers, self.order = work, op, tiers, order
        self.clocks = [Clock(side.times) for side in op.sides]
        self.made = [_Pile(tiers, work.fresh, clock) for clock in self.clocks]
        self.rows_out = np.zeros(op.groups, dtype=np.int64)
        self.pending: list[pa.RecordBatch] = []
        self.read = [0] * len(op.sides)
        self.out = Merged(())

    def run(self) -> Merged:
        cpu = time.thread_time()
        plan, node = self.work.plan, self.work.node
        sink = Results(plan, self.work.tick.version, self.op, node) if self._root else None
        try:
            for some in self._chunks():
                self._one(some, sink)
            if sink is not None:
                self.out.staged = sink.close()
        except BaseException:
            if sink is not None:
                sink.writer.abort()
            raise
        self._hold()
        nothing = np.zeros(self.op.groups, dtype=np.int64)
        self.out.runs = tuple(pile.runs() for pile in self.made)
        self.out.rows = int(self.rows_out.sum())
        self.out.read, self.out.wrote = self.read, [pile.marks for pile in self.made]
        self.out.delta = sparse(nothing, nothing, self.rows_out)
        self.out.cpu_s = time.thread_time() - cpu
        return self.out

    @property
    def _root(self) -> bool:
        return self.op.target is None

    def _chunks(self) -> Iterator[Ranges]:
        """Consecutive groups that are not too much at once."""
        groups = self.op.groups
        sizes = np.zeros(groups, dtype=np.int64)
        for generation in self.order.generations:
            for runs in generation:
                for run in runs:
                    sizes += run.bytes_of(groups)
        wanted = np.flatnonzero(ranges.mask(self.order.groups, groups))
        yield from pieces.chunks(sizes, wanted, CHUNK_BYTES)

    def _one(self, groups: Ranges, sink: Results | None) -> None:
        op = self.op
        generations = [
            merged([self._read(side, runs, groups) for side, runs in enumerate(generation)])
            for generation in self.order.generations
        ]
        cpu = time.thread_time()
        for chunk in owed(
            generations,
            keys=op.keys,
            exact_hash=op.exact_hash,
            wanted=op.wanted,
            limits=op.limits,
        ):
            ids = group_of(chunk.hashes, op.groups)
            if sink is not None:
                ids, counts = sink.take(chunk, ids)
            else:
                counts = chunk.counts
                self._upward(chunk)
            self.rows_out += by_group(ids, counts, op.groups)
        self.out.join_cpu_s += time.thread_time() - cpu
        for side, pile in enumerate(self.made):
            rows = [b for generation in generations for b in generation[side]]
            if rows:
                pile.add(rows[0] if len(rows) == 1 else files.sort_batch(concat(rows)))

    def _read(self, side: int, runs: Runs, groups: Ranges) -> list[pa.RecordBatch]:
        found = [part for run in runs for part in pieces.extract(run, groups, self.tiers)]
        self.out.bytes += sum(part.nbytes for part in found)
        self.read[side] = added(self.read[side], found)
        return found

    def _upward(self, chunk: Chunk) -> None:
        """Results for an operator above wait at its exchange, like any rows that are held."""
        assert self.op.target is not None
        above = self.work.plan.flow.ops[self.op.target.op]
        side = above.sides[self.op.target.side]
        rows = joined(chunk, self.op).select([f.name for f in side.columns])
        marks = hash_keys(
            rows.columns[: above.keys],
            self.work.tick.routes[above.number].mask,
            nulls=above.grouping is not None,
        )
        self.pending.append(
            pa.RecordBatch.from_arrays(
                [pa.array(marks), *rows.columns], names=[HASH, *rows.schema.names]
            )
        )
        if sum(batch.num_rows for batch in self.pending) >= HOLD_ROWS:
            self._hold()

    def _hold(self) -> None:
        if self.pending:
            assert self.op.target is not None
            above = self.work.plan.flow.ops[self.op.target.op]
            tiers = hosts.here(self.work.plan.tiers[above.id])
            at, batch = self.op.target.side, files.sort_batch(concat(self.pending))
            clock = Clock(above.sides[at].times)
            self.out.holds.append(files.hold(above.id, at, batch, clock, tiers, self.work.fresh))
            self.pending = []


def added(total: int, batches: Sequence[pa.RecordBatch]) -> int:
    """Key hashes of rows added up, in whatever order they come: a row more or less changes it."""
    for batch in batches:
        total += int(hashes(batch).sum(dtype=np.uint64))
    return total & 0xFFFF_FFFF_FFFF_FFFF


class _Pile:
    """A run on disk, written piece by piece in hash order."""

    def __init__(self, tiers: files.Tiers, fresh: Fresh, clock: Clock) -> None:
        self.tiers, self.fresh, self.clock = tiers, fresh, clock
        self.segments: list[Segment] = []
        self.counts, self.bytes = np.zeros((2, tiers.groups), dtype=np.int64)
        self.times: list[Times] = []
        self.marks = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.segments += files.write_run(batch, self.tiers, self.fresh, [self.tiers.durable])
        starts = group_offsets(hashes(batch), self.tiers.groups)
        self.counts += np.diff(starts)
        self.bytes += row_bytes(batch, starts)
        self.times.append(self.clock.of(batch))
        self.marks = added(self.marks, [batch])

    def runs(self) -> Runs:
        if not self.segments:
            return ()
        rows, name = int(self.counts.sum()), self.fresh.name()[:-6]
        durable, times = tuple(self.segments), files.hull(self.times)
        return (Run(name, rows, (), durable, times, pack_counts(self.counts, self.bytes)),)
