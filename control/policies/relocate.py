"""Relocation: when memory is uneven, half of the difference moves from the most to the least used node.

Trigger M_least / M_most < θd, amount (M_most − M_least) / 2, at least τ after the last adaptation,
productive groups first, never a group with anything on disk (L8, L9). Memory use is measured in bytes as
the paper does, or as a share of each node's budget where budgets differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from control.limits import Limits
from control.parameters import choice, number, whole
from control.plans import Plan, Reason, Topic, move_of
from control.policies import victims
from control.snapshot import ClusterSnapshot, Doubles, Longs

BYTES, SHARE = "bytes", "share"


@dataclass(frozen=True, slots=True)
class Relocate:
    """The paper's distributed adaptation."""

    name: ClassVar[str] = "relocate"
    help: ClassVar[str] = "moves state from the node with most memory in use to the one with least"

    ratio: float = number(0.8, 0.0, 1.0, "move when least / most used memory is below this (θd)")
    span_s: float = number(45.0, 0.0, 86_400.0, "least time between two adaptations (τ)", "s")
    measure: str = choice(BYTES, (BYTES, SHARE), "memory in bytes, or as a share of each budget")
    first: str = choice(victims.MOST_DECAYED, victims.CHOICES, "which groups are moved first")
    least_bytes: int = whole(0, 0, 1 << 50, "moves of less than this are not worth it", "B")
    seed: int = whole(0, 0, 2**31, "of the random choice")

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        alive = np.flatnonzero(snapshot.nodes.alive)
        if len(alive) < 2:
            return Plan.nothing("fewer than two nodes are alive", nodes_alive=len(alive))
        source, target, inputs, due = self._trigger(snapshot, alive)
        if not due:
            return Plan.nothing("memory is balanced", *inputs)
        if not self.rested(snapshot):
            return Plan.nothing("the last adaptation is too recent", *inputs)
        return self.between(snapshot, limits, source, target, inputs)

    def rested(self, snapshot: ClusterSnapshot) -> bool:
        """At least τ after the last adaptation."""
        return snapshot.time_s - snapshot.history.last_adaptation_s >= self.span_s

    def use(self, snapshot: ClusterSnapshot) -> Doubles:
        nodes = snapshot.nodes
        if self.measure == SHARE:
            return np.asarray(nodes.memory_bytes / np.maximum(nodes.budget_bytes, 1), np.float64)
        return nodes.memory_bytes.astype(np.float64)

    def _trigger(
        self, snapshot: ClusterSnapshot, alive: Longs
    ) -> tuple[int, int, tuple[Reason, ...], bool]:
        use = self.use(snapshot)[alive]
        source, target = int(alive[use.argmax()]), int(alive[use.argmin()])
        most, least = float(use.max()), float(use.min())
        ratio = least / most if most > 0 else 1.0
        inputs = (
            Reason.of(
                Topic.INPUT,
                f"least used node {target} against most used node {source} (θd)",
                ratio=ratio,
                threshold=self.ratio,
                least=least,
                most=most,
            ),
            Reason.of(
                Topic.INPUT,
                "time since the last adaptation (τ)",
                since_s=snapshot.time_s - snapshot.history.last_adaptation_s,
                threshold_s=self.span_s,
            ),
        )
        return source, target, inputs, ratio < self.ratio

    def amount(self, snapshot: ClusterSnapshot, source: int, target: int) -> float:
        """Half of the difference; with shares, what makes the two shares equal."""
        nodes = snapshot.nodes
        memory = nodes.memory_bytes.astype(np.float64)
        if self.measure == BYTES:
            return float(memory[source] - memory[target]) / 2
        budget = np.maximum(nodes.budget_bytes.astype(np.float64), 1)
        common = (memory[source] + memory[target]) / (budget[source] + budget[target])
        return float(memory[source] - common * budget[source])

    def between(
        self,
        snapshot: ClusterSnapshot,
        limits: Limits,
        source: int,
        target: int,
        inputs: tuple[Reason, ...],
    ) -> Plan:
        """The move itself, within what the receiver and the limits allow."""
        nodes = snapshot.nodes
        wanted = self.amount(snapshot, source, target)
        room = limits.receiver_fill_max * float(nodes.budget_bytes[target]) - float(
            nodes.memory_bytes[target]
        )
        amount = min(wanted, room, limits.action_bytes_max, limits.daily_bytes_left)
        mine = snapshot.on(source)
        able = victims.movable(snapshot, mine)
        ordered = victims.in_order(snapshot, able, self.first, seed=self.seed)
        chosen = victims.within(ordered, snapshot.groups.memory_bytes, amount)
        about = (*inputs, *self._candidates(snapshot, mine, able, wanted, amount))
        step = move_of(snapshot, chosen, source, target)
        if not len(chosen) or step.bytes < self.least_bytes:
            return Plan.nothing(
                "no group that may be moved fits the amount",
                *about,
                amount_bytes=amount,
                least_bytes=self.least_bytes,
            )
        said = Reason.of(
            Topic.CHOSEN,
            f"{len(chosen)} groups move from node {source} to node {target}, {self.first} first",
            groups=len(chosen),
            bytes=step.bytes,
        )
        return Plan((step,), (*about, said))

    def _candidates(
        self, snapshot: ClusterSnapshot, mine: Longs, able: Longs, wanted: float, amount: float
    ) -> tuple[Reason, ...]:
        groups = snapshot.groups
        return (
            Reason.of(
                Topic.CANDIDATES,
                "groups of the sender that may be moved; half of the difference, and what limits allow",
                groups=len(able),
                wanted_bytes=wanted,
                amount_bytes=amount,
            ),
            Reason.of(
                Topic.SKIPPED,
                "groups of the sender that are on disk, in flight, or have no state in memory",
                on_disk=int(groups.spilled[mine].sum()),
                in_flight=int(groups.in_flight[mine].sum()),
                empty=int((groups.memory_bytes[mine] == 0).sum()),
            ),
        )
