"""Active-disk: lazy-disk, and forced spills where output is low while memory is balanced (L10).

When max / min of the nodes' average output rate per group exceeds θf, the coordinator makes the least
productive node spill, in total at most M_q − M_c: what the query needs beyond the cluster's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from control.limits import Limits
from control.parameters import number, whole
from control.plans import Plan, Reason, Topic, spill_of
from control.policies import victims
from control.policies.lazy_disk import LazyDisk
from control.snapshot import ClusterSnapshot, Doubles, Longs


def state_estimate_bytes(snapshot: ClusterSnapshot, ahead_s: float) -> float:
    """M_q: all state, and what `ahead_s` more seconds add; with a window, never more than it holds."""
    groups = snapshot.groups
    now = (groups.memory_bytes + groups.disk_bytes).astype(np.float64)
    grown = now + groups.bytes_per_s * ahead_s
    bounded = np.isfinite(snapshot.window_s)
    most = np.maximum(now, groups.bytes_per_s * np.where(bounded, snapshot.window_s, 0.0))
    return float(np.where(bounded, np.minimum(grown, most), grown).sum())


@dataclass(frozen=True, slots=True)
class ActiveDisk(LazyDisk):
    """Lazy-disk with a coordinator that spills."""

    name: ClassVar[str] = "active_disk"
    help: ClassVar[str] = "lazy disk; besides, the least productive node is made to spill"

    rate_ratio: float = number(
        2.0, 1.0, 1e6, "spill when the nodes' output per group differs by more than this (θf)"
    )
    force_percent: float = number(
        30.0, 1.0, 100.0, "share of a node's state that one forced spill takes", "%"
    )
    ahead_s: float = number(
        600.0, 0.0, 1e7, "the query's memory need is estimated this far ahead", "s"
    )
    query_bytes: int = whole(0, 0, 1 << 60, "the query's memory need (M_q); 0: estimated", "B")

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        plan = LazyDisk.decide(self, snapshot, limits)
        if plan.steps:
            return plan
        return self._force(snapshot, limits, plan.reasons)

    def output_per_group(self, snapshot: ClusterSnapshot) -> Doubles:
        """Results of the last round per group, by node; NaN where a node has no group or is down."""
        made = snapshot.by_node(snapshot.groups.rows_out_round)
        count = snapshot.by_node(np.ones(len(snapshot.groups)))
        usable = (count > 0) & snapshot.nodes.alive
        return np.where(usable, made / np.maximum(count, 1), np.nan)

    def cap_bytes(self, snapshot: ClusterSnapshot) -> float:
        """What may still be forced to disk: M_q − M_c, less what was."""
        need = self.query_bytes or state_estimate_bytes(snapshot, self.ahead_s)
        nodes = snapshot.nodes
        cluster = float(nodes.budget_bytes[nodes.alive].astype(np.float64).sum())
        return float(need) - cluster - snapshot.history.forced_spill_bytes

    def _force(self, snapshot: ClusterSnapshot, limits: Limits, lazy: tuple[Reason, ...]) -> Plan:
        said = [reason for reason in lazy if reason.topic is not Topic.NOTHING]
        rate = self.output_per_group(snapshot)
        if np.isfinite(rate).sum() < 2:
            return Plan.nothing("fewer than two nodes have groups", *said)
        node, most, least = int(np.nanargmin(rate)), float(np.nanmax(rate)), float(np.nanmin(rate))
        ratio = most / least if least > 0 else (np.inf if most > 0 else 1.0)
        cap = self.cap_bytes(snapshot)
        said += [
            Reason.of(
                Topic.INPUT,
                f"output per group, least on node {node} (θf)",
                ratio=ratio,
                threshold=self.rate_ratio,
                least=least,
                most=most,
            ),
            Reason.of(Topic.INPUT, "what may still be forced to disk (M_q − M_c)", cap_bytes=cap),
        ]
        why = self._why_not(snapshot, lazy, ratio, cap)
        return Plan.nothing(why, *said) if why else self._spill(snapshot, limits, node, cap, said)

    def _why_not(
        self, snapshot: ClusterSnapshot, lazy: tuple[Reason, ...], ratio: float, cap: float
    ) -> str:
        if not any(reason.text == "memory is balanced" for reason in lazy):
            return next(r.text for r in lazy if r.topic is Topic.NOTHING)
        if ratio <= self.rate_ratio:
            return "memory and output are balanced"
        if cap <= 0:
            return "the query fits the cluster's memory, or enough has been forced to disk"
        if not self.relocation.rested(snapshot):
            return "the last adaptation is too recent"
        return ""

    def _spill(
        self, snapshot: ClusterSnapshot, limits: Limits, node: int, cap: float, said: list[Reason]
    ) -> Plan:
        share = float(snapshot.nodes.memory_bytes[node]) * self.force_percent / 100
        disk = float(snapshot.nodes.disk_free_bytes[node])
        amount = min(share, cap, disk, limits.action_bytes_max, limits.daily_bytes_left)
        ordered: Longs = self.local.ordered(snapshot, snapshot.on(node))
        chosen = victims.within(ordered, snapshot.groups.memory_bytes, amount)
        said.append(
            Reason.of(
                Topic.CANDIDATES,
                f"groups in memory on node {node}; k % of them, and what the cap and limits allow",
                groups=len(ordered),
                wanted_bytes=share,
                amount_bytes=amount,
            )
        )
        if not len(chosen):
            return Plan.nothing("no group fits the amount", *said, amount_bytes=amount)
        step = spill_of(snapshot, chosen, node)
        chose = Reason.of(
            Topic.CHOSEN,
            f"node {node} is made to spill {len(chosen)} groups, inactive first, then {self.victim}",
            groups=len(chosen),
            bytes=step.bytes,
        )
        return Plan((step,), (*said, chose))
