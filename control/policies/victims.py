"""Which groups first: orders over groups, and taking as many as an amount of bytes allows.

Orders are index arrays made with `lexsort`: no loop over groups. Ties are broken by operator and group,
so that the same snapshot always gives the same answer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from control.snapshot import Bools, ClusterSnapshot, Doubles, Longs

LEAST = "least_productive"
MOST = "most_productive"
LEAST_DECAYED = "least_productive_decayed"
MOST_DECAYED = "most_productive_decayed"
RANDOM = "random"
LARGEST = "largest"
OLDEST = "oldest"
CHOICES: Final = (LEAST_DECAYED, LEAST, MOST_DECAYED, MOST, RANDOM, LARGEST, OLDEST)


def lifetime_productivity(snapshot: ClusterSnapshot) -> Doubles:
    """The paper's measure: results since the query began per byte of state (its P_o / P_s)."""
    groups = snapshot.groups
    size = np.maximum(groups.memory_bytes + groups.disk_bytes, 1)
    return np.asarray(groups.rows_out / size, dtype=np.float64)


def decayed_productivity(snapshot: ClusterSnapshot) -> Doubles:
    """Results per second, decayed, per byte in memory: follows drift."""
    groups = snapshot.groups
    return np.asarray(groups.rows_out_per_s / np.maximum(groups.memory_bytes, 1), dtype=np.float64)


def inactive(snapshot: ClusterSnapshot, inactive_s: float) -> Bools:
    """No input for longer than θt."""
    quiet: Bools = snapshot.time_s - snapshot.groups.last_insert_s > inactive_s
    return quiet


def in_order(
    snapshot: ClusterSnapshot,
    rows: Longs,
    by: str,
    *,
    inactive_s: float = np.inf,
    seed: int = 0,
) -> Longs:
    """`rows` in the order in which they are chosen: inactive ones first, oldest of them first."""
    rank = _rank(snapshot, rows, by, seed)
    groups = snapshot.groups
    quiet = inactive(snapshot, inactive_s)[rows]
    age = np.where(quiet, groups.last_insert_s[rows], 0.0)
    keys = (groups.group[rows], groups.operator[rows], np.where(quiet, 0.0, rank), age, ~quiet)
    return rows[np.lexsort(keys)]


def _rank(snapshot: ClusterSnapshot, rows: Longs, by: str, seed: int) -> Doubles:
    """Smallest first."""
    groups = snapshot.groups
    if by == RANDOM:
        drawn: Doubles = np.random.default_rng([seed, snapshot.version]).random(len(groups))
        return drawn[rows]
    lifetime, size = lifetime_productivity(snapshot), groups.memory_bytes.astype(np.float64)
    decayed = decayed_productivity(snapshot)
    rank = {
        LEAST: lifetime,
        MOST: -lifetime,
        LEAST_DECAYED: decayed,
        MOST_DECAYED: -decayed,
        LARGEST: -size,
        OLDEST: groups.last_insert_s,
    }[by]
    return rank[rows]


def spillable(snapshot: ClusterSnapshot, rows: Longs) -> Longs:
    """Groups with state in memory that are not in flight."""
    groups = snapshot.groups
    return rows[(groups.memory_bytes[rows] > 0) & ~groups.in_flight[rows]]


def movable(snapshot: ClusterSnapshot, rows: Longs) -> Longs:
    """Of these, groups with nothing on disk: a spilled group is never moved."""
    rows = spillable(snapshot, rows)
    return rows[~snapshot.groups.spilled[rows]]


def within(ordered: Longs, sizes: Longs, amount: float) -> Longs:
    """As many as fit: the longest prefix, of those not too large alone, that stays within `amount`."""
    fits = ordered[sizes[ordered] <= amount]
    return fits[np.cumsum(sizes[fits]) <= amount]


def covering(ordered: Longs, sizes: Longs, amount: float) -> Longs:
    """As many as needed: the shortest prefix of at least `amount`; all where that is not enough."""
    if amount <= 0:
        return ordered[:0]
    reached = np.cumsum(sizes[ordered])
    return ordered[: int(np.searchsorted(reached, amount)) + 1]


def covering_each(ordered: Longs, node: Longs, sizes: Longs, amount: Doubles) -> Longs:
    """`covering` on many nodes at once: `amount` by node; `node` and `sizes` by row of the snapshot."""
    ordered = ordered[np.argsort(node[ordered], kind="stable")]
    if not len(ordered):
        return ordered
    size, home = sizes[ordered], node[ordered]
    running = np.cumsum(size) - size
    start = np.flatnonzero(np.r_[True, home[1:] != home[:-1]])
    before = running - np.repeat(running[start], np.diff(np.r_[start, len(ordered)]))
    return ordered[before < amount[home]]
