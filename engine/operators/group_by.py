"""`group_by`: per key, statistics over the last rows or the last stretch of time, as a pure function.

All rows of a key that may still matter are in one place, sorted by hash into runs like any other state.
Every row gives one result, once the watermark has passed its time: then nothing older can come, and
the order by (time, stream, offset) is final. So state needs no mark on its rows: what is older than the
last watermark has had its result and is kept as history, as long as frames can still reach it; what
is younger waits. No file is read or written here; the aggregates themselves are in rolling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.columns import Longs, concat, longs, take_rows
from engine.operators import rolling
from engine.operators.multi_join import (
    MATCHED_ROWS_MAX,
    Chunk,
    Hashes,
    View,
    bounded,
    distinct_of,
    hashes,
    spread,
)
from engine.operators.rolling import Ordered
from engine.query.model import Aggregate
from engine.query.types import arrow_type

Prepare = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Grouping:
    """What is computed. Columns are named as in state, where the hash is first and then the key.

    `time` is the event time that orders rows; `order` what decides among equal times, a stream's
    offset last. `arguments` may add columns that aggregates read.
    """

    keys: int
    time: str
    order: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    exact_hash: bool = False
    wanted: tuple[str, ...] = ()  # columns that results carry

    @property
    def rows(self) -> int:
        """How many rows of each key a row to come may look back on."""
        return max((a.frame.rows for a in self.aggregates if a.frame.rows is not None), default=0)

    @property
    def us(self) -> int:
        """How far back in time a row to come may look."""
        return max((a.frame.us for a in self.aggregates if a.frame.us is not None), default=0)


def step(
    views: Sequence[View],
    since: int,
    until: int,
    grouping: Grouping,
    *,
    prepare: Prepare | None = None,
    rows_max: int = MATCHED_ROWS_MAX,
) -> Iterator[Chunk]:
    """The results of all rows with since ≤ time < until: their columns, and the aggregates by id."""
    due = [_due(view, since, until, grouping) for view in views]
    distinct = np.unique(np.concatenate([*due, np.empty(0, np.uint64)]))
    found = [view.locate(distinct) for view in views]
    weights = np.zeros(len(distinct), dtype=np.int64)
    for _, count in found:
        weights += count
    for part in bounded(weights, rows_max):
        pieces = [
            _reach(view.take(spread(first[part], count[part])), since, until, grouping)
            for view, (first, count) in zip(views, found, strict=True)
            if count[part].any()
        ]
        batch = concat([piece for piece in pieces if piece.num_rows])
        yield _results(prepare(batch) if prepare else batch, since, grouping)


def _due(view: View, since: int, until: int, grouping: Grouping) -> Hashes:
    """The hashes of a run's rows whose results are due."""
    found = [np.empty(0, dtype=np.uint64)]
    for segment, marks in zip(view.segments, view.hashes, strict=True):
        time = longs(segment.column(grouping.time))
        found.append(np.unique(marks[(time >= since) & (time < until)]))
    return np.concatenate(found)


def _reach(batch: pa.RecordBatch, since: int, until: int, grouping: Grouping) -> pa.RecordBatch:
    """The rows that frames of due rows can hold, as far as time alone tells."""
    time = longs(batch.column(grouping.time))
    keep = time < until
    if not grouping.rows:
        keep &= time >= since - grouping.us
    return batch if keep.all() else take_rows(batch, np.flatnonzero(keep))


def _codes(column: pa.Array) -> Longs:
    """A number for each distinct value; null is one of them, as SQL groups."""
    coded = column.dictionary_encode(null_encoding="encode").indices
    codes: Longs = coded.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _arranged(batch: pa.RecordBatch, grouping: Grouping) -> tuple[Longs, Longs]:
    """The rows' order by key, time, stream and offset; and in that order, a number for each key."""
    marks = hashes(batch)
    parts: list[Longs | Hashes] = [marks]
    keys = batch.columns[1 : 1 + grouping.keys]
    if not grouping.exact_hash or any(column.null_count for column in keys):
        parts += [_codes(column) for column in keys]
    ranks = [longs(batch.column(name)) for name in (grouping.time, *grouping.order)]
    order = np.lexsort([*reversed(ranks), *reversed(parts)])
    new = np.zeros(len(order), dtype=bool)
    for part in parts:
        sorted_part = part[order]
        new[1:] |= sorted_part[1:] != sorted_part[:-1]
    return order, np.cumsum(new)


def _results(batch: pa.RecordBatch, since: int, grouping: Grouping) -> Chunk:
    """One result for each due row of the batch, which holds all that their frames reach."""
    order, key = _arranged(batch, grouping)
    time = longs(batch.column(grouping.time))[order]
    due = np.flatnonzero(time >= since)
    ordered = Ordered(key, time)
    frames = {
        a.frame: ordered.rows(due, a.frame.rows)
        if a.frame.rows is not None
        else ordered.range(due, a.frame.us or 0)
        for a in grouping.aggregates
    }
    names = {a.argument for a in grouping.aggregates if a.argument is not None}
    arguments = {name: take_rows(batch.select([name]), order).column(0) for name in sorted(names)}
    marks, _, counts = distinct_of(hashes(batch)[order[due]])
    rows = take_rows(batch.select(list(grouping.wanted)), order[due])
    columns = [
        rolling.aggregate(
            a.function,
            arguments[a.argument] if a.argument is not None else None,
            frames[a.frame],
            arrow_type(a.type),
        )
        for a in grouping.aggregates
    ]
    schema = [*rows.schema, *(pa.field(a.id, arrow_type(a.type)) for a in grouping.aggregates)]
    whole = pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=pa.schema(schema))
    return Chunk((whole,), marks, counts)


def trim(batch: pa.RecordBatch, grouping: Grouping, until: int) -> pa.RecordBatch:
    """Without the rows that no frame of a row to come can hold; all results before `until` are out."""
    time = longs(batch.column(grouping.time))
    keep = time >= until - grouping.us
    if grouping.rows:
        old = np.flatnonzero(time < until)
        order, key = _arranged(take_rows(batch, old), grouping)
        last = np.searchsorted(key, key, "right")
        keep[old[order[last - np.arange(len(key)) <= grouping.rows]]] = True
    return batch if keep.all() else take_rows(batch, np.flatnonzero(keep))
