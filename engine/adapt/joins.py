"""What ticks tell of a query's joins, for whoever looks for a better order: kept by the desk, across plans and restarts.

Rows count once: when an operator takes them, however long they waited. What is spilled meets later, so that only a
share of a tick's combinations is tried; results of earlier ones, which come when state settles or is let in from an
operator below, are not this tick's. Runs are counted as they come and go, not all over again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from control.migration.joins import Joins
from control.migration.statistics import (
    OperatorTold,
    QueryShape,
    SideTold,
    Statistics,
    TickTold,
)
from control.migration.trees import Tree
from engine.plan.matching import names_of, spans_of
from engine.state.model import Place

if TYPE_CHECKING:
    from engine.flow import Flow, Op
    from engine.outcome import Outcome
    from engine.query.model import JoinQuery
    from engine.setup import Setup
    from engine.state.commits import Commit
    from engine.state.model import Manifest, Run

INPUTS_LEAST = 2


def shape_of(query: JoinQuery) -> QueryShape:
    """Keys and windows."""
    classes = tuple(tuple(sorted(span)) for span in spans_of(query))
    bounds = tuple((b.early, b.late, b.us / 1e6) for b in query.bounds)
    return QueryShape(tuple(names_of(query)), classes, bounds)


@dataclass
class _Place:
    """Runs of one side on one node: rows and bytes by id, in order, and their sums."""

    runs: dict[str, tuple[int, int]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    def add(self, run: Run) -> None:
        self.runs[run.id] = size = (run.rows, run.bytes)
        self.rows, self.bytes = self.rows + size[0], self.bytes + size[1]

    def drop(self, size: tuple[int, int]) -> None:
        self.rows, self.bytes = self.rows - size[0], self.bytes - size[1]


class Counts:
    """Rows and bytes in memory by place, followed from commit to commit."""

    def __init__(self) -> None:
        self._places: dict[Place, _Place] = {}
        self._version = -1

    def follow(self, commit: Commit, after: Manifest) -> None:
        """Take in a tick's commit. After any other commit everything is counted anew."""
        if commit.version != self._version + 1 or len(self._places) != len(after.runs):
            self._places = {place: _counted(runs) for place, runs in after.runs.items()}
        else:
            self._moved(commit, after)
        self._version = commit.version

    def _moved(self, commit: Commit, after: Manifest) -> None:
        for place, gone in commit.expired.items():
            mine = self._places[place]
            if any(gone.values()):  # some of their groups stay
                self._places[place] = _counted(after.runs[place])
                continue
            for name in gone:
                mine.drop(mine.runs.pop(name))
        for place, change in commit.changes.items():
            mine = self._places[place]
            if any(commit.expired.get(place, {}).values()):
                continue  # counted anew
            while len(mine.runs) > change.kept:
                mine.drop(mine.runs.popitem()[1])
            for run in change.added:
                mine.add(run)

    def at(self, place: Place) -> tuple[int, int]:
        """Rows and bytes."""
        found = self._places.get(place)
        return (found.rows, found.bytes) if found is not None else (0, 0)

    @property
    def places(self) -> Mapping[Place, _Place]:
        return self._places


def _counted(runs: tuple[Run, ...]) -> _Place:
    made = _Place()
    for run in runs:
        made.add(run)
    return made


@dataclass
class _Sides:
    """An operator's sides over all nodes."""

    rows: list[int]
    bytes: list[int]
    on_disk: list[int]  # rows


