"""The stream generator (papers.md, L11): rows as a pure function of options, seed and offset.

Reading offsets [x, y) gives the same rows however it is cut, so a replay is exact. Its knobs are in
knobs.py, its keys in schedule.py. Not here: Spark, clocks and offsets of a running query
(generator_stream.py); nothing in this module needs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import QueryFileError
from engine.hashing import I64
from engine.query.model import Field
from engine.query.types import arrow_type
from engine.sources import market
from engine.sources.knobs import OPTIONS, Knobs, read_knobs
from engine.sources.schedule import (
    F64,
    Deal,
    Labels,
    Schedule,
    noise,
    schedule_of,
    sub_seed,
    uniform,
)
from engine.sources.segments import Segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "generator"  # in query files
SPARK_FORMAT = "spillway_generator"  # in Spark
RECORD = "workload"  # of its options: where changes are recorded; set by the engine
POISSON_ROWS = 1024  # arrivals are Poisson within so many rows, which together take their even time

__all__ = [
    "FORMAT",
    "OPTIONS",
    "SPARK_FORMAT",
    "batch",
    "default_fields",
    "read_knobs",
    "register",
    "stream_seed",
]


def default_fields(options: Mapping[str, str]) -> tuple[Field, ...]:
    """The columns that a stream with these options has; QueryFileError if the options are wrong."""
    return fields_of(read_knobs(options))


def stream_seed(name: str) -> int:
    """The seed by which the stream `name` differs from a query's other streams."""
    return sub_seed(name)


def batch(options: Mapping[str, str], stream_seed: int, start: int, stop: int) -> pa.RecordBatch:
    """The rows at offsets [start, stop)."""
    knobs = replace(read_knobs(options), stream_seed=stream_seed)
    if knobs.start is None:
        raise QueryFileError(
            "now is the time at which a running query starts, and there is none",
            where="generator option start",
            hint="set a fixed time",
        )
    return generate(Segment(knobs), knobs.start, start, stop)


def register(spark: SparkSession) -> None:
    """Make `spillway_generator` a format of this session."""
    from engine.sources.generator_stream import GeneratorSource

    spark.dataSource.register(GeneratorSource)


def fields_of(knobs: Knobs) -> tuple[Field, ...]:
    """The generated columns."""
    if knobs.preset != "plain":
        return market.FIELDS[knobs.preset]
    payload = [("payload", "string")] if knobs.payload_bytes else []
    plain = [("k", "bigint"), ("ts", "timestamp"), ("v", "bigint"), *payload]
    names = knobs.columns or tuple(name for name, _ in plain)
    return tuple(Field(name, kind) for name, (_, kind) in zip(names, plain, strict=True))


def generate(segment: Segment, epoch_us: int, start: int, stop: int) -> pa.RecordBatch:
    """The rows at offsets [start, stop); row 0 happens at `epoch_us`. A plain row's `v` is its offset."""
    knobs, offsets = segment.knobs, np.arange(start, stop, dtype=np.int64)
    schedule = _schedule(knobs)
    numbers = _numbers(segment, schedule, offsets)
    if knobs.fresh_keys and knobs.preset != "plain":
        numbers %= market.LISTED  # a fact is about a symbol, not about a number
    ts = _event_us(segment, offsets, schedule.seed) + np.int64(epoch_us)
    keys = _with_nulls(_labels(knobs)(numbers), knobs.null_keys, offsets, schedule.seed)
    if knobs.preset == "plain":
        rest = [pa.array(offsets)]
        if knobs.payload_bytes:
            rest.append(_payload(knobs.payload_bytes, offsets, schedule.seed))
    else:
        seed = sub_seed(schedule.seed, "facts")
        rest = market.facts(knobs.preset, numbers, offsets, ts, seed)
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields_of(knobs)])
    times = pa.array(ts).cast(schema.field(1).type)
    return pa.RecordBatch.from_arrays([keys, times, *rest], schema=schema)


