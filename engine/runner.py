"""Running one query: checks, session, recovery, the streaming query, stopping, and the summary.

The only place that knows Structured Streaming's life cycle. Each trigger hands one batch to `Ticker`;
between triggers held rows are let in, so that they do not wait for input that may never come.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from engine import exchange, lock
from engine.admission import drain
from engine.errors import CheckpointError, SourceError, SpillwayError, StateError, decode
from engine.hashing import FULL_MASK
from engine.pacing import Pacing
from engine.plan.build import build_plan
from engine.plan.fingerprint import describe, differences
from engine.plan.tree import Plan
from engine.progress import RunSummary
from engine.query.model import JoinQuery, QuerySpec
from engine.query.sql import analyse
from engine.reports import ReportPort
from engine.session import start_session, tokens
from engine.settings import Settings
from engine.sinks import open_sink, side_directory
from engine.sources.native import local_path
from engine.state import folders, replay
from engine.state.commits import CommitLog
from engine.state.files import Tiers, write_error
from engine.tick import Setup, Ticker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DRAIN_ROWS_MAX = 1_000_000
IDLE_S = 1.0


class Stopped(Exception):
    """A tick that begins after the stop was asked for: Spark must not take it as done."""


class QueryRun:
    """One run of one query, from start to stop."""

    def __init__(self, spec: QuerySpec, settings: Settings, ports: Sequence[ReportPort], *, once: bool,
                 hash_mask: int = FULL_MASK) -> None:
        self.spec, self.settings, self.ports, self.once = spec, settings, ports, once
        self.query: JoinQuery = analyse(spec)
        self.plan: Plan = build_plan(spec, self.query)
        self.hash_mask = hash_mask
        self.slow: dict[int, float] = {}
        self.warn: Callable[[str], None] = _unheard
        self.failure: BaseException | None = None
        self.pacing = Pacing(self.plan, enabled=not once)
        self._stop = threading.Event()
        self._ticking = threading.Lock()
        self._ended_ticks = False
        self._refused = False  # a tick was not begun, for which Spark's thread ends with an error
        self._last_tick = time.monotonic()
        self._last_commit_s = 0.0
        self._ready = 0.0

    def stop(self) -> None:
        """Ask for the end: the running tick is finished, nothing is begun."""
        self._stop.set()

    def run(self, master: str | None) -> RunSummary:
        """Until the input is done (`once`) or `stop` is called."""
        begun = time.perf_counter()
        with lock.hold(self.spec.checkpoint):
            log = self._claim()
            need = (self.spec.memory_per_node_bytes or 0) * self.plan.nodes
            places = folders.prepare(self.spec.checkpoint, Path(self.settings.mem_dir), need)
            if places.warning:
                self.warn(places.warning)
            spark = start_session(master=master, nodes=self.plan.nodes, app_name=f"spillway {self.spec.name}",
                                  log_dir=self._log_dir(), driver_memory=self.settings.driver_memory)
            try:
                ticker = self._ticker(spark, log, places)
                ticker.recover()
                self._ready = time.perf_counter() - begun
                progress = self._stream(spark, ticker)
            except (Py4JNetworkError, ConnectionError) as error:
                raise SpillwayError("Spark's JVM has gone away", hint=f"Its last words are in {self._log_dir()}/spark.log; "
                                    "if memory ran out, try another driver_memory (a setting). State is as it was at "
                                    "the last commit: start again to resume.") from error
            except (PySparkException, Py4JError) as error:
                raise explain(error, self.spec.checkpoint) from error
            except OSError as error:
                raise write_error(str(error.filename or self.spec.checkpoint), error) from error
        return self._summary(ticker, progress)

    def _claim(self) -> CommitLog:
        """The commit log, after making sure that it is this query's."""
        log = CommitLog(self.spec.checkpoint / "commits")
        now = describe(self.plan)
        before = log.open(now)
        changed = differences(before, now) if before is not None else []
        if changed:
            raise CheckpointError("the checkpoint belongs to another query:\n  - " + "\n  - ".join(changed),
                                  where=str(self.spec.checkpoint),
                                  hint="Use a new checkpoint (and sink path), or undo the change.")
        replay.check(self.spec.checkpoint, log.recover().manifest.tick)
        return log

    def _log_dir(self) -> Path:
        return Path(self.settings.log_dir) if self.settings.log_dir else self.spec.checkpoint / "logs"

    def _ticker(self, spark: SparkSession, log: CommitLog, places: folders.Folders) -> Ticker:
        settings, join = self.settings, self.plan.join
        tiers = Tiers(str(places.memory), str(places.durable), join.groups, settings.segment_bytes_max)
        setup = Setup(self.plan, self.query, exchange.lay_out(join), tiers,
                      tuple(tokens(spark, self.plan.nodes)), spark.sparkContext.defaultParallelism,
                      self.hash_mask, self.slow)
        sink = open_sink(self.spec.sink, self.spec.checkpoint, spark)
        sink.prepare()
        sides = [side_directory(self.spec.checkpoint, "null_keys", i.alias) for i in self.query.inputs]
        return Ticker(spark, setup, log, sink, sides, self.ports)

    # -- streaming ----------------------------------------------------------------------------------

    def _stream(self, spark: SparkSession, ticker: Ticker) -> list[dict[str, Any]]:
        kept = "100000" if self.once else "100"
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", kept)
        rows = exchange.streaming_union(spark, self.plan.join, ticker.setup.union)
        writer = rows.writeStream.foreachBatch(self._on_batch(ticker)).queryName(self.spec.name)
        writer = writer.option("checkpointLocation", str(self.spec.checkpoint / "spark"))
        trigger = writer.trigger(availableNow=True) if self.once else writer.trigger(
            processingTime=f"{self.settings.trigger_seconds} seconds")
        with self._signals():
            stream = trigger.start()
            try:
                self._wait(stream, ticker)
            finally:
                progress = _progress(stream)
                self._end(stream)
        if self.once and not self._stop.is_set():
            self._drain_all(ticker)
        return progress

    def _on_batch(self, ticker: Ticker) -> Callable[[DataFrame, int], None]:
        def on_batch(rows: DataFrame, batch: int) -> None:
            with self._ticking:
                if self._stop.is_set() or self._ended_ticks:
                    self._refused = True
                    raise Stopped
                try:
                    self._take(ticker, rows, batch)
                except BaseException as error:
                    self.failure = error
                    raise
        return on_batch

    def _take(self, ticker: Ticker, rows: DataFrame, batch: int) -> None:
        last = ticker.manifest.tick
        if batch == last:
            return  # committed before Spark could note it
        if batch != last + 1:
            raise CheckpointError(
                f"Spark offers batch {batch}, the last one committed is {last}", where=str(self.spec.checkpoint),
                hint="Parts of the checkpoint were removed or mixed: restore it, or start with a new one.")
        report = ticker.tick(rows, batch, self.pacing.admission(ticker.manifest, ticker.placement))
        self.pacing.learn(report, ticker.manifest.held_rows(self.plan.join.groups))
        self._committed()
        while not self._stop.is_set() and self._held_bytes(ticker) > self.settings.hold_bytes_max:
            self._drain(ticker)

    def _committed(self) -> None:
        self._last_tick, self._last_commit_s = time.monotonic(), time.time()

    def _wait(self, stream: StreamingQuery, ticker: Ticker) -> None:
        while not self._stop.is_set():
            if self._ended(stream):
                return
            idle = time.monotonic() - self._last_tick > IDLE_S
            if idle and ticker.manifest.holds and self._ticking.acquire(blocking=False):
                try:
                    self._drain(ticker)
                finally:
                    self._ticking.release()

    def _ended(self, stream: StreamingQuery) -> bool:
        try:
            return bool(stream.awaitTermination(1))
        except PySparkException as error:
            if self._refused and self.failure is None:
                return True
            raise self.failure or error from error

    def _end(self, stream: StreamingQuery) -> None:
        """Stop between two ticks. Not under the lock: stopping waits for Spark's thread, which may be
        waiting for the lock, about to begin a tick; it is told to give up instead."""
        with self._ticking:
            self._ended_ticks = True
        stream.stop()

    def _drain_all(self, ticker: Ticker) -> None:
        while ticker.manifest.holds and not self._stop.is_set():
            self._drain(ticker)

    def _drain(self, ticker: Ticker) -> None:
        groups = self.plan.join.groups
        held, since = ticker.manifest.held_rows(groups), ticker.manifest.held_since(groups)
        admission = drain(held, since, DRAIN_ROWS_MAX)
        ticker.tick(None, None, admission)
        self._committed()

    def _held_bytes(self, ticker: Ticker) -> int:
        return sum(hold.segment.bytes for hold in ticker.manifest.holds)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask for a stop; a second Ctrl-C interrupts."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: Any) -> None:
            if self._stop.is_set() and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.stop()

        before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _summary(self, ticker: Ticker, progress: list[dict[str, Any]]) -> RunSummary:
        first = datetime.fromisoformat(progress[0]["timestamp"]).timestamp() if progress else 0.0
        seconds = max(0.0, self._last_commit_s - first) if self._last_commit_s else 0.0
        ticks = [p["durationMs"].get("triggerExecution", 0) / 1000 for p in progress if p["numInputRows"]]
        totals, manifest = ticker.totals, ticker.manifest
        state = sum(manifest.memory_bytes(n) for n in range(self.plan.nodes))
        return RunSummary(
            query=self.spec.name, ticks=len(ticks), rows_in=totals.rows_in, rows_out=totals.rows_out,
            seconds=round(seconds, 3), seconds_startup=round(self._ready, 3), tick_seconds=tuple(ticks),
            state_bytes=state, spilled_bytes=0, late_rows=totals.late_rows, null_key_rows=totals.null_key_rows)


