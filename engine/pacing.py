"""What admission needs to know, learned from reports: rows per group and tick, seconds per row and node.

Switched off for `--once`, where only the total time counts and a slow node's rows gain nothing by waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.admission import OPEN, Admission, Load, admit
from engine.plan.tree import Plan
from engine.reports import Longs, TickReport
from engine.state.model import Manifest

_KEEP = 0.7  # weight of the past in the running averages
_ROWS_MIN = 200  # a node's pace is not judged by fewer rows


class Pacing:
    """Running averages for one operator."""

    def __init__(self, plan: Plan, *, enabled: bool) -> None:
        self.enabled = enabled
        self._rows = np.zeros(plan.join.groups)
        self._pace = np.zeros(plan.nodes)
        self._seen: Longs | None = None

    def admission(self, manifest: Manifest, placement: Sequence[int]) -> Admission:
        """Who waits in the next tick. `placement`: the node of each group now, not as first planned."""
        if not self.enabled:
            return OPEN
        owner = np.array(placement, dtype=np.int64)
        return admit(Load(owner, self._rows, manifest.held_rows(len(owner)),
                          manifest.held_since(len(owner)), self._pace))

    def learn(self, report: TickReport, held: Longs) -> None:
        """Take in one tick's report, and what waits after it."""
        rows_in = report.groups[0].rows_in + held
        if self._seen is not None:
            self._rows = _KEEP * self._rows + (1 - _KEEP) * (rows_in - self._seen)
        self._seen = rows_in
        for node in report.nodes:
            if node.rows_in >= _ROWS_MIN:
                pace = node.wall_s / node.rows_in
                old = self._pace[node.node]
                self._pace[node.node] = pace if old == 0 else _KEEP * old + (1 - _KEEP) * pace
