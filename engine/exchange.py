"""The exchange: rows of every input, hashed, sorted and packed by node, one reduce partition per node.

The map side is one Python stage (`Pack`): it takes rows that Spark read, or the names of Parquet files
which it reads itself, and hands on one small row per node and input with the columns inside. So the
shuffle moves a few large values instead of many rows. Reasons and figures: docs/decisions.
What a node does with its rows is node_task.py's business; when to hold a group is admission.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import Longs, concat, take_rows
from engine.errors import SpillwayError
from engine.hashing import group_of, hash_keys
from engine.operators.multi_join import HASH
from engine.plan.tree import MultiJoin
from engine.query.model import Field, JoinInput, key_id
from engine.query.types import arrow_type
from engine.sources.native import is_native, read_native

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA, HELD, NULL_KEY = 0, 1, 2
PACKED = "token int, node int, input int, kind int, body binary"
_PACKED = pa.schema([("token", pa.int32()), ("node", pa.int32()), ("input", pa.int32()),
                     ("kind", pa.int32()), ("body", pa.binary())])
PACK_ROWS_MAX = 1_000_000
PACK_BYTES_MAX = 128 << 20  # several copies of a packed row are in the JVM at once; 2 GB fit no row


@dataclass(frozen=True, slots=True)
class Layout:
    """How one input travels: which columns it has in state, and where they are in the union's rows."""

    input: int
    keys: tuple[Field, ...]  # named $0, $1, …
    payload: tuple[Field, ...]
    native: tuple[str, ...] | None  # the file's key columns, when the task reads the file
    fields: tuple[Field, ...]  # the stream's declared columns
    slots: tuple[int, ...]  # of each payload column, when Spark reads

    def schema(self) -> pa.Schema:
        """Columns of a sorted batch: hash, key parts, payload."""
        columns = [(f.name, arrow_type(f.type)) for f in (*self.keys, *self.payload)]
        return pa.schema([(HASH, pa.uint64()), *columns])


@dataclass(frozen=True, slots=True)
class Union:
    """The one schema of all inputs: `input`, `path`, key parts, and slots shared by columns of a type."""

    layouts: tuple[Layout, ...]
    slots: tuple[str, ...]  # Spark type of each


def lay_out(join: MultiJoin) -> Union:
    """Decide how each input travels."""
    slots: list[str] = []
    layouts = []
    for i, child in enumerate(join.children):
        scan, used = child.child, set[int]()
        native = _native_keys(scan.input) if is_native(scan.stream) else None
        mine = [] if native is not None else [_slot(f.type, slots, used) for f in scan.input.payload]
        keys = tuple(Field(key_id(n), part.type) for n, part in enumerate(scan.input.keys))
        layouts.append(Layout(i, keys, scan.input.payload, native, scan.stream.fields, tuple(mine)))
    return Union(tuple(layouts), tuple(slots))


def _native_keys(source: JoinInput) -> tuple[str, ...] | None:
    """The key columns, if the columnar reader can do without Spark SQL."""
    names = tuple(part.column for part in source.keys if part.column is not None)
    return names if source.where is None and len(names) == len(source.keys) else None


def _slot(kind: str, slots: list[str], used: set[int]) -> int:
    """A slot of this type that the input does not use yet."""
    free = [i for i, have in enumerate(slots) if have == kind and i not in used]
    if not free:
        slots.append(kind)
        free = [len(slots) - 1]
    used.add(free[0])
    return free[0]


def streaming_union(spark: SparkSession, join: MultiJoin, union: Union) -> DataFrame:
    """All inputs as one streaming DataFrame; filters and projections run in Spark SQL."""
    parts = [
        _select(spark, join, layout, union)
        for layout in union.layouts
    ]
    return reduce(lambda a, b: a.unionAll(b), parts)


def _select(spark: SparkSession, join: MultiJoin, layout: Layout, union: Union) -> DataFrame:
    from engine.sources.files import open_file_list, open_stream

    scan = join.children[layout.input].child
    native = layout.native is not None
    rows = open_file_list(spark, scan.stream) if native else open_stream(spark, scan.stream)
    if scan.input.where:
        rows = rows.where(scan.input.where)
    slots = dict(zip(layout.slots, layout.payload, strict=False))
    columns = [f"cast({layout.input} as tinyint) as input", f"{'path' if native else 'cast(null as string)'} as path"]
    for n, part in enumerate(scan.input.keys):
        columns.append(f"cast({'null' if native else part.expr} as {part.type}) as k{n}")
    for n, kind in enumerate(union.slots):
        value = f"`{slots[n].name.replace('`', '``')}`" if n in slots else "null"
        columns.append(f"cast({value} as {kind}) as s{n}")
    return rows.selectExpr(*columns)


