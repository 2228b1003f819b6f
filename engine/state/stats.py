"""Statistics per group of one operator: what memory adaptation decides by (L4, L5).

Arrays indexed by group; lifetime totals beside rates that decay with a half-life, so that they follow
drift. Updated by the driver from the tasks' reports, kept in commits, so that a restart goes on with them.
Time is an input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.reports import GroupReport, Longs

HALF_LIFE_S = 60.0
WEIGHT_MIN = 1e-9
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupDelta:
    """What one tick did to some groups: sparse, `groups` names them."""

    groups: Longs
    rows_in: Longs
    bytes_in: Longs
    rows_out: Longs

    def pack(self) -> list[list[int]]:
        return [a.tolist() for a in (self.groups, self.rows_in, self.bytes_in, self.rows_out)]

    @staticmethod
    def unpack(raw: list[list[int]]) -> GroupDelta:
        return GroupDelta(*(np.array(a, dtype=np.int64) for a in raw))


class GroupStats:
    """The running statistics of one operator's groups."""

    def __init__(self, groups: int) -> None:
        self.bytes = np.zeros(groups, dtype=np.int64)
        self.rows_in = np.zeros(groups, dtype=np.int64)
        self.rows_out = np.zeros(groups, dtype=np.int64)
        self.last_insert = np.full(groups, -1, dtype=np.int64)
        self.in_rate = np.zeros(groups)
        self.out_rate = np.zeros(groups)
        self.time_s = 0.0
        self.weight = 0.0  # what the averages' input adds up to: 1 after some half-lives

    @property
    def rows_in_per_s(self) -> Doubles:
        """The decayed rate, of the time that there was any."""
        return self.in_rate / max(self.weight, WEIGHT_MIN)

    @property
    def rows_out_per_s(self) -> Doubles:
        return self.out_rate / max(self.weight, WEIGHT_MIN)

    def add(self, delta: GroupDelta, *, version: int, time_s: float) -> None:
        """Take in one tick. Its rows count as spread evenly since the tick before, so that the averages
        settle at the true rate however long ticks are; rows of no time at all count as one pulse. How long the
        first tick's rows took to come nobody knows: no rate follows from them."""
        first = not self.time_s
        elapsed = 0.0 if first else max(0.0, time_s - self.time_s)
        self.time_s = max(self.time_s, time_s)
        decay = np.log(2) / HALF_LIFE_S
        keep, gain = (
            np.exp(-decay * elapsed),
            -np.expm1(-decay * elapsed) / elapsed if elapsed else decay,
        )
        self.in_rate *= keep
        self.out_rate *= keep
        self.weight = self.weight * keep + (1 - keep)
        at = delta.groups
        if not first:
            self.in_rate[at] += gain * delta.rows_in
            self.out_rate[at] += gain * delta.rows_out
        self.bytes[at] += delta.bytes_in
        self.rows_in[at] += delta.rows_in
        self.rows_out[at] += delta.rows_out
        self.last_insert[at[delta.rows_in > 0]] = version

    def report(self, operator: str, placement: Longs, memory: Longs, disk: Longs) -> GroupReport:
        """A frozen copy, with what the groups have in memory and on disk."""
        return GroupReport(
            operator,
            placement,
            memory,
            disk,
            self.rows_in.copy(),
            self.rows_out.copy(),
            self.last_insert.copy(),
            self.rows_in_per_s,
            self.rows_out_per_s,
        )

    def pack(self) -> dict[str, Any]:
        names = ("bytes", "rows_in", "rows_out", "last_insert", "in_rate", "out_rate")
        figures = {name: getattr(self, name).tolist() for name in names}
        return figures | {"time_s": self.time_s, "weight": self.weight}

    @staticmethod
    def unpack(raw: dict[str, Any]) -> GroupStats:
        stats = GroupStats(len(raw["bytes"]))
        stats.weight = 1.0  # of snapshots that do not say it
        for name, value in raw.items():
            kind: type = float if name.endswith("_rate") else np.int64
            whole = name in ("time_s", "weight")
            setattr(stats, name, value if whole else np.array(value, dtype=kind))
        return stats


def by_group(ids: Longs, weights: Longs, groups: int) -> Longs:
    """Sum integer weights by group, exactly."""
    out = np.zeros(groups, dtype=np.int64)
    np.add.at(out, ids, weights)
    return out


def sparse(rows_in: Longs, bytes_in: Longs, rows_out: Longs) -> GroupDelta:
    """Dense arrays of one tick as the groups that it touched."""
    at = np.flatnonzero((rows_in > 0) | (rows_out > 0))
    return GroupDelta(at, rows_in[at], bytes_in[at], rows_out[at])


def together(parts: list[GroupDelta], groups: int) -> GroupDelta:
    """One delta from several nodes' deltas."""
    dense = [np.zeros(groups, dtype=np.int64) for _ in range(3)]
    for part in parts:
        for total, some in zip(dense, (part.rows_in, part.bytes_in, part.rows_out), strict=True):
            np.add.at(total, part.groups, some)
    return sparse(*dense)
