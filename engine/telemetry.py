"""One query's samples for the store: what its ticks did, and how things stand, at most twice a second.

Ticks only add numbers up here; a sample is made at the boundary after them, from the same snapshot that
decisions are made from. Who takes it must not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from control.samples import GroupChange, Sample
from control.snapshot import ClusterSnapshot, Doubles, Longs
from engine.rates import BatchRates
from engine.reports import TickReport

if TYPE_CHECKING:
    from engine.adapt.desk import Desk

LEAST_S = 0.5  # between two samples
LIVE_S = 86_400.0  # event times further back than this are not those of live input
CHANGES_MAX = 20_000


@dataclass
class _Sum:
    """Of the ticks since the last sample."""

    ticks: int = 0
    seconds: float = 0.0
    late: int = 0
    null_keys: int = 0
    held: int = 0
    checkpoint_bytes: int = 0
    operators: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def add(self, report: TickReport) -> None:
        self.ticks += 1
        self.seconds += report.seconds
        self.late += report.late_rows
        self.null_keys += report.null_key_rows
        self.held = report.held_rows
        self.checkpoint_bytes += sum(node.checkpoint_bytes for node in report.nodes)
        for op in report.operators:
            sums = self.operators.setdefault((op.operator, op.node), [0.0] * 4)
            for at, value in enumerate((op.rows_in, op.rows_out, op.cpu_s, op.wall_s)):
                sums[at] += value


class Telemetry:
    """Made for one run of a query; `publish` and `look` are called by the thread that ticks. `every_s`: how
    often batches begin at most."""

    def __init__(
        self, take: Callable[[Sample], None], clock: Callable[[], float], every_s: float
    ) -> None:
        self._take, self._clock = take, clock
        self._sum = _Sum()
        self._at_s = clock()
        self._rates = BatchRates(self._at_s, every_s)
        self._version = -1
        self._placed: tuple[Longs, Longs] | None = None

    def publish(self, report: TickReport) -> None:
        self._sum.add(report)
        self._rates.add(report)

    def look(self, desk: Desk) -> None:
        """A sample, if there is something new and the last one is old enough."""
        now = self._clock()
        self._at_s = min(self._at_s, now)  # the clock was set back
        version = desk.ticker.manifest.version
        if now - self._at_s < LEAST_S or (version == self._version and now - self._at_s < 1.0):
            return
        self._at_s, self._version = now, version
        done, self._sum = self._sum, _Sum(held=self._sum.held)
        self._take(self._sample(desk, desk.snapshot(), done))

    def _sample(self, desk: Desk, snapshot: ClusterSnapshot, done: _Sum) -> Sample:
        nodes, rates = snapshot.nodes, self._rates.take(self._at_s)
        count = len(nodes)
        figures = {
            "rows_in_per_s": rates.rows_in_per_s,
            "rows_out_per_s": rates.rows_out_per_s,
            "tick_s": done.seconds / done.ticks if done.ticks else float("nan"),
            "held_rows": float(done.held),
            "late_rows": float(done.late),
            "null_key_rows": float(done.null_keys),
            "memory_bytes": float(nodes.memory_bytes.sum()),
            "disk_bytes": float(nodes.disk_bytes.sum()),
            "checkpoint_bytes": float(done.checkpoint_bytes),
            "lag_s": _lag(desk.ticker.manifest.seen, self._at_s),
            "covered_s": rates.covered_s,
            "spills_in_moves": float(desk.accounts.spills_in_moves),
            "moves_gave_way": float(desk.gave_way),
        }
        by_node: dict[str, Doubles] = {
            "memory_bytes": nodes.memory_bytes.astype(np.float64),
            "held_bytes": _by_node(desk.copied_bytes, count),
            "disk_bytes": nodes.disk_bytes.astype(np.float64),
            "budget_bytes": nodes.budget_bytes.astype(np.float64),
            "rows_in_per_s": _by_node(rates.node_in_per_s, count),
            "rows_out_per_s": _by_node(rates.node_out_per_s, count),
            "busy": nodes.busy,
        }
        operators = [
            {"operator": op, "node": node, "rows_in": sums[0], "rows_out": sums[1],
             "cpu_s": sums[2], "wall_s": sums[3]}
            for (op, node), sums in done.operators.items()
        ]  # fmt: skip
        changes = self._changes(snapshot)
        return Sample(
            snapshot.query,
            self._at_s,
            snapshot.version,
            figures,
            by_node,
            snapshot,
            operators,
            changes,
        )

    def _changes(self, snapshot: ClusterSnapshot) -> list[GroupChange]:
        """Groups that have another owner or tier than in the sample before."""
        groups = snapshot.groups
        tier = np.where(groups.spilled, np.where(groups.memory_bytes > 0, 2, 1), 0)
        before, self._placed = self._placed, (groups.owner, tier)
        if before is None or len(before[0]) != len(groups):
            return []
        rows = np.flatnonzero((before[0] != groups.owner) | (before[1] != tier))[:CHANGES_MAX]
        names = ("memory", "disk", "both")
        return [
            GroupChange(
                snapshot.operators[groups.operator[row]].name,
                int(groups.group[row]),
                int(groups.owner[row]),
                names[tier[row]],
            )
            for row in rows.tolist()
        ]


def _by_node(some: Mapping[int, Any], count: int) -> Doubles:
    out = np.zeros(count)
    for node, value in some.items():
        if node < count:
            out[node] = value
    return out


def _lag(seen: Mapping[str, int], now_s: float) -> float:
    """How far the slowest live source's event time is behind; NaN where none is live."""
    behind = [now_s - stamp / 1e6 for stamp in seen.values()]
    live = [max(0.0, s) for s in behind if s < LIVE_S]
    return max(live, default=float("nan"))
