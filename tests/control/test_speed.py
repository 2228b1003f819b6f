"""How long a decision takes at the largest size: 1 000 nodes × 100 000 groups, under a second. Measured
with `-m bench`, never as a timed test; the plain test checks that the answers are accepted at this size."""

from __future__ import annotations

import time

import numpy as np
import pytest

from control.arbiter import judge
from control.limits import OPEN
from control.policies.registry import KINDS
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator, node_sums

NODES, GROUPS = 1_000, 100_000
SECONDS_MAX = 1.0


def large(room: float, nodes: int = NODES, groups: int = GROUPS) -> ClusterSnapshot:
    """Skewed: a third of the groups on a fifth of the nodes. `room` × the fullest node is every budget."""
    random = np.random.default_rng(1)
    skewed = random.random(groups) < 1 / 3
    owner = np.where(
        skewed, random.integers(0, nodes // 5, groups), random.integers(0, nodes, groups)
    )
    size, rate = random.integers(100_000, 4_000_000, groups), random.lognormal(3, 1, groups)
    spilled = random.random(groups) < 0.05
    columns = Groups.of(
        owner,
        size,
        disk_bytes=size * spilled,
        generations=spilled,
        owed_rows=1e4 * spilled,
        owed_rows_per_s=rate * spilled,
        rows_out=rate * 1000,
        rows_out_per_s=rate,
        rows_in_round=rate * 10,
        rows_out_round=rate * 10,
        bytes_per_s=size / 400,
        last_insert_s=1000.0,
    )
    memory = node_sums(owner, size, nodes)
    made = node_sums(owner, rate, nodes)
    budget = np.full(nodes, int(memory.max() * room))
    described = Nodes.of(budget, memory, busy=memory / memory.max(), rows_out_per_s=made)
    return ClusterSnapshot("large", 1, 1000.0, described, (Operator("join", 3, groups),), columns)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_decisions_at_full_size_are_accepted(name: str) -> None:
    snapshot = large(1.2)
    plan = KINDS[name]().decide(snapshot, OPEN)
    assert plan.reasons
    if plan.steps:
        assert judge(plan, snapshot, (), OPEN).accepted


@pytest.mark.bench
@pytest.mark.parametrize("room", [0.3, 1.2])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_seconds_per_decision(name: str, room: float) -> None:
    taken = []
    for _ in range(3):
        snapshot = large(room)
        start = time.perf_counter()
        plan = KINDS[name]().decide(snapshot, OPEN)
        middle = time.perf_counter()
        judge(plan, snapshot, (), OPEN)
        taken.append((middle - start, time.perf_counter() - middle))
    decide, judged = np.median(taken, axis=0)
    print(
        f"{name} room {room}: decide {decide:.3f} s, judge {judged:.3f} s, {len(plan.steps)} steps"
    )
    assert decide < SECONDS_MAX and judged < SECONDS_MAX
