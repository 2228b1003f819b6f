"""What spilled groups owe, by node and by group: results put off, what a clean-up would take, what fits a node's memory,
and how productive what was evicted is beside what was kept. Pure, over the columns of one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from control.cost.coefficients import Coefficients
from control.plans import Cleanup, cleanup_of, step_to_json
from control.snapshot import NO_LIMIT, ClusterSnapshot, Doubles, Longs

ROWS_MAX = 400  # groups listed, those that owe most
FILL_MAX = 0.85  # of a budget: so far a clean-up that is proposed here fills it
MB = 1e6


@dataclass(frozen=True)
class Debt:
    """Columns by node; `rows`: every group with something on disk, those that owe most first."""

    snapshot: ClusterSnapshot
    rows: Longs
    owed: Doubles
    owed_per_s: Doubles
    disk: Doubles
    groups: Longs
    room: Doubles  # bytes that may come back; infinite without a budget
    seconds: Doubles  # a clean-up of everything, by the model
    evicted: Doubles  # results put off each second, for each MB on disk
    kept: Doubles  # results each second, for each MB in memory

    @property
    def nodes(self) -> Sequence[int]:
        """Those that owe, most first."""
        order = np.lexsort((np.arange(len(self.owed)), -self.disk, -self.owed))
        return [int(node) for node in order if self.groups[node]]


def debt_of(snapshot: ClusterSnapshot, numbers: Coefficients) -> Debt:
    groups, nodes = snapshot.groups, snapshot.nodes
    rows = np.flatnonzero(groups.spilled)
    rows = rows[np.lexsort((rows, -groups.disk_bytes[rows], -groups.owed_rows[rows]))]
    spilled = np.where(groups.spilled, 1.0, 0.0)
    owed = snapshot.by_node(groups.owed_rows * spilled)
    per_s = snapshot.by_node(groups.owed_rows_per_s * spilled)
    disk = snapshot.by_node(groups.disk_bytes)
    budget = np.where(nodes.budget_bytes >= NO_LIMIT, np.inf, nodes.budget_bytes.astype(np.float64))
    room = np.maximum(FILL_MAX * budget - nodes.memory_bytes, 0.0)
    return Debt(
        snapshot,
        rows,
        owed,
        per_s,
        disk,
        snapshot.by_node(groups.spilled).astype(np.int64),
        room,
        np.where(disk > 0, cleanup_seconds(disk, owed, numbers), 0.0),
        _per_mb(per_s, disk),
        _per_mb(snapshot.by_node(groups.rows_out_per_s), nodes.memory_bytes.astype(np.float64)),
    )


def cleanup_seconds(disk_bytes: Any, owed_rows: Any, numbers: Coefficients) -> Any:
    """A tick, and its CPU at the pace of side jobs: reading what is on disk, joining what is owed."""
    cpu = numbers.read_s_per_byte * disk_bytes + numbers.join_s_per_row * owed_rows
    return numbers.tick_s + cpu / numbers.side_slice


def _per_mb(rate: Doubles, size: Doubles) -> Doubles:
    return np.asarray(rate / np.maximum(size, 1.0) * MB, dtype=np.float64)


def fitting(debt: Debt, node: int) -> Longs:
    """The groups of a node that a clean-up could bring back into its memory now: those that owe most for each byte first."""
    groups = debt.snapshot.groups
    mine = debt.rows[(groups.owner[debt.rows] == node) & ~groups.in_flight[debt.rows]]
    sizes = groups.disk_bytes[mine].astype(np.float64)
    worth = groups.owed_rows[mine] / np.maximum(sizes, 1.0)
    order = np.lexsort((mine, -worth))
    taken, room = [], float(debt.room[node])
    for at in order.tolist():
        if sizes[at] <= room:
            taken.append(int(mine[at]))
            room -= float(sizes[at])
    return np.array(sorted(taken), dtype=np.int64)


def smallest(debt: Debt, node: int) -> float:
    """What the smallest group of a node would need."""
    groups = debt.snapshot.groups
    mine = debt.rows[groups.owner[debt.rows] == node]
    return float(groups.disk_bytes[mine].min()) if len(mine) else 0.0


def steps_for(snapshot: ClusterSnapshot, rows: Longs) -> list[dict[str, Any]]:
    """A clean-up for each node that owns some of the groups."""
    groups = snapshot.groups
    rows = rows[groups.spilled[rows]] if len(rows) else rows
    found: list[Cleanup] = [
        cleanup_of(snapshot, rows[groups.owner[rows] == node], int(node))
        for node in np.unique(groups.owner[rows])
    ]
    return [step_to_json(step) for step in found]


def rows_named(snapshot: ClusterSnapshot, names: Iterable[Any]) -> Longs:
    """Rows of groups that are named operator:number, as the page's table names them; others are left out."""
    found = set()
    for name in names:
        operator, _, number = str(name).rpartition(":")
        row = (
            snapshot.row(operator, int(number)) if number.isdecimal() and len(number) < 10 else None
        )
        if row is not None:
            found.add(row)
    return np.array(sorted(found), dtype=np.int64)


def group_lines(
    debt: Debt, numbers: Coefficients, most: int = ROWS_MAX
) -> list[Mapping[str, float | str]]:
    """The table's figures, group by group."""
    groups, snapshot = debt.snapshot.groups, debt.snapshot
    rows = debt.rows[:most]
    disk, memory = groups.disk_bytes[rows], groups.memory_bytes[rows]
    seconds = cleanup_seconds(disk, groups.owed_rows[rows], numbers)
    evicted = _per_mb(groups.owed_rows_per_s[rows], disk.astype(np.float64))
    columns = {
        "group": groups.group[rows],
        "node": groups.owner[rows],
        "owed": groups.owed_rows[rows],
        "per_s": groups.owed_rows_per_s[rows],
        "disk": disk,
        "memory": memory,
        "times": groups.generations[rows],
        "evicted": evicted,
        "seconds": seconds,
    }
    listed = {name: column.tolist() for name, column in columns.items()}
    names = [operator.name for operator in snapshot.operators]
    operators = [names[index] for index in groups.operator[rows].tolist()]
    return [
        {"operator": operator, **{name: listed[name][at] for name in listed}}
        for at, operator in enumerate(operators)
    ]
