"""Results that generations owe each other: what a join of all of them has and the joins within each have not.

A group that was spilled lies in several generations; rows of one generation have met each other, and none of
another. Liu & Rundensteiner's equation 1, taken apart so that nothing is made twice: a result is counted where
its part from input 0 is of generation i, those up to input t − 1 are too, and that of input t is not.
A pure function over Arrow; no file is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.columns import concat, take_rows
from engine.operators.multi_join import Chunk, Limit, View, hashes, probe

Generation = Sequence[Sequence[pa.RecordBatch]]  # of each input, sorted batches


def owed(
    generations: Sequence[Generation],
    *,
    keys: int,
    exact_hash: bool,
    wanted: Sequence[Sequence[str]],
    limits: Sequence[Limit] = (),
) -> Iterator[Chunk]:
    """Every result with parts of at least two generations."""
    inputs = len(generations[0])
    views = [[View(list(side)) for side in generation] for generation in generations]
    whole = [[view for mine in views for view in _some(mine[j])] for j in range(inputs)]
    for i, mine in enumerate(views):
        for t in range(1, inputs):
            others = [v for k, other in enumerate(views) if k != i for v in _some(other[t])]
            targets = [[*_some(mine[j])] if j < t else whole[j] for j in range(inputs)]
            targets[t] = others
            if not targets[0] or not others:
                continue
            source = 0 if _rows(targets[0]) <= _rows(others) else t
            yield from probe(
                _one(targets[source]),
                source,
                targets,
                keys=keys,
                exact_hash=exact_hash,
                wanted=wanted,
                limits=limits,
            )


def _some(view: View) -> list[View]:
    return [view] if view.segments else []


def _rows(views: Sequence[View]) -> int:
    return sum(int(view.bases[-1]) for view in views)


def _one(views: Sequence[View]) -> pa.RecordBatch:
    """All rows as one sorted batch."""
    segments = [segment for view in views for segment in view.segments]
    if len(segments) == 1:
        return segments[0]
    whole = concat(segments)
    return take_rows(whole, np.argsort(hashes(whole), kind="stable"))
