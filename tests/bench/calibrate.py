"""Spark's best settings for a workload: every candidate is tried once, the answer is kept.

All figures go into the report, so that nobody has to believe that the other side was treated well.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tests.bench.data import BENCH_DIR
from tests.bench.sides import Bench, SideError, run_spark
from tests.bench.spark_side import SETTINGS

GIVE_UP_FACTOR = 1.5  # a candidate this much slower than the best so far is not run to its end
STARTUP_ALLOWANCE_S = 10.0


@dataclass(frozen=True)
class Trial:
    """One candidate: its warm seconds, or why there are none."""

    setting: str
    warm_s: float | None
    cold_s: float | None
    note: str


def _try(bench: Bench, files_per_trigger: int, setting: str, best_s: float | None) -> Trial:
    limit_s = None if best_s is None else GIVE_UP_FACTOR * best_s + STARTUP_ALLOWANCE_S
    try:
        run = run_spark(bench, files_per_trigger, setting, limit_s)
    except SideError as error:
        lines = [line for line in str(error).splitlines() if "Error" in line or "Exception" in line]
        return Trial(setting, None, None, "failed: " + (lines or [str(error)])[-1].strip()[:160])
    if run.summary["stopped"]:
        return Trial(setting, None, run.cold_s, f"stopped after {run.summary['seconds']:.0f} s")
    return Trial(setting, run.warm_s, run.cold_s, "")


def calibrate(
    bench: Bench,
    files_per_trigger: int,
    *,
    again: bool = False,
    say: Callable[[str], None] = print,
    keep_in: Path = BENCH_DIR,
) -> list[Trial]:
    """The trials, best first. Kept per workload, size, trigger, PySpark version and machine."""
    key = f"{bench.workload.key}-fpt{files_per_trigger}-{version('pyspark')}-{platform.node()}"
    path = keep_in / "calibration" / f"{key}.json"
    if path.exists() and not again:
        return [Trial(**trial) for trial in json.loads(path.read_text())]
    trials: list[Trial] = []
    for setting in SETTINGS:
        best_s = min((trial.warm_s for trial in trials if trial.warm_s is not None), default=None)
        trial = _try(bench, files_per_trigger, setting, best_s)
        took = f"{trial.warm_s:.2f} s warm" if trial.warm_s is not None else trial.note
        say(f"  calibration: spark {setting}: {took}")
        trials.append(trial)
    trials.sort(key=lambda trial: (trial.warm_s is None, trial.warm_s or 0.0))
    if trials[0].warm_s is None:
        raise SideError(f"Spark finished with no setting: {[trial.note for trial in trials]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(trial) for trial in trials], indent=1))
    return trials
