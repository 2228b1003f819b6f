"""`make bench-adapt`: what adaptation costs and gains, on the same files with and without it.

*Moves*: 200 ticks of three small streams on two nodes; 24 moves of a tenth of a node's groups, to and fro, or none. CPU
seconds of the whole process tree per row, from the first tick to the last; wall time beside it.
*A third of the memory*: W1 with one file per trigger and a budget of a third of the state that it needs; input rows a
second, the nodes' memory against their budgets, and how fast the clean-up is.
*Decisions*: every policy and the arbiter on 1 000 nodes and 100 000 groups.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from engine.papers.plot import svg
from tests.bench.data import BENCH_DIR, ROOT, inputs
from tests.bench.figures import spread
from tests.bench.parts import feed, query
from tests.bench.report import machine
from tests.bench.sides import Bench, forget, query_file, supervised
from tests.bench.workloads import WORKLOADS

RUNS_FOR_RECORD = 5
TICKS, MOVES = 208, 24
TREE = "SELECT a.va, b.vb, c.vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


def script(path: Path, moves: int) -> Path:
    """Moves to and fro, evenly over the ticks."""
    every = TICKS // (moves + 1)
    lines = [
        f'[[at]]\ntick = {every * (n + 1)}\ndo = "move"\nnode = {n % 2}\nto = {1 - n % 2}\npercent = 10\n'
        for n in range(moves)
    ]
    path.write_text("\n".join(lines))
    return path


def inside(path: Path, commands: Path | None) -> dict[str, Any]:
    """Run a query here; CPU and wall time between the first commit and the last."""
    from engine import runner
    from engine.adapt.policy import Policy, load
    from engine.query.file import read_query
    from engine.reports import TickReport
    from engine.settings import Settings

    seen: list[tuple[float, float]] = []
    memory: list[list[int]] = []
    rows: list[int] = []

    class Port:
        def publish(self, report: TickReport) -> None:
            seen.append((time.perf_counter(), _cpu_s()))
            rows.append(report.rows_in)
            if report.tick is not None:
                memory.append([node.memory_bytes for node in report.nodes])

    report = path.with_name("actions.json")
    summary = runner.run(
        read_query(path),
        once=True,
        master=None,
        settings=Settings.load({}),
        ports=[Port()],
        adaptation=load(None, commands) if commands else Policy(),
        report=report,
    )
    actions = json.loads(report.read_text())["actions"]
    return {
        "cpu_s": seen[-1][1] - seen[0][1],
        "wall_s": seen[-1][0] - seen[0][0],
        "rows": sum(rows[1:]),
        "ticks": summary.tick_seconds,
        "memory": memory,
        "actions": [
            {k: a[k] for k in ("course", "state", "by", "seconds", "bytes", "cpu_s", "records")}
            for a in actions
        ],
        "rows_out": summary.rows_out,
        "warm_s": sum(summary.tick_seconds[1:]),
    }


def _cpu_s() -> float:
    """Of this process and all below it, the JVM and the workers."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def run(path: Path, commands: Path | None = None) -> dict[str, Any]:
    for name in ("checkpoint", "out"):
        shutil.rmtree(path.parent / name, ignore_errors=True)
    more = ["--commands", str(commands)] if commands else []
    command = [sys.executable, "-m", "tests.bench.adapting", "--inside", str(path), *more]
    found, _ = supervised("spillway", command, path.parent)
    return dict(found)


def moves(folder: Path, runs: int) -> list[dict[str, Any]]:
    """Pairs of runs."""
    feed(folder, "abc", 2_000, files=TICKS, keys=60_000, spacing_us=1000)
    path, commands = query(folder, "abc", TREE, ""), script(folder / "moves.toml", MOVES)
    out = []
    for number in range(runs):
        order = [None, commands] if number % 2 == 0 else [commands, None]
        pair = {bool(given): run(path, given) for given in order}
        with_, without = pair[True], pair[False]
        done = [a for a in with_["actions"] if a["course"] == "move" and a["state"] == "done"]
        held = [_held_s(a) for a in done]
        tick = float(np.median(without["ticks"][1:]))
        out.append(
            {
                "moves": len(done),
                "cpu": (without["cpu_s"] / without["rows"]) / (with_["cpu_s"] / with_["rows"]),
                "wall": without["wall_s"] / with_["wall_s"],
                "tick_s": tick,
                "tick_with_s": float(np.median(with_["ticks"][1:])),
                "longest_with_s": max(with_["ticks"][1:]),
                "longest_s": max(without["ticks"][1:]),
                "held_ticks": max(held, default=0.0) / tick,
                "exact": with_["rows_out"] == without["rows_out"],
            }
        )
        print(f"  {number + 1}: {out[-1]}", flush=True)
    return out


def _held_s(action: dict[str, Any]) -> float:
    """From the hold to the switch."""
    times = {name: (start, end) for name, start, end, _ in action["records"]}
    return float(times["ReactivatePartitions"][1] - times["DeactivatePartitions"][0])


