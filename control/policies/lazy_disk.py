"""Lazy-disk: relocation while any node has room, spill only local and only on overflow (L9).

The coordinator's part is relocation. A node that overflows spills by its own rule (`local`), least
productive first; the two never run at once: a node's overflow comes first, and this policy says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control.limits import Limits
from control.parameters import choice, number, whole
from control.plans import Plan, Reason, Topic
from control.policies import relocate, victims
from control.policies.local_spill import LocalSpill
from control.policies.relocate import Relocate
from control.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class LazyDisk:
    """Both adaptations, one at a time."""

    name: ClassVar[str] = "lazy_disk"
    help: ClassVar[str] = (
        "moves while there is memory anywhere; nodes spill only when they overflow"
    )

    ratio: float = number(0.8, 0.0, 1.0, "move when least / most used memory is below this (θd)")
    span_s: float = number(45.0, 0.0, 86_400.0, "least time between two adaptations (τ)", "s")
    measure: str = choice(
        relocate.BYTES,
        (relocate.BYTES, relocate.SHARE),
        "memory in bytes, or as a share of budgets",
    )
    first: str = choice(victims.MOST_DECAYED, victims.CHOICES, "which groups are moved first")
    threshold: float = number(0.9, 0.05, 1.0, "share of its budget at which a node spills (θm)")
    spill_percent: float = number(
        30.0, 0.0, 100.0, "share of a node's state that one spill takes", "%"
    )
    victim: str = choice(victims.LEAST_DECAYED, victims.CHOICES, "which groups are spilled first")
    inactive_s: float = number(
        1800.0, 1.0, 1e9, "a group without input for this long is spilled first (θt)", "s"
    )
    seed: int = whole(0, 0, 2**31, "of the random choices")

    @property
    def local(self) -> LocalSpill:
        """The rule that each node follows by itself."""
        return LocalSpill(
            self.threshold, self.spill_percent, self.victim, self.inactive_s, self.seed
        )

    @property
    def relocation(self) -> Relocate:
        return Relocate(self.ratio, self.span_s, self.measure, self.first, 0, self.seed)

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        full = self.local.overflowing(snapshot)
        if len(full) and self.spill_percent:
            return self.local.decide(snapshot, limits)
        plan = self.relocation.decide(snapshot, limits)
        said = Reason.of(
            Topic.INPUT,
            "no node overflows: no spill",
            nodes_over=len(full),
            threshold=self.threshold,
        )
        return Plan(plan.steps, (said, *plan.reasons))
