"""Side jobs: Spark jobs beside the ticks, from threads and a scheduler pool of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.adapt.tasks import DONE, Order, SideTask
from engine.arrow_map import map_in_arrow
from engine.brief import Brief, give
from engine.session import use_pool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from engine.tick import Ticker

POOL = "side"
THREADS_MAX = 8
TICK_BYTES = 4_000_000  # so much state a tick may handle besides its rows
Found = Mapping[int, list[Any]]  # what each node's orders came to


@dataclass(frozen=True, slots=True)
class Job:
    """What each node has to do, and the files that it reads for it. `bytes`: of the state that it handles; so
    little that it is done along with a tick, as a job of its own would cost more, or None: never that."""

    work: Mapping[int, tuple[Order, ...]]
    files: frozenset[str] = frozenset()
    bytes: int | None = None
    at_once: bool = False  # the next tick waits for it
    limit: int = TICK_BYTES

    @property
    def small(self) -> bool:
        return self.bytes is not None and self.bytes <= self.limit


class SideJobs:
    """The thread, and the one plan that all side jobs share: to plan a job costs more than to run it."""

    def __init__(self, ticker: Ticker) -> None:
        self.ticker = ticker
        # While ticks go on there is one action at a time; at the end of the input nodes work side by side.
        self._thread = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="side")

    def start(self, job: Job) -> Future[Found]:
        """Called between ticks: what the job may know is how things stand now."""
        return self._thread.submit(self._run, self.brief(job))

    def brief(self, job: Job) -> Brief:
        ticker = self.ticker
        return replace(ticker.brief({}, ticker.manifest, ticker.marks()), runs={}, work=job.work)

    def wait(self, future: Future[Found]) -> None:
        """Until a job is over, whatever it came to."""
        future.exception()

    def replanned(self) -> None:
        """The query has another plan: so have its side jobs."""
        self.__dict__.pop("_frame", None)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def _frame(self) -> DataFrame:
        control = self.ticker.exchange(self.ticker.control())
        return map_in_arrow(control, SideTask(self.ticker.standing), DONE)

    def _run(self, brief: Brief) -> Found:
        spark = self.ticker.spark
        use_pool(spark, POOL)
        name = f"briefs-{threading.current_thread().name}"
        folder = Path(self.ticker.setup.folders.durable).with_name(name)
        give(spark.sparkContext, brief, folder)
        return {row[0]: json.loads(row[1]) for row in self._frame.collect()}
