"""The three sides, each a command in its own supervised process tree, each ending in one JSON line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.workloads import Workload

SLOTS = 2  # nodes of ours, shuffle partitions of Spark's, threads of DuckDB's
TIMEOUT_S = 3600.0
STDERR_TAIL_CHARS = 1500


class SideError(Exception):
    """A side did not finish; the message says which and shows the end of what it printed."""


@dataclass(frozen=True)
class Run:
    """One run of one side: its own JSON line, what its process tree cost, where its rows are."""

    side: str
    setting: str
    files_per_trigger: int
    summary: dict[str, Any]
    usage: dict[str, Any]
    output: Path = field(compare=False)

    @property
    def ticks_s(self) -> list[float]:
        return [float(seconds) for seconds in self.summary["tick_seconds"]]

    @property
    def cold_s(self) -> float:
        return self.ticks_s[0] if len(self.ticks_s) > 1 else 0.0

    @property
    def warm_s(self) -> float:
        """All ticks but the first; the only one, if there is only one."""
        return sum(self.ticks_s[1:]) if len(self.ticks_s) > 1 else sum(self.ticks_s)

    def as_json(self) -> dict[str, Any]:
        return {
            "side": self.side,
            "setting": self.setting,
            "files_per_trigger": self.files_per_trigger,
            "warm_s": self.warm_s,
            "cold_s": self.cold_s,
            "summary": self.summary,
            "usage": self.usage,
        }


@dataclass(frozen=True)
class Bench:
    """Where a workload's files lie and where its runs may write."""

    workload: Workload
    folder: Path
    scratch: Path = BENCH_DIR / f"runs-{os.getpid()}"
    spark_memory: str | None = None

    def fresh(self, name: str) -> Path:
        place = self.scratch / f"{self.workload.name}-{name}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def driver_memory(self) -> str:
        """Spark's own join keeps its state on the JVM's heap: give it what the machine has to give."""
        return self.spark_memory or f"{int(psutil.virtual_memory().total * 0.6) >> 30}g"


def memory_folder() -> Path:
    """Where our side keeps state in memory: a folder of this process, so that it can be removed."""
    tmpfs = Path("/dev/shm")
    base = tmpfs if os.access(tmpfs, os.W_OK) else BENCH_DIR
    folder = base / f"spillway-bench-{os.getpid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def forget(place: Path) -> None:
    """Remove a run's files, on disk and in memory."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(memory_folder(), ignore_errors=True)


def environment() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    return clean | {
        "SPILLWAY_MEM_DIR": str(memory_folder()),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def supervised(name: str, command: list[str], place: Path) -> tuple[dict[str, Any], Any]:
    report = place / "usage.json"
    supervise = [sys.executable, "-m", "tests.bench.supervise", str(report), str(TIMEOUT_S)]
    done = subprocess.run(
        supervise + command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    usage = json.loads(report.read_text()) if report.exists() else {"returncode": done.returncode}
    lines = done.stdout.strip().splitlines()
    if usage["returncode"] or not lines:
        tail = (done.stdout + done.stderr)[-STDERR_TAIL_CHARS:]
        raise SideError(f"{name} ended with {usage['returncode']}:\n{tail}")
    try:
        return json.loads(lines[-1]), usage
    except json.JSONDecodeError as error:
        raise SideError(f"{name}: the last line is no JSON: {lines[-1][:200]!r}") from error


def _side(bench: Bench, module: str, name: str, extra: dict[str, Any]) -> Run:
    place = bench.fresh(name)
    task = {
        "workload": bench.workload.name,
        "rows": bench.workload.rows,
        "folder": str(bench.folder),
        "out": str(place / "out"),
        "checkpoint": str(place / "checkpoint"),
        "slots": SLOTS,
        **extra,
    }
    (place / "task.json").write_text(json.dumps(task))
    command = [sys.executable, "-m", f"tests.bench.{module}", str(place / "task.json")]
    summary, usage = supervised(name, command, place)
    return Run(
        side=name,
        setting=extra.get("setting", ""),
        files_per_trigger=extra.get("files_per_trigger", 0),
        summary=summary,
        usage=usage,
        output=place / "out",
    )


def run_duckdb(bench: Bench) -> Run:
    return _side(bench, "duckdb_side", "duckdb", {})


def run_spark(
    bench: Bench, files_per_trigger: int, setting: str, limit_s: float | None = None
) -> Run:
    extra = {
        "files_per_trigger": files_per_trigger,
        "setting": setting,
        "driver_memory": bench.driver_memory(),
        "limit_s": limit_s,
    }
    return _side(bench, "spark_side", "spark", extra)


def query_file(bench: Bench, files_per_trigger: int, place: Path, order: str = "") -> Path:
    """The workload as a query file, its paths relative to where it lies. `order`: of its joins."""
    workload = bench.workload
    lines = [
        f'name = "{workload.name}"',
        f'sql = "{workload.sql}"',
        f"nodes = {SLOTS}",
        "groups = 64",
        'checkpoint = "checkpoint"',
        *([f'join_order = "{order}"'] if order else []),
    ]
    for stream in workload.streams:
        folder = os.path.relpath(bench.folder / stream.name, place)
        lines += [
            f"\n[streams.{stream.name}]",
            'format = "parquet"',
            f'path = "{folder}"',
            f'schema = "{stream.schema}"',
            f'options = {{ maxFilesPerTrigger = "{files_per_trigger}" }}',
        ]
        if workload.window_s:
            lines += ['time = "ts"', 'watermark = "1 second"']
    lines += ["\n[sink]", 'format = "parquet"', 'path = "out"', ""]
    path = place / "query.toml"
    path.write_text("\n".join(lines))
    return path


def run_spillway(bench: Bench, files_per_trigger: int) -> Run:
    place = bench.fresh("spillway")
    query = query_file(bench, files_per_trigger, place)
    command = [sys.executable, "run.py", "query", "run", str(query), "--once"]
    summary, usage = supervised("spillway", command, place)
    return Run("spillway", "", files_per_trigger, summary, usage, place / "out")


def spillway_exists() -> bool:
    return (ROOT / "run.py").is_file()
