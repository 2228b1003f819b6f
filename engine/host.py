"""One Spark session, many queries: each registered, started, paused, resumed and stopped on its own, in a thread
of its own, with its own checkpoint lock, ports, scheduler pool and failure.

Node n of every query is the same node: `memory_by_node` adds up. What a query does once it runs is
runner.py's; which step of its life may follow which is lifecycle.py's. Nothing here waits for a query,
except where it says so; every answer is a frozen value.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from engine import connectors
from engine.errors import HostError, SpillwayError
from engine.lifecycle import LIVE, Entry, Event, Life, State
from engine.overlap import refuse_overlap
from engine.progress import RunSummary
from engine.query.model import QuerySpec
from engine.reports import ReportPort, TickReport
from engine.runner import QueryRun
from engine.session import make_ready_for_threads, start_session, use_pool
from engine.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.adapt.desk import Desk


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """One query now. `error`: why the last run failed; `summary`: of the last run that ended well;
    `report`: of the last tick of the last run."""

    name: str
    state: State
    since_s: float
    nodes: int
    error: SpillwayError | None
    summary: RunSummary | None
    report: TickReport | None
    history: tuple[Entry, ...]

    @property
    def live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """One node, all queries together. A query without `memory_per_node` adds nothing to the budget."""

    node: int
    memory_bytes: int
    budget_bytes: int
    by_query: Mapping[str, int]


@dataclass(slots=True)
class _Hosted:
    """One registered query. Guarded by the host's lock."""

    spec: QuerySpec
    ports: Sequence[ReportPort]
    life: Life
    run: QueryRun | None = None
    error: SpillwayError | None = None
    summary: RunSummary | None = None
    report: TickReport | None = None

    def status(self) -> QueryStatus:
        history = self.life.history
        return QueryStatus(
            self.spec.name,
            self.life.state,
            history[-1].time_s,
            self.spec.nodes,
            self.error,
            self.summary,
            self.report,
            history,
        )


@dataclass(slots=True)
class _Newest:
    """The port that keeps a query's newest report for `status`. Swapping a reference needs no lock."""

    hosted: _Hosted

    def publish(self, report: TickReport) -> None:
        self.hosted.report = report