def _numbers(segment: Segment, schedule: Schedule, offsets: I64) -> I64:
    """The key number of the row at each offset."""
    if (turns := segment.turns) is not None:
        turn, place = turns.places(segment.knobs.rate, offsets - segment.start)
        size = math.ceil(turns.size(segment.knobs.rate))
        labels, seconds = _labels(segment.knobs), turns.seconds
        deal = Deal(segment.knobs, labels, size, turns.keys, turns.stride, seconds)
        return deal.keys_of(turn, place, schedule.seed)
    if segment.keys_from:  # or the stream's first keys would come again in the same order
        seed = sub_seed(schedule.seed, "from", segment.keys_from)
        schedule = replace(schedule, seed=seed)
    return schedule.keys(offsets - segment.keys_from)


def last_us(segment: Segment, row: int) -> int:
    """The event time of a row if it is not out of order, after that of row 0."""
    knobs = replace(segment.knobs, out_of_order=0.0)
    seed = sub_seed(knobs.seed, knobs.stream_seed)
    at = np.array([row], dtype=np.int64)
    return int(_event_us(replace(segment, knobs=knobs), at, seed)[0])


@lru_cache(maxsize=16)
def _schedule(knobs: Knobs) -> Schedule:
    return schedule_of(knobs, _labels(knobs))


def _labels(knobs: Knobs) -> Labels:
    labels: Labels = market.any_symbols if knobs.fresh_keys else market.symbols
    return pa.array if knobs.preset == "plain" else labels


def _with_nulls(keys: pa.Array, share: float, offsets: I64, seed: int) -> pa.Array:
    if not share:
        return keys
    nulls = uniform(sub_seed(seed, "null"), offsets) < share
    return pc.if_else(pa.array(nulls), pa.scalar(None, keys.type), keys)


def _event_us(segment: Segment, offsets: I64, seed: int) -> I64:
    """After that of row 0."""
    knobs, gap_us, rows = segment.knobs, 1e6 / segment.knobs.rate, offsets - segment.start
    after: F64 = rows.astype(np.float64) * gap_us
    if knobs.arrivals != "even":
        gaps = ("gap", segment.start) if segment.start else ("gap",)
        after = _poisson(rows, gap_us, sub_seed(seed, *gaps))
    after = after + segment.base_us
    if knobs.out_of_order:
        late = uniform(sub_seed(seed, "late"), offsets) < knobs.out_of_order
        after -= late * uniform(sub_seed(seed, "delay"), offsets) * knobs.max_delay * 1e6
    whole: I64 = np.floor(after).astype(np.int64)
    return whole


def _poisson(offsets: I64, gap_us: float, seed: int) -> F64:
    """Order statistics of uniform arrivals, block by block: a Poisson process of known count."""
    if not offsets.size:
        return np.empty(0)
    first, last = offsets[[0, -1]] // POISSON_ROWS
    rows = np.arange(first * POISSON_ROWS, (last + 1) * POISSON_ROWS, dtype=np.int64)
    within = np.sort(uniform(seed, rows).reshape(-1, POISSON_ROWS), axis=1)
    blocks = np.arange(first, last + 1, dtype=np.float64)[:, None]
    times: F64 = ((blocks + within) * (POISSON_ROWS * gap_us)).reshape(-1)
    picked: F64 = times[offsets - first * POISSON_ROWS]
    return picked


def _payload(width: int, offsets: I64, seed: int) -> pa.Array:
    """Strings of `width` letters a to p, which no compression shrinks below half."""
    words = -(-width // 8)
    at = offsets[:, None] * words + np.arange(words)
    raw = noise(sub_seed(seed, "payload"), at.reshape(-1)).view(np.uint8)
    letters = (raw.reshape(offsets.size, words * 8)[:, :width] & 15) + np.uint8(ord("a"))
    ends = np.arange(0, width * (offsets.size + 1), width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(letters))
    return pa.StringArray.from_buffers(offsets.size, pa.py_buffer(ends), data)
