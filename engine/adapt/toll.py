"""What the side jobs of a migration took, by the names that the cost model learns from (control/migration/calibrate.py).

A job's tasks tell their own CPU and time; what passes besides, from asking for a job to going on with what it made, is the
job's. Of jobs that a tick waits for, the tasks' time is not the swap's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from control.migration.calibrate import BESIDE_CPU_S, ORDER_CPU_S
from engine.adapt.derive import Derive, Derived, Resort

ROWS_LEAST = 0.1  # of an order's CPU is its rows', however few they are
Costs = Mapping[
    int, Sequence[tuple[float, float]]
]  # by node, of each order: CPU and time of its task


@dataclass
class Toll:
    """Of one action, added up."""

    recompute_rows: int = 0
    recompute_cpu_s: float = 0.0
    sort_rows: int = 0
    sort_cpu_s: float = 0.0
    jobs: int = 0  # beside the ticks
    jobs_s: float = 0.0
    beside_cpu_s: float = 0.0
    beside_s: float = 0.0  # of tasks: of each job its longest node
    waited_s: float = 0.0  # the same of jobs that a tick waits for
    swaps: int = 0

    def made(self, order: Resort | Derive, made: Derived, cpu_s: float, *, at_once: bool) -> None:
        """One order: rows that it read for the first time, and those that it made; and what they took."""
        fixed_s = ORDER_CPU_S if at_once else BESIDE_CPU_S
        cpu_s = max(cpu_s - fixed_s, cpu_s * ROWS_LEAST)
        if isinstance(order, Resort):
            self.sort_rows += sum(run.rows for run in order.runs)
            self.sort_cpu_s += cpu_s
        else:
            self.recompute_rows += made.rows
            self.recompute_rows += sum(run.rows for runs in order.new for run in runs)
            self.recompute_cpu_s += cpu_s

    def job(self, costs: Costs, seconds: float, *, at_once: bool) -> None:
        """A job is over, so long after it was asked for."""
        longest = max((sum(wall for _, wall in mine) for mine in costs.values()), default=0.0)
        if at_once:
            self.waited_s += longest
            return
        self.jobs += 1
        self.jobs_s += seconds
        self.beside_s += longest
        self.beside_cpu_s += sum(cpu for mine in costs.values() for cpu, _ in mine)

    def figures(self, pause_s: float) -> dict[str, float]:
        """What was measured; nothing is said of what there was none of."""
        found: dict[str, float] = {}
        if self.recompute_rows:
            found["recompute_rows"] = self.recompute_rows
            found["recompute_cpu_s"] = self.recompute_cpu_s
        if self.sort_rows:
            found |= {"sort_rows": self.sort_rows, "sort_cpu_s": self.sort_cpu_s}
        if self.jobs:
            found["job_s"] = max(0.0, self.jobs_s - self.beside_s) / self.jobs
        if self.beside_s > 0:
            found["side_cores"] = self.beside_cpu_s / self.beside_s
        if self.swaps:
            found["swap_s"] = max(0.0, pause_s - self.waited_s) / self.swaps
        return found
