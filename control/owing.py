"""An estimate of what spilled groups owe, followed from snapshot to snapshot.

While a group is in memory it makes ρ results a second from B bytes. Once part of it is on disk, results grow
with the whole state, less what the part in memory still finds: ρ[((disk + memory) / B)^n − (memory / B)^n],
n = streams − 1. With a window W the whole stays as it was and memory fills again in W: ρ[1 − min(1, t/W)^n],
t after the latest spill. What is owed is that over time.
Counting it exactly would be doing the join; the clean-up does, and the model learns how far this was off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from control.snapshot import ClusterSnapshot, Doubles, Longs


@dataclass(frozen=True)
class Owing:
    """By row of the snapshot."""

    time_s: float
    generations: Longs
    since_s: Doubles  # the latest spill
    rate: Doubles  # ρ when the group was spilled first
    bytes: Doubles  # B then
    rows: Doubles  # owed so far
    rows_per_s: Doubles

    @staticmethod
    def nothing(snapshot: ClusterSnapshot) -> Owing:
        zeros = np.zeros(len(snapshot.groups))
        none = np.zeros(len(snapshot.groups), dtype=np.int64)
        return Owing(snapshot.time_s, none, zeros, zeros, zeros, zeros, zeros)


def follow(before: Owing, last: ClusterSnapshot, now: ClusterSnapshot) -> Owing:
    """What is owed now. `last`: the snapshot that `before` was made for."""
    if len(before.rows) != len(now.groups):
        before, last = Owing.nothing(now), now
    generations = now.groups.generations
    fresh = (generations > 0) & (before.generations == 0)
    merged = generations < before.generations
    gone = generations == 0
    size = np.maximum((now.groups.disk_bytes + now.groups.memory_bytes).astype(np.float64), 1.0)
    # Somewhere between the two snapshots: on average in the middle.
    spilled_s = (last.time_s + now.time_s) / 2
    since = np.where(generations > before.generations, spilled_s, before.since_s)
    rate = np.where(fresh, last.groups.rows_out_per_s, before.rate)
    start = np.where(fresh, size, before.bytes)
    rows = np.where(fresh | merged | gone, 0.0, before.rows)
    per_s = np.where(gone, 0.0, _per_s(now, since, rate, np.maximum(start, 1.0)))
    elapsed = max(0.0, now.time_s - before.time_s)
    steady = ~(fresh | merged | gone)
    rows = rows + np.where(steady, (before.rows_per_s + per_s) / 2 * elapsed, 0.0)
    return Owing(now.time_s, generations, since, rate, start, rows, per_s)


def _per_s(now: ClusterSnapshot, since_s: Doubles, rate: Doubles, start: Doubles) -> Doubles:
    n = np.maximum(now.streams - 1, 0).astype(np.float64)
    windowed = np.isfinite(now.window_s)
    memory = now.groups.memory_bytes / start
    whole = np.where(windowed, 1.0, (now.groups.disk_bytes / start) + memory)
    window_s = np.where(windowed, np.maximum(now.window_s, 1e-6), 1.0)
    found = np.where(windowed, (now.time_s - since_s) / window_s, memory)
    owed = rate * (whole**n - np.clip(found, 0.0, whole) ** n)
    return np.asarray(np.maximum(owed, 0.0), dtype=np.float64)


def with_owed(snapshot: ClusterSnapshot, owing: Owing) -> ClusterSnapshot:
    groups = replace(snapshot.groups, owed_rows=owing.rows, owed_rows_per_s=owing.rows_per_s)
    return replace(snapshot, groups=groups)
