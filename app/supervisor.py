"""Watching over the processes of `run.py up`: start, start again with growing pauses, stop all in order.

A child stops when its standard input ends: so it does when the parent is gone, whatever it died of. What the
children do is run.py's; here is only when they are started and stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from control.logs import rotate

FIRST_PAUSE_S = 1.0
PAUSE_S_MAX = 30.0
STEADY_S = 60.0  # up for so long: the next pause is the first one again
POLL_S = 0.2
GRACE_S = 30.0
TERM_S = 5.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before a process is started again. Pure: times are given."""

    failures: int = 0
    started_s: float = 0.0

    def started(self, now_s: float) -> Backoff:
        return replace(self, started_s=now_s)

    def ended(self, now_s: float) -> Backoff:
        steady = now_s - self.started_s >= STEADY_S
        return replace(self, failures=1 if steady else self.failures + 1)

    @property
    def pause_s(self) -> float:
        if not self.failures:
            return 0.0
        return float(min(PAUSE_S_MAX, FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 10)))


@dataclass
class Child:
    """One process: how it is started, and where it stands."""

    name: str
    command: Sequence[str]
    log: Path
    backoff: Backoff = field(default_factory=Backoff)
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    again_s: float = 0.0
    last_code: int | None = None

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Keeps its children up until `stop` is set. `say` is for people."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        logs: Path,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        umask: int = -1,
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.children = [
            Child(name, command, logs / f"{name}.log") for name, command in commands.items()
        ]
        self.say, self.clock = say, clock
        self.umask = umask  # that children begin with: the user's, not that of this process; -1: this process's

    def run(self, stop: threading.Event, each: Callable[[], None] = lambda: None) -> None:
        """Until told to stop; then end all, last started first. `each` is called at every look."""
        try:
            while not stop.is_set():
                for child in self.children:
                    self.look(child)
                each()
                stop.wait(POLL_S)
        finally:
            self.end()

    def look(self, child: Child) -> None:
        """Start what is not up, once its pause is over; put its log aside where it has become long."""
        rotate(child.log)
        if child.up:
            return
        now = self.clock()
        if child.process is not None:
            self._ended(child, now)
        if now >= child.again_s:
            self._start(child, now)

    def _ended(self, child: Child, now: float) -> None:
        assert child.process is not None
        child.last_code = child.process.wait()
        _close(child.process.stdin)
        child.process = None
        child.backoff = child.backoff.ended(now)
        child.again_s = now + child.backoff.pause_s
        self.say(
            f"{child.name} ended ({_how(child.last_code)}); again in {child.backoff.pause_s:.0f} s; "
            f"log: {child.log}"
        )

    def _start(self, child: Child, now: float) -> None:
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                list(child.command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                umask=self.umask,
                start_new_session=True,  # Ctrl-C is ours: they are stopped in order
            )
        child.starts += 1
        child.backoff = child.backoff.started(now)

    def end(self) -> None:
        """Ask all to stop, in order; whoever does not is ended."""
        up = [child for child in reversed(self.children) if child.up]
        for child in up:
            assert child.process is not None
            _close(child.process.stdin)
        until = time.monotonic() + GRACE_S
        for child in up:
            self._wait(child, until)

    def _wait(self, child: Child, until: float) -> None:
        assert child.process is not None
        for send, wait_s in (
            (None, max(0.0, until - time.monotonic())),
            (signal.SIGTERM, TERM_S),
            (signal.SIGKILL, TERM_S),
        ):
            if send is not None:
                self.say(f"{child.name} does not stop: {send.name}")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.process.pid, send)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.last_code = child.process.wait(wait_s)
                return


def stop_with_parent(stop: threading.Event) -> None:
    """In a child: set `stop` once standard input ends, or on SIGTERM or SIGINT."""

    def listen() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        stop.set()

    stop_on_signals(stop)
    threading.Thread(target=listen, daemon=True, name="parent").start()


def stop_on_signals(stop: threading.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"code {code}"
