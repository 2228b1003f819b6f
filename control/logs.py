"""What every process does with its log: messages and tracebacks of bounded length, and files that are rotated.

A log's writer keeps its file open, as a JVM does, so a full log is copied and then cut, not renamed. What is
logged, and where, is each process's own.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TextIO

LOG_BYTES_MAX = 10 << 20
OLD_LOGS = 3  # spark.log.1 is the newest of them
TEXT_MAX = 8_000


def shortened(text: str, most: int = TEXT_MAX) -> str:
    """A text of at most about `most` characters: its beginning and its end, and how much lay between."""
    if len(text) <= most:
        return text
    head, tail = most // 2, most - most // 2
    return f"{text[:head]}\n… {len(text) - most:,} characters left out …\n{text[-tail:]}"


class ShortFormatter(logging.Formatter):
    """A record with its traceback, shortened."""

    def format(self, record: logging.LogRecord) -> str:
        return shortened(super().format(record))


def handler(stream: TextIO | None = None) -> logging.Handler:
    """What writes records to a process's log, which is its standard error."""
    made = logging.StreamHandler(stream)
    made.setFormatter(ShortFormatter("[%(asctime)s] %(levelname)s in %(name)s: %(message)s"))
    return made


def install() -> None:
    """For a whole process: all that is logged, and errors that nothing catches, in any thread."""
    logging.getLogger().addHandler(handler())

    def main(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        sys.stderr.write(shortened("".join(traceback.format_exception(kind, error, at))))

    def thread(told: threading.ExceptHookArgs) -> None:
        if told.exc_type is not SystemExit:
            text = "".join(
                traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback)
            )
            name = told.thread.name if told.thread else "?"
            sys.stderr.write(f"error in thread {name}:\n{shortened(text)}")

    sys.excepthook, threading.excepthook = main, thread


def rotate(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Put a log's content aside once it is larger than that, while its writer goes on appending. The oldest is
    deleted. False where there is nothing to do, or no room to do it."""
    try:
        if path.stat().st_size <= bytes_max:
            return False
        fresh = Path(f"{path}.new")
        with path.open("rb") as log, open(fresh, "wb", opener=_private) as copy:
            shutil.copyfileobj(log, copy)
    except OSError:
        return False
    for number in range(OLD_LOGS, 1, -1):
        if (older := Path(f"{path}.{number - 1}")).exists():
            os.replace(older, f"{path}.{number}")
    os.replace(fresh, f"{path}.1")
    os.truncate(path, 0)
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
