"""Rounds of interleaved runs of one workload, each output compared with DuckDB's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.calibrate import Trial, calibrate
from tests.bench.data import inputs, rows_per_tick
from tests.bench.exact import Difference, difference
from tests.bench.sides import Bench, Run, SideError, forget, run_duckdb, run_spark, run_spillway
from tests.bench.workloads import Workload

Say = Callable[[str], None]
BUSY_LOAD = 0.7


@dataclass
class Measured:
    """Everything one workload gave, per files-per-trigger where it depends on it. DuckDB's key is 0."""

    workload: Workload
    runs: dict[tuple[str, int], list[Run]] = field(default_factory=dict)
    checks: dict[tuple[str, int], list[Difference]] = field(default_factory=dict)
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    tick_rows: dict[int, list[int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    load_at_start: float = 0.0

    @property
    def exact(self) -> bool:
        checks = [check for found in self.checks.values() for check in found]
        return bool(checks) and all(check.exact for check in checks) and not self.failures

    def add(self, run: Run, check: Difference | None) -> None:
        key = (run.side, run.files_per_trigger)
        self.runs.setdefault(key, []).append(run)
        if check is not None:
            self.checks.setdefault(key, []).append(check)

    def of(self, side: str, files_per_trigger: int) -> list[Run]:
        return self.runs.get((side, files_per_trigger), [])


@dataclass(frozen=True)
class Order:
    """What to measure: how often, which sides, which triggers."""

    runs: int = 3
    sides: tuple[str, ...] = ("spillway", "spark", "duckdb")
    files_per_trigger: tuple[int, ...] = ()
    recalibrate: bool = False
    spark_memory: str | None = None
    spark_setting: str | None = None


def measure(workload: Workload, order: Order, say: Say = print) -> Measured:
    say(
        f"{workload.title}: {len(workload.streams)} × {workload.rows:,} rows, {workload.files} files"
    )
    bench = Bench(workload, inputs(workload), spark_memory=order.spark_memory)
    measured = Measured(workload, load_at_start=os.getloadavg()[0])
    if measured.load_at_start > BUSY_LOAD:
        say(f"  the machine is busy (load {measured.load_at_start:.1f}): trust ratios at most")
    triggers = order.files_per_trigger or workload.files_per_trigger
    for trigger in triggers:
        measured.tick_rows[trigger] = rows_per_tick(workload, bench.folder, trigger)
        if "spark" in order.sides and order.spark_setting is None:
            again = order.recalibrate
            measured.trials[trigger] = calibrate(bench, trigger, again=again, say=say)
    reference = bench.scratch / f"{workload.name}-reference"
    for number in range(1, order.runs + 1):
        _round(
            bench,
            measured,
            order,
            triggers,
            reference,
            lambda text, n=number: say(f"  {n}: {text}"),
        )
    forget(bench.scratch)
    return measured


def _round(
    bench: Bench,
    measured: Measured,
    order: Order,
    triggers: tuple[int, ...],
    reference: Path,
    say: Say,
) -> None:
    """Each side once; DuckDB first, because the others are compared with its rows."""
    run = run_duckdb(bench)
    if "duckdb" in order.sides:
        measured.add(run, None)
        say(f"duckdb             {run.warm_s:7.2f} s, {run.summary['rows_out']:,} rows")
    shutil.rmtree(reference, ignore_errors=True)
    run.output.rename(reference)
    for trigger in triggers:
        if "spillway" in order.sides:
            _try(measured, reference, say, lambda t=trigger: run_spillway(bench, t))
        if "spark" in order.sides:
            trials = measured.trials.get(trigger)
            setting = order.spark_setting or (trials[0].setting if trials else "hdfs-v2")
            _try(measured, reference, say, lambda t=trigger, s=setting: run_spark(bench, t, s))


def _try(measured: Measured, reference: Path, say: Say, side: Callable[[], Run]) -> None:
    try:
        run = side()
    except SideError as error:
        measured.failures.append(str(error))
        say(str(error))
        return
    check = difference(run.output, reference)
    measured.add(run, check)
    memory = run.usage["memory_bytes_max"] / 1e9
    say(
        f"{run.side:<8} {run.setting:<10} fpt {run.files_per_trigger}: {run.warm_s:7.2f} s warm "
        f"(first tick {run.cold_s:.2f} s), {run.usage['cpu_s']:.1f} CPU-s, {memory:.2f} GB, {check}"
    )
    forget(run.output.parent)
