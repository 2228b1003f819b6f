"""What a tick did, as one immutable report, and the port it goes out by.

Consumers (terminal progress, the `--once` summary, later the store) implement `ReportPort`;
a consumer must not block the tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node in one tick."""

    node: int
    rows_in: int
    rows_out: int
    cpu_s: float
    wall_s: float
    memory_bytes: int
    disk_bytes: int
    checkpoint_bytes: int
    held_rows: int
    executor: str = ""  # host and process of the node's last task; empty: it had nothing to do
    executor_id: str = ""  # Spark's name for it; empty: the driver itself, or not known
    fetched: int = 0  # runs that were missing there and came from the checkpoint


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """One operator on one node in one tick."""

    operator: str
    node: int
    rows_in: int
    rows_out: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One operator's groups after the tick: arrays indexed by group."""

    operator: str
    node: Longs
    memory_bytes: Longs
    disk_bytes: Longs
    rows_in: Longs  # over the query's life
    rows_out: Longs
    last_insert_tick: Longs  # -1: never
    rows_in_per_s: Doubles  # decayed, half-life 60 s
    rows_out_per_s: Doubles


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """One committed manifest version. `tick` is None for a commit made without input."""

    query: str
    version: int
    tick: int | None
    time_s: float  # wall clock at commit, epoch seconds
    until_s: float  # by the same clock: where its input ends, when its batch was planned
    seconds: float  # engine time for this tick, hand-over to commit
    rows_in: int
    rows_out: int
    null_key_rows: int
    late_rows: int
    held_rows: int
    nodes: tuple[NodeReport, ...]
    groups: tuple[GroupReport, ...]
    operators: tuple[OperatorReport, ...] = ()

    @property
    def memory_bytes(self) -> int:
        return sum(node.memory_bytes for node in self.nodes)


@dataclass(slots=True)
class Totals:
    """Running sums: over a query's life (the ticker's), or over the reports of one run."""

    rows_in: int = 0
    rows_out: int = 0
    null_key_rows: int = 0
    late_rows: int = 0

    def add(self, report: TickReport) -> None:
        self.rows_in += report.rows_in
        self.rows_out += report.rows_out
        self.null_key_rows += report.null_key_rows
        self.late_rows += report.late_rows


class ReportPort(Protocol):
    """Where reports go."""

    def publish(self, report: TickReport) -> None: ...
