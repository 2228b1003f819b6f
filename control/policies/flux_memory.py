"""Flux's memory-constrained policy: the same pairing on excess = state size − available memory (F7).

In-memory groups are preferred before on-disk ones, larger before smaller; the receiver has no limits here
(section 6.1). On-disk groups are candidates only with `on_disk`: joins leave generations that stay put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from control.limits import Limits
from control.parameters import flag, number
from control.plans import Move, Plan, Reason, Topic, parts_at
from control.policies.flux import DELTA_MIN_S, Pair, pairs, round_over, summary
from control.snapshot import ClusterSnapshot, Doubles, Longs


@dataclass(frozen=True, slots=True)
class FluxMemory:
    """Moves for memory."""

    name: ClassVar[str] = "flux_memory"
    help: ClassVar[str] = "pairs nodes by excess state and moves one large group per pair and round"

    delta_min_s: float = number(DELTA_MIN_S, 0.01, 3600.0, "shortest collection phase (δmin)", "s")
    on_disk: bool = flag(False, "on-disk groups may move too (operators that suspend and replay)")

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        history = snapshot.history
        timing = Reason.of(
            Topic.INPUT,
            "statistics collected for (δ)",
            since_s=snapshot.time_s - history.round_start_s,
            threshold_s=history.round_s,
        )
        if not round_over(snapshot):
            return Plan.nothing("the collection phase is not over", timing)
        excess = self.excess_bytes(snapshot)
        alive = np.flatnonzero(snapshot.nodes.alive)
        chosen, stopped = self._choose(snapshot, limits, alive, excess)
        moving = [pair for pair in chosen if pair.row >= 0]
        said = (
            timing,
            self._excess_said(excess, alive),
            *summary(chosen, stopped, len(alive) // 2),
        )
        if not moving:
            return Plan.nothing("no pair of nodes has a group worth moving", *said)
        steps = tuple(self._move(snapshot, pair) for pair in moving)
        size = sum(step.bytes for step in steps)
        chose = Reason.of(Topic.CHOSEN, "one group per pair moves", moves=len(steps), bytes=size)
        return Plan(steps, (*said, chose))

    def excess_bytes(self, snapshot: ClusterSnapshot) -> Doubles:
        """State in memory and on disk, less the memory there is."""
        groups = snapshot.groups
        state = snapshot.by_node(groups.memory_bytes + groups.disk_bytes)
        return np.asarray(state - snapshot.nodes.budget_bytes, dtype=np.float64)

    def _excess_said(self, excess: Doubles, alive: Longs) -> Reason:
        here = excess[alive] if len(alive) else np.zeros(1)
        return Reason.of(
            Topic.INPUT,
            "excess state",
            most_bytes=here.max(),
            least_bytes=here.min(),
            nodes=len(alive),
        )

    def _choose(
        self, snapshot: ClusterSnapshot, limits: Limits, alive: Longs, excess: Doubles
    ) -> tuple[list[Pair], str]:
        chosen: list[Pair] = []
        mean = float(excess[alive].mean()) if len(alive) else 0.0
        for donor, receiver in pairs(excess, alive):
            if excess[donor] <= mean:
                return (
                    chosen,
                    f"nodes {donor} and {receiver}, and pairs after: donor not above the mean",
                )
            difference = float(excess[donor] - excess[receiver])
            row = self._group(snapshot, limits, donor, difference)
            chosen.append(Pair(donor, receiver, row, "no group lowers the imbalance"))
        return chosen, ""

    def _group(
        self, snapshot: ClusterSnapshot, limits: Limits, donor: int, difference: float
    ) -> int:
        """The first group whose move lowers the imbalance: |difference − 2 × size| < difference."""
        groups = snapshot.groups
        rows = snapshot.on(donor)
        rows = rows[~groups.in_flight[rows]]
        if not self.on_disk:
            rows = rows[~groups.spilled[rows]]
        size = (groups.memory_bytes + groups.disk_bytes)[rows]
        order = np.lexsort((rows, -size, groups.spilled[rows]))
        rows, size = rows[order], size[order]
        fine = (size > 0) & (size < difference)
        fine &= size <= min(limits.action_bytes_max, limits.daily_bytes_left)
        return int(rows[fine.argmax()]) if fine.any() else -1

    def _move(self, snapshot: ClusterSnapshot, pair: Pair) -> Move:
        row = np.array([pair.row])
        groups = snapshot.groups
        size = int(groups.memory_bytes[pair.row] + groups.disk_bytes[pair.row])
        return Move(parts_at(snapshot, row), pair.donor, pair.receiver, size)
