"""Samples off the tick's path: a bounded queue and one thread that writes it.

Whoever puts a sample never waits. When the store cannot be written (locked, disk full), samples stay queued
and are tried again; when the queue is full, the oldest go, and are counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from control.errors import StoreError
from control.samples import Sample

BATCH = 32
RETRY_S = 1.0
CLOSE_S = 5.0


class Sink(Protocol):
    """Where samples go: `store.metrics`."""

    def write(self, samples: Sequence[Sample]) -> None: ...


@dataclass(frozen=True, slots=True)
class Recording:
    """How it has gone so far. `error`: of the last try; empty when that went well."""

    written: int = 0
    dropped: int = 0
    failures: int = 0
    waiting: int = 0
    error: str = ""


class Recorder:
    """`told` hears each failure's text once, and an empty one when writing goes well again."""

    def __init__(
        self,
        metrics: Sink,
        most: int = 256,
        *,
        told: Callable[[str], None] = lambda _: None,
        retry_s: float = RETRY_S,
    ) -> None:
        self._metrics, self._most, self._told, self._retry_s = metrics, most, told, retry_s
        self._queue: deque[Sample] = deque()
        self._change = threading.Condition()
        self._closing = False
        self._taken = 0  # samples in the writer's hands
        self._so_far = Recording()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def recording(self) -> Recording:
        with self._change:
            return replace(self._so_far, waiting=len(self._queue))

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def put(self, sample: Sample) -> None:
        """Never waits for the store."""
        with self._change:
            self._queue.append(sample)
            self._trim()
            self._change.notify_all()

    def settled(self, timeout_s: float) -> bool:
        """Whether everything put so far was written or dropped, waiting for it at most so long."""
        with self._change:
            return self._change.wait_for(self._idle, timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Writes what waits, if the store lets it."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._thread.join(timeout_s)

    def _idle(self) -> bool:
        return not self._queue and not self._taken

    def _trim(self) -> None:
        over = len(self._queue) - self._most
        for _ in range(over):
            self._queue.popleft()
        if over > 0:
            self._so_far = replace(self._so_far, dropped=self._so_far.dropped + over)

    def _run(self) -> None:
        while batch := self._next():
            self._write(batch)

    def _next(self) -> list[Sample]:
        """The oldest that wait; nothing when it is over."""
        with self._change:
            if self._so_far.error and not self._closing:
                self._change.wait_for(lambda: self._closing, self._retry_s)
            self._change.wait_for(lambda: bool(self._queue) or self._closing)
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            self._taken = len(batch)
            return batch

    def _write(self, batch: list[Sample]) -> None:
        try:
            self._metrics.write(batch)
        except Exception as error:  # noqa: BLE001 - one bad sample must not end all recording
            self._failed(batch, error)
            return
        self._count(Recording(written=len(batch)))

    def _failed(self, batch: list[Sample], error: Exception) -> None:
        """Back into the queue, unless trying again cannot help."""
        with self._change:
            again = isinstance(error, StoreError) and error.again and not self._closing
            if again:
                self._queue.extendleft(reversed(batch))
                self._trim()
        self._count(
            Recording(
                dropped=0 if again else len(batch), failures=1, error=str(error) or repr(error)
            )
        )

    def _count(self, more: Recording) -> None:
        with self._change:
            news = more.error != self._so_far.error
            self._so_far = Recording(
                self._so_far.written + more.written,
                self._so_far.dropped + more.dropped,
                self._so_far.failures + more.failures,
                error=more.error,
            )
            self._taken = 0
            self._change.notify_all()
        if news:
            self._told(more.error)