class EngineHost:
    """The queries of one engine process. `start_with` gives the session where not our own is wanted; `scratch` is the
    folder of Spark's own files."""

    def __init__(
        self,
        settings: Settings,
        *,
        master: str | None = None,
        warn: Callable[[str], None] = lambda text: None,
        start_with: Callable[[], SparkSession] | None = None,
        clock: Callable[[], float] = time.time,
        seated: Callable[[QueryRun, Desk], None] | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._settings, self._master, self._warn, self._clock = settings, master, warn, clock
        self._seated, self._scratch = seated, scratch
        self._start_with = start_with or self._own_session
        self._hosted: dict[str, _Hosted] = {}
        self._changed = threading.Condition()
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()  # one thread starts Spark, the others wait for it

    # -- what may be asked ---------------------------------------------------------------------------

    def register(self, spec: QuerySpec, ports: Sequence[ReportPort] = ()) -> None:
        """Take a query in, checked as far as it can be without running it. Reports go to `ports`."""
        QueryRun(spec, self._settings, (), once=False)
        most = self._settings.queries_max
        with self._changed:
            refuse_overlap(spec, [h.spec for h in self._hosted.values()])
            if len(self._hosted) >= most:
                raise HostError(
                    f"there are {most} queries already, the most that one engine takes",
                    where=str(spec.file),
                    hint="Unregister one, or raise the setting queries_max.",
                )
            self._hosted[spec.name] = _Hosted(spec, ports, Life.begin(spec.name, self._clock()))

    def unregister(self, name: str) -> None:
        """Forget a query that is not live; its checkpoint and results stay."""
        with self._changed:
            self._event(self._find(name), Event.UNREGISTER)
            del self._hosted[name]

    def start(self, name: str, *, once: bool = False) -> None:
        """Begin from the last commit; with `once` until what is there now is processed."""
        with self._changed:
            hosted = self._find(name)
            hosted.life.after(Event.START, 0.0)  # refuse before anything is made
        run = QueryRun(hosted.spec, self._settings, (_Newest(hosted), *hosted.ports), once=once)
        run.warn = lambda text: self._warn(f"{name}: {text}")
        run.notice = lambda event: self._event(hosted, event)
        if (seated := self._seated) is not None:
            run.seated = lambda desk: seated(run, desk)
        thread = threading.Thread(
            target=self._live, args=(hosted, run), name=f"query {name}", daemon=True
        )
        with self._changed:
            self._event(hosted, Event.START)
            run.reserved_bytes = self._reserved_bytes()
            hosted.run, hosted.error, hosted.summary, hosted.report = run, None, None, None
            thread.start()

    def pause(self, name: str) -> None:
        """Halt after the running tick; state stays in memory, the sources are left alone."""
        self._ask(name, Event.PAUSE, QueryRun.pause)

    def resume(self, name: str) -> None:
        """Go on after a pause."""
        self._ask(name, Event.RESUME, QueryRun.resume)

    def stop(self, name: str) -> None:
        """End after the running tick; what is in memory goes, the checkpoint has it all."""
        self._ask(name, Event.STOP, QueryRun.stop)

    def stop_all(self) -> None:
        """Ask every live query to stop; harmless when repeated."""
        with self._changed:
            for name, hosted in self._hosted.items():
                if hosted.life.can(Event.STOP):
                    self.stop(name)

    # -- what may be known ---------------------------------------------------------------------------

    def status(self) -> tuple[QueryStatus, ...]:
        """Every query, in the order of registration."""
        with self._changed:
            return tuple(h.status() for h in self._hosted.values())

    def status_of(self, name: str) -> QueryStatus:
        with self._changed:
            return self._find(name).status()

    def memory_by_node(self) -> tuple[NodeMemory, ...]:
        """Every node that a live query uses: state in memory as of the last commits, and budgets."""
        with self._changed:
            runs = {n: h.run for n, h in self._hosted.items() if h.run and h.life.state in LIVE}
        used = {name: run.memory_by_node() for name, run in runs.items()}
        of_node = [
            {name: memory[node] for name, memory in used.items() if node < len(memory)}
            for node in range(max((run.plan.nodes for run in runs.values()), default=0))
        ]
        return tuple(
            NodeMemory(
                node,
                sum(by_query.values()),
                sum(r.spec.budgets(r.plan.nodes).get(node, 0) for r in runs.values()),
                MappingProxyType(by_query),
            )
            for node, by_query in enumerate(of_node)
        )

    def wait_for(self, name: str, states: Iterable[State], timeout_s: float | None = None) -> bool:
        """Wait until the query is in one of the states, or failed; whether it is in one of them."""
        wanted = frozenset(states)
        with self._changed:
            hosted = self._find(name)
            ends = wanted | {State.FAILED}
            self._changed.wait_for(lambda: hosted.life.state in ends, timeout_s)
            return hosted.life.state in wanted

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Wait until no query is live; whether that is so."""
        with self._changed:
            return self._changed.wait_for(self._quiet, timeout_s)

    def close(self) -> None:
        """Stop everything and wait for it. The session is left: it ends with the process."""
        self.stop_all()
        self.wait_ended()

    # -- within --------------------------------------------------------------------------------------

    def _find(self, name: str) -> _Hosted:
        hosted = self._hosted.get(name)
        if hosted is None:
            known = ", ".join(self._hosted) or "none"
            raise HostError(f"there is no query {name!r}", hint=f"Registered: {known}.")
        return hosted

    def _quiet(self) -> bool:
        return not any(h.life.state in LIVE for h in self._hosted.values())

    def _ask(self, name: str, event: Event, act: Callable[[QueryRun], None]) -> None:
        with self._changed:
            hosted = self._find(name)
            self._event(hosted, event)
            assert hosted.run is not None
            act(hosted.run)

    def _event(self, hosted: _Hosted, event: Event) -> None:
        with self._changed:
            hosted.life = hosted.life.after(event, self._clock())
            self._changed.notify_all()

    def _live(self, hosted: _Hosted, run: QueryRun) -> None:
        """A query's thread. Its failure, whatever it is, is its own."""
        try:
            summary = run.serve(lambda: self._session_of(hosted.spec.name))
        except Exception as error:  # noqa: BLE001 (told by `status`, and not the others' affair)
            known = error if isinstance(error, SpillwayError) else run.explained(error)
            known.__cause__ = error.__cause__ if known is error else error
            with self._changed:
                hosted.error, hosted.run = known, None
                self._event(hosted, Event.FAIL)
        else:
            with self._changed:
                hosted.summary, hosted.run = summary, None
                self._event(hosted, Event.END)

    def _reserved_bytes(self) -> int:
        """What live queries may yet take of the memory that is free now."""
        runs = [h.run for h in self._hosted.values() if h.run is not None]
        return sum(max(0, run.budget_bytes - sum(run.memory_by_node())) for run in runs)

    # -- Spark ---------------------------------------------------------------------------------------

    def begin_session(self) -> SparkSession:
        """Start Spark if it is not there; waits for it. The first `start` does it otherwise."""
        with self._starting:
            if self._spark is None:
                spark = self._start_with()
                make_ready_for_threads(spark)
                self._spark = spark
            return self._spark

    def _own_session(self) -> SparkSession:
        with self._changed:
            specs = [h.spec for h in self._hosted.values()]
        logs = self._settings.log_dir or (specs[0].checkpoint / "logs" if specs else None)
        return start_session(
            master=self._master,
            nodes=max((spec.nodes for spec in specs), default=2),
            app_name="spillway",
            log_dir=Path(logs) if logs else None,
            driver_memory=self._settings.driver_memory,
            extra=connectors.conf(self._settings.packages, self._settings.jars),
            warn=self._warn,
            scratch=self._scratch,
        )

    def _session_of(self, name: str) -> SparkSession:
        """For the query's thread: settings of its own on the shared session, and its own pool."""
        spark = self.begin_session().newSession()
        use_pool(spark, name)
        return spark


__all__ = ["EngineHost", "NodeMemory", "QueryStatus", "State"]
