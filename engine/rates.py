"""Rows a second of a query and its nodes, from the reports of its ticks.

The rows of a batch have come in since the batch before was planned, and their results are what came out for
that time: so they are divided by the time between the two, not by that between two samples, which begin and end
at other moments. Samples between two batches repeat the rate before and cover no time, so that means weighted by
`covered_s` tell how many rows there were.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from engine.reports import TickReport

PATIENCE_S = 5.0  # without a batch for so long nothing comes in any more
SHORT_S = 0.1  # two batches are taken as at least so far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Rows a second, and how much time since the sample before they are about."""

    covered_s: float = 0.0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    node_in_per_s: dict[int, float] = field(default_factory=dict)
    node_out_per_s: dict[int, float] = field(default_factory=dict)


class BatchRates:
    """Reports come in by `add`; `take` is called for each sample. `every_s`: how often batches begin at most."""

    def __init__(self, now_s: float, every_s: float) -> None:
        self._until_s = now_s  # to then all rows are told
        self._told_s = (
            now_s  # when the last batch was: its tick may have taken long, or waited for others
        )
        self._planned_s: float | None = None  # when the last batch that is not told was planned
        self._usual_s = every_s  # between batches
        self._rows_in = self._rows_out = 0
        self._node_in: Counter[int] = Counter()
        self._node_out: Counter[int] = Counter()
        self._last = Rated()

    def add(self, report: TickReport) -> None:
        if report.tick is not None:
            self._planned_s = report.until_s
        self._rows_in += report.rows_in
        self._rows_out += report.rows_out
        for node in report.nodes:
            self._node_in[node.node] += node.rows_in
            self._node_out[node.node] += node.rows_out

    def take(self, now_s: float) -> Rated:
        """The rates since the last call. Rows that came out without a batch wait for the next one, or for the end
        of patience."""
        patience_s = max(PATIENCE_S, 2 * self._usual_s)
        since_s, told_s = (
            min(self._until_s, now_s),
            min(self._told_s, now_s),
        )  # a clock may be set back
        if self._planned_s is not None:
            covered = min(max(self._planned_s - since_s, SHORT_S), patience_s)
            self._usual_s, self._until_s, self._planned_s = covered, self._planned_s, None
            self._told_s, self._last = now_s, self._told(covered)
        elif now_s - told_s <= patience_s:
            return replace(self._last, covered_s=0.0)
        elif self._rows_in or self._rows_out:
            self._until_s = self._told_s = now_s
            self._last = self._told(patience_s)
        else:
            self._until_s = now_s - patience_s  # a batch that comes now covers what is left
            self._last = Rated(covered_s=self._until_s - since_s)
        return self._last

    def _told(self, covered_s: float) -> Rated:
        made = Rated(
            covered_s=covered_s,
            rows_in_per_s=self._rows_in / covered_s,
            rows_out_per_s=self._rows_out / covered_s,
            node_in_per_s={node: rows / covered_s for node, rows in self._node_in.items()},
            node_out_per_s={node: rows / covered_s for node, rows in self._node_out.items()},
        )
        self._rows_in = self._rows_out = 0
        self._node_in, self._node_out = Counter(), Counter()
        return made
