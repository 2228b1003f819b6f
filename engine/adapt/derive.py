"""Side jobs of a migration, on a node: sorting a state anew for another key, and computing one by joining two.

What comes of it are runs on the nodes that will own their groups, durable and in memory; they count once the driver
commits the new plan. Rows are read in chunks of bounded size; runs are bounded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from engine.adapt import pieces
from engine.columns import Longs, concat, longs, take_rows
from engine.flow import Op
from engine.hashing import group_of, hash_keys
from engine.node_step import joined, merged
from engine.operators.multi_join import HASH, View, hashes, probe
from engine.state import files, hosts, ranges
from engine.state.files import Clock, Fresh, Tiers
from engine.state.model import Run, Runs
from engine.state.ranges import Ranges

CHUNK_BYTES = 48_000_000  # of rows that are new to a join, read at once; one group may exceed it
PILE_BYTES = 64_000_000  # of results, before they are sorted and written


@dataclass(frozen=True, slots=True)
class Onto:
    """Where rows go: a side of an operator of the new plan."""

    columns: tuple[str, ...]  # the key first
    keys: int
    times: tuple[str, ...]
    placement: tuple[int, ...]
    tiers: Tiers
    mask: int  # of hashes
    span_us: int | None = None  # as of the side: runs that end further apart in time stay apart
    room: Mapping[int, int] = field(
        default_factory=dict
    )  # bytes of memory by node; what is more is on disk only


@dataclass(frozen=True, slots=True)
class Resort:
    """Rows as they are, under another key or on other nodes."""

    runs: Runs
    tiers: Tiers
    onto: Onto


@dataclass(frozen=True, slots=True)
class Derive:
    """The results of a join that its sides' `new` rows make with each other and with the `old` ones."""

    op: Op
    tiers: Tiers
    old: tuple[Runs, ...]
    new: tuple[Runs, ...]
    onto: Onto


@dataclass(frozen=True, slots=True)
class Derived:
    """What came of an order: runs by node."""

    runs: dict[int, Runs]
    rows: int

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Derived:
        runs = {int(n): tuple(Run.unpack(r) for r in some) for n, some in raw["runs"].items()}
        return Derived(runs, raw["rows"])

    @property
    def bytes(self) -> dict[int, int]:
        return {node: sum(run.bytes for run in runs) for node, runs in self.runs.items()}


def runs_of(order: Resort | Derive) -> list[Run]:
    """What an order reads."""
    if isinstance(order, Resort):
        return list(order.runs)
    return [run for runs in (*order.old, *order.new) for run in runs]


def carry_out(order: Resort | Derive, version: int) -> dict[str, Any]:
    """On a node: do it, and say what was written."""
    piles = _Piles(order.onto, version)
    for rows in _resorted(order) if isinstance(order, Resort) else _derived(order):
        piles.add(rows)
    piles.flush()
    runs = {node: [run.pack() for run in made] for node, made in piles.made.items()}
    return {"runs": runs, "rows": piles.rows}


def _resorted(order: Resort) -> Iterator[pa.RecordBatch]:
    tiers = hosts.here(order.tiers)
    for run in order.runs:
        files.ensure(run, tiers)
        for batch in files.lying(run, tiers):
            yield from files.slices(batch, run.groups, tiers.groups)


def _derived(order: Derive) -> Iterator[pa.RecordBatch]:
    op, tiers = order.op, hosts.here(order.tiers)
    for run in runs_of(order):
        files.ensure(run, tiers)
    for groups in _chunks(order):
        fresh = merged([_read(runs, groups, tiers) for runs in order.new])
        views = [[View(_of(run, groups, tiers)) for run in runs] for runs in order.old]
        views = [[view for view in mine if view.segments] for mine in views]
        for side, delta in enumerate(fresh):
            if not delta:
                continue
            for chunk in probe(
                delta[0],
                side,
                views,
                keys=op.keys,
                exact_hash=op.exact_hash,
                wanted=op.wanted,
                limits=op.limits,
            ):
                yield joined(chunk, op)
            views[side].append(View(delta))


def _chunks(order: Derive) -> Iterator[Ranges]:
    """Consecutive groups with new rows that are not too much at once."""
    count = order.tiers.groups
    sizes = np.zeros(count, dtype=np.int64)
    for runs in order.new:
        for run in runs:
            sizes += run.bytes_of(count)
    yield from pieces.chunks(sizes, np.flatnonzero(sizes), CHUNK_BYTES)


def _read(runs: Runs, groups: Ranges, tiers: Tiers) -> list[pa.RecordBatch]:
    return [part for run in runs for part in _of(run, groups, tiers)]


def _of(run: Run, groups: Ranges, tiers: Tiers) -> list[pa.RecordBatch]:
    """The run's rows of some groups, as they lie there."""
    mine = ranges.both(run.groups, groups)
    return [
        part
        for batch in files.lying(run, tiers)
        for part in files.slices(batch, mine, tiers.groups)
    ]


@dataclass
class _Piles:
    """Rows on their way to the nodes that will own them."""

    onto: Onto
    version: int
    made: dict[int, list[Run]] = field(default_factory=dict)
    rows: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        picked = rows.select(list(self.onto.columns))
        marks = pa.array(hash_keys(picked.columns[: self.onto.keys], self.onto.mask, nulls=False))
        names = [HASH, *picked.schema.names]
        self.waiting.append(pa.RecordBatch.from_arrays([marks, *picked.columns], names=names))
        self.rows += picked.num_rows
        self.size += picked.nbytes
        if self.size >= PILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits, a run for each node."""
        if not self.rows or not self.waiting:
            return
        onto, tiers = self.onto, hosts.here(self.onto.tiers)
        whole = files.sort_batch(concat(self.waiting))
        self.waiting, self.size = [], 0
        owner = np.array(onto.placement)[group_of(hashes(whole), tiers.groups)]
        for node in np.unique(owner).tolist():
            for rows in self._spans(whole, np.flatnonzero(owner == node)):
                mine = take_rows(whole, rows)
                fresh, fits = Fresh(self.version, node), self._fits(node, mine.nbytes)
                made = files.written(mine, tiers, fresh, Clock(onto.times), memory=fits)
                self.made.setdefault(node, []).extend(made)

    def _spans(self, whole: pa.RecordBatch, rows: Longs) -> Iterator[Longs]:
        """Rows that go at about the same time, so that they need not stay for the youngest of all. Two spans at once:
        what is made here is not merged with what other nodes make."""
        if self.onto.span_us is None or not self.onto.times:
            yield rows
            return
        span = longs(whole.column(self.onto.times[0]))[rows] // (2 * self.onto.span_us)
        for one in np.unique(span):
            yield rows[span == one]

    def _fits(self, node: int, size: int) -> bool:
        """Is there room for so much more in the node's memory?"""
        if node not in self.onto.room:
            return True
        have = sum(run.bytes for run in self.made.get(node, ()))
        return have + size <= self.onto.room[node]
