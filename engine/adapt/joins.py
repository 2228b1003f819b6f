"""What ticks tell of a query's joins, for whoever looks for a better order: kept by the desk, across plans and restarts.

Rows count once: when an operator takes them, however long they waited. What is spilled meets later, so that only a
share of a tick's combinations is tried; results that were owed, which come when state settles or is cleaned up, are
not this tick's, nor what the operators above make of them. While two plans run it is the old one that tells: it takes
every row. The plan without intermediate state tells no more than what came.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
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
from engine.adapt.counts import Counts
from engine.plan.matching import names_of, shown, spans_of
from engine.session import cores
from engine.state.model import Hold, Place

if TYPE_CHECKING:
    from engine.flow import Flow, Op
    from engine.outcome import Outcome
    from engine.query.model import JoinQuery
    from engine.setup import Setup
    from engine.state.commits import Commit
    from engine.state.model import Manifest

INPUTS_LEAST = 2
FORMAT = 1  # of what is kept
KEPT_EVERY = 32  # ticks: so much may be forgotten by a crash
Head = Mapping[str, Any]


def shape_of(query: JoinQuery) -> QueryShape:
    """Keys and windows."""
    classes = tuple(tuple(sorted(span)) for span in spans_of(query))
    bounds = tuple((b.early, b.late, b.us / 1e6) for b in query.bounds)
    return QueryShape(tuple(names_of(query)), classes, bounds)


@dataclass
class _Sides:
    """An operator's sides over all nodes: rows and bytes in memory, rows on disk, rows taken in the tick, and those that
    were spilled at its end."""

    rows: list[int]
    bytes: list[int]
    on_disk: list[int]
    taken: list[int]
    spilled: list[int]

    def kept(self, n: int) -> int:
        """Rows of a side."""
        return self.rows[n] + self.on_disk[n]


@dataclass
class _Due:
    """Rows that the state of a side with results would have, had none been owed; and those that it had."""

    rows: float = 0.0
    had: int = 0

    def after(self, kept: int, taken: int, met: float) -> float:
        """The same after a tick: rows that left leave alike; those taken are the share `met` of what was due, or were
        owed (0)."""
        left = max(0, self.had + taken - kept)
        stay = 1 - min(1.0, left / self.had) if self.had else 0.0
        self.rows = max(float(kept), self.rows * stay + (taken / met if met else 0.0))
        self.had = kept
        return self.rows

    def whole(self, kept: int) -> float:
        """Nothing is owed."""
        self.rows, self.had = float(kept), kept
        return self.rows


class _Owed:
    """Held results that were owed, by file: what an operator makes when it lets them in is not of that tick."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, int]] = {}  # the operator they wait at, and how many

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, holds: Iterable[Hold]) -> None:
        self._rows |= {hold.segment.file: (hold.operator, sum(hold.rows)) for hold in holds}

    def let_in(self, after: Manifest) -> frozenset[str]:
        """Operators that took some of them in since."""
        if not self._rows:
            return frozenset()
        left = {hold.segment.file: sum(hold.rows) for hold in after.holds}
        now = {file: (op, left[file]) for file, (op, _) in self._rows.items() if left.get(file)}
        came = {op for file, (op, rows) in self._rows.items() if left.get(file, 0) < rows}
        self._rows = now
        return frozenset(came)


