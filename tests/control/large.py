"""A large cluster."""

from __future__ import annotations

import numpy as np

from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator, node_sums

NODES, GROUPS = 1_000, 100_000


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
