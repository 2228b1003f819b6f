"""Local spill: when a node's memory passes a share of its budget, k % of its state goes to its disk.

The node decides alone (L4, L5). As a policy it is also "no moves": the paper's No-Distributed-Adaptation.
k = 0 is the mode without spilling; the engine stops with an error when memory runs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from control.limits import Limits
from control.parameters import choice, number, whole
from control.plans import Plan, Reason, Spill, Topic, spill_of
from control.policies import victims
from control.snapshot import ClusterSnapshot, Doubles, Longs


@dataclass(frozen=True, slots=True)
class LocalSpill:
    """The nodes' own rule."""

    name: ClassVar[str] = "local_spill"
    help: ClassVar[str] = "each node spills when its memory passes the threshold; nothing is moved"

    threshold: float = number(0.9, 0.05, 1.0, "share of its budget at which a node spills (θm)")
    spill_percent: float = number(
        30.0, 0.0, 100.0, "share of a node's state that one spill takes", "%"
    )
    victim: str = choice(victims.LEAST_DECAYED, victims.CHOICES, "which groups are spilled first")
    inactive_s: float = number(
        1800.0, 1.0, 1e9, "a group without input for this long is spilled first (θt)", "s"
    )
    seed: int = whole(0, 0, 2**31, "of the random choice")

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        """One plan for all nodes over the threshold; each takes its own spill from it."""
        full = self.overflowing(snapshot)
        if not self.spill_percent or not len(full):
            return Plan.nothing(self._why_not(), self._usage(snapshot))
        steps = self.spills(snapshot, full)
        if not steps:
            return Plan.nothing(
                "every group on the nodes over the threshold is in flight or already on disk",
                self._usage(snapshot),
            )
        return Plan(
            tuple(steps),
            (
                self._usage(snapshot),
                *(self._chosen(snapshot, step) for step in steps[:20]),
                Reason.of(
                    Topic.SKIPPED,
                    "nodes under the threshold, and nodes with nothing left to spill",
                    nodes_under=len(snapshot.nodes) - len(full),
                    nodes_empty=len(full) - len(steps),
                ),
            ),
            local=True,
        )

    def overflowing(self, snapshot: ClusterSnapshot) -> Longs:
        """Nodes over the threshold."""
        nodes = snapshot.nodes
        over = nodes.alive & (nodes.memory_bytes > self.threshold * nodes.budget_bytes)
        return np.flatnonzero(over)

    def amounts(self, snapshot: ClusterSnapshot) -> Doubles:
        """By node: k % of its memory, more if that would not bring it under the threshold."""
        nodes = snapshot.nodes
        over = nodes.memory_bytes - self.threshold * nodes.budget_bytes
        return np.maximum(nodes.memory_bytes * self.spill_percent / 100, over)

    def spills(self, snapshot: ClusterSnapshot, full: Longs) -> list[Spill]:
        """What these nodes would spill now; a node with nothing to spill has no step."""
        groups = snapshot.groups
        rows = np.flatnonzero(np.isin(groups.owner, full))
        chosen = victims.covering_each(
            self.ordered(snapshot, rows), groups.owner, groups.memory_bytes, self.amounts(snapshot)
        )
        owner = groups.owner[chosen]
        cuts = np.flatnonzero(owner[1:] != owner[:-1]) + 1
        return [
            spill_of(snapshot, some, int(groups.owner[some[0]]))
            for some in np.split(chosen, cuts)
            if len(some)
        ]

    def ordered(self, snapshot: ClusterSnapshot, rows: Longs) -> Longs:
        rows = victims.spillable(snapshot, rows)
        return victims.in_order(
            snapshot, rows, self.victim, inactive_s=self.inactive_s, seed=self.seed
        )

    def _why_not(self) -> str:
        if not self.spill_percent:
            return "spilling is off (spill_percent = 0)"
        return "no node's memory is over the threshold"

    def _usage(self, snapshot: ClusterSnapshot) -> Reason:
        nodes = snapshot.nodes
        use = np.where(nodes.alive, nodes.memory_bytes / np.maximum(nodes.budget_bytes, 1), 0.0)
        worst = int(use.argmax()) if len(use) else 0
        return Reason.of(
            Topic.INPUT,
            f"the fullest node is node {worst}",
            memory_share=use.max(initial=0.0),
            threshold=self.threshold,
            nodes_over=len(self.overflowing(snapshot)),
        )

    def _chosen(self, snapshot: ClusterSnapshot, step: Spill) -> Reason:
        count = sum(len(part.groups) for part in step.parts)
        return Reason.of(
            Topic.CHOSEN,
            f"node {step.node} spills {count} groups, inactive first, then {self.victim}",
            bytes=step.bytes,
            wanted_bytes=float(self.amounts(snapshot)[step.node]),
            groups=count,
            candidates=len(victims.spillable(snapshot, snapshot.on(step.node))),
        )
