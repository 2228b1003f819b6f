"""`make bench-recovery`: a query with ≥ 1 GB of state is killed and started again; how long until it is back?

Measured from outside, whatever the engine does when: (start-up + first tick) of the restart, less the same of
a start with no state on the same number of new rows. That is compared with reading the state's files from
disk, the page cache dropped before each of the three.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import psutil

from tests.bench.data import BENCH_DIR, ROOT, inputs
from tests.bench.report import machine
from tests.bench.sides import Bench, environment, forget, query_file, spillway_exists, supervised
from tests.bench.workloads import RECOVERY, Workload

BYTES_PER_ROW = 24  # hash, key, value
TICKS_LEFT = 2
RATIO_MOST = 2.0
BUILD_TIMEOUT_S = 1800.0
READ_BYTES = 8 << 20
RUNS_FOR_RECORD = 3


@dataclass(frozen=True)
class Recovery:
    """Seconds of one restart and of what it is compared with."""

    state_bytes: int
    read_s: float
    restart_s: float
    empty_s: float

    @property
    def recovery_s(self) -> float:
        return self.restart_s - self.empty_s

    @property
    def ratio(self) -> float:
        return self.recovery_s / self.read_s


class CannotMeasureError(Exception):
    """Something without which the figures would say nothing."""


def drop_page_cache() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as error:
        raise CannotMeasureError(
            f"RECOVERY NOT MEASURED: the page cache cannot be dropped ({error}); run as root on Linux"
        ) from error


def state_files(checkpoint: Path) -> list[Path]:
    """Arrow files of the state; whatever else lies there is small."""
    found = sorted(checkpoint.rglob("*.arrow"))
    return found or sorted(path for path in checkpoint.rglob("*") if path.is_file())


def read_seconds(files: list[Path]) -> float:
    buffer = bytearray(READ_BYTES)
    started = time.perf_counter()
    for path in files:
        with open(path, "rb", buffering=0) as source:
            while source.readinto(buffer):
                pass
    return time.perf_counter() - started


def published_tick(out: Path) -> int:
    numbers = [re.match(r"part-0*(\d+)", path.name) for path in out.glob("part-*")]
    return max((int(number[1]) for number in numbers if number), default=-1)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """kill −9 for the driver first, as a crash would, then for the JVM and the workers it leaves."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, timeout=30)


def build_and_kill(query: Path, ticks: int) -> None:
    """Run until all but the last ticks are published, then kill −9."""
    command = [sys.executable, "run.py", "query", "run", str(query), "--once"]
    log = query.with_name("build.log")
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=errors, stderr=errors
        )
        deadline, shown = time.monotonic() + BUILD_TIMEOUT_S, -1
        while (tick := published_tick(query.parent / "out")) < ticks - 1 - TICKS_LEFT:
            if process.poll() is not None or time.monotonic() > deadline:
                if process.poll() is None:
                    kill_tree(process)
                tail = log.read_text(errors="replace")[-1500:]
                raise CannotMeasureError(f"the build ended at tick {tick} of {ticks}:\n{tail}")
            if tick >= shown + 5:
                shown = tick
                print(f"  building: tick {tick} of {ticks}", flush=True)
            time.sleep(0.1)
        kill_tree(process)


def until_first_tick(query: Path) -> float:
    drop_page_cache()
    command = [sys.executable, "run.py", "query", "run", str(query), "--once"]
    summary, _ = supervised("spillway", command, query.parent)
    if not summary["tick_seconds"]:
        raise CannotMeasureError(f"no tick was left for the restart: {summary}")
    return float(summary["seconds_startup"]) + float(summary["tick_seconds"][0])


def last_files(workload: Workload, folder: Path, place: Path) -> Path:
    """An input folder with only the files of the last ticks."""
    for stream in workload.streams:
        (place / stream.name).mkdir(parents=True)
        for path in sorted((folder / stream.name).glob("*.parquet"))[-TICKS_LEFT:]:
            os.link(path, place / stream.name / path.name)
    return place


