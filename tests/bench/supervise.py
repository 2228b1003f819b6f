"""Runs one command and accounts for its whole process tree: `python -m tests.bench.supervise REPORT CMD…`.

A process of its own, made the reaper of orphans (Linux), so that a JVM that outlives its launcher is waited
for and its CPU seconds are counted. Memory is the proportional set size of the tree, so that pages shared
between processes count once; files on /dev/shm that nobody has mapped are measured beside it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

SAMPLE_S = 0.25
ORPHANS_TIMEOUT_S = 30
PR_SET_CHILD_SUBREAPER = 36
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Usage:
    """What a command cost. `shm_bytes_max` is the growth of /dev/shm, everybody's files included."""

    returncode: int
    wall_s: float
    cpu_s: float
    memory_bytes_max: int
    shm_bytes_max: int
    orphans_killed: int


def _pss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _descendants() -> list[psutil.Process]:
    try:
        return psutil.Process().children(recursive=True)
    except psutil.Error:
        return []


def _shm_used() -> int:
    try:
        return psutil.disk_usage("/dev/shm").used
    except OSError:
        return 0


class Sampler(threading.Thread):
    """Looks at the tree's memory four times a second until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.memory_bytes_max = 0
        self.shm_at_start = _shm_used()
        self.shm_bytes_max = 0

    def run(self) -> None:
        while not self.done.wait(SAMPLE_S):
            total = sum(_pss_bytes(process.pid) for process in _descendants())
            self.memory_bytes_max = max(self.memory_bytes_max, total)
            self.shm_bytes_max = max(self.shm_bytes_max, _shm_used() - self.shm_at_start)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> int:
    """Reap what the command left behind; what has not ended in time is killed and counted."""
    killed, deadline = 0, time.monotonic() + ORPHANS_TIMEOUT_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return killed
        if pid:
            continue
        if time.monotonic() > deadline:
            for process in _descendants():
                process.kill()
                killed += 1
            deadline += ORPHANS_TIMEOUT_S
        time.sleep(0.02)


def supervise(command: list[str], timeout_s: float) -> Usage:
    _adopt_orphans()
    sampler = Sampler()
    sampler.start()
    started = time.monotonic()
    with subprocess.Popen(command) as process:
        try:
            returncode = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            for child in _descendants():
                child.kill()
            returncode = -9
    wall_s = time.monotonic() - started
    killed = _wait_for_orphans()
    sampler.done.set()
    sampler.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Usage(
        returncode=returncode,
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        # The largest single process, as the kernel saw it, for what ended between two looks.
        memory_bytes_max=max(sampler.memory_bytes_max, used.ru_maxrss * MAXRSS_UNIT),
        shm_bytes_max=sampler.shm_bytes_max,
        orphans_killed=killed,
    )


def main() -> int:
    report, timeout_s, command = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    usage = supervise(command, timeout_s)
    report.write_text(json.dumps(asdict(usage)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
