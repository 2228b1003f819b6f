"""No adaptation at all: the baseline of every figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control.limits import Limits
from control.plans import Plan
from control.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Nothing:
    """Decides nothing."""

    name: ClassVar[str] = "none"
    help: ClassVar[str] = "no adaptation; a node whose memory runs out stops the query"

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        return Plan.nothing("the policy is `none`", nodes=len(snapshot.nodes))
