"""One line of a figure: the query run once under one policy, and what it gave tick by tick.

Input lies there from the beginning, and ticks go one after the other. What was out when, had rows come by the clock,
follows from how long each tick and all that came after the one before it took. Before the clean-up at the end of the
input whatever is on disk leaves the operating system's cache, so that the clean-up reads it from the disk.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
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
    """What a line gave: by tick, results so far, memory of each node, engine time and `took_s`, the time since the
    tick before, with all that went on between them; and its actions. `clock_s`: a tick's input by the clock."""

    line: Line
    clock_s: float = 0.0
    ticks_a_minute: int = 1
    results: list[int] = field(default_factory=list)
    memory: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
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

    @property
    def minutes(self) -> float:
        """That it ran."""
        return len(self.results) / self.ticks_a_minute

    def out_s(self) -> list[float]:
        """By the clock, when the results of each tick are out: after its last row has come and the tick before is done."""
        out, free_s = [], 0.0
        for tick, took_s in enumerate(self.took_s):
            free_s = max(free_s, (tick + 1) * self.clock_s) + took_s
            out.append(free_s)
        return out

    def throughput(self) -> float:
        """Results so far by the clock, on average from the first row until one tick after the last."""
        end_s = (len(self.results) + 1) * self.clock_s
        made = [b - a for a, b in pairwise([0, *self.results])]
        done = zip(made, self.out_s(), strict=True)
        return sum(rows * max(0.0, end_s - at_s) for rows, at_s in done) / end_s

    def late_s(self) -> float:
        """By the clock, how long after a tick's last row its results are out, on average."""
        late = [at_s - (tick + 1) * self.clock_s for tick, at_s in enumerate(self.out_s())]
        return sum(late) / max(1, len(late))

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line.name,
            "policy": dict(self.line.policy),
            "nodes": self.line.nodes,
            "budget": self.line.budget,
            "results": self.results,
            "memory": self.memory,
            "tick_seconds": self.seconds,
            "took_s": self.took_s,
            "clock_s": self.clock_s,
            "cpu_s": round(self.cpu_s, 3),
            "stopped": self.stopped,
            "spills": self.count("spill"),
            "moves": self.count("move"),
            "cleanup_rows": self.cleanup_rows,
            "cleanup_s": round(self.cleanup_s, 3),
            "cleanup_cpu_s": [round(s, 3) for s in self.cleanup_cpu_s],
        }


class _Watch:
    """Keeps the reports' figures. After the last of `ticks` nothing of `checkpoint` is in the system's cache."""

    def __init__(self, run: Run, ticks: int, checkpoint: Path) -> None:
        self.run, self.ticks, self.checkpoint = run, ticks, checkpoint
        self.total, self._before_s = 0, 0.0

    def publish(self, report: TickReport) -> None:
        self.total += report.rows_out
        run = self.run
        if report.tick is None or report.tick < len(run.results):
            return
        run.results.append(self.total)
        run.memory.append([node.memory_bytes for node in report.nodes])
        run.seconds.append(round(report.seconds, 4))
        now_s = time.monotonic()  # a report has the time of who decides, not the real one
        took_s = now_s - self._before_s if self._before_s else report.seconds
        run.took_s.append(round(took_s, 4))
        self._before_s = now_s
        run.cpu_s += sum(node.cpu_s for node in report.nodes)
        if len(run.results) == self.ticks:
            to_disk(self.checkpoint)


def to_disk(folder: Path) -> int:
    """Write what is in the folder through to the disk and drop it from the operating system's cache; how many files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except FileNotFoundError:
            pass  # dropped by the engine meanwhile
    return len(files)


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
    found = Run(line, feed.clock_s, round(60 / feed.tick_s))
    watch = _Watch(found, feed.ticks, spec.checkpoint)
    query = QueryRun(spec, Settings.load({}), [watch], once=True)
    query.adaptation = Policy(
        policy_from(dict(line.policy), line.name),
        interval_s=0.0,
        minute_s=feed.tick_s,
        patient=True,
    )
    try:
        query.serve(lambda: spark)
    except StateError as error:
        found.stopped = f"{error.what} (minute {found.minutes:g})"
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
