"""Parts of runs on a node: some groups' rows, copies of them, and runs without rows that do not count.

Runs inside tasks. What the pieces mean is edits.py's; the files themselves are state/files.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.columns import concat
from engine.hashing import group_of
from engine.state import files, ranges
from engine.state.files import Fresh, Tiers
from engine.state.model import Longs, Run, Segment
from engine.state.ranges import Ranges


def extract(run: Run, wanted: Ranges | None, tiers: Tiers) -> list[pa.RecordBatch]:
    """Sorted batches with a run's rows of some groups, oldest first: from memory where they all are there,
    from the checkpoint otherwise."""
    mine = ranges.both(run.groups, wanted)
    if run.memory and all(files.whole(tiers.memory, segment) for segment in run.memory):
        folder, segments = tiers.memory, run.memory
    else:
        folder, segments = tiers.durable, run.durable
    return [
        part for s in segments for part in files.slices(files.read(folder, s), mine, tiers.groups)
    ]


def chunks(sizes: Longs, wanted: Longs, most: int) -> Iterator[Ranges]:
    """Of groups (`sizes` in bytes) those that are wanted, in order, as many at once as are not too much; one alone
    may be."""
    start = 0
    while start < len(wanted):
        ends = np.cumsum(sizes[wanted[start:]])
        stop = start + max(1, int(np.searchsorted(ends, most, "right")))
        yield ranges.of(wanted[start:stop].tolist())
        start = stop


def shrink(run: Run, tiers: Tiers, fresh: Fresh) -> Run:
    """The run with nothing in memory that does not count: segments that have such rows are written anew."""
    files.ensure(run, tiers)
    wanted = ranges.mask(run.groups, tiers.groups)
    kept: list[Segment] = []
    pile: list[pa.RecordBatch] = []

    def flush() -> None:
        if pile:
            kept.extend(files.write_run(concat(pile), tiers, fresh, [tiers.memory]))
            pile.clear()

    for segment in run.memory:
        low, high = (
            int(g) for g in group_of(np.array([segment.lo, segment.hi], np.uint64), tiers.groups)
        )
        if wanted[low : high + 1].all():
            flush()
            kept.append(segment)
            continue
        pile += files.slices(files.read(tiers.memory, segment), run.groups, tiers.groups)
    flush()
    return replace(run, memory=tuple(kept), stored=run.groups)


def build(
    parts: Sequence[pa.RecordBatch], like: Run, wanted: Ranges, tiers: Tiers, fresh: Fresh
) -> Run:
    """A run in memory of some groups of another run, whose durable files it shares."""
    batch = files.sort_batch(concat(list(parts)))
    segments = files.write_run(batch, tiers, fresh, [tiers.memory])
    made = like.only(wanted, tiers.groups)
    assert made is not None and made.rows == batch.num_rows
    name = fresh.name()[:-6]
    return replace(made, id=name, memory=segments, stored=made.groups, generation="", until=None)
