"""Flux's load policy: even out utilisation with as few moves as possible (F5).

Per pair at most one group: the first, in descending order of rows processed this round, that lowers the
imbalance without pushing the receiver over 1. The first pair that fails the threshold test ends the round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from control.limits import Limits
from control.parameters import flag, number
from control.plans import Plan, Reason, Topic, move_of
from control.policies import victims
from control.policies.flux import DELTA_MIN_S, Pair, pairs, round_over, summary
from control.snapshot import ClusterSnapshot, Doubles, Longs


@dataclass(frozen=True, slots=True)
class FluxLoad:
    """Moves for load; memory is assumed to be ample unless `fits_memory`."""

    name: ClassVar[str] = "flux_load"
    help: ClassVar[str] = "pairs busy with idle nodes and moves one busy group per pair and round"

    imbalance: float = number(
        1.2, 1.0, 100.0, "donor / receiver utilisation must exceed this (th_imb)"
    )
    receiver_busy_max: float = number(0.9, 0.0, 1.0, "the receiver must be under this (th_util)")
    delta_min_s: float = number(DELTA_MIN_S, 0.01, 3600.0, "shortest collection phase (δmin)", "s")
    fits_memory: bool = flag(False, "move only what fits the receiver's memory")

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
        alive = np.flatnonzero(snapshot.nodes.alive)
        mean = float(snapshot.nodes.busy[alive].mean()) if len(alive) else 0.0
        mean_said = Reason.of(Topic.INPUT, "mean utilisation", mean=mean, nodes=len(alive))
        chosen, stopped = self._choose(snapshot, limits, alive, mean)
        said = (timing, mean_said, *summary(chosen, stopped, len(alive) // 2))
        return _plan(snapshot, [pair for pair in chosen if pair.row >= 0], said)

    def _choose(
        self, snapshot: ClusterSnapshot, limits: Limits, alive: Longs, mean: float
    ) -> tuple[list[Pair], str]:
        chosen: list[Pair] = []
        busy = snapshot.nodes.busy
        total = snapshot.by_node(snapshot.groups.rows_in_round)
        for donor, receiver in pairs(busy, alive):
            if failed := self._fails(float(busy[donor]), float(busy[receiver]), mean):
                return chosen, f"nodes {donor} and {receiver}, and pairs after them: {failed}"
            row = self._group(snapshot, limits, donor, receiver, total)
            chosen.append(Pair(donor, receiver, row, "no group lowers the imbalance"))
        return chosen, ""

    def _fails(self, donor: float, receiver: float, mean: float) -> str:
        if donor <= mean:
            return f"donor's utilisation {donor:.3f} is not above the mean {mean:.3f}"
        if donor <= receiver * self.imbalance:
            return f"ratio {donor:.3f} / {receiver:.3f} is not above {self.imbalance:g}"
        if receiver >= self.receiver_busy_max:
            return f"receiver's utilisation {receiver:.3f} is not under {self.receiver_busy_max:g}"
        return ""

    def _group(
        self, snapshot: ClusterSnapshot, limits: Limits, donor: int, receiver: int, total: Doubles
    ) -> int:
        """The row to move, −1 when none qualifies."""
        rows = victims.movable(snapshot, snapshot.on(donor))
        rows = rows[np.lexsort((rows, -snapshot.groups.rows_in_round[rows]))]
        worked: Doubles = snapshot.groups.rows_in_round[rows].astype(np.float64)
        busy = snapshot.nodes.busy
        donor_after = busy[donor] * (1 - worked / max(total[donor], 1.0))
        receiver_after = _busier(
            float(busy[receiver]),
            worked,
            float(total[receiver]),
            float(busy[donor]),
            float(total[donor]),
        )
        lower = np.abs(donor_after - receiver_after) < busy[donor] - busy[receiver]
        fine = lower & (receiver_after <= 1) & (worked > 0)
        sizes = snapshot.groups.memory_bytes[rows]
        room = np.inf
        if self.fits_memory:
            free = float(snapshot.nodes.free_bytes[receiver])
            share = (1 - limits.receiver_fill_max) * float(snapshot.nodes.budget_bytes[receiver])
            room = free - share
        fine &= sizes <= min(room, limits.action_bytes_max, limits.daily_bytes_left)
        return int(rows[fine.argmax()]) if fine.any() else -1


def _busier(
    receiver: float, worked: Doubles, its_total: float, donor: float, donor_total: float
) -> Doubles:
    """The receiver's utilisation with a group's work added: at its own pace, as in the paper; at the
    donor's pace where it has processed nothing to know its pace by."""
    if its_total > 0 and receiver > 0:
        return receiver * (1 + worked / its_total)
    return receiver + donor * worked / max(donor_total, 1.0)


def _plan(snapshot: ClusterSnapshot, chosen: list[Pair], said: tuple[Reason, ...]) -> Plan:
    if not chosen:
        return Plan.nothing("no pair of nodes has a group worth moving", *said)
    steps = tuple(
        move_of(snapshot, np.array([pair.row]), pair.donor, pair.receiver) for pair in chosen
    )
    bytes_moved = sum(step.bytes for step in steps)
    return Plan(
        steps,
        (
            *said,
            Reason.of(
                Topic.CHOSEN, "one group per pair moves", moves=len(steps), bytes=bytes_moved
            ),
        ),
    )
