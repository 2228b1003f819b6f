"""`make bench`: measures workloads side by side, prints ratios, writes docs/benchmarks/<workload>.*

Exit code 1 when a side fails or gives wrong rows; a bar that is missed is shown, not failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.figures import verdicts
from tests.bench.report import sides_table, trials_table, verdict_table, write
from tests.bench.rounds import Measured, Order, measure
from tests.bench.sides import spillway_exists
from tests.bench.spark_side import SETTINGS
from tests.bench.workloads import WORKLOADS

DEFAULT = ("tri", "skew", "window2", "chain4")
SIDES = ("spillway", "spark", "duckdb")
RUNS_FOR_RECORD = 3


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], metavar="WORKLOAD")
    parser.add_argument("--runs", type=int, default=RUNS_FOR_RECORD, help="rounds (default 3)")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rows", type=int, help="rows per stream, instead of the workload's")
    parser.add_argument("--fpt", type=int, action="append", help="files per trigger (repeatable)")
    parser.add_argument("--side", action="append", choices=SIDES, help="only these (repeatable)")
    parser.add_argument("--recalibrate", action="store_true", help="look for Spark's best anew")
    parser.add_argument("--spark-setting", choices=list(SETTINGS), help="no calibration, use this")
    parser.add_argument("--spark-memory", help="heap of Spark's side (default: 60 %% of memory)")
    parser.add_argument("--out", type=Path, help="where reports go")
    return parser.parse_args(arguments)


def order_of(options: argparse.Namespace) -> Order:
    return Order(
        runs=1 if options.quick else options.runs,
        sides=tuple(options.side or SIDES),
        files_per_trigger=tuple(options.fpt or ()),
        recalibrate=options.recalibrate,
        spark_memory=options.spark_memory,
        spark_setting=options.spark_setting,
    )


def for_the_record(options: argparse.Namespace, order: Order, measured: Measured) -> bool:
    """Only full-size runs of all sides may replace the figures in docs/."""
    whole = order.runs >= RUNS_FOR_RECORD and set(order.sides) == set(SIDES)
    custom = options.rows or options.fpt or options.spark_setting
    return whole and not custom and measured.exact


def show(measured: Measured) -> None:
    for lines in (sides_table(measured), trials_table(measured), verdict_table(measured)):
        print("\n" + "\n".join(lines))
    missed = [verdict.name for verdict in verdicts(measured) if not verdict.reached]
    print("\n" + (f"bars missed: {'; '.join(missed)}" if missed else "no bar missed"))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    order = order_of(options)
    if "spillway" in order.sides and not spillway_exists():
        print("bench: there is no run.py here; --side spark --side duckdb measures the others")
        return 2
    good = True
    for name in options.workloads or DEFAULT:
        workload = WORKLOADS[name]
        if options.rows:
            workload = workload.scaled(options.rows)
        measured = measure(workload, order, lambda text: print(text, flush=True))
        show(measured)
        default = ROOT / "docs" / "benchmarks"
        if not for_the_record(options, order, measured):
            default = BENCH_DIR / "reports"
        path = write(measured, options.out or default)
        print(f"written: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}\n")
        good = (
            good
            and not measured.failures
            and all(check.exact for checks in measured.checks.values() for check in checks)
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
