"""What Ctrl-C and SIGTERM do to a process that runs queries. Handlers only set flags or end the process:
an exception inside a call to the JVM would only garble it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_end_it() -> Iterator[None]:
    """Before the first tick and after the last one there is nothing to finish: the process ends at once.
    The JVM goes when our end of its pipe closes."""

    def end(number: int, frame: object) -> None:
        sys.stderr.write("\nstopped; start again to resume\n")
        sys.stderr.flush()
        os._exit(128 + number)

    with _handled(end):
        yield


@contextmanager
def interrupts_stop(stop: Callable[[], None], asked: Callable[[], bool]) -> Iterator[None]:
    """While ticks run, `stop` is called, which must not wait; a second Ctrl-C ends the process at once, as
    kill does. In other threads than the main one signals are not ours."""

    def ask(number: int, frame: object) -> None:
        if asked() and number == signal.SIGINT:
            os._exit(130)
        print("finishing the running tick", file=sys.stderr, flush=True)
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(ask):
        yield


@contextmanager
def _handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    before = {n: signal.signal(n, handler) for n in NUMBERS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
