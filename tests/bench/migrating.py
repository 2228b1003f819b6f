"""`python -m tests.bench.migrating`: how long results stand still when a query's join order changes, and how many come
while two plans run side by side (beside.py).

Moving state: three streams on two nodes, ticks one after the other: ((a b) c) becomes ((a c) b) once a ⋈ c, which then has to be
computed, holds about a million rows on each node. The stall is the longest time between two ticks' commits from the tick
before the swap to the one after it, less an ordinary tick, in ordinary ticks: medians of those just before the action.
Beside it, how long computing took while ticks went on, which is what a pause of the query would have been.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench import beside
from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.figures import spread
from tests.bench.report import machine
from tests.bench.sides import forget, supervised

RUNS, RUNS_FOR_RECORD = 3, 3
KEYS, AT, TICKS = 100_000, 22, 44  # the action begins before tick AT
ROWS = {
    "a": 12_500,
    "b": 1_500,
    "c": 27_000,
}  # of a tick; a ⋈ c: 1 M rows a node at the swap, more or less
SQL = "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
STALL_MOST = 2.0


def prepare(folder: Path) -> Path:
    """Files, a query over them, and the script."""
    rng = np.random.default_rng(3)
    lines = ['name = "migrating"', f'sql = "{SQL}"', "nodes = 2", "groups = 64"]
    lines += ['join_order = "((a b) c)"', 'checkpoint = "checkpoint"']
    for name, rows in ROWS.items():
        (folder / name).mkdir(parents=True)
        for tick in range(TICKS):
            columns = {"k": rng.integers(0, KEYS, rows), "v": tick * rows + np.arange(rows)}
            pq.write_table(pa.table(columns), folder / name / f"{tick:04d}.parquet")
        lines += [f"[streams.{name}]", f'format = "parquet"\npath = "{name}"']
        lines += [
            'schema = "k long, v long"',
            'options = { maxFilesPerTrigger = "1" }',
        ]
    lines += ['[sink]\nformat = "parquet"\npath = "out"', ""]
    path = folder / "query.toml"
    path.write_text("\n".join(lines))
    order = f'[[at]]\ntick = {AT}\ndo = "migrate"\njoin_order = "((a c) b)"\n'
    (folder / "script.toml").write_text(order)
    return path


def inside(path: Path, migrates: bool) -> dict[str, Any]:
    """Run the query here; when each tick was committed, and what became of the action."""
    from engine import runner
    from engine.adapt.policy import Policy, load
    from engine.query.file import read_query
    from engine.reports import TickReport
    from engine.settings import Settings

    ends: list[float] = []

    class Port:
        def publish(self, report: TickReport) -> None:
            if report.tick is not None:
                ends.append(time.time())

    report = path.with_name("actions.json")
    summary = runner.run(
        read_query(path),
        once=True,
        master=None,
        settings=Settings.load({}),
        ports=[Port()],
        adaptation=load(None, path.with_name("script.toml")) if migrates else Policy(),
        report=report,
    )
    actions = json.loads(report.read_text())["actions"]
    kept = ("state", "note", "records", "receipt", "actual")
    return {
        "ends": ends,
        "rows_out": summary.rows_out,
        "actions": [{name: action[name] for name in kept} for action in actions],
    }


def run(path: Path, migrates: bool) -> dict[str, Any]:
    for name in ("checkpoint", "out"):
        shutil.rmtree(path.parent / name, ignore_errors=True)
    more = ["--migrates"] if migrates else []
    command = [sys.executable, "-m", "tests.bench.migrating", "--inside", str(path), *more]
    found, _ = supervised("spillway", command, path.parent)
    return dict(found)


def judged(found: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """Figures of one migration, against the same rows without it."""
    (action,) = found["actions"]
    if action["state"] != "done":
        raise RuntimeError(f"the migration is {action['state']}: {action['note']}")
    ends = np.array(found["ends"])
    gaps = np.diff(ends)
    tick = median(gaps[AT - 8 : AT - 1].tolist())
    begun, swapped = action["records"][0][1], action["records"][4][2]
    around = int(np.searchsorted(ends, swapped))
    during = gaps[max(0, int(np.searchsorted(ends, begun)) - 1) : around - 1]
    longest = float(gaps[max(0, around - 2) : around + 1].max())
    return {
        "rows_made": action["receipt"]["rows_made"],
        "tick_s": tick,
        "stall_ticks": (longest - tick) / tick,
        "longest_s": longest,
        "during_s": median(during.tolist()) if len(during) else tick,
        "swap_s": action["actual"]["pause_s"],
        "compute_s": action["records"][3][2] - action["records"][2][1],
        "compute_ticks": (action["records"][3][2] - action["records"][2][1]) / tick,
        "cpu_s": action["actual"]["cpu_s"],
        "after_s": median(gaps[around + 2 :].tolist()),
        "plain_s": median(np.diff(np.array(plain["ends"]))[around + 2 :].tolist()),
        "exact": found["rows_out"] == plain["rows_out"],
    }


def figure(rows: list[dict[str, Any]], name: str, scale: float = 1.0) -> str:
    return str(spread([scale * float(row[name]) for row in rows]))


def page(rows: list[dict[str, Any]], both: dict[str, list[dict[str, Any]]]) -> str:
    about = machine()
    exact = all(row["exact"] for some in (rows, *both.values()) for row in some)
    return "\n".join(
        [
            "# A migration: how long results stand still, and how many come meanwhile",
            "",
            f"Written by `python -m tests.bench.migrating`; {about['cores']} cores, {about['memory_gib']} GiB, "
            f"commit {about['commit']}. Medians (range) of {len(rows)} runs, two nodes.",
            "",
            "## Moving state, ((a b) c) to ((a c) b)",
            "",
            *moving_table(rows),
            "",
            "## Parallel track, ((a b) c) to ((a c) b) within a window",
            "",
            "Paced: a tick begins every second, whatever it takes. Flat out: one after the other.",
            "",
            *beside.table(both, figure),
            "",
            f"Rows are as many as without a migration: {exact}.",
            "",
        ]
    )


def moving_table(rows: list[dict[str, Any]]) -> list[str]:
    def of(name: str, scale: float = 1.0) -> str:
        return figure(rows, name, scale)

    stall = median([float(row["stall_ticks"]) for row in rows])
    word = "reached" if stall <= STALL_MOST else "**missed**"
    return [
        "| what | measured | wanted | |",
        "|---|---|---|---|",
        f"| rows that were computed, millions, both nodes | {of('rows_made', 1e-6)} | about 2 | |",
        f"| output stall, in ticks | {of('stall_ticks')} | ≤ {STALL_MOST:g} | {word} |",
        f"| longest time between two commits at the swap, s | {of('longest_s')} | | |",
        f"| an ordinary tick before, while computing, after, s | {of('tick_s')}, {of('during_s')}, "
        f"{of('after_s')} | | |",
        f"| the same ticks without a migration, s | {of('plain_s')} | | |",
        f"| the last bit and the commit, s | {of('swap_s')} | | |",
        f"| computing while ticks go on, s (ticks) | {of('compute_s')} ({of('compute_ticks')}) | | |",
        f"| of it CPU, s | {of('cpu_s')} | | |",
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.migrating")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--migrates", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(inside(options.inside, options.migrates)))
        return 0
    scratch = BENCH_DIR / "migrating"
    shutil.rmtree(scratch, ignore_errors=True)
    path, rows = prepare(scratch / "moving"), []
    for number in range(options.runs):
        plain = run(path, False)
        rows.append(judged(run(path, True), plain))
        print(f"  {number + 1}: {rows[-1]}", flush=True)
    both = beside.measure(scratch / "parallel", options.runs)
    record = options.runs >= RUNS_FOR_RECORD
    folder = ROOT / "docs" / "benchmarks" if record else BENCH_DIR / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "migrating.md").write_text(page(rows, both))
    found = {"moving": rows, "parallel": both}
    (folder / "migrating.json").write_text(json.dumps(found, indent=1) + "\n")
    forget(scratch)
    print(page(rows, both))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
