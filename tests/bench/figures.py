"""From runs to figures: ratios with their spread, the bars, growth of a tick. No files, no printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.rounds import Measured
from tests.bench.sides import Run
from tests.bench.workloads import Bar

GROWTH_MOST = 1.5
MEMORY_BYTES_MOST = 4e9  # of the whole process tree, W1 with 5 files per trigger


@dataclass(frozen=True)
class Spread:
    """Median, least and most of some runs."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.middle:.2f}"
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"


def spread(values: Sequence[float]) -> Spread | None:
    return Spread(median(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Verdict:
    """One bar: what was measured, what was wanted, whether it was reached."""

    name: str
    measured: str
    wanted: str
    reached: bool


def ratios(slow: list[Run], fast: list[Run]) -> Spread | None:
    """Warm seconds, round by round: both runs of a pair saw the same machine."""
    pairs = list(zip(slow, fast, strict=False))
    return spread([a.warm_s / b.warm_s for a, b in pairs if b.warm_s > 0])


def growth(run: Run, tick_rows: list[int]) -> float | None:
    """Seconds per row of input plus output: the last 5 ticks against ticks 5 to 10."""
    if len(run.ticks_s) < 15 or len(run.ticks_s) != len(tick_rows):
        return None
    early_s, early_rows = sum(run.ticks_s[4:10]), sum(tick_rows[4:10])
    late_s, late_rows = sum(run.ticks_s[-5:]), sum(tick_rows[-5:])
    return (late_s / late_rows) / (early_s / early_rows)


def _throughput(measured: Measured, trigger: int, bar: Bar) -> Verdict | None:
    found = ratios(measured.of("spark", trigger), measured.of("spillway", trigger))
    if found is None:
        return None
    name = f"throughput against Spark, {trigger} file(s) per trigger"
    wanted = f"≥ {bar.least:g} ×, aim {bar.aim:g} ×"
    return Verdict(name, f"{found} ×", wanted, found.middle >= bar.least)


def _limit(measured: Measured, trigger: int, bar: Bar) -> Verdict | None:
    found = ratios(measured.of("spillway", trigger), measured.of("duckdb", 0))
    if found is None:
        return None
    name = f"distance to DuckDB, {trigger} file(s) per trigger"
    wanted = f"≤ {bar.least:g} ×, aim {bar.aim:g} ×"
    return Verdict(name, f"{found} ×", wanted, found.middle <= bar.least)


def _growth(measured: Measured, trigger: int) -> Verdict | None:
    runs = measured.of("spillway", trigger)
    found = spread([g for run in runs if (g := growth(run, measured.tick_rows[trigger]))])
    if found is None:
        return None
    name = f"tick time per row, last 5 ticks against 5–10, {trigger} file(s) per trigger"
    return Verdict(name, f"{found} ×", f"≤ {GROWTH_MOST} ×", found.middle <= GROWTH_MOST)


def _state(measured: Measured, trigger: int) -> Verdict | None:
    runs = measured.of("spillway", trigger)
    if not runs or measured.workload.tree:
        return None
    limit = measured.workload.state_bytes_limit(trigger)
    most = max(run.summary["state_bytes"] + run.summary.get("spilled_bytes", 0) for run in runs)
    wanted = f"≤ {limit / 1e6:.1f} MB (1.3 × columns + 16 B/row)"
    name = f"state size, {trigger} file(s) per trigger"
    return Verdict(name, f"{most / 1e6:.1f} MB", wanted, 0 < most <= limit)


def _memory(measured: Measured) -> Verdict | None:
    runs = measured.of("spillway", 5)
    if measured.workload.name != "tri" or not runs:
        return None
    most = max(memory_bytes(run) for run in runs)
    name = "peak memory of the process tree with its files on /dev/shm, 5 files per trigger"
    return Verdict(name, f"{most / 1e9:.2f} GB", "≤ 4 GB", most <= MEMORY_BYTES_MOST)


def memory_bytes(run: Run) -> int:
    """The tree's peak plus the growth of /dev/shm: mapped files may count twice, none is left out."""
    return int(run.usage["memory_bytes_max"]) + int(run.usage["shm_bytes_max"])


def verdicts(measured: Measured) -> list[Verdict]:
    found: list[Verdict | None] = []
    for trigger in measured.tick_rows:
        if bar := measured.workload.spark_bars.get(trigger):
            found.append(_throughput(measured, trigger, bar))
        if bar := measured.workload.duckdb_bars.get(trigger):
            found.append(_limit(measured, trigger, bar))
        found.append(_growth(measured, trigger))
        found.append(_state(measured, trigger))
    found.append(_memory(measured))
    return [verdict for verdict in found if verdict]
