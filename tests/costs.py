"""What tests cost: CPU time and processes, which a busy machine changes less than seconds on the wall.

`python -m pytest -p tests.costs --costs FILE …` writes one JSON line a test and one a module-wide set-up:
seconds on the wall, seconds of CPU of this process and of all processes under it, and how many Java,
Chromium and Python processes began meanwhile. `python -m tests.costs FILE…` adds them up.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
KINDS = {"java": "java", "chrom": "chromium", "headless": "chromium", "python": "python"}


class Tree:
    """The processes under this one."""

    def __init__(self) -> None:
        self.known: set[tuple[int, str]] = set()
        self.begun: Counter[str] = Counter()
        self.lock = threading.Lock()

    def look(self) -> float:
        """Counts what has begun since the last look; the CPU seconds of all that is, and of what has ended."""
        stats: dict[int, tuple[int, str, str, float]] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    text = Path(entry.path, "stat").read_text()
                except OSError:
                    continue
                name, rest = (
                    text[text.index("(") + 1 : text.rindex(")")],
                    text[text.rindex(")") + 2 :],
                )
                part = rest.split()
                cpu = sum(int(n) for n in part[11:15]) / TICKS
                stats[int(entry.name)] = int(part[1]), name, part[19], cpu
        under, total = {os.getpid()}, 0.0
        children = defaultdict(list)
        for pid, (parent, *_) in stats.items():
            children[parent].append(pid)
        waiting = [os.getpid()]
        while waiting:
            more = children[waiting.pop()]
            under.update(more)
            waiting += more
        with self.lock:
            for pid in under - {os.getpid()}:
                _, name, begun, cpu = stats[pid]
                total += cpu
                kind = next((kind for text, kind in KINDS.items() if name.startswith(text)), "")
                # A forked child has its parent's name until it becomes something else.
                if kind and (pid, begun + kind) not in self.known:
                    self.known.add((pid, begun + kind))
                    self.begun[kind] += 1
        own, ended = (
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        return total + own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


class Costs:
    def __init__(self, path: Path) -> None:
        self.path, self.tree = path, Tree()
        self.begin()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(0.4)
            self.tree.look()

    def begin(self) -> None:
        self.cpu, self.wall = self.tree.look(), time.monotonic()
        self.begun = Counter(self.tree.begun)

    def end(self, name: str, phase: str) -> None:
        cpu, wall, begun = self.cpu, self.wall, self.begun
        self.begin()
        line = {
            "test": name,
            "phase": phase,
            "wall": round(self.wall - wall, 3),
            "cpu": round(self.cpu - cpu, 3),
            **(self.begun - begun),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self.begin()
        try:
            return (yield)
        finally:
            self.end(item.nodeid, "setup")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self.end(item.nodeid, "call")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self.end(item.nodeid, "teardown")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", help="file that gets one JSON line for each phase of each test")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--costs"):
        config.pluginmanager.register(Costs(Path(path)))


def main(paths: list[str]) -> None:
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    for title, key in (
        ("folder", lambda name: "/".join(name.split("::")[0].split("/")[:-1][:3])),
        ("module", lambda name: name.split("::")[0]),
        ("test", lambda name: name),
    ):
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        for line in lines:
            one = sums[key(line["test"])]
            one["tests"] += line["phase"] == "call"
            for what in ("wall", "cpu", "java", "chromium", "python"):
                one[what] += line.get(what, 0)
        print(
            f"\n{'wall s':>8} {'CPU s':>8} {'tests':>6} {'java':>5} {'chrom':>6} {'python':>7}  {title}"
        )
        for name, one in sorted(sums.items(), key=lambda pair: -pair[1]["wall"])[:60]:
            print(
                f"{one['wall']:8.1f} {one['cpu']:8.1f} {one['tests']:6} {one['java']:5}"
                f" {one['chromium']:6} {one['python']:7}  {name}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