class JoinStatistics:
    """Of one query. `file`: where it is kept for a restart; None: nowhere."""

    def __init__(self, setup: Setup, file: Path | None = None) -> None:
        self._shape, self._file = shape_of(setup.query), file
        self._number = {name: n for n, name in enumerate(self._shape.names)}
        self._since_s: float | None = None
        self._statistics = Statistics(self._shape)
        self._ticks = 0
        self._begin(setup)
        kept = _read(file) if file is not None else None
        if kept is not None and kept["names"] == list(self._shape.names):
            self._since_s = (
                kept["since_s"] if kept["order"] == self._order else kept["told"]["time_s"]
            )
            self._statistics = Statistics.unpack(self._shape, kept["told"])
            self._statistics.time_s = None  # what passed meanwhile is nobody's

    def _begin(self, setup: Setup) -> None:
        """With this plan."""
        self._setup, self._order = setup, shown(setup.query)
        self._counts, self._owed = Counts(), _Owed()
        joins = [op for op in setup.flow.ops if op.joins]
        old = [op for op in joins if op.parted]
        self._ops = old or joins
        self._bases = _bases(setup.flow)
        self._due: dict[tuple[int, int], _Due] = {}  # of the sides that take results

    @property
    def joins(self) -> Joins | None:
        """For a snapshot; None where nothing is joined."""
        names = self._shape.names
        if len(names) < INPUTS_LEAST:
            return None
        order = self._setup.query.order
        tree: Tree = order if order is not None else tuple(range(len(names)))
        delay_s = max(self._setup.delays_us().values(), default=0) / 1e6
        apart = bool(self._setup.folders.owner)  # each node a machine of its own
        shared = 0.0 if apart else float(min(cores(), self._setup.slots))
        about = self._statistics.pack(), delay_s, self._since_s, shared
        return Joins(self._shape, tree, *about)

    def keep(self) -> None:
        """For a restart. Where it cannot be written it is learned again; the next commit says what is wrong there."""
        if self._file is None or len(self._shape.names) < INPUTS_LEAST:
            return
        body = {
            "format": FORMAT,
            "names": list(self._shape.names),
            "order": self._order,
            "told": self._statistics.pack(),
            "since_s": self._since_s,
        }
        part = self._file.with_name(f".{self._file.name}.tmp")
        with contextlib.suppress(OSError):
            part.write_text(json.dumps(body))
            os.replace(part, self._file)

    def replanned(self, setup: Setup, now_s: float) -> None:
        """Another plan runs from now on, or beside; what was seen under the old one is not forgotten at once."""
        before = self._order
        self._begin(setup)
        if self._order != before:
            self._since_s = now_s
        self.keep()

    def came_out(self, holds: Iterable[Hold]) -> None:
        """Results that a clean-up has made, which wait at the operator above."""
        self._owed.add(holds)

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
        heads: dict[int, list[Head]] = {}
        for (number, _), head in outcome.heads.items():
            heads.setdefault(number, []).append(head)
        late = settled | self._owed.let_in(after)
        told, shares = [], dict[int, float]()
        for op in self._ops:
            mine = heads.get(op.number, ())
            sides = self._sides(op, mine, outcome, after)
            whole = self._whole(op, sides, shares, owing=bool(after.disk or self._owed))
            late |= self._above(late, op)
            shares[op.number] = 0.0 if op.id in late else _share(sides, whole)
            told.append(self._told(op, mine, sides, whole, teaches=op.id not in late))
        self._owed.add(hold for hold in outcome.holds if hold.operator in late)
        for op, at in self._bases:
            told.append(self._came(op, at, heads.get(op.number, ()), outcome, after))
        newest, wall_s = self._newest(after), _longest_s(outcome)
        self._statistics.add(TickTold(now_s, tuple(told), (), newest, wall_s))
        self._ticks += 1
        if self._ticks % KEPT_EVERY == 0:
            self.keep()

    def _above(self, late: frozenset[str], op: Op) -> frozenset[str]:
        """The operator that takes what this one makes of what was owed."""
        if op.target is None or op.id not in late:
            return frozenset()
        return frozenset([self._setup.flow.ops[op.target.op].id])

    def _told(
        self, op: Op, heads: Sequence[Head], sides: _Sides, whole: Sequence[float], *, teaches: bool
    ) -> OperatorTold:
        # What WHERE lets through says nothing about keys; nor does what is left to another plan's top.
        partly = op.spares or (op.target is None and self._setup.query.where is not None)
        met = _met(sides, whole)
        return OperatorTold(
            op.id,
            tuple(
                SideTold(
                    tuple(self._number[alias] for alias in side.aliases),
                    sides.taken[n],
                    sides.kept(n),
                    _width(sides, n),
                    met[n],
                )
                for n, side in enumerate(op.sides)
            ),
            sum(head["rows_out"] for head in heads),
            sum(head["cpu_s"] for head in heads),
            teaches=teaches and not partly,
        )

    def _came(
        self, op: Op, at: int, heads: Sequence[Head], outcome: Outcome, after: Manifest
    ) -> OperatorTold:
        """One input, where nothing but its own rows is kept."""
        sides = self._sides(op, heads, outcome, after)
        number = self._number[op.sides[at].aliases[0]]
        side = SideTold((number,), sides.taken[at], sides.kept(at), _width(sides, at))
        return OperatorTold(op.id, (side,), 0, None, teaches=False)

    def _sides(self, op: Op, heads: Sequence[Head], outcome: Outcome, after: Manifest) -> _Sides:
        count = len(op.sides)
        out = _Sides(*([0] * count for _ in range(5)))
        for node in range(self._setup.plan.nodes):
            for at in range(op.places):
                place, side = Place(op.id, node, at), at % count
                rows, size = self._counts.at(place)
                out.rows[side] += rows
                out.bytes[side] += size
                if after.disk:
                    out.on_disk[side] += sum(run.rows for run in after.disk.get(place, ()))
                    out.spilled[side] += sum(run.rows for run in outcome.disk.get(place, ()))
        for head in heads:
            for side, rows in enumerate(head["taken"]):
                out.taken[side] += rows
        return out

    def _whole(
        self, op: Op, sides: _Sides, shares: Mapping[int, float], *, owing: bool
    ) -> list[float]:
        """Rows that each side would have, if nothing had ever been put off. `owing`: something is, somewhere."""
        whole = [float(sides.kept(n)) for n in range(len(op.sides))]
        for lower in self._ops:
            target = lower.target
            if target is None or target.op != op.number:
                continue
            n, share = target.side, shares[lower.number]
            due, kept = self._due.setdefault((op.number, n), _Due()), sides.kept(n)
            whole[n] = due.after(kept, sides.taken[n], share) if owing else due.whole(kept)
        return whole

    def _newest(self, after: Manifest) -> dict[int, float]:
        """The greatest event time of each input so far."""
        out: dict[int, float] = {}
        for source in self._setup.flow.sources:
            if source.mark in after.seen:
                number = self._number[source.scan.input.alias]
                out[number] = max(after.seen[source.mark] / 1e6, out.get(number, float("-inf")))
        return out


