"""When Spark planned a batch: rows that were there by then are in it, later ones in the next.

Spark notes it in its own log of offsets, before it hands a batch over; on a busy machine that is some time before
the tick begins, and not always the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


class Planned:
    """Asked once for each batch of a run, in order. `now_s` is the clock on the wall."""

    def __init__(self, offsets: Path, now_s: Callable[[], float]) -> None:
        self._offsets, self._now_s = offsets, now_s
        self._last_s = now_s()

    def time_s(self, batch: int) -> float:
        """Now, where the log does not say, or says the time of an earlier life or of another clock."""
        now_s = self._now_s()
        found = self._noted(batch)
        sound = found is not None and self._last_s <= found <= now_s
        self._last_s = found if found is not None and sound else now_s
        return self._last_s

    def _noted(self, batch: int) -> float | None:
        try:
            head = (self._offsets / str(batch)).read_text().split("\n", 2)[1]
            return float(json.loads(head)["batchTimestampMs"]) / 1e3
        except (OSError, ValueError, LookupError, TypeError):
            return None
