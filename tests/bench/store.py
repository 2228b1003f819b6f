"""`make bench-store`: a week's store — size, a tick's writes, every read of its metrics and pages.

Exit code 1 when a read gives nothing; a bar that is missed is shown, not failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from db.maintenance import about, checkpoint
from db.open import Store, open_store
from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.report import machine
from tests.bench.store_api import console_over, gets
from tests.bench.store_fill import DEMO, END_S, FULL, HOUR_S, QUERY, Scale, World, fill, tidied

WRITE_MS_MOST = 15.0
READ_MS_MOST = 100.0
BYTES_MOST = {"full": 2_000_000_000, "demo": 150_000_000}
TICKS = 300
READS = 40
DAY_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class Times:
    """Of many calls of one thing."""

    name: str
    p50_ms: float
    p95_ms: float
    most_ms: float
    got: int  # points, rows; of the last call

    @staticmethod
    def of(name: str, calls: Sequence[Callable[[], int]]) -> Times:
        taken, got = [], 0
        for call in calls:
            started = time.perf_counter()
            got = call()
            taken.append(1000 * (time.perf_counter() - started))
        p50, p95 = np.percentile(taken, [50, 95])
        return Times(name, float(p50), float(p95), max(taken), got)


@dataclass(frozen=True, slots=True)
class Measured:
    """One store."""

    scale: Scale
    fill_s: float
    ledger_bytes: int
    metrics_bytes: int
    wal_bytes_per_tick: int
    writes: Times
    checkpoint: Times
    tidy: Times
    reads: tuple[Times, ...]
    api: tuple[Times, ...] = ()

    @property
    def bytes(self) -> int:
        return self.ledger_bytes + self.metrics_bytes

    @property
    def whole(self) -> bool:
        """Every read found something."""
        return all(read.got for read in (*self.reads, *self.api))


def measure(scale: Scale, folder: Path, tell: Callable[[str], None]) -> Measured:
    shutil.rmtree(folder, ignore_errors=True)
    store = open_store(folder, create=True)
    started = time.perf_counter()
    world = fill(store, scale, tell)
    fill_s = time.perf_counter() - started
    size = about(store)
    writes, wal_bytes = _writes(store, world)
    done = Measured(
        scale,
        fill_s,
        size.ledger_bytes,
        size.metrics_bytes,
        wal_bytes,
        writes,
        Times.of("checkpoint of those ticks", [lambda: _checkpointed(store)]),
        _tidies(store, world),
        _reads(store, scale),
    )
    store.close()
    return replace(done, api=_api(folder, scale))


def _api(folder: Path, scale: Scale) -> tuple[Times, ...]:
    """The same over the API, one request at a time; `got` is bytes."""
    console = console_over(folder, scale)
    try:
        every = gets(console, scale).items()
        return tuple(
            Times.of(name, [lambda n=n, get=get: get(n) for n in range(READS)])  # type: ignore[misc]
            for name, get in every
        )
    finally:
        console.store.close()


def _writes(store: Store, world: World) -> tuple[Times, int]:
    """Ticks one by one, as the recorder writes them; what is written is made before."""
    samples = [world.sample(END_S + 10 + i, world.snapshot(END_S + 10 + i)) for i in range(TICKS)]

    def write(number: int) -> int:
        store.metrics.write([samples[number]])
        return 1

    calls = [lambda number=number: write(number) for number in range(TICKS)]
    times = Times.of("a tick's writes", calls)
    return times, about(store).wal_bytes // TICKS


def _checkpointed(store: Store) -> int:
    return sum(one.done for one in checkpoint(store))


def _tidies(store: Store, world: World) -> Times:
    """At each of an hour's last five minutes; the last one lays an hour out."""

    def run(number: int) -> int:
        tidied(store, END_S + HOUR_S - 1500 + 306 * number)
        return 1

    for minute in range(6, 60):
        at = END_S + 60 * minute
        shot = world.snapshot(at)
        store.metrics.write(
            [world.sample(at + second, replace(shot, time_s=at)) for second in range(60)]
        )
    return Times.of("tidy, each 5 minutes", [lambda n=n: run(n) for n in range(6)])


