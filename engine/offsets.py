"""Offsets: one number for each row that says which came first, among all rows of an input.

A row's offset is made where it is read: the stream under its alias, the version whose tick took it in, the
task that read it, its place in what that task read. Offsets order rows of equal time the same way,
wherever they go and whatever became of tasks in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.columns import Longs
from engine.errors import SpillwayError

_BITS, _TICK_BITS = 63, 35  # of a whole offset; of the part that is within one tick


@dataclass(frozen=True, slots=True)
class Numbering:
    """The rows that one task reads from one stream in one tick."""

    stream: int
    streams: int  # under the same alias
    version: int
    task: int
    tasks: int

    def offsets(self, first: int, rows: int) -> Longs:
        """Of so many rows, the first of which is the task's row number `first`."""
        stream_bits, task_bits = (self.streams - 1).bit_length(), (self.tasks - 1).bit_length()
        row_bits = _TICK_BITS - task_bits
        if first + rows > 1 << row_bits or self.task >= 1 << task_bits:
            raise SpillwayError(
                f"a task read more than {1 << row_bits} rows of one stream in a tick",
                where="source",
                hint="Let fewer in at once, for example with maxFilesPerTrigger.",
            )
        if self.version >= 1 << (_BITS - _TICK_BITS - stream_bits):
            raise SpillwayError(
                "the query has had too many ticks to number its rows",
                where="checkpoint",
                hint="Start it with a new checkpoint.",
            )
        base = (
            self.stream << (_BITS - stream_bits)
            | self.version << _TICK_BITS
            | self.task << row_bits
        )
        found: Longs = base + np.arange(first, first + rows, dtype=np.int64)
        return found
