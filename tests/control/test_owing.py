"""What spilled groups owe, estimated from snapshots, against joins that are counted."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from control.owing import Owing, follow
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator

RATE, KEYS, SPILL_S, END_S = 30.0, 12, 40.0, 80.0


def counted(streams: int, window_s: float | None, until_s: float) -> tuple[float, float]:
    """One group whose rows come evenly: its results a second before the spill, and what it owes at the end."""
    rng = np.random.default_rng(7)
    times = np.arange(0, until_s, 1 / RATE)
    rows = [(times, rng.integers(0, KEYS, len(times))) for _ in range(streams)]
    rate = owed = 0
    for key in range(KEYS):
        mine = [t[k == key] for t, k in rows]
        grid = np.meshgrid(*mine, indexing="ij")
        first, last = np.minimum.reduce(grid), np.maximum.reduce(grid)
        near = np.full(first.shape, True) if window_s is None else last - first <= window_s
        rate += int((near & (last < SPILL_S) & (last >= SPILL_S - 1)).sum())
        owed += int((near & (first < SPILL_S) & (last >= SPILL_S)).sum())
    return rate, owed


def snapshot(
    at_s: float, streams: int, window_s: float | None, rate: float, size: float
) -> ClusterSnapshot:
    """The group at a time; `size` is what it has in memory where nothing expires."""
    spilled = at_s > SPILL_S
    full = min(window_s or SPILL_S, SPILL_S) * size
    fresh = min(at_s - SPILL_S, window_s or at_s) * size
    groups = Groups.of(
        [0],
        [int(fresh if spilled else full)],
        disk_bytes=[int(full) if spilled else 0],
        generations=[int(spilled)],
        rows_out_per_s=[rate],
    )
    operator = Operator("one", streams, 1, window_s)
    return ClusterSnapshot("q", 1, at_s, Nodes.of([10**9], [0]), (operator,), groups)


@pytest.mark.parametrize(
    ("streams", "window_s", "end_s"),
    [*product((2, 3), (None, 10.0, 25.0), (END_S,)), (2, 25.0, 50.0), (3, 25.0, 50.0)],
)
def test_the_estimate_is_near_what_is_counted(
    streams: int, window_s: float | None, end_s: float
) -> None:
    rate, owed = counted(streams, window_s, end_s)
    last = snapshot(SPILL_S, streams, window_s, rate, 1e6)
    owing = Owing.nothing(last)
    for at_s in np.arange(SPILL_S + 0.5, end_s, 0.5):
        now = snapshot(float(at_s), streams, window_s, rate, 1e6)
        owing, last = follow(owing, last, now), now
    assert owing.rows[0] == pytest.approx(owed, rel=0.15)


def test_after_the_window_nothing_more_is_owed() -> None:
    last = snapshot(SPILL_S, 3, 10.0, 100.0, 1e6)
    owing, rows = Owing.nothing(last), []
    for at_s in np.arange(SPILL_S + 0.5, END_S, 0.5):
        now = snapshot(float(at_s), 3, 10.0, 100.0, 1e6)
        owing, last = follow(owing, last, now), now
        rows.append(float(owing.rows[0]))
    assert rows[20:] == [rows[20]] * len(rows[20:])
    assert all(a <= b for a, b in pairwise(rows))


def test_a_cleaned_up_group_owes_nothing() -> None:
    first = snapshot(SPILL_S, 2, None, 100.0, 1e6)
    spilled = snapshot(SPILL_S + 5, 2, None, 100.0, 1e6)
    owing = follow(follow(Owing.nothing(first), first, spilled), spilled, spilled)
    clean = snapshot(SPILL_S, 2, None, 100.0, 1e6)
    assert follow(owing, spilled, clean).rows[0] == 0