def third(folder: Path, runs: int) -> list[dict[str, Any]]:
    """Pairs of runs of W1, with all memory and with a third of it."""
    bench = Bench(WORKLOADS["tri"], inputs(WORKLOADS["tri"]))
    whole, tight = folder / "whole", folder / "tight"
    for place in (whole, tight):
        place.mkdir(parents=True)
    paths = [query_file(bench, 1, whole), query_file(bench, 1, tight)]
    budget = bench.workload.payload_bytes(bench.workload.rows) * 24 // 16 // 2 // 3
    text = paths[1].read_text()
    paths[1].write_text(text.replace("groups = 64", f"groups = 64\nmemory_per_node = {budget}"))
    out = []
    for number in range(runs):
        without, with_ = run(paths[0]), run(paths[1])
        last = [a for a in with_["actions"] if a["by"] == "end of input"]
        before = sum(a["by"] != "end of input" for a in with_["actions"])
        out.append(
            {
                "budget": budget,
                "input": without["warm_s"] / with_["warm_s"],
                "spills": before,
                "over": max(max(nodes) for nodes in with_["memory"]) / budget,
                "memory": with_["memory"],
                "all": without["memory"],
                "cleanup_s": max((a["seconds"] for a in last), default=0.0),
                "cleanup_cpu_s": sum(a["cpu_s"] for a in last),
                "rows_out": with_["rows_out"],
                "exact": with_["rows_out"] == without["rows_out"],
            }
        )
        shown = {k: v for k, v in out[-1].items() if k not in ("memory", "all")}
        print(f"  {number + 1}: {shown}", flush=True)
    return out


def decisions() -> dict[str, float]:
    """Seconds of each policy's decision with the arbiter's verdict, on full nodes and on others."""
    from control.arbiter import judge
    from control.limits import OPEN
    from control.policies.registry import KINDS
    from tests.control.large import large

    out: dict[str, float] = {}
    for room in (0.3, 1.2):
        snapshot = large(room)
        for name, kind in KINDS.items():
            started = time.perf_counter()
            plan = kind().decide(snapshot, OPEN)
            judge(plan, snapshot, (), OPEN)
            out[name] = max(out.get(name, 0.0), time.perf_counter() - started)
    return out


def page(some: list[dict[str, Any]], tight: list[dict[str, Any]], took: dict[str, float]) -> str:
    about = machine()

    def of(rows: list[dict[str, Any]], name: str, scale: float = 1.0) -> str:
        return str(spread([scale * float(row[name]) for row in rows]))

    cpu = sorted(row["cpu"] for row in some)[len(some) // 2]
    gain = sorted(row["input"] for row in tight)[len(tight) // 2]
    slowest = max(took.values())
    lines = [
        "# What adaptation costs and gains",
        "",
        f"Written by `make bench-adapt`; {about['cores']} cores, {about['memory_gib']} GiB, commit "
        f"{about['commit']}. Medians (range) of {len(some)} and {len(tight)} paired runs.",
        "",
        "| what | measured | wanted | |",
        "|---|---|---|---|",
        f"| {some[0]['moves']} moves in {TICKS} ticks: CPU per row without / with | {of(some, 'cpu')} | ≥ 0.98 | "
        f"{_word(cpu >= 0.98)} |",
        f"| wall time without / with | {of(some, 'wall')} | – | |",
        f"| median tick without, with; longest with, s | {of(some, 'tick_s')}, {of(some, 'tick_with_s')}; "
        f"{of(some, 'longest_with_s')} (without {of(some, 'longest_s')}) | no tick held up | |",
        f"| moved groups wait, in ticks, longest | {of(some, 'held_ticks')} | ≤ 2 | "
        f"{_word(max(row['held_ticks'] for row in some) <= 2)} |",
        f"| W1 at a third of its memory: input throughput | {of(tight, 'input')} × | ≥ 0.9 × | {_word(gain >= 0.9)} |",
        f"| most memory of a node / its budget | {of(tight, 'over')} | over by a tick's rows at most | |",
        f"| clean-up: s, CPU s | {of(tight, 'cleanup_s')}, {of(tight, 'cleanup_cpu_s')} | | |",
        f"| slowest decision, 1 000 nodes × 100 000 groups | {slowest:.3f} s | < 1 s | {_word(slowest < 1)} |",
        "",
        f"Results were the same with and without: {all(r['exact'] for r in (*some, *tight))}.",
        "",
        "![Memory of the nodes at a third of the memory](adapting.svg)",
        "",
        "| policy | decision, s |",
        "|---|---|",
        *(f"| {name} | {seconds:.3f} |" for name, seconds in took.items()),
        "",
    ]
    return "\n".join(lines)


def _word(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-adapt ARGS=…")
    parser.add_argument("--runs", type=int, default=RUNS_FOR_RECORD)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--commands", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(inside(options.inside, options.commands)))
        return 0
    scratch = BENCH_DIR / "adapting"
    shutil.rmtree(scratch, ignore_errors=True)
    some = moves(scratch / "moves", options.runs)
    tight = third(scratch, max(1, options.runs * 3 // 5))
    took = decisions()
    folder = (
        ROOT / "docs" / "benchmarks" if options.runs >= RUNS_FOR_RECORD else BENCH_DIR / "reports"
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = page(some, tight, took)
    (folder / "adapting.md").write_text(text)
    memory = {
        f"{name}, node {n}": [float(row[n]) for row in tight[0][key]]
        for name, key in (("all memory", "all"), ("a third", "memory"))
        for n in range(2)
    }
    (folder / "adapting.svg").write_text(svg("W1", memory, "tick", "bytes of state in memory"))
    raw = {"moves": some, "third": tight, "decisions": took}
    (folder / "adapting.json").write_text(json.dumps(raw, indent=1) + "\n")
    forget(scratch)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