def _progress(stream: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(p.json) for p in stream.recentProgress]


def explain(error: Exception, checkpoint: Path) -> SpillwayError:
    """A failure inside Spark as the error that a user can act on, where we know it."""
    text = str(error)
    ours = decode(text)
    if ours is not None:
        return ours
    unreadable = re.search(r"(?:[Ee]rror while reading file|Could not read.*file) '?([^\s']+?)'?\.?(?:\s|$)", text)
    if unreadable:
        return SourceError("this file of the source cannot be read", where=unquote(local_path(unreadable.group(1))),
                           hint="Repair, replace or remove it, then start again: nothing is lost.")
    if "No space left on device" in text:
        places = f"{checkpoint / 'spark'} or {os.environ.get('SPARK_LOCAL_DIRS') or tempfile.gettempdir()}"
        return StateError("no space left on device for Spark's own files", where=places,
                          hint="Free some space, then start again: nothing is lost.")
    return SpillwayError("the query failed: " + text.strip().split("\n")[0][:500],
                         hint="Spark's own words are in the log; state is as it was at the last commit.")


def _unheard(warning: str) -> None:
    """Where warnings go when nobody listens."""


def run(spec: QuerySpec, *, once: bool, master: str | None, settings: Settings,
        ports: Sequence[ReportPort] = (), warn: Callable[[str], None] = _unheard) -> RunSummary:
    """Run a query until it is done or stopped. `warn` is told what the user should know."""
    query = QueryRun(spec, settings, ports, once=once)
    query.warn = warn
    return query.run(master)

