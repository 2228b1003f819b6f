"""Snapshots for tests: small clusters by Hypothesis, and by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from control.snapshot import ClusterSnapshot, Groups, History, Nodes, Operator

MB = 1_000_000


def cluster(
    memory: list[list[int]], budget: int = 200 * MB, time_s: float = 1000.0, **more: object
) -> ClusterSnapshot:
    """Nodes given as the bytes of their groups, in order."""
    owner = [node for node, sizes in enumerate(memory) for _ in sizes]
    sizes = [size for node in memory for size in node]
    history = more.pop("history", History())
    nodes = more.pop("nodes", {})
    operators = more.pop("operators", (Operator("join", 3, len(sizes)),))
    groups = Groups.of(owner, sizes, **{"last_insert_s": time_s, **more})
    used = [sum(node) for node in memory]
    return ClusterSnapshot(
        "q", 1, time_s, Nodes.of([budget] * len(memory), used, **nodes), operators, groups, history
    )


@st.composite
def snapshots(draw: st.DrawFn, nodes_max: int = 5, groups_max: int = 24) -> ClusterSnapshot:
    """Any small cluster: groups spilled, in flight, empty; nodes down, full, unlike."""
    nodes = draw(st.integers(1, nodes_max))
    count = draw(st.integers(1, groups_max))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    owner = random.integers(0, nodes, count)
    memory = random.integers(0, 50 * MB, count) * (random.random(count) > 0.1)
    spilled = random.random(count) < draw(st.sampled_from([0.0, 0.2, 0.8]))
    rate = random.lognormal(3, 2, count) * (random.random(count) > 0.2)
    used = np.bincount(owner, weights=memory, minlength=nodes)
    loose = draw(st.sampled_from([0.5, 1.0, 1.3, 5.0]))
    operators = (Operator("low", 2, count), Operator("high", 3, count, 60.0))
    groups = Groups.of(
        owner,
        memory,
        operator=random.integers(0, 2, count),
        disk_bytes=random.integers(0, 50 * MB, count) * spilled,
        generations=spilled.astype(int),
        rows_in=random.integers(0, 10**6, count),
        rows_out=random.integers(0, 10**6, count),
        rows_out_per_s=rate,
        rows_in_round=random.integers(0, 1000, count),
        rows_out_round=random.integers(0, 1000, count),
        bytes_per_s=random.lognormal(9, 2, count),
        last_insert_s=1000 - random.lognormal(5, 3, count),
        owed_rows=random.lognormal(5, 2, count) * spilled,
        owed_rows_per_s=rate * spilled,
        in_flight=random.random(count) < 0.1,
    )
    described = Nodes.of(
        (used * loose).astype(int) + draw(st.integers(0, 100 * MB)),
        used,
        disk_free_bytes=random.integers(0, 500 * MB, nodes),
        busy=random.random(nodes),
        rows_out_per_s=np.bincount(owner, weights=rate, minlength=nodes),
        alive=random.random(nodes) > 0.1,
    )
    history = History(forced_spill_bytes=int(random.integers(0, 10 * MB)))
    return ClusterSnapshot("q", 7, 1000.0, described, operators, groups, history)
