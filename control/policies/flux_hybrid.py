"""Flux's hybrid: the memory policy while any group is on disk, else load with a fits-in-memory check (F8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control.limits import Limits
from control.parameters import flag, number
from control.plans import Plan, Reason, Topic
from control.policies.flux import DELTA_MIN_S
from control.policies.flux_load import FluxLoad
from control.policies.flux_memory import FluxMemory
from control.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class FluxHybrid:
    """One of the two, by what is scarce."""

    name: ClassVar[str] = "flux_hybrid"
    help: ClassVar[str] = "balances memory while anything is on disk, load otherwise"

    imbalance: float = number(
        1.2, 1.0, 100.0, "donor / receiver utilisation must exceed this (th_imb)"
    )
    receiver_busy_max: float = number(0.9, 0.0, 1.0, "the receiver must be under this (th_util)")
    delta_min_s: float = number(DELTA_MIN_S, 0.01, 3600.0, "shortest collection phase (δmin)", "s")
    on_disk: bool = flag(False, "on-disk groups may move too (operators that suspend and replay)")

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        on_disk = int(snapshot.groups.spilled.sum())
        plan = self._policy(on_disk).decide(snapshot, limits)
        text = "groups on disk: memory decides" if on_disk else "nothing on disk: load decides"
        said = Reason.of(Topic.INPUT, text, groups_on_disk=on_disk, threshold=0)
        return Plan(plan.steps, (said, *plan.reasons))

    def _policy(self, on_disk: int) -> FluxMemory | FluxLoad:
        if on_disk:
            return FluxMemory(self.delta_min_s, self.on_disk)
        return FluxLoad(self.imbalance, self.receiver_busy_max, self.delta_min_s, fits_memory=True)
