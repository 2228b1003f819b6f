"""Running one query: checks, recovery, the streaming query, pausing, stopping, and the summary.

The only place that knows Structured Streaming's life cycle. Each trigger hands one batch to `Ticker`;
between triggers held rows are let in, so that they do not wait for input that may never come.
The session comes from outside: `run` starts one for a single query, host.py shares one among many.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from engine import connectors, draining, ingest, lock
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.sit import sit
from engine.batches import Planned
from engine.errors import CheckpointError, SpillwayError
from engine.explain import explain, jvm_gone
from engine.flow import compile_flow
from engine.footers import check_footers
from engine.hashing import FULL_MASK
from engine.interrupts import interrupts_stop
from engine.lifecycle import Event
from engine.opening import open_ticker
from engine.pacing import Pacing
from engine.plan.build import build_plan
from engine.plan.tree import Plan
from engine.progress import RunSummary
from engine.query.model import JoinQuery, QuerySpec
from engine.query.sql import analyse
from engine.recovery import claim, recover
from engine.reports import ReportPort
from engine.session import start_session
from engine.settings import Settings
from engine.sources import workload
from engine.state import folders
from engine.state.files import write_error
from engine.tick import Ticker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IDLE_S = 1.0
POLL_S = 0.25
CLEANUP, KEEP = "cleanup", "keep"  # what becomes of results still owed at the end of the input


class Stopped(Exception):
    """A tick that begins after the end was asked for: Spark must not take it as done."""


class QueryRun:
    """One run of one query, from start to stop. `notice` is told of its life; it must not wait."""

    def __init__(
        self,
        spec: QuerySpec,
        settings: Settings,
        ports: Sequence[ReportPort],
        *,
        once: bool,
        hash_mask: int = FULL_MASK,
    ) -> None:
        self.spec, self.settings, self.ports, self.once = spec, settings, ports, once
        self.query: JoinQuery = analyse(spec)
        self.plan: Plan = build_plan(spec, self.query)
        self.hash_mask = hash_mask
        self.slow: dict[int, float] = {}
        self.warn: Callable[[str], None] = _unheard
        self.notice: Callable[[Event], None] = _unheard
        self.adaptation = Policy()
        self.owed = CLEANUP
        self.report_path: Path | None = None
        self.desk: Desk | None = None
        self.seated: Callable[[Desk], None] | None = None  # whoever wants to watch its desk
        self.reserved_bytes = 0  # memory that other queries' budgets may still take
        self.failure: BaseException | None = None
        self.pacing = Pacing(self.plan, enabled=not once)
        self._ticker: Ticker | None = None
        self._stop, self._pause, self._wake = (threading.Event() for _ in range(3))
        self._ticking = threading.Lock()
        self._ended_ticks = False
        self._refused = False  # a tick was not begun, for which Spark's thread ends with an error
        self._last_tick = time.monotonic()
        self._last_commit_s = 0.0
        self._planned = Planned(spec.checkpoint / "spark" / "offsets", time.time)
        self._ready = 0.0
        self._progress: list[dict[str, Any]] = []

    def stop(self) -> None:
        """Ask for the end: the running tick is finished, nothing is begun."""
        self._stop.set()
        self._wake.set()

    def pause(self) -> None:
        """Ask for a halt after the running tick. Spark's streaming query ends, so that nothing polls
        the sources or holds a planned batch; state, statistics and the checkpoint's lock are kept."""
        self._pause.set()

    def resume(self) -> None:
        """Go on after a pause, with the next tick of the same checkpoint."""
        self._pause.clear()
        self._wake.set()

    def memory_by_node(self) -> tuple[int, ...]:
        """Bytes of state in memory on each node, as of the last commit; none while nothing runs."""
        ticker = self._ticker
        return (
            tuple(ticker.manifest.memory_bytes(n) for n in range(self.plan.nodes)) if ticker else ()
        )

    @property
    def budget_bytes(self) -> int:
        """Of all nodes together; 0 without a budget."""
        return sum(self.spec.budgets(self.plan.nodes).values())

    def explained(self, error: Exception) -> SpillwayError:
        """The error as its user may read it."""
        if isinstance(error, Py4JNetworkError | ConnectionError):
            return jvm_gone(self._log_dir())
        if isinstance(error, OSError):
            return write_error(str(error.filename or self.spec.checkpoint), error)
        sources = [stream.options for stream in self.spec.streams.values()]
        return explain(error, self.spec.checkpoint, [self.spec.sink.options, *sources])

    def run(self, master: str | None) -> RunSummary:
        """On a session of its own, with Ctrl-C: until the input is done (`once`) or `stop` is called."""

        def session() -> SparkSession:
            return start_session(
                master=master,
                nodes=self.plan.nodes,
                app_name=f"spillway {self.spec.name}",
                log_dir=self._log_dir(),
                driver_memory=self.settings.driver_memory,
                extra=connectors.conf(self.settings.packages, self.settings.jars),
                warn=self.warn,
                light=ingest.past_the_jvm(compile_flow(self.plan, self.query)),
            )

        summary = self.serve(session, interrupts_stop(self.stop, self._stop.is_set))
        if self.once and self._stop.is_set():
            raise KeyboardInterrupt  # stopped in order, but not done
        return summary

    def serve(
        self,
        session: Callable[[], SparkSession],
        around: AbstractContextManager[None] | None = None,
    ) -> RunSummary:
        """Until the input is done (`once`) or `stop` is called. `session` is asked for once the checkpoint is
        ours; `around` is entered for as long as ticks may run."""
        begun = time.perf_counter()
        check_footers(compile_flow(self.plan, self.query))
        with lock.hold(self.spec.checkpoint):
            log = claim(self.spec, self.plan)
            places = folders.prepare(
                self.spec.checkpoint,
                Path(self.settings.mem_dir),
                self.budget_bytes + self.reserved_bytes,
            )
            if places.warning:
                self.warn(places.warning)
            try:
                spark = session()
                ticker = open_ticker(
                    spark,
                    self.spec,
                    self.query,
                    self.plan,
                    log,
                    places,
                    self.settings,
                    self.ports,
                    self.hash_mask,
                    self.slow,
                )
                recover(ticker)
                budgets = self.spec.budgets(self.plan.nodes)
                asked, report = self.seated is not None, self.report_path
                self.desk = sit(ticker, self.adaptation, budgets, report, asked)
                self._ticker, self._ready = ticker, time.perf_counter() - begun
                if self.seated is not None:
                    self.seated(self.desk)
                with around or nullcontext():
                    self._run_ticks(spark, ticker)
                ticker.release()
            except (PySparkException, Py4JError, OSError) as error:
                raise self.explained(error) from error
            finally:
                if self.desk is not None:
                    self.desk.close()
                self._ticker = None
                folders.release(places)  # after a failure too: the checkpoint has it all
        return self._summary(ticker)

    def _log_dir(self) -> Path:
        return (
            Path(self.settings.log_dir) if self.settings.log_dir else self.spec.checkpoint / "logs"
        )

    # -- streaming ----------------------------------------------------------------------------------

    def _run_ticks(self, spark: SparkSession, ticker: Ticker) -> None:
        """One streaming query after the other, with the pauses between them."""
        halted = True
        while not self._stream(spark, ticker, told=halted) and not self._stop.is_set():
            halted = self._pause.is_set()
            if not halted:
                continue  # another plan: Spark's streaming query begins again, nobody paused
            self.notice(Event.HALTED)
            while self._pause.is_set() and not self._stop.is_set():
                self._wake.wait()
                self._wake.clear()
            # While nobody listened no input was silent, and nothing waited for a tick.
            ticker.arrived = dict.fromkeys(ticker.arrived, time.monotonic())
            self._last_tick = time.monotonic()

    def _stream(self, spark: SparkSession, ticker: Ticker, *, told: bool) -> bool:
        """One streaming query, until a stop, a pause or another plan; True if its input is done instead. `told`:
        that it is up is news."""
        if self._asked():
            return False
        self._ended_ticks = self._refused = False
        stream = self._begin(spark, ticker)
        if told:
            self.notice(Event.UP)
        try:
            done = self._wait(stream, ticker)
        finally:
            self._end(stream)
            self._progress += [json.loads(p.json) for p in stream.recentProgress]
        if self.failure is not None:
            raise self.failure  # of the tick that ran when the end was asked for
        if self.once and done:
            self._drain_all(ticker)
            return not (ticker.manifest.holds and self._asked())  # some may be kept on purpose
        return done

    def _begin(self, spark: SparkSession, ticker: Ticker) -> StreamingQuery:
        kept = "100000" if self.once else "100"
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", kept)
        flow, checkpoint = ticker.setup.flow, self.spec.checkpoint
        streams = [source.scan.stream for source in flow.sources]
        records = workload.prepare_all(checkpoint, streams, time.time_ns() // 1000)
        rows = ticker.stages(ingest.streaming_union(spark, flow, ticker.setup.union, records))
        writer = rows.writeStream.foreachBatch(self._on_batch(ticker)).queryName(self.spec.name)
        writer = writer.option("checkpointLocation", str(self.spec.checkpoint / "spark"))
        if self.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.settings.trigger_seconds} seconds").start()

    def _stale(self, ticker: Ticker) -> bool:
        """Was the streaming query begun with a plan that the query's ticks cannot go on in?"""
        return not ticker.setup.goes_on(ticker.planned)

    def _asked(self) -> bool:
        """Whether no further tick may begin."""
        return self._stop.is_set() or self._pause.is_set()

    def _on_batch(self, ticker: Ticker) -> Callable[[DataFrame, int], None]:
        def on_batch(rows: DataFrame, batch: int) -> None:
            with self._ticking:
                if self._asked() or self._ended_ticks or self._stale(ticker):
                    self._refused = True
                    raise Stopped
                try:
                    self._take(ticker, rows, batch)
                except Stopped:
                    self._refused = True
                    raise
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
                f"Spark offers batch {batch}, the last one committed is {last}",
                where=str(self.spec.checkpoint),
                hint="Parts of the checkpoint were removed or mixed: restore it, or start with a new one.",
            )
        assert self.desk is not None
        self.desk.between(idle=False)
        if self._stale(ticker):
            raise Stopped  # the batch is Spark's to offer again, to the streaming query of the new plan
        if self.pacing.plan is not ticker.setup.plan:
            self.pacing = Pacing(ticker.setup.plan, enabled=self.pacing.enabled)
        admissions = self.pacing.admissions(ticker.manifest, ticker.placements)
        report = ticker.tick(rows, batch, admissions, self._planned.time_s(batch))
        self.pacing.learn(report, ticker.manifest)
        self._committed()
        while not self._asked() and draining.held_bytes(ticker) > self.settings.hold_bytes_max:
            self._drain(ticker)

    def _committed(self) -> None:
        self._last_tick, self._last_commit_s = time.monotonic(), time.time()

    def _wait(self, stream: StreamingQuery, ticker: Ticker) -> bool:
        """Until a stop or a pause is asked for, or the input is done: then True."""
        while not self._asked() and not self._stale(ticker):
            if self._ended(stream):
                return not self._refused
            idle = time.monotonic() - self._last_tick > IDLE_S
            wanted = self.desk is not None and self.desk.errands.waiting
            if (idle or wanted) and self._ticking.acquire(blocking=False):
                try:
                    self._between_ticks(ticker)
                finally:
                    self._ticking.release()
        return False

    def _between_ticks(self, ticker: Ticker) -> None:
        """What goes on without input."""
        assert self.desk is not None
        self.desk.between(idle=True)
        if ticker.due():
            self._drain(ticker)

    def _ended(self, stream: StreamingQuery) -> bool:
        try:
            wait: Any = stream.awaitTermination  # seconds, of which PySpark takes parts too
            return bool(wait(POLL_S))
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
        assert self.desk is not None
        while not self._asked():
            if ticker.due() and not self.desk.running:  # a move may keep rows waiting
                self._drain(ticker)
            elif not self.desk.finish_some(cleanup=self.owed == CLEANUP):
                break
        if text := ticker.waiting():
            self.warn(text)

    def _drain(self, ticker: Ticker) -> None:
        draining.drain(ticker)
        self._committed()

    def _summary(self, ticker: Ticker) -> RunSummary:
        manifest, nodes = ticker.manifest, range(self.plan.nodes)
        return RunSummary.of(
            self.spec.name,
            ticker.totals,
            self._progress,
            self._last_commit_s,
            self._ready,
            sum(manifest.memory_bytes(n) for n in nodes),
            sum(manifest.disk_bytes(n) for n in nodes),
        )


def _unheard(said: object) -> None:
    """Where warnings and notices go when nobody listens."""


def run(
    spec: QuerySpec,
    *,
    once: bool,
    master: str | None,
    settings: Settings,
    ports: Sequence[ReportPort] = (),
    warn: Callable[[str], None] = _unheard,
    adaptation: Policy | None = None,
    owed: str = CLEANUP,
    report: Path | None = None,
) -> RunSummary:
    """Run a query until it is done or stopped. `warn` is told what the user should know; `owed` says what becomes
    of results still owed at the end of the input, `report` where what adaptation did is written."""
    query = QueryRun(spec, settings, ports, once=once)
    query.warn, query.owed, query.report_path = warn, owed, report
    query.adaptation = adaptation or query.adaptation
    return query.run(master)
