"""What arrives: rows per second of each group, and how many keys it has, by a seed and the paper's knobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from control.snapshot import Doubles, Longs

STEADY, ALTERNATE, SHIFT = "steady", "alternate", "shift"


@dataclass(frozen=True)
class Workload:
    """Columns by group. Fewer keys, more results per row: `keys` = tuple range / range join ratio."""

    rows_per_s: Doubles  # all streams together, at rest
    keys: Doubles
    side: Longs  # which groups are favoured together when the skew alternates or shifts
    streams: int = 3
    row_bytes: float = 100.0
    window_s: float | None = None
    drift: str = STEADY
    period_s: float = 300.0
    factor: float = 10.0

    def __len__(self) -> int:
        return len(self.keys)

    def rates(self, time_s: float) -> Doubles:
        """Rows per second now. Drift favours one side at a time by `factor`; the total stays the same."""
        if self.drift == STEADY:
            return self.rows_per_s
        sides = int(self.side.max()) + 1
        favoured = self.side == int(time_s // self.period_s) % sides
        rates = np.where(favoured, self.rows_per_s * self.factor, self.rows_per_s)
        return np.asarray(rates * (self.rows_per_s.sum() / rates.sum()), dtype=np.float64)


def classes(
    groups: int,
    rows_per_s: float,
    tuple_range: float,
    ratios: Sequence[float],
    of: Longs | None = None,
    **more: object,
) -> Workload:
    """Groups of different range join ratios: in thirds, or by `of` (the index into `ratios`)."""
    which = np.arange(groups) % len(ratios) if of is None else of
    ratio = np.array(ratios, dtype=np.float64)[which]
    keys = np.maximum(tuple_range / groups / ratio, 1.0)
    side = which.astype(np.int64)
    rates = np.full(groups, rows_per_s / groups)
    return Workload(rates, keys, side, **more)  # type: ignore[arg-type]


def drifting(groups: int, rows_per_s: float, keys: float, sides: int, seed: int) -> Workload:
    """Hot groups that change: sides of equal size at random, one of them ten times hotter for a while."""
    side = np.random.default_rng(seed).permutation(groups) % sides
    return Workload(
        np.full(groups, rows_per_s / groups),
        np.full(groups, keys / groups),
        side.astype(np.int64),
        drift=SHIFT,
    )


def skewed_owners(groups: int, nodes: int, share: float, seed: int) -> Longs:
    """Placement with `share` of the groups on node 0, the others even."""
    random = np.random.default_rng(seed)
    owner = np.arange(groups) % max(nodes - 1, 1) + min(1, nodes - 1)
    owner[: round(groups * share)] = 0
    return random.permutation(owner).astype(np.int64)