@dataclass(frozen=True, slots=True)
class Routing:
    """Where each group's rows go in one tick."""

    groups: int
    node: Longs  # the task that gets a group's rows: its owner, or for a held group any writer
    held: Longs  # 1: the group waits in the hold buffer
    tokens: tuple[int, ...]  # of each node
    mask: int


@dataclass(frozen=True, slots=True)
class Pack:
    """The map side, called by Spark in a Python worker."""

    union: Union
    routing: Routing

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._pack(batches)
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error

    def _pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[int, list[pa.RecordBatch]] = {}
        for index, rows in self._inputs(batches):
            for piece in _pieces(rows):
                pile = waiting.setdefault(index, [])
                pile.append(piece)
                if _full(pile):
                    yield from self._send(index, waiting.pop(index))
        for index, pile in waiting.items():
            yield from self._send(index, pile)

    def _inputs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Key and payload columns, input by input."""
        for batch in batches:
            if not batch.num_rows:
                continue
            inputs = batch.column(0).to_numpy(zero_copy_only=False)
            for index in np.unique(inputs).tolist():
                rows = batch if (inputs == index).all() else batch.filter(pa.array(inputs == index))
                layout = self.union.layouts[index]
                for part in _read(layout, rows):
                    yield index, part

    def _send(self, index: int, pile: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout, batch = self.union.layouts[index], concat(pile)
        missing = _null_keys(batch, len(layout.keys))
        if missing is not None:
            yield _packed(self.routing.tokens[0], 0, index, NULL_KEY, batch.filter(missing))
            batch = batch.filter(pc.invert(missing))
        if not batch.num_rows:
            return
        marks = hash_keys(batch.columns[: len(layout.keys)], self.routing.mask)
        order = np.argsort(marks)
        marks = marks[order]
        whole = pa.RecordBatch.from_arrays(
            [pa.array(marks), *take_rows(batch, order).columns], schema=layout.schema())
        yield from self._route(index, whole, group_of(marks, self.routing.groups))

    def _route(self, index: int, batch: pa.RecordBatch, group: Longs) -> Iterator[pa.RecordBatch]:
        """Cut a sorted batch by node, and by whether its groups wait."""
        node = self.routing.node[group]
        kind = self.routing.held[group]
        bucket = (2 * node + kind).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket))
        for b in np.flatnonzero(np.diff(np.r_[0, ends])):
            start = ends[b - 1] if b else 0
            part = take_rows(batch, order[start : ends[b]])
            target = int(b) // 2
            yield _packed(self.routing.tokens[target], target, index, int(b) % 2, part)


def _read(layout: Layout, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(list(layout.schema())[1:])
    if layout.native is None:
        keys = [rows.column(2 + n) for n in range(len(layout.keys))]
        slots = [rows.column(2 + len(layout.keys) + n) for n in layout.slots]
        yield pa.RecordBatch.from_arrays([*keys, *slots], schema=schema)
        return
    names = [*layout.native, *(f.name for f in layout.payload)]
    for path in rows.column(1).to_pylist():
        table = read_native(path, names, layout.fields).combine_chunks()
        for part in table.to_batches():
            columns = [c.cast(f.type) if c.type != f.type else c
                       for c, f in zip(part.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices that can be packed; wide rows make it several."""
    step = max(1, rows.num_rows * PACK_BYTES_MAX // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _full(pile: Sequence[pa.RecordBatch]) -> bool:
    rows, size = sum(b.num_rows for b in pile), sum(b.nbytes for b in pile)
    return bool(rows >= PACK_ROWS_MAX or size >= PACK_BYTES_MAX)


def _null_keys(batch: pa.RecordBatch, keys: int) -> pa.Array | None:
    """Which rows have a null in their key; None when none has."""
    nulls = [pc.is_null(batch.column(i)) for i in range(keys) if batch.column(i).null_count]
    return reduce(pc.or_, nulls) if nulls else None


def _packed(token: int, node: int, index: int, kind: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row of the shuffle: the batch as Arrow IPC in a binary value, without a further copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue()
    offsets = pa.py_buffer(np.array([0, body.size], dtype=np.int32))
    value = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, body])
    numbers = [pa.array([n], pa.int32()) for n in (token, node, index, kind)]
    return pa.RecordBatch.from_arrays([*numbers, value], schema=_PACKED)


def unpack(body: pa.BinaryScalar) -> pa.RecordBatch:
    """The batch inside a packed row."""
    return pa.ipc.open_stream(body.as_buffer()).read_next_batch()


def routing_of(
    placement: Sequence[int], tokens: Sequence[int], held: Sequence[int], writer: int, mask: int
) -> Routing:
    """Routing for one tick: held groups go to `writer`, all others to their owner."""
    node = np.array(placement, dtype=np.int64)
    waits = np.zeros(len(node), dtype=np.int64)
    waits[list(held)] = 1
    return Routing(len(node), np.where(waits == 1, writer, node), waits, tuple(tokens), mask)
