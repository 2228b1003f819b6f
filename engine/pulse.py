"""Which nodes are alive, as measured: not whether they should be.

A node is alive while the executor that it was last seen on is up, and it has reported within the longer of 10 s and
two ticks. One that has not, as nothing came for it, is probed: a small Spark job asks every node where it runs. It
stays alive until the probe has been left unanswered for as long again. A node whose executor has gone is not alive
until it is heard of from another one; it is probed at once.

With `local[n]` all nodes run in this machine's Python workers, beside the driver that is their only executor, and it
is up while anybody can ask. There alive means that the workers answer.

Comes in: the ticks' reports, the executors that are up, answers to probes. Goes out: a column of booleans. What
follows from it is the arbiter's and the policies'.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from control.snapshot import Bools
from engine.reports import TickReport
from engine.state import hosts

SILENT_S = 10.0
POOL = "probe"  # of its own: it does not wait behind side jobs
ANSWER = "node int, executor string"
_ANSWER = pa.schema([("node", pa.int32()), ("executor", pa.string())])
Homes = Mapping[
    int, str
]  # node → id of the executor that it runs on; empty where there is only the driver


@dataclass(frozen=True, slots=True)
class Heard:
    """When a node was last heard of and from which executor, and since when a probe has gone unanswered."""

    at_s: float
    executor: str = ""
    asked_s: float | None = None


class Pulse:
    """A port for reports. `look` is called at every boundary between ticks, by the thread that ticks."""

    def __init__(
        self,
        nodes: int,
        executors: Callable[[], frozenset[str] | None],
        probe: Callable[[], Future[Homes]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executors, self._probe, self._clock = executors, probe, clock
        self._heard = [Heard(clock())] * nodes
        self._tick_s = 0.0
        self._answer: Future[Homes] | None = None
        self._alive = np.ones(nodes, dtype=bool)

    @property
    def alive(self) -> Bools:
        """By node, as of the last look."""
        return self._alive.copy()

    def publish(self, report: TickReport) -> None:
        now = self._clock()
        self._tick_s = report.seconds
        for node in report.nodes:
            if node.executor:
                self._heard[node.node] = Heard(now, node.executor_id)

    def look(self) -> None:
        """Take what a probe brought, and begin one where a node is silent or gone."""
        now, up = self._clock(), self._executors()
        self._take_answer(now)
        limit_s = max(SILENT_S, 2 * self._tick_s)
        gone = [up is not None and h.executor != "" and h.executor not in up for h in self._heard]
        silent = [now - h.at_s > limit_s for h in self._heard]
        if self._answer is None and (any(gone) or any(silent)):
            self._answer = self._probe()
            self._heard = [
                Heard(h.at_s, h.executor, now) if h.asked_s is None and quiet else h
                for h, quiet in zip(self._heard, silent, strict=True)
            ]
        late = [h.asked_s is not None and now - h.asked_s > limit_s for h in self._heard]
        self._alive = ~(np.array(gone, dtype=bool) | np.array(late, dtype=bool))

    def _take_answer(self, now: float) -> None:
        if self._answer is None or not self._answer.done():
            return
        answer, self._answer = self._answer, None
        if answer.cancelled() or answer.exception() is not None:
            return  # as if there were no answer: the nodes are asked again
        for node, executor in answer.result().items():
            self._heard[node] = Heard(now, executor)


class Prober:
    """Asks a query's nodes beside its ticks, in a thread of its own."""

    def __init__(self, ask: Callable[[], Homes]) -> None:
        self._ask = ask
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="probe")

    def __call__(self) -> Future[Homes]:
        return self._thread.submit(self._ask)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a probe does on each node: say where it runs."""
    for batch in batches:
        nodes = batch.column(1).cast(pa.int32())
        names = pa.array([hosts.executor_id()] * len(nodes), pa.string())
        yield pa.RecordBatch.from_arrays([nodes, names], schema=_ANSWER)
