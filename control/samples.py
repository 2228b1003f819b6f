"""What the metrics store keeps: a tick's sample, series over time, heartbeats. Columns by node.

Not here: the ledger's values (ledger.py), and how they are stored (db/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control.snapshot import ClusterSnapshot, Doubles

NODE_FIGURES = (
    "memory_bytes",
    "held_bytes",  # copies in flight, and rows that wait
    "disk_bytes",
    "budget_bytes",
    "rows_in_per_s",
    "rows_out_per_s",
    "busy",
)
QUERY_FIGURES = (
    "rows_in_per_s",
    "rows_out_per_s",
    "tick_s",
    "held_rows",
    "late_rows",
    "null_key_rows",
    "memory_bytes",
    "disk_bytes",
    "checkpoint_bytes",
    "lag_s",
    "covered_s",  # the time that the rates are about: 0 where they are those of the sample before
    "spills_in_moves",  # nodes' own, while a move was on its way: since the query was started
    "moves_gave_way",  # to a node that would have been over its budget: since then
)
RATES = frozenset({"rows_in_per_s", "rows_out_per_s"})  # figures that are about `covered_s`
GROUP_FIGURES = (  # columns of snapshot.Groups that have a history of their own
    "owner",
    "memory_bytes",
    "disk_bytes",
    "generations",
    "rows_in_per_s",
    "rows_out_per_s",
    "bytes_per_s",
    "owed_rows",
)


@dataclass(frozen=True)
class Sample:
    """One query after one tick. `nodes`: NODE_FIGURES → one value for each node."""

    query: str
    time_s: float
    version: int
    figures: Mapping[str, float]  # QUERY_FIGURES
    nodes: Mapping[str, Doubles]
    snapshot: ClusterSnapshot
    operators: Sequence[Mapping[str, Any]] = ()  # operator, node, rows in and out, seconds
    changes: Sequence[GroupChange] = ()


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group has another owner or tier."""

    operator: str
    group: int
    owner: int
    tier: str  # memory, disk, both
    action: str = ""


@dataclass(frozen=True)
class Series:
    """Figures over time: `values[figure]` has one row for each time; for nodes, one column each."""

    time_s: Doubles
    values: Mapping[str, Doubles]
    step_s: float = 0.0  # 0: raw


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A process said that it is alive."""

    process: str  # engine, control, console
    pid: int
    started_s: float
    beat_s: float
    state: str
    about: Mapping[str, Any] = field(default_factory=dict)
