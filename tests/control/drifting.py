"""Recordings of nodes that drift apart, and a rule that evens them out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from control.limits import OPEN
from control.policies.local_spill import LocalSpill
from control.snapshot import ClusterSnapshot, History
from tests.control.fluid.workloads import Workload, drifting
from tests.control.fluid.world import World

MB = 1_000_000
EVEN = """
name = "even"
mode = "auto"
every = "15s"
cooldown = "30s"
needs_gain = false
[policy]
name = "{policy}"
span_s = 30
ratio = 0.8
"""


def even(policy: str = "relocate") -> str:
    return EVEN.format(policy=policy)


def record(
    work: Workload, owner: list[int], budget: int, minutes: int, local: LocalSpill | None = None
) -> list[ClusterSnapshot]:
    """A snapshot a minute, nothing done but what nodes do themselves."""
    world = World(work, np.array(owner), np.full(max(owner) + 1, budget))
    out = []
    for _ in range(minutes):
        for _ in range(60):
            world.advance(1.0)
            if local is not None:
                for step in local.decide(world.snapshot(History()), OPEN).steps:
                    world.spill(world.rows_of(step))  # type: ignore[arg-type]
        out.append(world.snapshot(History()))
    return out


def drift(seed: int, groups: int = 32) -> Workload:
    made = drifting(groups, 3000, groups * 500, 4, seed)
    return replace(made, period_s=240.0, row_bytes=200.0)
