"""The generator as a PySpark Data Source: offsets, pacing and read tasks of a running query.

An offset is {"rows", "clock", "epoch"}: rows generated so far, the wall-clock time (microseconds) up
to which those rows account for, and the event time of row 0. A restart goes on from there; of a
pause, at most `catch_up` is made up for. Not here: what the rows hold (generator.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

from engine.errors import SourceError
from engine.sources.generator import SPARK_FORMAT, fields_of, generate
from engine.sources.knobs import Knobs, read_knobs

ROWS_PER_TASK = 100_000
ROWS_PER_BATCH = 1 << 16
_BATCH_BYTES = 16 << 20

Offset = dict[str, Any]


@dataclass(frozen=True)
class Span(InputPartition):
    """Offsets [start, stop) of one read task, and the event time of row 0."""

    start: int
    stop: int
    epoch_us: int


class GeneratorSource(DataSource):
    """`format("spillway_generator")`."""

    @classmethod
    def name(cls) -> str:
        return SPARK_FORMAT

    def schema(self) -> str:
        return ", ".join(f"`{f.name}` {f.type}" for f in fields_of(read_knobs(self.options)))

    def streamReader(self, schema: StructType) -> GeneratorReader:
        return GeneratorReader(read_knobs(self.options))


class GeneratorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls, answered by the pure functions below with the wall clock."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.paced = knobs.pace == "realtime"

    def initialOffset(self) -> Offset:
        return initial_offset(self.knobs, _clock_us())

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.knobs.rows_per_tick)

    def prepareForTriggerAvailableNow(self) -> None:
        if self.knobs.rows is None:
            endless = SourceError(
                "an endless generator has no last row to stop at",
                where="generator option rows",
                hint="set rows to process what is there and stop",
            )
            raise RuntimeError(endless.encode())  # it reaches the driver as text, through the JVM
        self.paced = False

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        at_most = None if isinstance(limit, ReadAllAvailable) else self.knobs.rows_per_tick
        if isinstance(limit, ReadMaxRows):
            at_most = limit.max_rows
        return advance(self.knobs, start, _clock_us(), paced=self.paced, at_most=at_most)

    def partitions(self, start: Offset, end: Offset) -> Sequence[Span]:
        return spans(start, end, self.knobs.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        step = rows_per_batch(self.knobs)
        for start in range(partition.start, partition.stop, step):
            stop = min(start + step, partition.stop)
            yield generate(self.knobs, partition.epoch_us, start, stop)


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


def spans(start: Offset, end: Offset, tasks: int) -> list[Span]:
    """Even shares of a tick's rows, one for each read task."""
    first, last = start["rows"], end["rows"]
    count = min(tasks, -(-(last - first) // ROWS_PER_TASK))
    cuts = [first + (last - first) * i // count for i in range(count + 1)] if count > 0 else []
    return [Span(a, b, end["epoch"]) for a, b in pairwise(cuts)]


def rows_per_batch(knobs: Knobs) -> int:
    """Batches stay small in bytes when payloads are wide."""
    return max(1, min(ROWS_PER_BATCH, _BATCH_BYTES // (32 + knobs.payload_bytes)))


def _clock_us() -> int:
    return time.time_ns() // 1000