def _reads(store: Store, scale: Scale) -> tuple[Times, ...]:
    """Each with other arguments every time, ending near the end of what there is."""
    metrics, groups = store.metrics, np.random.default_rng(1).integers(0, scale.groups, READS)
    now = [END_S + HOUR_S - 7 * number for number in range(READS)]
    found: list[Times] = []

    def add(name: str, read: Callable[[int], int]) -> None:
        found.append(Times.of(name, [lambda n=n: read(n) for n in range(READS)]))

    add("newest", lambda n: metrics.newest(QUERY) is not None)
    for title, span_s in (
        ("15 min", 900),
        ("1 h", HOUR_S),
        ("6 h", 6 * HOUR_S),
        ("24 h", DAY_S),
        ("7 d", 7 * DAY_S),
    ):
        if span_s <= scale.hours * HOUR_S:
            _series(add, store, title, span_s, now, groups)
    add("snapshots, 1 h", lambda n: len(metrics.snapshots(QUERY, now[n] - HOUR_S, now[n])))
    add("changes", lambda n: len(metrics.changes(QUERY, most=100 + n)))
    ids = [
        f"{number:08d}"
        for number in range(scale.audit // 2, scale.audit, scale.audit // scale.actions)
    ]
    before = [ids[n % len(ids)] for n in range(READS)]
    add("audit, a page", lambda n: len(store.audit.page(before=scale.audit - n)))
    add("audit of a user, a page", lambda n: len(store.audit.page(user=f"user{n % 7}")))
    add("commands, a page", lambda n: len(store.commands.page(before=before[n], query=QUERY)))
    add("actions, a page", lambda n: len(store.actions.page(before=before[n])))
    add("actions of a state, a page", lambda n: len(store.actions.page(state="done", most=50 + n)))
    add("what 24 h used", lambda n: store.actions.used(END_S - DAY_S - n).bytes)
    add("evaluations, a page", lambda n: len(store.rules.evaluations(rule=f"rule{n % 5}")))
    return tuple(found)


def _series(
    add: Callable[[str, Callable[[int], int]], None],
    store: Store,
    title: str,
    span_s: float,
    now: Sequence[float],
    groups: Any,
) -> None:
    metrics = store.metrics
    add(
        f"node series, {title}",
        lambda n: len(metrics.node_series(QUERY, now[n] - span_s, now[n]).time_s),
    )
    add(
        f"query series, {title}",
        lambda n: len(metrics.query_series(QUERY, now[n] - span_s, now[n]).time_s),
    )
    add(
        f"history of a group, {title}",
        lambda n: len(
            metrics.group_history(QUERY, "join", int(groups[n]), now[n] - span_s, now[n]).time_s
        ),
    )


def bars(some: Sequence[Measured]) -> list[tuple[str, str, str, bool]]:
    """What was wanted: of what, measured, wanted, reached."""
    rows = []
    for one in some:
        name, most = one.scale.name, BYTES_MOST[one.scale.name]
        slowest = max(one.reads, key=lambda read: read.p95_ms)
        size = f"{one.bytes / 1e6:,.0f} MB"
        reads = [
            read for read in one.api if "/export/" not in read.name
        ]  # files to keep, not to look at
        api = max(reads, key=lambda read: read.p95_ms)
        rows += [
            (
                f"{name}: {one.scale.hours // 24} days",
                size,
                f"≤ {most / 1e6:,.0f} MB",
                one.bytes <= most,
            ),
            (
                f"{name}: a tick's writes, p95",
                f"{one.writes.p95_ms:.1f} ms",
                f"≤ {WRITE_MS_MOST:g} ms",
                one.writes.p95_ms <= WRITE_MS_MOST,
            ),
            (
                f"{name}: slowest read, p95 ({slowest.name})",
                f"{slowest.p95_ms:.0f} ms",
                f"< {READ_MS_MOST:g} ms",
                slowest.p95_ms < READ_MS_MOST,
            ),
            (
                f"{name}: slowest read of the API, p95 ({api.name})",
                f"{api.p95_ms:.0f} ms",
                f"< {READ_MS_MOST:g} ms",
                api.p95_ms < READ_MS_MOST,
            ),
        ]
    return rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def page(some: Sequence[Measured], about_it: dict[str, Any]) -> str:
    lines = [
        "# The store after a week",
        "",
        f"Written by `make bench-store`; {about_it['cores']} cores, {about_it['memory_gib']} GiB, SQLite "
        f"{about_it['sqlite']}, commit {about_it['commit']}. A sample a second; every figure of every group "
        "and node differs from tick to tick. Reads are done one by one, the files being in the page cache. "
        "The API is asked in its own process, without a network; its bar leaves out CSV exports.",
        "",
        "## Bars",
        "",
        *_table(
            ["bar", "measured", "wanted", ""],
            [[n, m, w, "reached" if good else "**missed**"] for n, m, w, good in bars(some)],
        ),
    ]
    for one in some:
        s = one.scale
        every = (one.writes, one.checkpoint, one.tidy, *one.reads)
        lines += [
            "",
            f"## {s.nodes} nodes, {s.groups:,} groups, {s.hours // 24} days",
            "",
            f"ledger.db {one.ledger_bytes / 1e6:.1f} MB ({s.actions:,} actions, {s.audit:,} lines of audit), "
            f"metrics.db {one.metrics_bytes / 1e6:,.1f} MB; {one.wal_bytes_per_tick / 1e3:,.0f} kB of log a tick; "
            f"filled in {one.fill_s:.0f} s.",
            "",
            *_table(
                ["", "p50 ms", "p95 ms", "most ms", "points or rows"],
                [
                    [t.name, f"{t.p50_ms:.1f}", f"{t.p95_ms:.1f}", f"{t.most_ms:.1f}", f"{t.got:,}"]
                    for t in every
                ],
            ),
            "",
            *_table(
                ["API", "p50 ms", "p95 ms", "most ms", "bytes"],
                [
                    [t.name, f"{t.p50_ms:.1f}", f"{t.p95_ms:.1f}", f"{t.most_ms:.1f}", f"{t.got:,}"]
                    for t in one.api
                ],
            ),
        ]
    return "\n".join(lines) + "\n"


def write(some: Sequence[Measured], folder: Path, about_it: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    raw = {"machine": about_it, "stores": [asdict(one) for one in some]}
    (folder / "store.json").write_text(json.dumps(raw, indent=1) + "\n")
    path = folder / "store.md"
    path.write_text(page(some, about_it))
    return path


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-store ARGS=…")
    parser.add_argument("--small", action="store_true", help="hours instead of days, not for docs/")
    parser.add_argument("--only", choices=["full", "demo"], help="one of the two, not for docs/")
    parser.add_argument("--keep", action="store_true", help="leave the stores in data/bench/store")
    options = parser.parse_args(arguments)
    scales = [s for s in (DEMO, FULL) if options.only in (None, s.name)]
    if options.small:
        scales = [replace(s, hours=3, raw_hours=1, actions=100, audit=400) for s in scales]
    scratch = BENCH_DIR / "store"
    some = [measure(s, scratch / s.name, lambda text: print(text, flush=True)) for s in scales]
    recorded = not options.small and options.only is None
    target = ROOT / "docs" / "benchmarks" if recorded else BENCH_DIR / "reports"
    path = write(some, target, machine() | {"sqlite": sqlite3.sqlite_version})
    print(path.read_text())
    if not options.keep:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if all(one.whole for one in some) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
