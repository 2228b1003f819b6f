"""The exchange: rows hashed, sorted and packed by node, one reduce partition per node.

The map side is one Python stage (`Pack`): it takes rows that Spark read, or the names of Parquet files
which it reads itself, and hands on one small row per node and input with the columns inside. So the
shuffle moves a few large values instead of many rows. Reasons and figures: docs/decisions.
How rows get here is ingest.py's business, what a node does with them stage.py's, when to hold a group
admission.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine import brief
from engine.brief import Brief
from engine.columns import Longs, concat, longs, take_rows
from engine.errors import SpillwayError
from engine.hashing import group_of, hash_keys
from engine.ingest import Layout, read
from engine.offsets import Numbering
from engine.operators.multi_join import HASH

DELTA, HELD, NULL_KEY, LATE, SEEN, REPORT, CONTROL, ADDED = range(8)
PACKED = "token int, node int, op int, side int, kind int, body binary"
_NUMBERS = ("token", "node", "op", "side", "kind")
_PACKED = pa.schema([*((name, pa.int32()) for name in _NUMBERS), ("body", pa.binary())])
PACK_ROWS_MAX = 1_000_000
PACK_BYTES_MAX = 128 << 20  # several copies of a packed row are in the JVM at once; 2 GB fit no row


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one operator's groups go in one tick."""

    op: int
    groups: int
    node: Longs  # the task that gets a group's rows: its owner, or for a held group any writer
    held: Longs  # 1: the group waits in the hold buffer
    tokens: tuple[int, ...]  # of each node
    mask: int

    def send(
        self, side: int, batch: pa.RecordBatch, keys: int, schema: pa.Schema, *, nulls: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Hash and sort rows whose first `keys` columns are the key, and cut them by node. `nulls`: there may
        be some in the key."""
        marks = hash_keys(batch.columns[:keys], self.mask, nulls=nulls)
        order = np.argsort(marks)
        marks = marks[order]
        whole = pa.RecordBatch.from_arrays(
            [pa.array(marks), *take_rows(batch, order).columns], schema=schema
        )
        group = group_of(marks, self.groups)
        bucket = (2 * self.node[group] + self.held[group]).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket))
        for b in np.flatnonzero(np.diff(np.r_[0, ends])):
            start = ends[b - 1] if b else 0
            part = take_rows(whole, order[start : ends[b]])
            target, kind = divmod(int(b), 2)
            yield packed(self.tokens[target], target, self.op, side, kind, part)


def route_of(
    op: int,
    placement: Sequence[int],
    tokens: Sequence[int],
    held: Sequence[int],
    writer: int,
    mask: int,
) -> Route:
    """Routing for one tick: held groups go to `writer`, all others to their owner."""
    node = np.array(placement, dtype=np.int64)
    waits = np.zeros(len(node), dtype=np.int64)
    waits[list(held)] = 1
    return Route(op, len(node), np.where(waits == 1, writer, node), waits, tuple(tokens), mask)


@dataclass(frozen=True, slots=True)
class Pack:
    """The map side, called by Spark in a Python worker. `layouts`: of the plan that the query began with."""

    layouts: tuple[Layout, ...]
    tasks: int = 1  # at most so many run it in one tick

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        try:
            task = context.partitionId() if context is not None else 0
            tick = brief.take()
            layouts = tick.standing.layouts if tick.standing else self.layouts
            yield from Packing(layouts, tick, task, self.tasks).run(batches)
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error


class Packing:
    """The map side in one task."""

    def __init__(
        self, layouts: Sequence[Layout], tick: Brief, task: int = 0, tasks: int = 1
    ) -> None:
        self.layouts, self.routes, self.marks = layouts, tick.routes, tick.marks
        self.tick, self.task, self.tasks = tick, task, tasks
        self.numbered: dict[int, int] = {}  # rows so far, by source

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of the union in, packed rows out."""
        if (self.tick.wake or self.tick.everyone) and self.task == 0:
            yield from self._wake()
        waiting: dict[int, list[pa.RecordBatch]] = {}
        for number, rows in self._inputs(batches):
            for piece in _pieces(rows):
                pile = waiting.setdefault(number, [])
                pile.append(piece)
                if _full(pile):
                    yield from self._send(number, waiting.pop(number))
        for number, pile in waiting.items():
            yield from self._send(number, pile)

    def _inputs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The columns of each input's rows."""
        for batch in batches:
            if not batch.num_rows:
                continue
            inputs = batch.column(0).to_numpy(zero_copy_only=False)
            for number in np.unique(inputs).tolist():
                rows = (
                    batch if (inputs == number).all() else batch.filter(pa.array(inputs == number))
                )
                for part in read(self.layouts[number], rows):
                    yield number, part

    def _send(self, number: int, pile: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout, batch = self.layouts[number], concat(pile)
        missing = _nulls(batch, layout)
        if missing is not None:
            yield self._aside(layout, NULL_KEY, batch.filter(missing))
            batch = batch.filter(pc.invert(missing))
        if layout.time is not None and batch.num_rows:
            stamps = longs(batch.column(layout.time))
            yield self._seen(layout, int(stamps.max()))
            late = stamps < self.marks.get(layout.mark, np.iinfo(np.int64).min)
            if late.any():
                yield self._aside(layout, LATE, batch.filter(pa.array(late)))
                batch = batch.filter(pa.array(~late))
        if batch.num_rows:
            if layout.offset is not None:
                batch = self._numbered(layout, batch)
            route, schema = self.routes[layout.op], layout.sorted_schema(HASH)
            yield from route.send(layout.side, batch, layout.keys, schema, nulls=layout.nullable)
            for feed in layout.also:
                other = batch.select(feed.columns)
                schema = pa.schema([(HASH, pa.uint64()), *other.schema])
                yield from self.routes[feed.op].send(
                    feed.side, other, feed.keys, schema, nulls=layout.nullable
                )

    def _numbered(self, layout: Layout, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its rows' offsets."""
        first = self.numbered.get(layout.number, 0)
        self.numbered[layout.number] = first + batch.num_rows
        numbering = Numbering(
            layout.stream, layout.streams, self.tick.version, self.task, self.tasks
        )
        numbers = pa.array(numbering.offsets(first, batch.num_rows))
        names = [*batch.schema.names, layout.offset]
        return pa.RecordBatch.from_arrays([*batch.columns, numbers], names=names)

    def _wake(self) -> Iterator[pa.RecordBatch]:
        """Every node has something to do in this tick, also those to which no row goes."""
        for node, token in enumerate(self.routes[0].tokens):
            yield packed_bytes(token, node, 0, 0, CONTROL, pa.py_buffer(b""))

    def _aside(self, layout: Layout, kind: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows for a side output: any node can write them."""
        return packed(self.routes[layout.op].tokens[0], 0, layout.number, layout.side, kind, batch)

    def _seen(self, layout: Layout, stamp: int) -> pa.RecordBatch:
        body = json.dumps([layout.mark, stamp]).encode()
        return packed_bytes(
            self.routes[layout.op].tokens[0], 0, layout.number, 0, SEEN, pa.py_buffer(body)
        )


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices that can be packed; wide rows make it several."""
    step = max(1, rows.num_rows * PACK_BYTES_MAX // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _full(pile: Sequence[pa.RecordBatch]) -> bool:
    rows, size = sum(b.num_rows for b in pile), sum(b.nbytes for b in pile)
    return bool(rows >= PACK_ROWS_MAX or size >= PACK_BYTES_MAX)


def _nulls(batch: pa.RecordBatch, layout: Layout) -> pa.Array | None:
    """Which rows have a null in a key or time, and so join nothing; None when none has."""
    names = [name for name in layout.needed if batch.column(name).null_count]
    return reduce(pc.or_, [pc.is_null(batch.column(name)) for name in names]) if names else None


def packed(
    token: int, node: int, op: int, side: int, kind: int, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """One row of the shuffle: the batch as Arrow IPC in a binary value, without a further copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return packed_bytes(token, node, op, side, kind, sink.getvalue())


def packed_bytes(
    token: int, node: int, op: int, side: int, kind: int, body: pa.Buffer
) -> pa.RecordBatch:
    """One row of the shuffle with any body."""
    offsets = pa.py_buffer(np.array([0, body.size], dtype=np.int32))
    value = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, body])
    numbers = [pa.array([n], pa.int32()) for n in (token, node, op, side, kind)]
    return pa.RecordBatch.from_arrays([*numbers, value], schema=_PACKED)


def passed(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """Some rows of the shuffle, for a later stage. Spark may say that none of their values can be null; all that a
    task hands on must be of one mind about it."""
    return pa.RecordBatch.from_arrays(batch.take(pa.array(rows)).columns, schema=_PACKED)


def unpack(body: pa.BinaryScalar) -> pa.RecordBatch:
    """The batch inside a packed row."""
    return pa.ipc.open_stream(body.as_buffer()).read_next_batch()
