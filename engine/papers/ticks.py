"""What each tick of a run did, for experiments: rows in, out and in between, what is kept, what it took.

*In between* are rows that one join makes for another: not those of window functions, not results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.flow import Flow, Op
from engine.reports import TickReport
from engine.runner import QueryRun
from engine.state.model import Manifest


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick with input, as it was committed. `kept_rows`: of rows in between, in state. `tracks`: how many plans ran."""

    number: int
    version: int
    end_s: float  # wall clock
    seconds: float
    rows_in: int
    rows_out: int
    between_rows: int
    kept_rows: int
    memory_bytes: int
    cpu_s: float
    tracks: int = 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Ticks:
    """A run's, as its reports come. `heard` is told of each; `commits`: when each version was committed, of whatever."""

    def __init__(self, query: QueryRun) -> None:
        self.query = query
        self.all: list[Tick] = []
        self.commits: dict[int, float] = {}
        self.heard: Callable[[Tick], None] = _unheard
        query.ports = (*query.ports, self)

    def publish(self, report: TickReport) -> None:
        self.commits[report.version] = report.time_s
        if report.tick is None:
            return
        desk = self.query.desk
        assert desk is not None
        flow, manifest = desk.flow, desk.ticker.manifest
        below = {op.id for op in lower(flow)}
        self.all.append(
            Tick(
                report.tick,
                report.version,
                report.time_s,
                report.seconds,
                report.rows_in,
                report.rows_out,
                sum(one.rows_out for one in report.operators if one.operator in below),
                kept(flow, manifest),
                report.memory_bytes,
                sum(node.cpu_s for node in report.nodes),
                2 if any(op.parted for op in flow.ops) else 1,
            )
        )
        self.heard(self.all[-1])


def lower(flow: Flow) -> Sequence[Op]:
    """The joins whose results another join takes."""
    return [op for op in flow.ops if op.target and flow.ops[op.target.op].grouping is None]


def kept(flow: Flow, manifest: Manifest) -> int:
    """Rows of several inputs in state, in memory and on disk."""
    wide = {
        (op.id, place)
        for op in flow.ops
        if op.grouping is None
        for place in range(op.places)
        if len(op.side_of(place).aliases) > 1
    }
    return sum(
        run.rows
        for have in (manifest.runs, manifest.disk)
        for place, runs in have.items()
        if (place.operator, place.input) in wide
        for run in runs
    )


def _unheard(tick: Tick) -> None:
    """Where nobody listens."""
