"""The generator as a PySpark Data Source: offsets, pacing and read tasks of a running query.

An offset is {"rows", "clock", "epoch"}: rows generated so far, the wall-clock time (microseconds) up
to which those rows account for, and the event time of row 0. A restart goes on from there; of a
pause, at most `catch_up` is made up for. Once the stream was changed while it ran, an offset also has the
"segments" of the batch that it ends, so that a replay gives the same rows. Not here: what the rows hold
(generator.py), and where changes come from (workload.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from engine.errors import SourceError, SpillwayError
from engine.sources import workload
from engine.sources.generator import RECORD, SPARK_FORMAT, fields_of, generate, last_us
from engine.sources.knobs import Knobs, read_knobs
from engine.sources.segments import Segment, fixed_of, following, live_of
from engine.sources.workload import Change

ROWS_PER_TASK = 100_000
ROWS_PER_BATCH = 1 << 16
_BATCH_BYTES = 16 << 20

Offset = dict[str, Any]


@dataclass(frozen=True)
class Span(InputPartition):
    """Offsets [start, stop) of one read task, the event time of row 0, and the segments of these rows."""

    start: int
    stop: int
    epoch_us: int
    segments: tuple[Segment, ...]

    def pieces(self) -> Iterator[tuple[Segment, int, int]]:
        """Each segment with its part of the rows."""
        ends = (*(segment.start for segment in self.segments[1:]), self.stop)
        for segment, end in zip(self.segments, ends, strict=True):
            start, stop = max(self.start, segment.start), min(self.stop, end)
            if start < stop:
                yield segment, start, stop


class GeneratorSource(DataSource):
    """`format("spillway_generator")`."""

    @classmethod
    def name(cls) -> str:
        return SPARK_FORMAT

    def schema(self) -> str:
        fields = fields_of(read_knobs(self._given()))
        return ", ".join(f"`{f.name}` {f.type}" for f in fields)

    def streamReader(self, schema: StructType) -> GeneratorReader:
        return GeneratorReader(self._given(), self.options.get(RECORD))

    def _given(self) -> dict[str, str]:
        return {name: text for name, text in self.options.items() if name != RECORD}


class GeneratorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls, answered by the pure functions below with the wall clock. `record`: where changes are."""

    def __init__(self, options: Mapping[str, str], record: str | None = None) -> None:
        self.source = Source.of(options)
        self.record = Path(record) if record else None
        self._look()  # a batch that was planned before a restart is read without being planned again
        self.paced = self.source.first.knobs.pace == "realtime"

    def initialOffset(self) -> Offset:
        return initial_offset(self.source.first.knobs, _clock_us())

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.source.first.knobs.rows_per_tick)

    def prepareForTriggerAvailableNow(self) -> None:
        if self.source.first.knobs.rows is None:
            raise _told(
                SourceError(
                    "an endless generator has no last row to stop at",
                    where="generator option rows",
                    hint="set rows to process what is there and stop",
                )
            )
        self.paced = False

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        try:
            self._look()
            limited = not isinstance(limit, ReadAllAvailable)
            return plan(self.source, start, _clock_us(), paced=self.paced, limited=limited)
        except SpillwayError as error:
            raise _told(error) from error

    def _look(self) -> None:
        """What was asked for by now."""
        found = workload.read(self.record) if self.record else None
        if found is not None:
            self.source = replace(self.source, changes=tuple(found.changes))

    def partitions(self, start: Offset, end: Offset) -> Sequence[Span]:
        tasks = self.source.first.knobs.partitions
        return spans(start, end, tasks, self.source.segments(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        for segment, first, last in partition.pieces():
            step = rows_per_batch(segment.knobs)
            for start in range(first, last, step):
                stop = min(start + step, last)
                yield generate(segment, partition.epoch_us, start, stop)


def _told(error: SpillwayError) -> RuntimeError:
    """It reaches the driver as text, through the JVM."""
    return RuntimeError(error.encode())


# -- planning: pure ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A stream: the options that stay, and the changes of the others. The first is how it began."""

    fixed: Mapping[str, str]
    changes: tuple[Change, ...]

    @staticmethod
    def of(options: Mapping[str, str]) -> Source:
        """As the query file has it."""
        given = {name.lower(): text for name, text in options.items()}
        return Source(fixed_of(given), (Change(0, live_of(given), file=True),))

    @property
    def first(self) -> Segment:
        return Segment(self.knobs(self.changes[0]))

    def knobs(self, change: Change) -> Knobs:
        return read_knobs({**self.fixed, **change.options})

    def segments(self, offset: Offset) -> tuple[Segment, ...]:
        """Those of the batch that ends at an offset."""
        found = [Segment.unpack(raw, self.fixed) for raw in offset.get("segments", ())]
        return tuple(found) or (self.first,)


def plan(
    source: Source, start: Offset, now_us: int, *, paced: bool, limited: bool = True
) -> Offset:
    """The offset that a tick at `now_us` may read up to, through the changes asked for since the last one;
    `start` itself if nothing is due. Rows that were due before a change come before it."""
    ride = _Ride(source, start, paced=paced, limited=limited)
    if paced:
        ride.skip(now_us)
    for change in source.changes:
        if change.at_us > ride.segment.at_us and not ride.take(change, now_us):
            break
    else:
        ride.go(now_us)
    return ride.end()


class _Ride:
    """A batch while it is planned: how far it is, and the segments that it went through."""

    def __init__(self, source: Source, start: Offset, *, paced: bool, limited: bool) -> None:
        self.source, self.start, self.at = source, start, start
        self.paced, self.limited = paced, limited
        self.segment = source.segments(start)[-1]
        begun = self.segment.pack(source.changes[0].options)
        self.packed = list(start.get("segments", ()))[-1:] or [begun]

    def skip(self, now_us: int) -> None:
        """Of a pause, most is not made up for."""
        late = now_us - round(self.segment.knobs.catch_up * 1e6)
        self.at = {**self.at, "clock": max(self.at["clock"], late)}

    def go(self, until_us: int) -> None:
        """What is due by then under the segment's knobs, as far as a batch may go."""
        room = self.room()
        self.at = advance(self.segment.knobs, self.at, until_us, paced=self.paced, at_most=room)

    def room(self) -> int | None:
        """Rows that the batch may still take; None where it may take all."""
        gone = self.at["rows"] - self.start["rows"]
        return max(0, self.segment.knobs.rows_per_tick - gone) if self.limited else None

    def take(self, change: Change, now_us: int) -> bool:
        """Go up to a change and begin its segment; False if the batch has no room to come that far."""
        until = max(self.at["clock"], min(change.at_us, now_us))
        past = 0.0
        if self.paced:
            self.go(until)
            past = (until - self.at["clock"]) / 1e6
            if self.room() == 0 and past * self.segment.knobs.rate >= 1:
                return False
            self.at = {**self.at, "clock": until}
        self._begin(change, past)
        return True

    def _begin(self, change: Change, past: float) -> None:
        row, before = self.at["rows"], self.segment
        even = before.base_us + (row - before.start) / before.knobs.rate * 1e6 + past * 1e6
        base = round(even) if row == before.start else max(round(even), last_us(before, row - 1))
        self.segment = following(
            before,
            self.source.knobs(change),
            at_us=change.at_us,
            start=row,
            base_us=base,
            past=past,
            anew=change.file,
        )
        if self.packed[-1]["start"] == row:
            self.packed.pop()  # not a row came of it
        self.packed.append(self.segment.pack(change.options))

    def end(self) -> Offset:
        first = self.start["rows"]
        if self.at["rows"] <= first:
            return self.start
        seen = sum(raw["start"] <= first for raw in self.packed)
        used = self.packed[max(0, seen - 1) :]
        end = {name: self.at[name] for name in ("rows", "clock", "epoch")}
        changed = len(used) > 1 or used[0]["at_us"] > 0
        return {**end, "segments": used} if changed else end


def initial_offset(knobs: Knobs, now_us: int) -> Offset:
    """Where a new query starts."""
    epoch = now_us if knobs.start is None else knobs.start
    return {"rows": 0, "clock": now_us, "epoch": epoch}


def advance(
    knobs: Knobs, start: Offset, now_us: int, *, paced: bool, at_most: int | None = None
) -> Offset:
    """The offset that a tick at `now_us` may read up to; `start` itself if nothing is due.

    The clock moves by the time that the rows stand for, not to now: fractions of rows are not lost.
    """
    rows, clock = start["rows"], start["clock"]
    due = at_most if at_most is not None else knobs.rows_per_tick
    if paced:
        clock = max(clock, now_us - round(knobs.catch_up * 1e6))
        arrived = max(0, int((now_us - clock) / 1e6 * knobs.rate))
        due = arrived if at_most is None else min(arrived, at_most)
    elif at_most is None and knobs.rows is not None:
        due = knobs.rows - rows
    if knobs.rows is not None:
        due = min(due, knobs.rows - rows)
    if due <= 0:
        return start
    clock = clock + round(due / knobs.rate * 1e6) if paced else now_us
    return {"rows": rows + due, "clock": clock, "epoch": start["epoch"]}


def spans(start: Offset, end: Offset, tasks: int, segments: tuple[Segment, ...]) -> list[Span]:
    """Even shares of a tick's rows, one for each read task."""
    first, last = start["rows"], end["rows"]
    count = min(tasks, -(-(last - first) // ROWS_PER_TASK))
    cuts = [first + (last - first) * i // count for i in range(count + 1)] if count > 0 else []
    return [Span(a, b, end["epoch"], segments) for a, b in pairwise(cuts)]


def rows_per_batch(knobs: Knobs) -> int:
    """Batches stay small in bytes when payloads are wide."""
    return max(1, min(ROWS_PER_BATCH, _BATCH_BYTES // (32 + knobs.payload_bytes)))


def _clock_us() -> int:
    return time.time_ns() // 1000
