"""`python -m tests.bench.advice`: are a migration's predictions right, and is the advice?

A sweep of windows and loads that straddles the crossover between strategies. At each setting the query runs by the
clock with a bad join order, and every strategy in turn takes it to the good one; the same input once more with the good
order from the start. What control/ predicted just before stands beside what was measured; it learns from every
migration as the control plane does (control/learn.py), and the first ones, which only teach, do not count.

Wanted: lengths within 25 % in at least 80 % of runs, and the recommended strategy costs at most 10 % more than the best
one at each setting. A cost is in row·s, see advice_runs.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from control.cost.coefficients import Coefficients
from control.cost.recalibrate import Estimate, estimates_of, numbers_of
from control.learn import lesson
from control.plans import STRATEGIES
from engine.papers.live import NODES, run_live
from engine.papers.live_figure import Runner
from engine.papers.probe import row_s
from tests.bench.advice_page import write
from tests.bench.advice_runs import (
    BEGUN,
    LARGE,
    OTHERS,
    Ran,
    Seen,
    Setting,
    reference_of,
    row_of,
    seen,
    told,
)
from tests.bench.data import BENCH_DIR, ROOT

# Window, load, rows a second, partners on the later hops. What comes while a state is computed is more, and states are
# less or more, than what the engine does in another way (400 kB, 4 MB): next to these limits it may go either way, and
# nobody can predict which. Where little has to be computed, that takes less than a tick and nothing is better; the two
# settings with much to compute are on the other side of the crossover.
SWEEP = (
    (1.5, 0.75, 6000.0, OTHERS),
    (10.0, 0.75, 6000.0, OTHERS),
    (4.0, 0.5, 6000.0, OTHERS),
    (2.0, 0.5, 9000.0, OTHERS),
    (10.0, 0.3, 20000.0, OTHERS),
    (1.0, 0.3, 20000.0, OTHERS),
    (2.0, 0.3, 20000.0, LARGE),
    (10.0, 0.3, 20000.0, LARGE),
)
TEACHES = (3.0, 0.6, 6000.0, OTHERS)
LESSONS, RUNS, RUNS_FOR_RECORD = 2, 3, 3
Say = Callable[[str], None]


@dataclass
class Bench:
    """A sweep while it goes on: what was learned so far, and the runs."""

    runner: Runner
    under: Path
    say: Say
    strategies: Sequence[str] = STRATEGIES
    base: Coefficients = field(
        default_factory=lambda: Coefficients(cores=float(os.cpu_count() or 1))
    )
    runs: list[Ran] = field(default_factory=list)
    begun_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.known: Mapping[str, Estimate] = estimates_of(self.base)

    @property
    def numbers(self) -> Coefficients:
        """As learned so far."""
        return numbers_of(self.base, {n: one for n, one in self.known.items() if one.count})

    def sweep(self, settings: Sequence[Setting], teaches: Setting, runs: int, lessons: int) -> None:
        """Lessons first; then rounds of all settings, so that what drifts is in all of them alike."""
        for number in range(lessons):
            for way in self.strategies:
                self.one(teaches, way, -lessons + number)
        for number in range(runs):
            for setting in settings:
                for way in (BEGUN, *self.strategies):
                    self.one(setting, way, number)
            write(self.runs, self.known, self.under)  # for whoever cannot wait for the others

    def one(self, setting: Setting, way: str, number: int) -> Ran:
        """A run; a migration teaches."""
        found: list[Seen] = []
        chain, horizon_s = setting.chain, setting.horizon_s
        reference = self.reference(setting)
        run = run_live(
            self.runner.spark,
            chain,
            setting.line(way, self.numbers),
            self.under,
            trigger_s=0.0,
            look=lambda ran, place: found.append(seen(ran, place, reference, horizon_s)),
        )
        ran = Ran(setting, way, number, found[0], [tick.seconds for tick in run.live])
        if way != BEGUN:
            assert run.before is not None
            waits = bool(run.action["step"].get("at_once")) if run.done else False
            ran.told = told(run.before, way, self.numbers, horizon_s, at_once=waits)
            if run.done:
                ran.action = run.action
                _, self.known = lesson(row_of(run, ran.told.predicted), self.known, time.time())
        self.runs.append(ran)
        self.say(f"  {time.monotonic() - self.begun_s:5.0f} s  {number:2d} {ran}")
        return ran

    def reference(self, setting: Setting) -> Path:
        folder = self.under / "wanted" / setting.chain.key
        if not folder.is_dir():
            reference_of(setting.chain, setting.chain.make(self.under), folder)
        return folder


def measure(
    settings: Callable[[float], tuple[Sequence[Setting], Setting]],
    runs: int,
    lessons: int,
    under: Path,
    say: Say,
) -> Bench:
    """On a session of its own. `settings`: by what a row in between takes on this machine."""
    from engine.session import default_master, start_session

    spark = start_session(
        master=default_master(NODES), nodes=NODES, app_name="spillway advice", log_dir=under / "logs", light=True
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    try:
        bench = Bench(Runner(spark, under, say=say), under, say)
        took_s = row_s(bench.runner)
        say(f"a row in between takes {took_s * 1e6:.2f} µs here")
        sweep, teaches = settings(took_s)
        bench.sweep(sweep, teaches, runs, lessons)
    finally:
        spark.stop()
    return bench


def whole(row_s: float, ease: float = 1.0) -> tuple[list[Setting], Setting]:
    """The sweep. `ease`: with so much of its loads, where others use the machine too."""
    made = [
        Setting.of(window_s, ease * load, rate, row_s, others)
        for window_s, load, rate, others in (*SWEEP, TEACHES)
    ]
    return made[:-1], made[-1]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.advice")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each way at each setting")
    parser.add_argument("--lessons", type=int, default=LESSONS, help="of each strategy before")
    parser.add_argument("--window", type=float, action="append", help="only these; no record")
    parser.add_argument("--ease", type=float, default=1.0, help="so much of the loads; no record")
    options = parser.parse_args(arguments)

    def settings(row_s: float) -> tuple[Sequence[Setting], Setting]:
        sweep, teaches = whole(row_s, options.ease)
        wanted = options.window or [setting.window_s for setting in sweep]
        return [setting for setting in sweep if setting.window_s in wanted], teaches

    scratch = BENCH_DIR / "advice"
    shutil.rmtree(scratch, ignore_errors=True)
    bench = measure(settings, options.runs, options.lessons, scratch, lambda text: print(text, flush=True))  # fmt: skip
    exact = all(ran.seen.check.exact for ran in bench.runs)
    small = options.window or options.ease != 1 or options.runs < RUNS_FOR_RECORD
    record = exact and not small
    folder = ROOT / "docs" / "benchmarks" if record else BENCH_DIR / "reports"
    print(write(bench.runs, bench.known, folder).read_text())
    shutil.rmtree(scratch, ignore_errors=True)
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
