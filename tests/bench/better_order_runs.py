"""One round of better_order.py: the query with the bad order, with every migration, and with the good order; what ticks did.

A tick's time is from the commit before to its own. *Before*: from when the windows are full to the migration; *after*:
from its end to the last tick. Runs without a migration are measured over the same ticks as those with one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from control.migration.joins import Joins
from control.migration.model import load_of
from control.migration.optimise import best, weights_from
from control.migration.trees import show
from control.plans import STRATEGIES
from control.requests import Request
from tests.bench.data import BENCH_DIR, connect, define_views, inputs
from tests.bench.exact import Difference, difference
from tests.bench.sides import Bench, forget, query_file, supervised
from tests.bench.workloads import Workload

BAD = "(((a b) c) d)"
KEPT, BEGUN = "kept", "begun"  # the bad order kept, the good one from the start
SETTLES = 2  # ticks after a migration that are not counted: what it left to do

Say = Callable[[str], None]


# -- a run, in a process of its own -------------------------------------------------------------------


def proposed(joins: Joins | None) -> str:
    """The order that the optimiser would have, from what ticks told."""
    if joins is None or not joins.known:
        raise RuntimeError("nothing is known of the query's joins yet")
    found = best(joins.model, weights_from(load_of(joins.model, joins.running)))
    return show(found.tree, joins.shape.names)


def inside(path: Path, at: int, strategy: str) -> dict[str, Any]:
    """Run the query here; `strategy`: by which it is migrated before tick `at`, if by any."""
    from engine.adapt.desk import Desk
    from engine.papers.ticks import Ticks
    from engine.query.file import read_query
    from engine.runner import QueryRun
    from engine.settings import Settings

    asked: list[str] = []
    query = QueryRun(read_query(path), Settings.load({}), (), once=True)
    ticks = Ticks(query)

    def watch(desk: Desk) -> None:
        if strategy and not asked and desk.ticker.manifest.tick + 1 >= at:
            asked.append(proposed(desk.snapshot().joins))
            desk.ask(Request("migrate", 0, order=asked[0], strategy=strategy), "benchmark")

    def seated(desk: Desk) -> None:
        desk.watch = watch

    query.seated = seated
    summary = query.run(None)
    assert query.desk is not None
    records = query.desk.records
    return {
        "order": asked[0] if asked else "",
        "ticks": [tick.as_json() for tick in ticks.all],
        "actions": records.as_json()["actions"],
        "refusals": records.refusals,
        "rows_in": summary.rows_in,
        "rows_out": summary.rows_out,
    }


@dataclass(frozen=True)
class Ran:
    """One run of one way."""

    way: str
    found: Mapping[str, Any]
    cpu_s: float  # of the whole process tree
    check: Difference

    @property
    def ticks(self) -> list[dict[str, Any]]:
        return list(self.found["ticks"])

    @property
    def action(self) -> Mapping[str, Any] | None:
        if not self.found["actions"]:
            return None
        (action,) = self.found["actions"]
        return dict(action)

    @property
    def order(self) -> str:
        return str(self.found["order"])

    def over(self) -> int:
        """The first tick that is wholly the new plan's."""
        assert self.action is not None
        ended = max(end for _, _, end, _ in self.action["records"] if end is not None)
        return next(n for n, tick in enumerate(self.ticks) if tick["end_s"] > ended) + 1


def run(bench: Bench, way: str, order: str, at: int, reference: Path) -> Ran:
    place = bench.fresh(way)
    path = query_file(bench, 1, place, order)
    strategy = way if way in STRATEGIES else ""
    command = [sys.executable, "-m", "tests.bench.better_order_runs", str(path)]
    asked = [*command, "--at", str(at), "--strategy", strategy]
    found, usage = supervised(way, asked, place)
    ran = Ran(way, found, float(usage["cpu_s"]), difference(place / "out", reference))
    forget(place)
    if strategy and (ran.action is None or ran.action["state"] != "done"):
        about = ran.action or found["refusals"]
        raise RuntimeError(f"{way}: the migration was not done: {about}")
    return ran


