"""Many queries in one engine: exact beside each other, failing alone, paused, stopped and started again exactly;
and the table of their lives."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyspark.sql import SparkSession

from engine import brief, host
from engine.arrow_map import map_in_arrow
from engine.brief import Brief
from engine.errors import HostError, SpillwayError
from engine.host import EngineHost
from engine.lifecycle import HISTORY_MAX, LIVE, RESTING, TABLE, Event, Life, State
from engine.overlap import refuse_overlap
from engine.query.file import read_query
from engine.query.model import QuerySpec
from engine.reports import TickReport
from engine.session import use_pool
from tests.engine.oracle import Case, quiet

WAIT_S = 90
PAIR = "SELECT a.k, a.v AS va, b.v AS vb FROM a JOIN b ON a.k = b.k"
TRI = "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
SOME = "SELECT a.k, a.v + b.v AS total FROM a JOIN b ON a.k = b.k WHERE a.v > 3"


def make(root: Path, name: str, sql: str = PAIR, **more: Any) -> Case:
    """A query of its own name, in a folder of that name."""
    streams = [s for s in "abc" if f" {s} " in f"{sql} "]
    case = Case(root / name, sql, dict.fromkeys(streams, "k long, v long"), **more)
    case.root.mkdir(parents=True)
    text = case.write().read_text()
    case.file.write_text(text.replace('name = "case"', f'name = "{name}"', 1))
    return case


def feed(case: Case, number: int, rows: int = 60, keys_max: int = 97) -> None:
    """File `number` of every stream: deterministic, with some matches."""
    for i, stream in enumerate(case.schemas):
        first = number * rows
        keys = [(first + n * (i + 2)) % keys_max for n in range(rows)]
        table = pa.table({"k": keys, "v": [n % 11 for n in range(rows)]})
        pq.write_table(table, case.root / "hidden")
        os.replace(case.root / "hidden", case.root / "data" / stream / f"{number:03d}.parquet")


class Watch:
    """A port that can be waited for."""

    def __init__(self) -> None:
        self.reports: list[TickReport] = []
        self.pools: set[str | None] = set()
        self.context: Any = None
        self._changed = threading.Condition()

    def publish(self, report: TickReport) -> None:
        with self._changed:
            self.reports.append(report)
            if self.context is not None:
                self.pools.add(self.context.getLocalProperty("spark.scheduler.pool"))
            self._changed.notify_all()

    @property
    def last(self) -> int:
        """The newest tick with input; -1: none."""
        return max((r.tick for r in self.reports if r.tick is not None), default=-1)

    def takes(self, case: Case, files: int, rows: int = 60) -> None:
        """Wait until so many files of each of its streams are in."""
        wanted = files * rows * len(case.schemas)
        with self._changed:
            assert self._changed.wait_for(
                lambda: sum(r.rows_in for r in self.reports) >= wanted, WAIT_S
            )


@pytest.fixture
def hosting(spark: SparkSession) -> Iterator[Callable[..., EngineHost]]:
    """Makes hosts on the tests' session; all are closed at the end."""
    made: list[EngineHost] = []

    def make_host(**more: Any) -> EngineHost:
        settings = replace(quiet(), **more)
        made.append(EngineHost(settings, start_with=lambda: spark))
        return made[-1]

    yield make_host
    for each in made:
        each.stop_all()
        assert each.wait_ended(WAIT_S)


# -- the table of a query's life -------------------------------------------------------------------------


