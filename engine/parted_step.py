"""A join of the old plan while another plan runs beside it: a kind of NodeStep that tells old results from new ones.

A result is old if any of its parts is. Rows are kept apart by that, so a probe of old rows gives old results; of new
ones it gives old results where some other part is old, and new ones where none is. Each result is found once: by the
first of the other sides, in order, from which it has an old part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.node_step import NodeStep
from engine.operators.multi_join import Chunk, View


class PartedStep(NodeStep):
    """The step of a parted operator: its places are each side's old rows, then each side's new ones."""

    def _chunks(
        self, deltas: Sequence[pa.RecordBatch | None], views: list[list[View]]
    ) -> Iterator[Chunk]:
        sides = len(self.op.sides)
        for place, delta in enumerate(deltas):
            if delta is None:
                continue
            old, new = views[:sides], views[sides:]
            if place < sides:
                whole = [a + b for a, b in zip(old, new, strict=True)]
                yield from self._probe(delta, place, whole)
            else:
                yield from self._of_new(delta, place - sides, old, new)
            views[place].append(View([delta]))

    def _of_new(
        self, delta: pa.RecordBatch, source: int, old: list[list[View]], new: list[list[View]]
    ) -> Iterator[Chunk]:
        others = [side for side in range(len(old)) if side != source]
        for at, first in enumerate(others):
            if not old[first]:
                continue
            targets = [a + b for a, b in zip(old, new, strict=True)]
            targets[first] = old[first]
            for side in others[:at]:
                targets[side] = new[side]
            yield from self._probe(delta, source, targets)
        if not self.op.spares:
            for chunk in self._probe(delta, source, new):
                yield replace(chunk, new=True)