# -- what it comes to ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Some ticks one after the other."""

    between_per_tick: float
    rows_per_s: float
    cpu_s_per_row: float
    tick_s: float
    kept_rows: float

    @staticmethod
    def of(ticks: Sequence[Mapping[str, Any]], first: int, last: int) -> Phase:
        """Ticks first … last − 1; `first` is at least 1, as a tick's time begins with the commit before."""
        some = ticks[first:last]
        seconds = some[-1]["end_s"] - ticks[first - 1]["end_s"]
        rows = sum(tick["rows_in"] for tick in some)
        return Phase(
            mean(tick["between_rows"] for tick in some),
            rows / seconds,
            sum(tick["cpu_s"] for tick in some) / rows,
            seconds / len(some),
            mean(tick["kept_rows"] for tick in some),
        )


@dataclass(frozen=True)
class Round:
    """All ways over the same files, one after the other."""

    runs: Mapping[str, Ran]
    full: int  # from this tick on windows are full
    at: int

    @property
    def migrated(self) -> list[str]:
        return [way for way in STRATEGIES if way in self.runs]

    def before(self, way: str) -> Phase:
        return Phase.of(self.runs[way].ticks, self.full, self.at)

    def after(self, way: str, like: str = "") -> Phase:
        """`like`: the way with the migration whose ticks are looked at; its own if it has one."""
        ticks = self.runs[way].ticks
        mine = like or (way if way in self.migrated else self.migrated[0])
        return Phase.of(ticks, self.runs[mine].over() + SETTLES, len(ticks))

    def fewer(self, way: str) -> float:
        """How many times fewer rows are made in between."""
        return self.before(way).between_per_tick / self.after(way).between_per_tick

    def faster(self, way: str) -> float:
        return self.after(way).rows_per_s / self.before(way).rows_per_s

    def faster_than_kept(self, way: str) -> float:
        """Against the run that keeps the bad order, over the same ticks."""
        return self.after(way).rows_per_s / self.after(KEPT, way).rows_per_s

    def of_begun(self, way: str) -> float:
        """The share of the speed of the run that had the good order from the start."""
        return self.after(way).rows_per_s / self.after(BEGUN, way).rows_per_s

    def less_cpu(self, way: str) -> float:
        return self.before(way).cpu_s_per_row / self.after(way).cpu_s_per_row


def reference_of(bench: Bench) -> Path:
    """DuckDB's join of the files."""
    folder = bench.fresh("reference")
    with connect() as connection:
        define_views(connection, bench.workload, bench.folder)
        out = folder / "part-0.parquet"
        connection.execute(f"COPY ({bench.workload.sql}) TO '{out}' (FORMAT parquet)")
    return folder


def measure(
    workload: Workload,
    runs: int,
    say: Say,
    under: Path = BENCH_DIR,
    strategies: Sequence[str] = STRATEGIES,
) -> list[Round]:
    """Rounds of all ways, interleaved."""
    bench = Bench(workload, inputs(workload, under), under / "better-order")
    reference = reference_of(bench)
    at = workload.files // 3
    spacing_s = workload.rows / workload.files * workload.spacing_us / 1e6
    full = 2 + int(workload.window_s / spacing_s)
    rounds = []
    for number in range(1, runs + 1):
        found: dict[str, Ran] = {}
        good = BAD
        for way in (KEPT, *strategies, BEGUN):
            found[way] = run(bench, way, good if way == BEGUN else BAD, at, reference)
            good = found[way].order or good
            last = found[way].ticks[-1]["end_s"] - found[way].ticks[0]["end_s"]
            say(
                f"  {number}: {way:<9} {last:6.1f} s, {found[way].cpu_s:6.1f} CPU-s, {found[way].check} {found[way].order}"
            )
        rounds.append(Round(found, full, at))
    shutil.rmtree(bench.scratch, ignore_errors=True)
    return rounds


def exact(rounds: Sequence[Round]) -> bool:
    return all(ran.check.exact for one in rounds for ran in one.runs.values())


def main(arguments: list[str]) -> int:
    """A run, in its own process."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.better_order_runs")
    parser.add_argument("query", type=Path)
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--strategy", default="")
    options = parser.parse_args(arguments)
    print(json.dumps(inside(options.query, options.at, options.strategy)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