def fresh_copy(saved: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(saved, place)


def measure(workload: Workload, runs: int) -> list[Recovery]:
    drop_page_cache()  # before the long part: say at once if it cannot be
    bench = Bench(workload, inputs(workload))
    place, empty = bench.fresh("killed"), bench.fresh("empty")
    query = query_file(bench, 1, place)
    few = replace(bench, folder=last_files(workload, bench.folder, empty / "inputs"))
    query_of_few = query_file(few, 1, empty)
    try:
        build_and_kill(query, workload.ticks(1))
        saved = bench.scratch / "saved"
        shutil.copytree(place, saved)
        found = []
        for number in range(1, runs + 1):
            fresh_copy(saved, place)
            files = state_files(place / "checkpoint")
            drop_page_cache()
            read_s = read_seconds(files)
            restart_s = until_first_tick(query)
            for leftover in ("out", "checkpoint"):
                shutil.rmtree(empty / leftover, ignore_errors=True)
            empty_s = until_first_tick(query_of_few)
            size = sum(path.stat().st_size for path in state_files(saved / "checkpoint"))
            found.append(Recovery(size, read_s, restart_s, empty_s))
            print(f"  {number}: {describe(found[-1])}", flush=True)
        return found
    finally:
        forget(bench.scratch)


def describe(one: Recovery) -> str:
    return (
        f"{one.state_bytes / 1e9:.2f} GB read in {one.read_s:.2f} s; restart to first tick "
        f"{one.restart_s:.2f} s, without state {one.empty_s:.2f} s: recovery {one.recovery_s:.2f} s "
        f"= {one.ratio:.2f} × reading"
    )


def verdict(found: list[Recovery]) -> str:
    """Over the medians; no verdict where start-up alone varies by more than the reading takes."""
    empty = [one.empty_s for one in found]
    read_s, noise_s = median(one.read_s for one in found), max(empty) - min(empty)
    recovery_s = median(one.restart_s for one in found) - median(empty)
    text = (
        f"Recovery {recovery_s:.2f} s = {recovery_s / read_s:.2f} × the time to read the state; "
        f"wanted ≤ {RATIO_MOST:g} ×; starts without state varied by {noise_s:.2f} s: "
    )
    if noise_s > read_s:
        return text + "**too noisy to tell**."
    return text + ("reached." if recovery_s <= RATIO_MOST * read_s else "**missed**.")


def page(found: list[Recovery]) -> str:
    about = machine()
    rows = [
        f"| {one.state_bytes / 1e9:.2f} | {one.read_s:.2f} | {one.restart_s:.2f} | {one.empty_s:.2f} | "
        f"{one.recovery_s:.2f} | {one.ratio:.2f} |"
        for one in found
    ]
    return "\n".join(
        [
            f"# {RECOVERY.title}",
            "",
            f"Written by `make bench-recovery`; {about['cores']} cores, {about['memory_gib']} GiB, "
            f"commit {about['commit']}. Page cache dropped before each reading and each start.",
            "",
            verdict(found),
            "",
            "| state GB | read s | restart to first tick s | the same without state s | recovery s | ratio |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-recovery ARGS=…")
    parser.add_argument("--gigabytes", type=float, default=1.1, help="state to build (default 1.1)")
    parser.add_argument("--runs", type=int, default=RUNS_FOR_RECORD)
    options = parser.parse_args(arguments)
    if not spillway_exists():
        print("bench: there is no run.py here")
        return 2
    rows = int(options.gigabytes * 1e9 / BYTES_PER_ROW / len(RECOVERY.streams))
    # A tenth more: the last ticks come after the kill.
    workload = RECOVERY.scaled(int(rows * 1.1))
    print(f"{workload.title}: {len(workload.streams)} × {workload.rows:,} rows")
    try:
        found = measure(workload, options.runs)
    except CannotMeasureError as error:
        print(error)
        return 2
    whole = options.runs >= RUNS_FOR_RECORD and min(one.state_bytes for one in found) >= 1e9
    folder = ROOT / "docs" / "benchmarks" if whole else BENCH_DIR / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recovery.md").write_text(page(found))
    (folder / "recovery.json").write_text(
        json.dumps([asdict(one) for one in found], indent=1) + "\n"
    )
    print(verdict(found))
    print(f"written: {(folder / 'recovery.md').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
