"""`make bench-parts`: what parts of a tick cost, seen on queries that differ in that part alone.

*Exchange*: a join of three streams as a tree of two joins; once all on one key (fused: one shuffle), once with
the upper join on a second column that holds the same values (two shuffles). Same rows, same results.
*Expiry*: a window join with 10 M rows of state: the time a tick spends on finding, dropping and deleting
what the watermark has passed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.figures import spread
from tests.bench.report import machine
from tests.bench.sides import forget, supervised

RUNS_FOR_RECORD = 3
EXPIRY_SHARE_MOST = 0.05
STATE_ROWS = 10_000_000
START_US = 1_700_000_000_000_000
FUSED = "SELECT a.va, b.vb, c.vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
HOPPED = "SELECT a.va, b.vb, c.vc FROM a JOIN b ON a.k = b.k JOIN c ON b.q = c.k"


@dataclass(frozen=True)
class Hop:
    """Median seconds of a warm tick without and with a second exchange."""

    rows_per_tick: int
    fused_s: float
    hopped_s: float

    @property
    def ms(self) -> float:
        return 1000 * (self.hopped_s - self.fused_s)


@dataclass(frozen=True)
class Expiry:
    """Of the ticks that expired something: how long they took, and how much of it expiry was."""

    state_rows: int
    tick_s: float
    expiry_s: float

    @property
    def share(self) -> float:
        return self.expiry_s / self.tick_s


def feed(folder: Path, streams: str, rows: int, files: int, keys: int, spacing_us: int) -> None:
    """Files of rows with a key, the same key again as q, a time and a value."""
    rng = np.random.default_rng(11)
    for name in streams:
        (folder / name).mkdir(parents=True)
        for number in range(files):
            k = rng.integers(0, keys, rows)
            first = number * rows
            ts = START_US + (first + np.arange(rows)) * spacing_us
            columns = {"k": k, "q": k, "ts": ts, f"v{name}": first + np.arange(rows)}
            table = pa.table({c: pa.array(v, type=pa.int64()) for c, v in columns.items()})
            at = table.schema.get_field_index("ts")
            table = table.set_column(at, "ts", table["ts"].cast(pa.timestamp("us", tz="UTC")))
            pq.write_table(table, folder / name / f"{number:04d}.parquet")


def query(folder: Path, streams: str, sql: str, extra: str) -> Path:
    lines = ['name = "part"', f'sql = "{sql}"', "nodes = 2", "groups = 64", extra]
    lines.append('checkpoint = "checkpoint"')
    for name in streams:
        lines += [
            f"[streams.{name}]",
            f'format = "parquet"\npath = "{name}"',
            f'schema = "k long, q long, ts timestamp, v{name} long"',
            'time = "ts"\nwatermark = "1 second"',
            'options = { maxFilesPerTrigger = "1" }',
        ]
    lines += ['[sink]\nformat = "parquet"\npath = "out"', ""]
    path = folder / "query.toml"
    path.write_text("\n".join(lines))
    return path


def fresh(folder: Path) -> None:
    for name in ("checkpoint", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)


def hop(folder: Path, rows: int) -> Hop:
    """One run of each, on the same files."""
    seconds = []
    for sql in (FUSED, HOPPED):
        fresh(folder)
        extra = 'window = "10 minutes"\njoin_order = "((a b) c)"'
        command = [sys.executable, "run.py", "query", "run", str(query(folder, "abc", sql, extra))]
        summary, _ = supervised("spillway", [*command, "--once"], folder)
        seconds.append(median(summary["tick_seconds"][1:]))
    return Hop(3 * rows, *seconds)


def expiry(folder: Path, state_rows: int) -> Expiry:
    """In a process of its own, which prints what it measured."""
    fresh(folder)
    path = query(
        folder,
        "ab",
        "SELECT a.va, b.vb FROM a JOIN b ON a.k = b.k",
        f'window = "{state_rows // 2 // 1000} milliseconds"',
    )
    command = [sys.executable, "-m", "tests.bench.parts", "--inside", str(path)]
    found, _ = supervised("spillway", command, folder)
    return Expiry(found["state_rows"], found["tick_s"], found["expiry_s"])


def inside(path: Path) -> dict[str, Any]:
    """Run a query here, with a clock around whatever expiry does."""
    from engine import runner, tidy, watermarks
    from engine.query.file import read_query
    from engine.reports import TickReport
    from engine.settings import Settings
    from engine.state.model import Manifest

    spent = 0.0
    ticks: list[tuple[float, float, int]] = []
    rows = 0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent += time.perf_counter() - started

        return call

    class Port:
        def publish(self, report: TickReport) -> None:
            nonlocal spent, rows
            rows = max(rows, report.memory_bytes)
            ticks.append((report.seconds, spent, report.memory_bytes))
            spent = 0.0

    watermarks.expired = timed(watermarks.expired)
    setattr(Manifest, "without", timed(Manifest.without))  # noqa: B010
    tidy.drop = timed(tidy.drop)
    runner.run(read_query(path), once=True, master=None, settings=Settings.load({}), ports=[Port()])
    full = [one for one in ticks if one[2] > 0.9 * rows]
    return {
        "state_rows": int(rows / 32),  # hash, key, time, value: eight bytes each
        "tick_s": median(one[0] for one in full),
        "expiry_s": median(one[1] for one in full),
    }


def page(hops: list[list[Hop]], found: list[Expiry]) -> str:
    about = machine()
    lines = [
        "# What parts of a tick cost",
        "",
        f"Written by `make bench-parts`; {about['cores']} cores, {about['memory_gib']} GiB, commit "
        f"{about['commit']}. Runs interleaved, median (range) over {len(found)} runs.",
        "",
        "## An exchange",
        "",
        "Three streams, two joins; fused on one key, or with a second shuffle for the upper join's key.",
        "",
        "| rows in per tick | fused, s a tick | with a hop, s a tick | a hop, ms |",
        "|---|---|---|---|",
    ]
    for some in hops:
        fused, hopped = spread([h.fused_s for h in some]), spread([h.hopped_s for h in some])
        lines.append(
            f"| {some[0].rows_per_tick:,} | {fused} | {hopped} | {spread([h.ms for h in some])} |"
        )
    share = spread([100 * one.share for one in found])
    reached = max(one.share for one in found) <= EXPIRY_SHARE_MOST
    lines += [
        "",
        "## Expiry",
        "",
        f"A window join of two streams with {found[0].state_rows:,} rows of state: {share} % of a tick "
        f"({spread([1000 * one.expiry_s for one in found])} ms of {spread([one.tick_s for one in found])} s); "
        f"wanted < {100 * EXPIRY_SHARE_MOST:g} %: {'reached' if reached else '**missed**'}.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-parts ARGS=…")
    parser.add_argument("--runs", type=int, default=RUNS_FOR_RECORD)
    parser.add_argument("--state-rows", type=int, default=STATE_ROWS)
    parser.add_argument("--hop-rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(inside(options.inside)))
        return 0
    scratch = BENCH_DIR / "parts"
    shutil.rmtree(scratch, ignore_errors=True)
    hops: list[list[Hop]] = []
    for rows in options.hop_rows:
        folder = scratch / f"hop-{rows}"
        feed(folder, "abc", rows, files=20, keys=10 * rows, spacing_us=1000)
        hops.append([hop(folder, rows) for _ in range(options.runs)])
        print(
            f"  a hop at {3 * rows:,} rows a tick: {[round(h.ms) for h in hops[-1]]} ms", flush=True
        )
    folder, half = scratch / "expiry", options.state_rows // 2
    feed(folder, "ab", half // 20, files=30, keys=100 * half, spacing_us=1)
    found = [expiry(folder, options.state_rows) for _ in range(options.runs)]
    print(f"  expiry: {[f'{100 * one.share:.1f} %' for one in found]}", flush=True)
    whole = options.runs >= RUNS_FOR_RECORD and options.state_rows >= STATE_ROWS
    target = ROOT / "docs" / "benchmarks" if whole else BENCH_DIR / "reports"
    target.mkdir(parents=True, exist_ok=True)
    (target / "parts.md").write_text(page(hops, found))
    figures = {
        "hops": [[asdict(h) for h in some] for some in hops],
        "expiry": [asdict(e) for e in found],
    }
    (target / "parts.json").write_text(json.dumps(figures, indent=1) + "\n")
    forget(scratch)
    print((target / "parts.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
