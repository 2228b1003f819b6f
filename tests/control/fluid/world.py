"""The physics: rows per group in memory and on disk, results made and results still owed.

Keys are uniform within a group: n rows in memory, over m streams and K keys, have made K (n / mK)^m results.
Rows that arrive add what the rows in memory let them make; with everything in memory they would make what
all rows allow. The difference is owed, until a cleanup. With a window, rows leave at 1/W a second.
"""

from __future__ import annotations

import numpy as np

from control.plans import Cleanup, Move, Plan, Spill, pairs_of
from control.snapshot import (
    HALF_LIFE_S,
    NEVER_S,
    Bools,
    ClusterSnapshot,
    Doubles,
    Groups,
    History,
    Longs,
    Nodes,
    Operator,
    node_sums,
)
from tests.control.fluid.workloads import Workload


class World:
    """A cluster and one join, second by second."""

    def __init__(self, workload: Workload, owner: Longs, budget_bytes: Longs) -> None:
        groups = len(workload)
        self.workload, self.budget = workload, budget_bytes.astype(np.int64)
        self.owner = owner.copy()
        self.memory, self.disk = np.zeros(groups), np.zeros(groups)  # rows
        self.generations = np.zeros(groups, dtype=np.int64)
        self.rows_in, self.made, self.owed = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self.late = 0.0  # results that a cleanup made
        self.in_rate, self.out_rate, self.owed_rate = (np.zeros(groups) for _ in range(3))
        self.round_in, self.round_out = np.zeros(groups), np.zeros(groups)
        self.last_insert = np.full(groups, NEVER_S)
        self.in_flight: Bools = np.zeros(groups, dtype=np.bool_)
        self.time_s, self.version, self.delay_row_s = 0.0, 0, 0.0

    def advance(self, seconds: float) -> None:
        """Let rows arrive for a while."""
        rates = self.workload.rates(self.time_s)
        new = rates * seconds
        made = self._results(self.memory + new) - self._results(self.memory)
        whole = self.memory + self.disk
        due = self._results(whole + new) - self._results(whole)
        self.memory = self.memory + new
        self._expire(seconds)
        self.rows_in, self.made = self.rows_in + new, self.made + made
        self.owed = self.owed + (due - made)
        self.round_in, self.round_out = self.round_in + new, self.round_out + made
        keep = 0.5 ** (seconds / HALF_LIFE_S)
        self.in_rate = self.in_rate * keep + rates * (1 - keep)
        self.out_rate = self.out_rate * keep + made / seconds * (1 - keep)
        self.owed_rate = (due - made) / seconds
        self.last_insert = np.where(new > 0, self.time_s, self.last_insert)
        self.time_s += seconds
        self.version += 1
        self.delay_row_s += float(self.owed.sum()) * seconds

    def _results(self, rows: Doubles) -> Doubles:
        streams, keys = self.workload.streams, self.workload.keys
        return np.asarray(keys * (rows / (streams * keys)) ** streams, dtype=np.float64)

    def _expire(self, seconds: float) -> None:
        if self.workload.window_s is not None:
            stay = max(0.0, 1 - seconds / self.workload.window_s)
            self.memory, self.disk = self.memory * stay, self.disk * stay

    @property
    def memory_bytes(self) -> Doubles:
        """By node."""
        return node_sums(self.owner, self.memory * self.workload.row_bytes, len(self.budget))

    def rows_of(self, step: Move | Spill | Cleanup) -> Longs:
        return np.array([group for _, group in pairs_of(step)], dtype=np.int64)

    def spill(self, rows: Longs) -> None:
        self.disk[rows] += self.memory[rows]
        self.memory[rows] = 0.0
        self.generations[rows] += 1

    def cleanup(self, rows: Longs) -> None:
        self.late += float(self.owed[rows].sum())
        self.memory[rows] += self.disk[rows]
        self.disk[rows] = self.owed[rows] = self.owed_rate[rows] = 0.0
        self.generations[rows] = 0

    def move(self, rows: Longs, target: int) -> None:
        self.owner[rows] = target

    def new_round(self) -> None:
        self.round_in[:] = 0.0
        self.round_out[:] = 0.0

    def snapshot(self, history: History) -> ClusterSnapshot:
        """What the engine would tell."""
        work, nodes = self.workload, len(self.budget)
        sized = work.row_bytes
        groups = Groups.of(
            self.owner.copy(),
            self.memory * sized,
            disk_bytes=self.disk * sized,
            generations=self.generations.copy(),
            rows_in=self.rows_in,
            rows_out=self.made,
            rows_in_per_s=self.in_rate,
            rows_out_per_s=self.out_rate,
            rows_in_round=self.round_in,
            rows_out_round=self.round_out,
            bytes_per_s=self.in_rate * sized,
            last_insert_s=self.last_insert,
            owed_rows=self.owed,
            owed_rows_per_s=self.owed_rate,
            in_flight=self.in_flight.copy(),
        )
        columns = {
            name: node_sums(self.owner, column, nodes)
            for name, column in (
                ("rows_in_per_s", self.in_rate),
                ("rows_out_per_s", self.out_rate),
                ("disk_bytes", self.disk * sized),
            )
        }
        busy = columns["rows_in_per_s"] / max(float(columns["rows_in_per_s"].max(initial=0.0)), 1.0)
        described = Nodes.of(self.budget, self.memory_bytes, busy=busy * 0.8, **columns)
        operator = Operator("join", work.streams, len(work), work.window_s)
        return ClusterSnapshot(
            "simulated", self.version, self.time_s, described, (operator,), groups, history
        )


def spills_in(plan: Plan) -> list[Spill]:
    return [step for step in plan.steps if isinstance(step, Spill)]
