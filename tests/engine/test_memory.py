"""One tick with 5 × 10⁷ result rows: the whole process tree stays under 3 GB, and the count is exact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import run as command_line
from tests.engine.oracle import Case

ROOT = Path(command_line.__file__).parent
HOT = 7100  # rows of the hot key in each stream: 50.4 million results
LIMIT = 3 * 10**9
EVERY_S = 0.2


def pss(pid: int) -> int:
    """Resident memory of one process, shared pages divided among those who share them; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


class Meter(threading.Thread):
    """The largest sum over a process and all below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.process, self.peak, self.samples = psutil.Process(pid), 0, 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(EVERY_S):
            try:
                tree = [self.process.pid, *(p.pid for p in self.process.children(recursive=True))]
            except psutil.NoSuchProcess:
                return
            self.peak = max(self.peak, sum(map(pss, tree)))
            self.samples += 1


def test_fifty_million_results_in_one_tick(tmp_path: Path) -> None:
    case = Case(
        tmp_path,
        "SELECT a.k, a.v AS va, b.v AS vb FROM a JOIN b ON a.k = b.k",
        dict.fromkeys("ab", "k long, v long"),
        nodes=2,
        groups=16,
    )
    case.write()
    rng = np.random.default_rng(4)
    others = {"a": rng.integers(1, 5000, 2000), "b": rng.integers(1, 5000, 2000)}
    for stream, keys in others.items():
        keys = np.r_[np.zeros(HOT, dtype=np.int64), keys]
        case.feed(stream, 0, pa.table({"k": keys, "v": np.arange(len(keys))}))
    matches = sum(int((others["b"] == k).sum()) for k in others["a"])
    command = [sys.executable, str(ROOT / "run.py"), "query", "run", str(case.file), "--once"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    meter = Meter(process.pid)
    meter.start()
    try:
        out, err = process.communicate(timeout=240)
    finally:
        meter.done.set()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["ticks"], summary["rows_out"]) == (1, HOT * HOT + matches)
    found = [pq.ParquetFile(path) for path in case.out.glob("part-*.parquet")]
    assert sum(file.metadata.num_rows for file in found) == summary["rows_out"]
    hot = case.root / "out" / max((p.stat().st_size, p.name) for p in case.out.glob("part-*"))[1]
    sums = [0, 0]
    for batch in pq.ParquetFile(hot).iter_batches(columns=["k", "va", "vb"]):
        k, *values = (column.to_numpy() for column in batch.columns)
        sums = [total + int(v[k == 0].sum()) for total, v in zip(sums, values, strict=True)]
    assert sums == [HOT * sum(range(HOT))] * 2
    print(
        f"peak {meter.peak / 1e9:.2f} GB in {meter.samples} samples, tick {summary['tick_seconds']}"
    )
    assert meter.samples > 10 and meter.peak > 200 * 10**6, "the meter did not see the processes"
    assert meter.peak < LIMIT