def _longest_s(outcome: Outcome) -> float:
    """How long the tasks of one node took, one after the other: of the slowest."""
    nodes: dict[int, float] = {}
    for (_, node), head in outcome.heads.items():
        nodes[node] = nodes.get(node, 0.0) + head["wall_s"]
    return max(nodes.values(), default=0.0)


def _bases(flow: Flow) -> list[tuple[Op, int]]:
    """Of the plan without intermediate state: for each input one of the bases that have its rows."""
    found: dict[str, tuple[Op, int]] = {}
    for op in flow.ops:
        for at, side in enumerate(op.sides if op.base else ()):
            found.setdefault(side.aliases[0], (op, at))
    return list(found.values())


def _met(sides: _Sides, whole: Sequence[float]) -> list[float]:
    """For each side, what its rows met: of the other sides' rows, those that were in memory. Of rows of the same tick
    each met half, one way or the other."""
    there = []
    for n, due in enumerate(whole):
        half = sides.taken[n] / 2
        had = sides.rows[n] + sides.spilled[n] - half
        there.append(min(1.0, max(0.0, had) / (due - half)) if due > half else 1.0)
    return [prod(there[:n] + there[n + 1 :]) for n in range(len(there))]


def _share(sides: _Sides, whole: Sequence[float]) -> float:
    """The same of all its rows."""
    met = _met(sides, whole)
    tried = [
        rows * prod(due for m, due in enumerate(whole) if m != n)
        for n, rows in enumerate(sides.taken)
    ]
    total = sum(tried)
    return sum(a * b for a, b in zip(tried, met, strict=True)) / total if total else 1.0


def _width(sides: _Sides, n: int) -> int:
    """Bytes of a side, with what is on disk taken to be as wide as what is in memory."""
    rows, size, disk = sides.rows[n], sides.bytes[n], sides.on_disk[n]
    return size + (size * disk // rows if rows else 0)


def kept_in(setup: Setup) -> Path:
    """Where a query's statistics are kept, in its checkpoint."""
    return Path(setup.folders.durable).with_name("joins.json")


def _read(file: Path) -> Mapping[str, Any] | None:
    """What an earlier run kept; None where there is nothing that can be read: then it is learned anew."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(file.read_text())
        if isinstance(found, dict) and found.get("format") == FORMAT:
            return found
    return None