class Lives(RuleBasedStateMachine):
    """Any events in any order: the table is followed, or the event refused and nothing changed."""

    @initialize()
    def begin(self) -> None:
        self.life, self.now = Life.begin("q", 0.0), 0.0

    @rule(event=st.sampled_from(Event))
    def any_event(self, event: Event) -> None:
        before, self.now = self.life, self.now + 1
        if before.can(event):
            self.life = before.after(event, self.now)
            assert self.life.state == TABLE[before.state, event]
        else:
            with pytest.raises(HostError, match=f"cannot {event} query 'q': it is ") as caught:
                before.after(event, self.now)
            assert str(before.history[-1]) in caught.value.where

    @precondition(lambda self: self.life.state in LIVE)
    @rule()
    def its_thread_may_always_fail(self) -> None:
        assert self.life.after(Event.FAIL, self.now).state == State.FAILED

    @precondition(lambda self: self.life.state in LIVE - {State.STOPPING})
    @rule()
    def it_may_always_be_stopped(self) -> None:
        stopping = self.life.after(Event.STOP, self.now)
        assert stopping.after(Event.END, self.now).state == State.STOPPED

    @precondition(lambda self: self.life.state in RESTING)
    @rule()
    def at_rest_it_may_start_or_go(self) -> None:
        assert self.life.can(Event.START) and self.life.can(Event.UNREGISTER)
        assert not self.life.can(Event.FAIL), "nothing runs that could fail"

    @invariant()
    def history_is_bounded_and_possible(self) -> None:
        if not hasattr(self, "life"):
            return
        history = self.life.history
        assert len(history) <= HISTORY_MAX
        steps = {(a, b) for (a, _), b in TABLE.items()}
        assert all((a.state, b.state) in steps for a, b in itertools.pairwise(history))
        assert [e.time_s for e in history] == sorted(e.time_s for e in history)


TestLives = Lives.TestCase


def test_every_state_is_reached_and_only_unregistered_is_final() -> None:
    reached = {State.REGISTERED} | set(TABLE.values())
    assert reached == set(State)
    assert {s for s in State if not any(a == s for a, _ in TABLE)} == {State.UNREGISTERED}


# -- what two queries must not share ---------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path: Path) -> QuerySpec:
    return read_query(make(tmp_path, "one").file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "there is a query 'one' already"),
        ({"name": "two"}, "checkpoint .* overlaps the checkpoint .* of query 'one'"),
        ({"name": "two", "checkpoint": "cp/inner"}, "overlaps the checkpoint"),
        ({"name": "two", "checkpoint": "two"}, "sink path .* overlaps the sink path"),
        ({"name": "two", "checkpoint": "two", "sink": "out/deep"}, "overlaps the sink path"),
        ({"name": "two", "checkpoint": "two", "sink": "cp/out"}, "sink path .* the checkpoint"),
        ({"name": "two", "checkpoint": "two", "sink": "x/../out"}, "overlaps the sink path"),
        ({"name": "two", "checkpoint": "two", "sink": "out2"}, None),
    ],
)
def test_overlaps_are_refused(spec: QuerySpec, change: dict[str, str], message: str | None) -> None:
    folder = spec.checkpoint.parent
    sink = replace(spec.sink, path=str(folder / change["sink"])) if "sink" in change else spec.sink
    point = folder / change["checkpoint"] if "checkpoint" in change else spec.checkpoint
    other = replace(spec, name=change.get("name", "one"), checkpoint=point, sink=sink)
    if message is None:
        refuse_overlap(other, [spec])
        return
    with pytest.raises(HostError, match=message):
        refuse_overlap(other, [spec])


# -- the host, without Spark -----------------------------------------------------------------------------


class Stub:
    """Stands in for QueryRun: a run that does as it is asked, or fails."""

    fail: Exception | None = None

    def __init__(self, spec: QuerySpec, *_: object, once: bool) -> None:
        self.spec, self.once = spec, once
        self.plan, self.budget_bytes, self.reserved_bytes = spec, 10, 0
        self.notice: Callable[[Event], None] = lambda event: None
        self.asked: list[str] = []
        self._changed = threading.Condition()

    def explained(self, error: Exception) -> SpillwayError:
        return SpillwayError(f"explained: {error}")

    def memory_by_node(self) -> tuple[int, ...]:
        return tuple(10 ** (n + len(self.spec.name)) for n in range(self.spec.nodes))

    def _ask(self, what: str) -> None:
        with self._changed:
            self.asked.append(what)
            self._changed.notify_all()

    def stop(self) -> None:
        self._ask("stop")

    def pause(self) -> None:
        self._ask("pause")

    def resume(self) -> None:
        self._ask("resume")

    def serve(self, session: Callable[[], object]) -> None:
        if self.fail is not None:
            raise self.fail
        self.notice(Event.UP)
        while not self.once:
            with self._changed:
                assert self._changed.wait_for(lambda: self.asked, WAIT_S)
                what = self.asked.pop(0)
            if what == "stop":
                return
            self.notice(Event.HALTED if what == "pause" else Event.UP)


