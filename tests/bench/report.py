"""What the benchmark leaves behind: a Markdown page with the tables, the plot, and the raw figures as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from engine.papers.plot import svg
from tests.bench.data import ROOT
from tests.bench.figures import memory_bytes, spread, verdicts
from tests.bench.rounds import Measured
from tests.bench.sides import SLOTS, Run

SIDE_TITLES = {"spillway": "Spillway", "spark": "Spark built-in", "duckdb": "DuckDB batch"}


def machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "duckdb": version("duckdb"),
        "pyarrow": version("pyarrow"),
        "commit": commit.stdout.strip() or "unknown",
    }


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _middle(values: list[float], digits: int = 2) -> str:
    found = spread(values)
    return "–" if found is None else f"{found.middle:.{digits}f}"


def _rate(run: Run) -> float:
    """Input rows per second over the warm ticks, all ticks having the same share of the rows."""
    ticks = len(run.ticks_s)
    share = (ticks - 1) / ticks if ticks > 1 else 1.0
    return run.summary["rows_in"] * share / run.warm_s if run.warm_s else 0.0


def sides_table(measured: Measured) -> list[str]:
    head = [
        "side",
        "files per trigger",
        "warm s: median (range)",
        "first tick s",
        "total s",
        "start-up s",
    ]
    head += ["rows/s in, warm", "CPU s", "peak memory GB", "state MB", "rows out", "runs"]
    rows = []
    for (side, trigger), runs in sorted(
        measured.runs.items(), key=lambda item: (item[0][1], item[0])
    ):
        first = runs[0]
        checks = measured.checks.get((side, trigger), [])
        good = "exact" if all(check.exact for check in checks) else "WRONG"
        count = checks[0].rows if checks else first.summary["rows_out"]
        title = SIDE_TITLES[side] + (f" ({first.setting})" if first.setting else "")
        state = first.summary.get("state_bytes")
        rows.append(
            [
                title,
                str(trigger or "–"),
                str(spread([run.warm_s for run in runs])),
                _middle([run.cold_s for run in runs]) if side != "duckdb" else "–",
                _middle([float(run.summary["seconds"]) for run in runs]),
                _middle([float(run.summary["seconds_startup"]) for run in runs]),
                f"{_rate(sorted(runs, key=lambda run: run.warm_s)[len(runs) // 2]):,.0f}",
                _middle([run.usage["cpu_s"] for run in runs], 1),
                _middle([memory_bytes(run) / 1e9 for run in runs]),
                "–" if state is None else f"{state / 1e6:.1f}",
                f"{count:,}" + (f", {good}" if checks else " (the reference)"),
                str(len(runs)),
            ]
        )
    return _table(head, rows)


def verdict_table(measured: Measured) -> list[str]:
    rows = [
        [item.name, item.measured, item.wanted, "reached" if item.reached else "**missed**"]
        for item in verdicts(measured)
    ]
    return _table(["bar", "measured", "wanted", ""], rows) if rows else ["No bar applies."]


def trials_table(measured: Measured) -> list[str]:
    rows = [
        [
            str(trigger),
            trial.setting,
            "–" if trial.warm_s is None else f"{trial.warm_s:.2f}",
            "–" if trial.cold_s is None else f"{trial.cold_s:.2f}",
            trial.note.replace("|", "/") or ("used" if trial == trials[0] else ""),
        ]
        for trigger, trials in measured.trials.items()
        for trial in trials
    ]
    head = ["files per trigger", "Spark setting", "warm s", "first tick s", ""]
    return _table(head, rows) if rows else []


def page(measured: Measured, about: dict[str, Any], plot_name: str) -> str:
    workload = measured.workload
    lines = [
        f"# {workload.title}",
        "",
        f"Written by `make bench`. {len(workload.streams)} × {workload.rows:,} rows in {workload.files} "
        f"files per stream, seed {workload.seed}; {SLOTS} slots on each side; {about['cores']} cores, "
        f"{about['memory_gib']} GiB; Python {about['python']}, PySpark {about['pyspark']}, "
        f"DuckDB {about['duckdb']}; commit {about['commit']}; load at the start {about['load_at_start']}.",
        "",
        f"```sql\n{workload.sql}\n```",
        "",
        "Runs are interleaved. Warm = all ticks but the first; a ratio is taken round by round, then the "
        "median (and range) of them. CPU seconds and memory are of the whole process tree, JVM, workers "
        "and growth of /dev/shm included. Every output was compared with DuckDB's as a multiset.",
        "",
        "## Bars",
        "",
        *verdict_table(measured),
        "",
        "## Sides",
        "",
        *sides_table(measured),
        "",
        "## Tick seconds",
        "",
        f"![Seconds of each tick, first one left out]({plot_name})",
        "",
    ]
    if trials := trials_table(measured):
        lines += [
            "## Spark's settings",
            "",
            "Each tried once on the same files; the best was used.",
            "",
        ]
        lines += [*trials, ""]
    if measured.failures:
        lines += ["## Failures", "", *[f"```\n{text}\n```" for text in measured.failures], ""]
    return "\n".join(lines)


def plot(measured: Measured) -> str:
    series = {
        f"{SIDE_TITLES[side]}, fpt {trigger}": runs[0].ticks_s[1:]
        for (side, trigger), runs in sorted(measured.runs.items())
        if trigger and len(runs[0].ticks_s) > 1
    }
    title = f"{measured.workload.name} (fpt = files per trigger)"
    return svg(title, series, "tick", "seconds of a tick", first=2)


def raw(measured: Measured, about: dict[str, Any]) -> str:
    figures = {
        "workload": measured.workload.key,
        "machine": about,
        "runs": [run.as_json() for runs in measured.runs.values() for run in runs],
        "trials": {
            str(trigger): [vars(trial) for trial in trials]
            for trigger, trials in measured.trials.items()
        },
        "tick_rows": {str(trigger): rows for trigger, rows in measured.tick_rows.items()},
        "failures": measured.failures,
    }
    return json.dumps(figures, indent=1) + "\n"


def write(measured: Measured, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    about = machine() | {"load_at_start": round(measured.load_at_start, 2)}
    name = measured.workload.name
    (folder / f"{name}.json").write_text(raw(measured, about))
    (folder / f"{name}.svg").write_text(plot(measured))
    path = folder / f"{name}.md"
    path.write_text(page(measured, about, f"{name}.svg"))
    return path
