"""Segments of a generated stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.sources.generator import generate
from engine.sources.generator_stream import Offset, Source, Span, spans

S = 1_000_000
BEGUN = 1_700_000_000 * S
START = "1970-01-01"


def made(source: Source, start: Offset, end: Offset, tasks: int = 4) -> pa.Table:
    """A batch's rows."""
    return table(spans(start, end, tasks, source.segments(end)))


def table(parts: Sequence[Span]) -> pa.Table:
    rows = [
        generate(segment, part.epoch_us, a, b) for part in parts for segment, a, b in part.pieces()
    ]
    return pa.Table.from_batches(rows)


def times(rows: pa.Table) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = rows["ts"].cast(pa.int64()).to_numpy()
    return found
