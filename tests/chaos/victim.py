"""A process that runs a query and dies by SIGKILL where it is told to: `victim.py QUERY POINT [VERSION [SCRIPT]]`.

POINT: `never`; `step` (results and runs written, nothing committed); `commit` (committed, not published);
`publish` (published, Spark's own commit still missing); `part` (half of the published files renamed);
`snapshot` (after the snapshot, before old commits go); `worker` (a Python worker dies instead, in the step);
`action:COURSE:STEP:begin|end` (in that step of the first such action of the script).
The query's code is as it is: the kill is put around it from here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.adapt.policy import Policy, load
from engine.adapt.progress import Log
from engine.query.file import read_query
from engine.runner import run
from engine.settings import Settings
from engine.sinks import ParquetDirectory
from engine.state.commits import CommitLog
from engine.tick import Ticker

Put = Callable[[Any, str, Any], None]


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, version: int, then: Callable[..., Any] = die, put: Put = setattr) -> None:
    """Wrap the method before or after which the process has to die (or whatever `then` does in its place)."""
    if point.startswith("action:"):
        _in_step(*point.split(":")[1:])
        return
    owner, name, when = _place(point, version)
    put(owner, name, _before(getattr(owner, name), when, then))


def _place(point: str, version: int) -> tuple[type, str, Callable[..., Any]]:
    """Before which method it happens, and in which call."""
    if point == "step":
        return CommitLog, "append", lambda log, commit: commit.version >= version
    if point == "commit":
        return Ticker, "_publish", lambda ticker, commit: commit.version >= version
    if point == "publish":
        return Ticker, "_report", lambda ticker, *_: ticker.manifest.version >= version
    if point == "part":
        return (
            ParquetDirectory,
            "_rename",
            lambda d, file: file.version >= version and file.final.endswith("1.parquet"),
        )
    if point == "snapshot":
        return Path, "unlink", lambda path, **_: path.name.startswith("commit-")
    if point == "worker":
        return Ticker, "step", _kill_worker(version)
    assert point == "never", point
    return Ticker, "step", lambda *_: False


def _in_step(course: str, step: str, when: str) -> None:
    inner = Log.step

    @contextmanager
    def stepping(log: Log, name: str) -> Iterator[Log]:
        mine = (log.action.course, name) == (course, step)
        with inner(log, name) as found:
            if mine and when == "begin":
                die()
            yield found
        if mine:
            die()

    Log.step = stepping  # type: ignore[method-assign]


def _before(
    inner: Callable[..., Any], when: Callable[..., Any], then: Callable[..., Any]
) -> Callable[..., Any]:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if when(self, *args, **kwargs):
            then()
        return inner(self, *args, **kwargs)

    return wrapped


def _kill_worker(version: int) -> Callable[..., bool]:
    """Kill one of our own Python workers a moment after the step has begun."""

    def strike(ticker: Ticker, *_: Any) -> bool:
        if ticker.manifest.version == version:
            me = os.getpid()
            script = (
                "import os, psutil, random, signal, time; time.sleep(0.15); "
                f"kids = [p for p in psutil.Process({me}).children(recursive=True) "
                "if 'pyspark.daemon' in ' '.join(p.cmdline()) or 'worker_daemon' in ' '.join(p.cmdline())]; "
                "workers = [p for p in kids if p.parent() in kids]; "
                "[os.kill(p.pid, signal.SIGKILL) for p in workers[:1]]"
            )
            subprocess.Popen([sys.executable, "-c", script])
        return False  # this process goes on

    return strike


if __name__ == "__main__":
    file, point = Path(sys.argv[1]), sys.argv[2]
    arm(point, int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    policy = load(None, Path(sys.argv[4])) if len(sys.argv) > 4 else Policy()
    policy.hold = "_hold:" in point
    settings = Settings.load({})
    done = run(
        read_query(file), once=True, master=None, settings=settings, ports=(), adaptation=policy
    )
    print(done.to_json())
