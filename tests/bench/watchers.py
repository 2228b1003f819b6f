"""`make bench-watchers`: fifty people look at one console — how soon it answers, and what they cost.

The console is `run.py console` as a process of its own, over a store as it is after days of use, with an engine
that is played (played.py). With `--engine` it is a whole `run.py up` instead, to see what watchers do to the
demo's ticks. Exit code 1 when an answer was an error.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from app.firsts import ADMIN
from db.open import open_store
from tests.bench import played
from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.replay import Account, Recording, Session, Tally, first_charts, record, replay
from tests.bench.report import machine
from tests.bench.store_fill import FULL, Scale
from tests.up import Up, free_port, until

P95_MS_MOST, RSS_MB_MOST, CHART_S_MOST = 100.0, 300.0, 2.5
PATHS = ("/overview", "/placement")
IDLE_S, RECORD_S, WARM_S = 10.0, 30.0, 15.0
DAY = replace(FULL, name="full, a day", hours=24, raw_hours=1)
SMALL = replace(
    FULL, name="small", nodes=8, groups=600, hours=1, raw_hours=1, actions=20, audit=200
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took while something went on."""

    cpu_share: float  # of one core
    rss_mb: float  # at its most

    @staticmethod
    def none() -> Cost:
        return Cost(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Pages:
    """What one open page asks for by itself."""

    path: str
    polls_per_s: float


@dataclass(frozen=True, slots=True)
class Ticks:
    """Of a running engine, in milliseconds."""

    count: int
    p50_ms: float
    p95_ms: float

    @staticmethod
    def of(times_s: Sequence[float]) -> Ticks:
        p50, p95 = np.percentile(times_s, [50, 95]) if len(times_s) else (0.0, 0.0)
        return Ticks(len(times_s), 1000 * float(p50), 1000 * float(p95))


@dataclass(frozen=True, slots=True)
class Watched:
    """One console under so many watchers."""

    watchers: int
    seconds: float
    pages: tuple[Pages, ...]
    requests: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: float
    late_p95_ms: float  # requests that were sent after their time: the client's own delay
    kb_per_request: float
    errors: tuple[str, ...]
    alone: Cost  # nobody looks
    under: Cost
    rss_first_mb: float  # before anybody looked
    rss_after_mb: float
    charts_s: tuple[
        float, ...
    ] = ()  # until the first chart is drawn, in a browser that has nothing yet
    ticks_alone: Ticks | None = None
    ticks_under: Ticks | None = None

    @property
    def cpu_per_watcher(self) -> float:
        return max(0.0, self.under.cpu_share - self.alone.cpu_share) / self.watchers


class Meter:
    """A process's CPU time and memory while a block runs."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.cost = Cost.none()

    def rss_mb(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    @contextmanager
    def over(self) -> Iterator[None]:
        over, most = threading.Event(), [self.rss_mb()]

        def look() -> None:
            while not over.wait(0.5):
                most.append(self.rss_mb())

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        cpu_s, started_s = self._cpu_s(), time.monotonic()
        try:
            yield
        finally:
            taken = self._cpu_s() - cpu_s
            self.cost = Cost(taken / (time.monotonic() - started_s), max(most))
            over.set()
            watching.join()

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def watch(
    url: str,
    pid: int,
    who: Account,
    watchers: int,
    seconds: float,
    *,
    record_s: float = RECORD_S,
    idle_s: float = IDLE_S,
    ticks: Callable[[float, float], Ticks] | None = None,
) -> Watched:
    """Everything about one console that serves already."""
    meter = Meter(pid)
    first_mb = meter.rss_mb()
    with meter.over():
        alone_s = _span(idle_s, lambda: time.sleep(idle_s))
    alone = meter.cost
    ticks_alone = ticks(*alone_s) if ticks else None
    recordings = record(url, who, PATHS, record_s)
    sessions = [Session(url, who) for _ in range(watchers)]
    whole: list[Tally] = []
    with meter.over():
        under_s = _span(seconds, lambda: whole.append(replay(sessions, recordings, seconds)))
    return _watched(
        whole[0],
        watchers,
        seconds,
        recordings,
        alone=alone,
        under=meter.cost,
        rss_first_mb=first_mb,
        rss_after_mb=meter.rss_mb(),
        ticks_alone=ticks_alone,
        ticks_under=ticks(*under_s) if ticks else None,
    )


def _span(_: float, run: Callable[[], object]) -> tuple[float, float]:
    begun_s = time.time()
    run()
    return begun_s, time.time()


def _watched(
    met: Tally, watchers: int, seconds: float, recordings: Sequence[Recording], **more: Any
) -> Watched:
    taken = 1000 * np.array(met.taken_s or [0.0])
    p50, p95, p99 = (float(value) for value in np.percentile(taken, [50, 95, 99]))
    return Watched(
        watchers,
        seconds,
        tuple(Pages(one.path, one.per_s) for one in recordings),
        len(met.taken_s),
        p50,
        p95,
        p99,
        float(taken.max()),
        1000 * float(np.percentile(met.late_s or [0.0], 95)),
        met.bytes / 1e3 / max(1, len(met.taken_s)),
        tuple(met.errors),
        **more,
    )


# -- what is watched -------------------------------------------------------------------------------------


@contextmanager
def console(folder: Path, scale: Scale) -> Iterator[tuple[str, int]]:
    """`run.py console` over a filled store whose engine is played: its address, and its process."""
    port = free_port()
    begin = [sys.executable, str(ROOT / "run.py"), "console"]
    quiet: Any = {"stdout": subprocess.DEVNULL, "cwd": ROOT}
    playing = subprocess.Popen(played.command(folder, scale), **quiet)
    serving = subprocess.Popen([*begin, "--data", str(folder), "--port", str(port)], **quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(url), 60, "the console")
        yield url, serving.pid
    finally:
        for process in (playing, serving):
            process.terminate()
            process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/sign-in", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def over_a_full_store(
    folder: Path, scale: Scale, watchers: int, seconds: float, **how: float
) -> Watched:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scale = replace(scale, end_s=float(round(time.time())))
    played.prepare(folder, scale, lambda text: print(text, flush=True))
    who = Account(played.USER, played.PASSWORD)
    with console(folder, scale) as (url, pid):
        found = watch(url, pid, who, watchers, seconds, **how)
        return replace(found, charts_s=tuple(first_charts(url, who, PATHS)))


def over_a_demo(folder: Path, watchers: int, seconds: float) -> Watched:
    """A whole `up`; its demo fills up meanwhile, so both spans are short, and the later one has more state."""
    shutil.rmtree(folder, ignore_errors=True)
    up = Up(folder).start()
    try:
        up.running()
        time.sleep(WARM_S)
        store = open_store(folder)

        def ticks(since_s: float, until_s: float) -> Ticks:
            found = store.metrics.query_series("demo", since_s, until_s, 10_000)
            return Ticks.of([float(value) for value in found.values["tick_s"]])

        who = Account(ADMIN, up.password)
        found = watch(up.url, _console_pid(up), who, watchers, seconds, idle_s=seconds, ticks=ticks)
        store.close()
        return found
    finally:
        up.stop()


def _console_pid(up: Up) -> int:
    children = psutil.Process(up.pid("up")).children()
    return next(child.pid for child in children if "console" in child.cmdline())


# -- telling ---------------------------------------------------------------------------------------------


def bars(one: Watched) -> list[tuple[str, str, str, bool]]:
    rows = [
        (
            f"a poll, p95, {one.watchers} watchers",
            f"{one.p95_ms:.0f} ms",
            f"≤ {P95_MS_MOST:g} ms",
            one.p95_ms <= P95_MS_MOST,
        ),
        (
            "console's memory at its most",
            f"{one.under.rss_mb:.0f} MB",
            f"< {RSS_MB_MOST:g} MB",
            one.under.rss_mb < RSS_MB_MOST,
        ),
        ("errors", f"{len(one.errors)}", "0", not one.errors),
    ]
    if one.charts_s:
        most = max(one.charts_s)
        rows.append(
            ("first chart, cold", f"{most:.1f} s", f"≤ {CHART_S_MOST:g} s", most <= CHART_S_MOST)
        )
    return rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _figures(one: Watched) -> list[list[str]]:
    asked = ", ".join(f"{page.path} {page.polls_per_s:.2f}" for page in one.pages)
    rows = [
        ["watchers, seconds", f"{one.watchers}, {one.seconds:.0f}"],
        ["requests a second, of an open page", asked],
        ["requests", f"{one.requests:,} ({one.requests / one.seconds:.0f} a second)"],
        [
            "latency p50 / p95 / p99 / most",
            f"{one.p50_ms:.0f} / {one.p95_ms:.0f} / {one.p99_ms:.0f} / {one.most_ms:.0f} ms",
        ],
        ["sent after their time, p95", f"{one.late_p95_ms:.0f} ms"],
        ["an answer, on the wire", f"{one.kb_per_request:.1f} kB"],
        ["console CPU, nobody looks", f"{100 * one.alone.cpu_share:.1f} % of a core"],
        ["console CPU, all look", f"{100 * one.under.cpu_share:.1f} % of a core"],
        ["console CPU for each watcher", f"{100 * one.cpu_per_watcher:.2f} % of a core"],
        [
            "console RSS first / at its most / after",
            f"{one.rss_first_mb:.0f} / {one.under.rss_mb:.0f} / {one.rss_after_mb:.0f} MB",
        ],
    ]
    for title, ticks in (("nobody looks", one.ticks_alone), ("all look", one.ticks_under)):
        if ticks is not None:
            text = f"{ticks.p50_ms:.0f} / {ticks.p95_ms:.0f} ms ({ticks.count})"
            rows.append([f"the engine's ticks, p50 / p95, {title}", text])
    for path, taken_s in zip(PATHS, one.charts_s, strict=False):
        rows.append([f"first chart of {path}, cold", f"{taken_s:.1f} s"])
    return rows


def page(title: str, one: Watched, about: dict[str, Any], command: str) -> str:
    told = [[n, m, w, "reached" if good else "**missed**"] for n, m, w, good in bars(one)]
    lines = [
        f"# {one.watchers} watchers",
        "",
        f"Written by `{command}`; {about['cores']} cores, {about['memory_gib']} GiB, commit {about['commit']}. "
        "What an open page asks for by itself is recorded in Chromium and asked again over HTTP by so many "
        "sessions, half of them on Overview, half on Placement, a browser's refresh being 2 s. All of it runs on "
        f"the one machine, on which other work made a load of {about['load']:.1f} before it.",
        "",
        f"## {title}",
        "",
        *_table(["bar", "measured", "wanted", ""], told),
        "",
        *_table(["", ""], _figures(one)),
    ]
    return "\n".join(lines) + "\n"


def write(title: str, one: Watched, target: Path, about: dict[str, Any], command: str) -> Path:
    """`target`: the page; its figures go beside it as JSON."""
    target.parent.mkdir(parents=True, exist_ok=True)
    raw = {"machine": about, "command": command, "title": title, "run": asdict(one)}
    target.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    target.write_text(page(title, one, about, command))
    return target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench-watchers ARGS=…")
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--engine", action="store_true", help="over the demo with its real engine")
    parser.add_argument("--small", action="store_true", help="a small store, not for docs/")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    scratch, scale = BENCH_DIR / "watchers", SMALL if options.small else DAY
    if options.engine:
        title, name = "The demo, with its engine", "watchers-demo.md"
        one = over_a_demo(scratch, options.watchers, options.seconds)
    else:
        title, name = (
            f"{scale.nodes} nodes, {scale.groups:,} groups, a tick a second",
            "watchers.md",
        )
        one = over_a_full_store(scratch, scale, options.watchers, options.seconds)
    folder = BENCH_DIR / "reports" if options.small else ROOT / "docs" / "benchmarks"
    command = " ".join(["python -m tests.bench.watchers", *arguments])
    path = write(title, one, folder / name, machine() | {"load": load}, command)
    print(path.read_text())
    shutil.rmtree(scratch, ignore_errors=True)
    return 1 if one.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