class JoinStatistics:
    """Of one query. `kept`: what an earlier run remembered (`pack`)."""

    def __init__(self, setup: Setup, kept: Mapping[str, Any] | None = None) -> None:
        self._setup = setup
        self._shape = shape_of(setup.query)
        self._counts = Counts()
        self._since_s: float | None = None
        self._statistics = Statistics(self._shape)
        self._let_in: frozenset[tuple[str, int, str, int]] = frozenset()
        if kept is not None and tuple(kept["names"]) == self._shape.names:
            self._since_s = kept["since_s"]
            self._statistics = Statistics.unpack(self._shape, kept["told"])
            self._statistics.time_s = None  # what passed meanwhile is nobody's

    @property
    def joins(self) -> Joins | None:
        """For a snapshot; None where nothing is joined."""
        names = self._shape.names
        if len(names) < INPUTS_LEAST:
            return None
        order = self._setup.query.order
        tree: Tree = order if order is not None else tuple(range(len(names)))
        delay_s = max(self._setup.delays_us().values(), default=0) / 1e6
        return Joins(self._shape, tree, self._statistics.pack(), delay_s, self._since_s)

    def pack(self) -> dict[str, Any]:
        """As JSON, for a restart."""
        told, names = self._statistics.pack(), list(self._shape.names)
        return {"names": names, "told": told, "since_s": self._since_s}

    def replanned(self, setup: Setup, now_s: float) -> None:
        """Another plan runs from now on; what was seen under the old one is not forgotten at once."""
        self._setup, self._since_s = setup, now_s
        self._counts = Counts()

    def ticked(
        self,
        outcome: Outcome,
        commit: Commit,
        after: Manifest,
        settled: frozenset[str],
        now_s: float,
    ) -> None:
        """A tick's commit. `settled`: operators at which state came back."""
        if len(self._shape.names) < INPUTS_LEAST:
            return
        self._counts.follow(commit, after)
        late = settled | self._came_late(after)
        flow = self._setup.flow
        heads: dict[int, list[Mapping[str, Any]]] = {}
        for (number, _), head in outcome.heads.items():
            heads.setdefault(number, []).append(head)
        met: dict[int, float] = {}
        told = []
        for op in flow.ops:
            if op.grouping is not None:
                continue
            sides = self._sides(op, after)
            met[op.number] = 0.0 if op.id in late else _share(sides) * _below(flow, op, met)
            told.append(self._told(op, heads.get(op.number, ()), sides, met[op.number]))
        self._statistics.add(TickTold(now_s, tuple(told)))

    def _told(
        self, op: Op, heads: list[Mapping[str, Any]] | tuple[()], sides: _Sides, met: float
    ) -> OperatorTold:
        number = {name: n for n, name in enumerate(self._shape.names)}
        taken = [sum(head["taken"][n] for head in heads) for n in range(len(op.sides))]
        # What WHERE lets through says nothing about keys.
        filtered = op.target is None and self._setup.query.where is not None
        return OperatorTold(
            op.id,
            tuple(
                SideTold(
                    tuple(number[alias] for alias in side.aliases),
                    taken[n],
                    sides.rows[n] + sides.on_disk[n],
                    _whole(sides, n),
                )
                for n, side in enumerate(op.sides)
            ),
            sum(head["rows_out"] for head in heads),
            sum(head["cpu_s"] for head in heads),
            met=0.0 if filtered else met,
        )

    def _sides(self, op: Op, after: Manifest) -> _Sides:
        out = _Sides(*([0] * len(op.sides) for _ in range(3)))
        for place in self._of(op):
            rows, size = self._counts.at(place)
            out.rows[place.input] += rows
            out.bytes[place.input] += size
            if after.disk:
                out.on_disk[place.input] += sum(run.rows for run in after.disk.get(place, ()))
        return out

    def _of(self, op: Op) -> list[Place]:
        nodes = range(self._setup.plan.nodes)
        return [Place(op.id, node, n) for n in range(len(op.sides)) for node in nodes]

    def _came_late(self, after: Manifest) -> frozenset[str]:
        """Operators that took in held results of one below: some are of earlier ticks."""
        derived = {
            (op.id, n)
            for op in self._setup.flow.ops
            for n, side in enumerate(op.sides)
            if len(side.aliases) > 1
        }
        now = frozenset(
            (hold.operator, hold.input, hold.segment.file, sum(hold.rows))
            for hold in after.holds
            if (hold.operator, hold.input) in derived
        )
        before, self._let_in = self._let_in, now
        return frozenset(operator for operator, *_ in before - now)


def _share(sides: _Sides) -> float:
    """Of a tick's combinations, how many meet at once: each row those of the other sides in memory."""
    if not any(sides.on_disk):
        return 1.0
    there = [
        rows / (rows + disk) if rows + disk else 1.0
        for rows, disk in zip(sides.rows, sides.on_disk, strict=True)
    ]
    each = [prod(there[:n] + there[n + 1 :]) for n in range(len(there))]
    return sum(each) / len(each)


def _below(flow: Flow, op: Op, met: Mapping[int, float]) -> float:
    """The same of the operators whose results it takes."""
    return prod(
        met[lower.number]
        for lower in flow.ops
        if lower.target is not None and lower.target.op == op.number and lower.number in met
    )


def _whole(sides: _Sides, n: int) -> int:
    """Bytes of a side, with what is on disk taken to be as wide as what is in memory."""
    rows, size, disk = sides.rows[n], sides.bytes[n], sides.on_disk[n]
    return size + (size * disk // rows if rows else 0)