@pytest.fixture
def hollow(monkeypatch: pytest.MonkeyPatch) -> EngineHost:
    monkeypatch.setattr(host, "QueryRun", Stub)
    return EngineHost(replace(quiet(), queries_max=3))


def specs(root: Path, *names: str, nodes: int = 2) -> list[QuerySpec]:
    return [read_query(make(root, name, nodes=nodes).file) for name in names]


def test_a_life_from_end_to_end(hollow: EngineHost, tmp_path: Path) -> None:
    (one,) = specs(tmp_path, "q")
    hollow.register(one)
    with pytest.raises(HostError, match="cannot pause query 'q': it is registered"):
        hollow.pause("q")
    for _ in range(2):
        hollow.start("q")
        assert hollow.wait_for("q", [State.RUNNING], WAIT_S)
        with pytest.raises(HostError, match="cannot start query 'q': it is running"):
            hollow.start("q")
        with pytest.raises(HostError, match="cannot unregister query 'q': it is running"):
            hollow.unregister("q")
        hollow.pause("q")
        assert hollow.wait_for("q", [State.PAUSED], WAIT_S)
        hollow.resume("q")
        assert hollow.wait_for("q", [State.RUNNING], WAIT_S)
        hollow.stop("q")
        assert hollow.wait_ended(WAIT_S)
    assert [e.state for e in hollow.status_of("q").history][:8] == [
        *("registered", "starting", "running", "pausing", "paused", "resuming", "running"),
        "stopping",
    ]
    hollow.unregister("q")
    assert hollow.status() == ()
    with pytest.raises(HostError, match="there is no query 'q'"):
        hollow.start("q")


def test_memory_adds_up_by_node(hollow: EngineHost, tmp_path: Path) -> None:
    (q,), (xy,) = specs(tmp_path, "q"), specs(tmp_path, "xy", nodes=3)
    for each in (q, replace(xy, memory_per_node_bytes=7)):
        hollow.register(each)
        hollow.start(each.name)
        assert hollow.wait_for(each.name, [State.RUNNING], WAIT_S)
    nodes = hollow.memory_by_node()
    assert [(n.node, n.memory_bytes, n.budget_bytes) for n in nodes] == [
        (0, 110, 7),
        (1, 1100, 7),
        (2, 10_000, 7),
    ]
    assert dict(nodes[1].by_query) == {"q": 100, "xy": 1000}
    hollow.close()
    assert hollow.memory_by_node() == ()


def test_there_is_a_most_of_queries(hollow: EngineHost, tmp_path: Path) -> None:
    one, two, three, four = specs(tmp_path, "a1", "a2", "a3", "a4")
    for each in (one, two, three):
        hollow.register(each)
    with pytest.raises(HostError, match="there are 3 queries already"):
        hollow.register(four)
    hollow.unregister("a2")
    hollow.register(four)


