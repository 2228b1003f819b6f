"""Queries in processes of their own that are killed: begun, killed at random instants, ended, finished."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from tests.engine.oracle import Case

VICTIM = Path(__file__).with_name("victim.py")
FILES = 6


def make(root: Path, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    case = Case(
        root,
        "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k",
        dict.fromkeys("abc", "k long, v long"),
        nodes=2,
        groups=32,
    )
    case.write()
    for stream in "abc":
        for number in range(FILES):
            size = int(rng.integers(200, 800))
            keys = pa.array(rng.integers(0, 400, size), mask=rng.random(size) < 0.02)
            case.feed(
                stream, number, pa.table({"k": keys, "v": pa.array(rng.integers(0, 99, size))})
            )
    return case


def start(case: Case, point: str, version: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, str(VICTIM), str(case.file), point, str(version)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the process, then end what it left behind (its JVM and workers), by pid."""
    out, err = process.communicate(timeout=300)
    left = [p for p in psutil.process_iter(["pid"]) if _session(p.pid) == process.pid]
    for child in left:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended by itself
            child.kill()
    psutil.wait_procs(left, timeout=30)
    return process.returncode, out, err


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def finish(case: Case, sql: Callable[[], str] = lambda: "") -> None:
    """Run to the end, and compare with what `sql` asks DuckDB (without: the query itself)."""
    code, _, err = end(start(case, "never"))
    assert code == 0, err[-2000:]
    assert case.check(sql() or None) > 1000
    assert not list(case.out.glob(".part*")), "staged files are left"


def strike(case: Case, rng: random.Random, kills: int) -> None:
    """Start the query and kill it, so many times."""
    for _ in range(kills):
        process = start(case, "never")
        marker = case.checkpoint / "commits"
        wait_for(process, marker, rng)
        os.killpg(process.pid, signal.SIGKILL) if rng.random() < 0.5 else process.kill()
        end(process)


def rounds_of_kills(
    root: Path, make: Callable[[Path, int], Case], finish: Callable[[Case], None], rounds: int = 20
) -> None:
    """Another query each round, killed five times, then let end and checked."""
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    for round_ in range(rounds):
        (folder := root / str(round_)).mkdir()
        case = make(folder, seed + round_)
        strike(case, random.Random(seed + round_), kills=5)
        finish(case)


def wait_for(process: subprocess.Popen[str], commits: Path, rng: random.Random) -> None:
    """Some instant after the session has come up: a number of commits later, and then a little more."""
    have = len(list(commits.glob("commit-*"))) if commits.exists() else 0
    more = rng.randint(0, 2)
    for _ in range(1200):
        now = len(list(commits.glob("commit-*"))) if commits.exists() else 0
        if process.poll() is not None or now >= have + more:
            break
        pause(0.05)
    pause(rng.uniform(0, 0.8) if more else rng.uniform(2, 9))


def pause(seconds: float) -> None:
    import time

    time.sleep(seconds)
