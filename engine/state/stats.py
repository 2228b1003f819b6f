"""Statistics per group of one operator: what memory adaptation decides by (L4, L5).

Arrays indexed by group; lifetime totals beside rates that decay with a half-life, so that they follow
drift. Updated by the driver from the tasks' reports, kept in commits, so that a restart goes on with them.
Time is an input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.reports import GroupReport, Longs

HALF_LIFE_S = 60.0


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


_NONE = np.zeros(0, dtype=np.int64)
NOTHING = GroupDelta(_NONE, _NONE, _NONE, _NONE)


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

    def add(self, delta: GroupDelta, *, version: int, time_s: float) -> None:
        """Take in one tick. Its rows count as spread evenly since the tick before, so that the averages
        settle at the true rate however long ticks are; rows of no time at all count as one pulse."""
        elapsed = max(0.0, time_s - self.time_s) if self.time_s else 0.0
        self.time_s = max(self.time_s, time_s)
        decay = np.log(2) / HALF_LIFE_S
        keep, gain = (
            np.exp(-decay * elapsed),
            -np.expm1(-decay * elapsed) / elapsed if elapsed else decay,
        )
        self.in_rate *= keep
        self.out_rate *= keep
        at = delta.groups
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
            self.in_rate.copy(),
            self.out_rate.copy(),
        )

    def pack(self) -> dict[str, Any]:
        names = ("bytes", "rows_in", "rows_out", "last_insert", "in_rate", "out_rate")
        return {name: getattr(self, name).tolist() for name in names} | {"time_s": self.time_s}

    @staticmethod
    def unpack(raw: dict[str, Any]) -> GroupStats:
        stats = GroupStats(len(raw["bytes"]))
        for name, value in raw.items():
            kind: type = float if name.endswith("_rate") else np.int64
            setattr(stats, name, value if name == "time_s" else np.array(value, dtype=kind))
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