@pytest.mark.parametrize("error", [SpillwayError("full", where="there"), KeyError("odd")])
def test_a_failure_is_kept_and_may_be_tried_again(
    hollow: EngineHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    good, bad = specs(tmp_path, "good", "bad")
    hollow.register(good)
    hollow.register(bad)
    hollow.start("good")
    assert hollow.wait_for("good", [State.RUNNING], WAIT_S)
    with monkeypatch.context() as patch:
        patch.setattr(Stub, "fail", error)
        hollow.start("bad")
        assert hollow.wait_for("bad", [State.FAILED], WAIT_S)
    told = hollow.status_of("bad").error
    assert isinstance(told, SpillwayError) and str(error).strip("'") in str(told)
    assert hollow.status_of("good").state == State.RUNNING
    hollow.start("bad", once=True)
    assert hollow.wait_for("bad", [State.FINISHED], WAIT_S)
    assert hollow.status_of("bad").error is None
    hollow.close()


# -- on Spark --------------------------------------------------------------------------------------------


def test_three_at_once_are_exact(
    spark: SparkSession, tmp_path: Path, hosting: Callable[..., EngineHost]
) -> None:
    cases = [make(tmp_path, "pair", PAIR), make(tmp_path, "tri", TRI, nodes=3)]
    cases.append(make(tmp_path, "some", SOME, groups=40))
    engine, watches = hosting(), {}
    for case in cases:
        for number in range(3):
            feed(case, number)
        watch = watches[case.root.name] = Watch()
        watch.context = spark.sparkContext
        engine.register(read_query(case.file), [watch])
    for name in watches:
        engine.start(name, once=True)
    assert engine.wait_ended(WAIT_S)
    for case, status in zip(cases, engine.status(), strict=True):
        assert status.state == State.FINISHED and status.summary is not None, status.error
        assert case.check() == status.summary.rows_out > 0
        assert status.summary.ticks == 3 == watches[status.name].last + 1
        assert watches[status.name].pools == {status.name}
    pools = spark.sparkContext._jsc.sc()
    assert all(pools.getPoolForName(name).isDefined() for name in watches)


def test_one_fails_alone(tmp_path: Path, hosting: Callable[..., EngineHost]) -> None:
    """A corrupt file appears; the others go on; repaired, it goes on too, exactly."""
    good, bad, engine = make(tmp_path, "good"), make(tmp_path, "bad", TRI), hosting()
    watches = {"good": Watch(), "bad": Watch()}
    for case in (good, bad):
        feed(case, 0)
        engine.register(read_query(case.file), [watches[case.root.name]])
        engine.start(case.root.name)
    for case in (good, bad):
        watches[case.root.name].takes(case, 1)
    torn = tmp_path / "hidden"
    torn.write_bytes(b"PAR1" + b"\xff" * 60)
    os.replace(torn, bad.root / "data" / "b" / "001.parquet")
    assert engine.wait_for("bad", [State.FAILED], WAIT_S)
    assert ".parquet" in str(engine.status_of("bad").error)
    assert [n.by_query.keys() for n in engine.memory_by_node()] == [{"good"}, {"good"}]
    feed(good, 1)
    watches["good"].takes(good, 2)
    feed(bad, 1)
    engine.start("bad")
    watches["bad"].takes(bad, 2)
    engine.close()
    assert {s.state for s in engine.status()} == {State.STOPPED}
    assert good.check() > 0 and bad.check() > 0


def test_pause_resume_stop_start(
    spark: SparkSession, tmp_path: Path, hosting: Callable[..., EngineHost]
) -> None:
    case, watch, engine = make(tmp_path, "q"), Watch(), hosting()
    engine.register(read_query(case.file), [watch])
    feed(case, 0)
    engine.start("q")
    watch.takes(case, 1)
    engine.pause("q")
    assert engine.wait_for("q", [State.PAUSED], WAIT_S)
    held = engine.memory_by_node()
    assert sum(n.memory_bytes for n in held) > 0, "a pause keeps state in memory"
    feed(case, 1)
    other = hosting()
    other.register(read_query(case.file))
    other.start("q")
    assert other.wait_for("q", [State.FAILED], WAIT_S), "a pause keeps the checkpoint's lock"
    assert "is in use by process" in str(other.status_of("q").error)
    assert watch.last == 0 and engine.memory_by_node() == held
    engine.resume("q")
    watch.takes(case, 2)
    engine.pause("q")
    assert engine.wait_for("q", [State.PAUSED], WAIT_S)
    engine.stop("q")
    assert engine.wait_for("q", [State.STOPPED], WAIT_S)
    feed(case, 2)
    engine.start("q", once=True)
    assert engine.wait_for("q", [State.FINISHED], WAIT_S)
    assert watch.last == 2
    assert engine.status_of("q").summary.rows_out == case.check()


def test_a_new_host_resumes_all(tmp_path: Path, hosting: Callable[..., EngineHost]) -> None:
    cases = [make(tmp_path, "pair"), make(tmp_path, "tri", TRI)]
    for number in range(2):
        engine, watches = hosting(), [Watch(), Watch()]
        for case, watch in zip(cases, watches, strict=True):
            feed(case, number)
            engine.register(read_query(case.file), [watch])
            engine.start(case.root.name)
        for case, watch in zip(cases, watches, strict=True):
            watch.takes(case, 1)
            assert [r.tick for r in watch.reports] == [number], "an earlier tick was done again"
        engine.close()
    assert all(case.check() > 0 for case in cases)


def _brief(version: int) -> Brief:
    return Brief(version, {}, {}, {})


@pytest.mark.parametrize("inline", [True, False], ids=["property", "file"])
def test_threads_do_not_see_each_others_briefs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    if not inline:
        monkeypatch.setattr(brief, "INLINE_MAX", 0)
    barrier, seen = threading.Barrier(2, timeout=WAIT_S), {1: set(), 2: set()}

    def versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from engine.brief import take

        for _ in batches:
            pool = TaskContext.get().getLocalProperty("spark.scheduler.pool")
            yield pa.record_batch({"version": [take().version], "pool": [pool]})

    def query(number: int) -> None:
        session = spark.newSession()
        use_pool(session, f"pool-{number}")
        rows = map_in_arrow(session.range(2).repartition(2), versions, "version long, pool string")
        for tick in range(5):
            barrier.wait()
            folder = tmp_path / str(number)
            brief.give(spark.sparkContext, _brief(100 * number + tick), folder)
            seen[number] |= {(tick, r.version, r.pool) for r in rows.collect()}

    threads = [threading.Thread(target=query, args=(n,)) for n in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    for number, found in seen.items():
        assert found == {(t, 100 * number + t, f"pool-{number}") for t in range(5)}


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_large_brief_is_named_by_its_content(
    tmp_path_factory: pytest.TempPathFactory, a: int, b: int
) -> None:
    """A query that starts again gives the version of the tick that failed to another brief."""
    folder, said = tmp_path_factory.mktemp("briefs"), []

    class Context:
        def setLocalProperty(self, name: str, text: str) -> None:
            said.append(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brief, "INLINE_MAX", 0)
        for slow in (a, b):
            brief.give(Context(), Brief(7, {}, {}, {}, slow={0: slow}), folder)
    assert (said[0] == said[1]) == (a == b)
    assert brief._read(said[1]).slow == {0: b}


# -- the figure ------------------------------------------------------------------------------------------


@pytest.mark.bench
@pytest.mark.timeout(900)
def test_ten_small_queries_at_once(
    tmp_path: Path, hosting: Callable[..., EngineHost], capsys: pytest.CaptureFixture[str]
) -> None:
    """Seconds of a tick while ten queries run: nothing is asserted about them."""
    count, ticks, engine = 10, 12, hosting()
    cases = [make(tmp_path, f"q{n}", TRI) for n in range(count)]
    watches = [Watch() for _ in cases]
    for case, watch in zip(cases, watches, strict=True):
        for number in range(ticks):
            feed(case, number, 1000, keys_max=5003)
        engine.register(read_query(case.file), [watch])
    begun = time.perf_counter()
    for case in cases:
        engine.start(case.root.name, once=True)
    assert engine.wait_ended(8 * WAIT_S)
    taken = time.perf_counter() - begun
    for case, status in zip(cases, engine.status(), strict=True):
        assert status.summary is not None, status.error
        assert status.summary.rows_out == case.check()
    seconds = [s for status in engine.status() for s in status.summary.tick_seconds[2:]]
    with capsys.disabled():
        print(
            f"\n{count} queries x {ticks} ticks in {taken:.1f} s; a tick (the first two aside): median "
            f"{statistics.median(seconds):.2f} s, 95 % {statistics.quantiles(seconds, n=20)[-1]:.2f} s, "
            f"longest {max(seconds):.2f} s; load {os.getloadavg()[0]:.1f}"
        )


def test_reports_are_frozen(spec: QuerySpec) -> None:
    """What `status` hands out cannot be changed by who gets it."""
    engine = EngineHost(quiet())
    engine.register(spec)
    with pytest.raises(AttributeError):
        engine.status()[0].state = State.FAILED
