"""One line of a figure: the query run once under one policy, and what it gave minute by minute."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from control.policies.registry import policy_from
from engine.adapt.policy import Policy
from engine.errors import StateError
from engine.papers.feed import Feed, query_file
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import QueryRun
from engine.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_S = 60.0


@dataclass(frozen=True)
class Line:
    """How one line differs from the others. `budget`: bytes of memory of each node."""

    name: str
    policy: Mapping[str, Any]
    nodes: int = 1
    budget: int | None = None
    placement: Mapping[int, float] | None = None


@dataclass
class Run:
    """What a line gave: by minute, results so far, memory of each node, engine time; and its actions."""

    line: Line
    results: list[int] = field(default_factory=list)
    memory: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    stopped: str = ""
    actions: list[dict[str, Any]] = field(default_factory=list)
    cleanup_rows: int = 0
    cleanup_s: float = 0.0
    cleanup_cpu_s: list[float] = field(default_factory=list)  # by node
    rows: int = 0

    def count(self, course: str) -> int:
        """Actions of a kind before the end of the input."""
        mine = [a for a in self.actions if a["course"] == course and a["state"] == "done"]
        return sum(a["by"] != "end of input" for a in mine)

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line.name,
            "policy": dict(self.line.policy),
            "nodes": self.line.nodes,
            "budget": self.line.budget,
            "results": self.results,
            "memory": self.memory,
            "tick_seconds": self.seconds,
            "cpu_s": round(self.cpu_s, 3),
            "stopped": self.stopped,
            "spills": self.count("spill"),
            "moves": self.count("move"),
            "cleanup_rows": self.cleanup_rows,
            "cleanup_s": round(self.cleanup_s, 3),
            "cleanup_cpu_s": [round(s, 3) for s in self.cleanup_cpu_s],
        }


class _Watch:
    """Keeps the reports' figures."""

    def __init__(self, run: Run) -> None:
        self.run, self.total, self.rows_out = run, 0, 0

    def publish(self, report: TickReport) -> None:
        self.total += report.rows_out
        run = self.run
        if report.tick is None or report.tick < len(run.results):
            return
        run.results.append(self.total)
        run.memory.append([node.memory_bytes for node in report.nodes])
        run.seconds.append(round(report.seconds, 4))
        run.cpu_s += sum(node.cpu_s for node in report.nodes)


def run_line(spark: SparkSession, line: Line, feed: Feed, under: Path) -> Run:
    """Run it, from nothing to the last owed result."""
    folder = feed.make(under)
    place = under / "run"
    shutil.rmtree(place, ignore_errors=True)
    extra = f"memory_per_node = {line.budget}\n" if line.budget else ""
    if line.placement:
        shares = ", ".join(f"{node} = {share}" for node, share in line.placement.items())
        extra += f"placement = {{ {shares} }}\n"
    spec = read_query(query_file(folder, place, feed, line.nodes, extra))
    found = Run(line)
    watch = _Watch(found)
    query = QueryRun(spec, Settings.load({}), [watch], once=True)
    query.adaptation = Policy(
        policy_from(dict(line.policy), line.name),
        interval_s=0.0,
        minute_s=MINUTE_S,
        patient=True,
    )
    try:
        query.serve(lambda: spark)
    except StateError as error:
        found.stopped = f"{error.what} (minute {len(found.results)})"
    _account(query, found, watch)
    shutil.rmtree(place, ignore_errors=True)
    return found


def _account(query: QueryRun, found: Run, watch: _Watch) -> None:
    """What actions and the last clean-up cost."""
    assert query.desk is not None
    records = query.desk.records
    found.actions = records.as_json()["actions"]
    found.rows = watch.total
    found.cleanup_rows = watch.total - (found.results[-1] if found.results else 0)
    last = [a for a in found.actions if a["by"] == "end of input"]
    times = [t for a in last for _, start, end, _ in a["records"] for t in (start, end) if t]
    found.cleanup_s = max(times) - min(times) if times else 0.0
    by_node: dict[int, float] = {}
    for action in last:
        node = action["step"]["node"]
        by_node[node] = by_node.get(node, 0.0) + records.cpu_s.get(action["id"], 0.0)
    found.cleanup_cpu_s = [by_node[node] for node in sorted(by_node)]
