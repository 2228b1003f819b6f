"""What a decision is made from: one frozen picture of a query's nodes, operators and groups.

Columns, not rows: 1 000 nodes × 100 000 groups are a few megabytes of NumPy arrays. A group is one row
of `Groups`; steps name it by operator and group number, policies by its row. Nobody samples here: who
takes the snapshot (engine, simulator, backtest) fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from control.errors import SnapshotError

if TYPE_CHECKING:
    from control.cost.coefficients import LocalRule
    from control.migration.joins import Joins

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NEVER_S = -1e18  # "last insert", "last move" of what never had one
NO_LIMIT = 1 << 62
HALF_LIFE_S = 60.0  # of all decayed rates


@dataclass(frozen=True)
class Nodes:
    """Columns by node number."""

    budget_bytes: Longs
    memory_bytes: Longs
    disk_bytes: Longs
    disk_free_bytes: Longs
    rows_in_per_s: Doubles
    rows_out_per_s: Doubles
    busy: Doubles  # share of the last round that it worked: its steps' seconds by the round's, 0..1
    alive: Bools

    @staticmethod
    def of(budget_bytes: Any, memory_bytes: Any, **columns: Any) -> Nodes:
        """Columns from anything array-like; what is not given is nothing used, nothing limited, alive."""
        count = len(np.atleast_1d(budget_bytes))
        default: dict[str, Any] = {"disk_bytes": 0, "disk_free_bytes": NO_LIMIT, "alive": True}
        given = {"budget_bytes": budget_bytes, "memory_bytes": memory_bytes, **columns}
        return Nodes(**_columns(Nodes, count, default, given))

    def __len__(self) -> int:
        return len(self.budget_bytes)

    @property
    def free_bytes(self) -> Longs:
        return self.budget_bytes - self.memory_bytes


@dataclass(frozen=True, slots=True)
class Operator:
    """One stateful operator. `window_s` None: its state grows for ever."""

    name: str
    streams: int
    groups: int
    window_s: float | None = None


@dataclass(frozen=True)
class Groups:
    """Columns by row; a row is one group of one operator. Lifetime counts and decayed rates."""

    operator: Longs  # index into the snapshot's operators
    group: Longs
    owner: Longs
    memory_bytes: Longs
    disk_bytes: Longs
    generations: Longs  # times spilled since the last cleanup
    rows_in: Longs
    rows_out: Longs
    rows_in_per_s: Doubles
    rows_out_per_s: Doubles
    rows_in_round: Longs  # in the last round that has ended; before that, in the first so far
    rows_out_round: Longs
    bytes_per_s: Doubles  # of new state
    last_insert_s: Doubles
    owed_rows: Doubles  # results put off, an estimate
    owed_rows_per_s: Doubles
    in_flight: Bools

    @staticmethod
    def of(owner: Any, memory_bytes: Any, **columns: Any) -> Groups:
        """Columns from anything array-like; what is not given is 0, groups are numbered in order."""
        count = len(np.atleast_1d(owner))
        default: dict[str, Any] = {"group": np.arange(count), "last_insert_s": NEVER_S}
        given = {"owner": owner, "memory_bytes": memory_bytes, **columns}
        return Groups(**_columns(Groups, count, default, given))

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def spilled(self) -> Bools:
        """Rows with anything on disk."""
        return (self.generations > 0) | (self.disk_bytes > 0)


@dataclass(frozen=True, slots=True)
class History:
    """What the query's adaptations have done so far, as far as decisions depend on it."""

    last_adaptation_s: float = NEVER_S  # end of the last move or forced spill
    round_start_s: float = NEVER_S  # when the round began that the figures are of
    round_s: float = 0.0  # how long that round was to collect (Flux's δ)
    move_phase_s: float = 0.0  # length of the last move phase; 0 when nothing moved
    forced_spill_bytes: int = 0  # spilled because somebody asked for it, not on overflow
    round_number: int = 0  # of the round that the figures are of; 0: none has ended


@dataclass(frozen=True)
class ClusterSnapshot:
    """One query at one time. `joins`: None where nobody tells; `spill_rule`: when its nodes spill by themselves, None
    where nobody tells."""

    query: str
    version: int
    time_s: float
    nodes: Nodes
    operators: tuple[Operator, ...]
    groups: Groups
    history: History = field(default_factory=History)
    joins: Joins | None = None
    spill_rule: LocalRule | None = None

    def __post_init__(self) -> None:
        _same_lengths("nodes", self.nodes)
        _same_lengths("groups", self.groups)
        _within("owner", self.groups.owner, len(self.nodes))
        _within("operator", self.groups.operator, len(self.operators))

    @cached_property
    def operator_index(self) -> dict[str, int]:
        return {operator.name: index for index, operator in enumerate(self.operators)}

    @cached_property
    def _row_of(self) -> dict[tuple[int, int], int]:
        keys = zip(self.groups.operator.tolist(), self.groups.group.tolist(), strict=True)
        return {key: row for row, key in enumerate(keys)}

    def row(self, operator: str, group: int) -> int | None:
        """Where a group is in the columns; None for one that does not exist."""
        index = self.operator_index.get(operator)
        return None if index is None else self._row_of.get((index, group))

    @cached_property
    def streams(self) -> Longs:
        """Streams of each group's operator."""
        return np.array([o.streams for o in self.operators], dtype=np.int64)[self.groups.operator]

    @cached_property
    def window_s(self) -> Doubles:
        """Window of each group's operator, infinite where there is none."""
        wide = [np.inf if o.window_s is None else o.window_s for o in self.operators]
        return np.array(wide, dtype=np.float64)[self.groups.operator]

    def by_node(self, column: Doubles | Longs | Bools) -> Doubles:
        """Sums of a group column."""
        return node_sums(self.groups.owner, column, len(self.nodes))

    def on(self, node: int) -> Longs:
        """Rows of the groups that a node owns."""
        return np.flatnonzero(self.groups.owner == node)


def node_sums(node: Longs, column: Doubles | Longs | Bools, nodes: int) -> Doubles:
    """A column summed by node."""
    weights = column.astype(np.float64)
    return np.bincount(node, weights=weights, minlength=nodes).astype(np.float64, copy=False)


def _columns(
    kind: type[Any], count: int, default: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    types = {"Longs": np.int64, "Doubles": np.float64, "Bools": np.bool_}
    names = {column.name: types[str(column.type)] for column in fields(kind)}
    if unknown := set(given) - set(names):
        raise SnapshotError(f"no column {', '.join(sorted(unknown))}", where=kind.__name__)
    values = {name: given.get(name, default.get(name, 0)) for name in names}
    return {
        name: np.array(np.broadcast_to(np.asarray(value).astype(names[name]), count))
        if np.ndim(value) == 0
        else np.asarray(value).astype(names[name])
        for name, value in values.items()
    }


def _same_lengths(where: str, columns: Nodes | Groups) -> None:
    lengths = {column.name: len(getattr(columns, column.name)) for column in fields(columns)}
    if len(set(lengths.values())) > 1:
        raise SnapshotError(f"columns differ in length: {lengths}", where=where)


def _within(name: str, values: Longs, count: int) -> None:
    wrong = values[(values < 0) | (values >= count)]
    if len(wrong):
        raise SnapshotError(f"{name} {wrong[0]} of {len(wrong)} groups is not in 0..{count - 1}")
