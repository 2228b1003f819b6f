"""Snapshots of a cluster, one after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from tests.app.made import MB

NOW_S = 1_790_000_000.0


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    """A few nodes and groups of two operators: in memory, on disk, both, neither; some in flight."""
    nodes = draw(st.integers(1, 5))
    groups = draw(st.integers(1, 24))
    each = st.lists
    owner = draw(each(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    memory = draw(each(st.integers(0, 50), min_size=groups, max_size=groups))
    disk = draw(each(st.sampled_from([0, 0, 7]), min_size=groups, max_size=groups))
    flight = draw(each(st.booleans(), min_size=groups, max_size=groups))
    rate = draw(each(st.floats(0, 1e4), min_size=groups, max_size=groups))
    first = draw(st.integers(0, groups))
    columns = Groups.of(
        owner,
        np.array(memory) * MB,
        operator=(np.arange(groups) >= first).astype(int),
        group=np.r_[np.arange(first), np.arange(groups - first)],
        disk_bytes=np.array(disk) * MB,
        generations=(np.array(disk) > 0).astype(int),
        in_flight=flight,
        rows_out_per_s=rate,
        rows_in_per_s=1.0,
        bytes_per_s=1_000.0,
        last_insert_s=NOW_S - np.arange(groups),
        owed_rows=np.array(disk) * 10.0,
        owed_rows_per_s=np.array(disk) * 1.0,
    )
    used = np.bincount(owner, np.array(memory) * MB, nodes)
    lower = np.bincount(owner, np.array(disk) * MB, nodes)
    described = Nodes.of([1_500 * MB] * nodes, used, disk_bytes=lower, busy=0.5)
    operators = (Operator("one", 3, max(first, 1)), Operator("two", 2, max(groups - first, 1)))
    return ClusterSnapshot("q", 3, NOW_S, described, operators, columns)
