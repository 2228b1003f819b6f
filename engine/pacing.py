"""What admission needs to know, learned from reports: rows per group and tick, seconds per row and node.

Switched off for `--once`, where only the total time counts and a slow node's rows gain nothing by waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.admission import Admission, Load, admit
from engine.plan.tree import Plan
from engine.reports import Longs, OperatorReport, TickReport
from engine.state.model import Manifest

_KEEP = 0.7  # weight of the past in the running averages
_ROWS_MIN = 200  # a node's pace is not judged by fewer rows


class Pacing:
    """Running averages for every operator of one query."""

    def __init__(self, plan: Plan, *, enabled: bool) -> None:
        self.plan, self.enabled = plan, enabled
        self._of = {join.id: _Operator(join.groups, plan.nodes) for join in plan.operators}

    def admissions(
        self, manifest: Manifest, placements: Mapping[str, Sequence[int]]
    ) -> dict[str, Admission]:
        """Who waits in the next tick, by operator."""
        if not self.enabled:
            return {}
        return {
            id_: mine.admission(id_, manifest, placements[id_]) for id_, mine in self._of.items()
        }

    def learn(self, report: TickReport, manifest: Manifest) -> None:
        """Take in one tick's report, and what waits after it."""
        for groups in report.groups:
            mine = self._of[groups.operator]
            mine.arrived(groups.rows_in + manifest.held_rows(groups.operator, len(groups.rows_in)))
        for part in report.operators:
            self._of[part.operator].worked(part)


class _Operator:
    def __init__(self, groups: int, nodes: int) -> None:
        self._rows = np.zeros(groups)
        self._pace = np.zeros(nodes)
        self._before: Longs | None = None

    def admission(self, id_: str, manifest: Manifest, placement: Sequence[int]) -> Admission:
        groups = len(self._rows)
        return admit(
            Load(
                np.array(placement, dtype=np.int64),
                self._rows,
                manifest.held_rows(id_, groups),
                manifest.held_since(id_, groups),
                self._pace,
            )
        )

    def arrived(self, rows: Longs) -> None:
        if self._before is not None:
            self._rows = _KEEP * self._rows + (1 - _KEEP) * (rows - self._before)
        self._before = rows

    def worked(self, part: OperatorReport) -> None:
        if part.rows_in >= _ROWS_MIN:
            pace, old = part.wall_s / part.rows_in, self._pace[part.node]
            self._pace[part.node] = pace if old == 0 else _KEEP * old + (1 - _KEEP) * pace
