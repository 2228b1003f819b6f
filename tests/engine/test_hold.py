"""The hold buffer: a slow node's excess waits, whole groups at a time and in order; the others do not; nothing is
lost, whatever stops in between; and what waits never waits for ever."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine import admission, pacing
from engine.admission import Load, admit, drain
from engine.errors import SpillwayError
from engine.progress import RunSummary
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import QueryRun
from engine.settings import Settings
from engine.state.commits import CommitLog
from tests.engine.oracle import Case, Kept, quiet

NEVER = np.iinfo(np.int64).max

# -- the decision ------------------------------------------------------------------------------------


@st.composite
def loads(draw: st.DrawFn) -> Load:
    groups, nodes = draw(st.integers(1, 24)), draw(st.integers(1, 5))

    def longs(low: int, high: int) -> np.ndarray:
        values = draw(st.lists(st.integers(low, high), min_size=groups, max_size=groups))
        return np.array(values, dtype=np.int64)

    held = longs(0, 3) * longs(0, 5000)
    pace = st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 0.02])
    return Load(
        owner=longs(0, nodes - 1),
        expected_rows=longs(0, 9000).astype(float),
        held_rows=held,
        held_since=np.where(held > 0, longs(1, 99), NEVER),
        pace_s=np.array(draw(st.lists(pace, min_size=nodes, max_size=nodes))),
    )


def seconds(load: Load, groups: list[int] | np.ndarray, node: int) -> float:
    mine = [g for g in groups if load.owner[g] == node]
    return float(load.pace_s[node] * (load.expected_rows[mine] + load.held_rows[mine]).sum())


@given(loads())
def test_every_node_is_given_at_most_its_share_of_time(load: Load) -> None:
    made = admit(load)
    groups = np.arange(len(load.owner))
    usual = np.median(
        [
            load.pace_s[n] * load.expected_rows[load.owner == n].sum()
            for n in range(len(load.pace_s))
        ]
    )
    limit = max(admission.FLOOR_S, admission.SLOW_FACTOR * float(usual))
    for node in range(len(load.pace_s)):
        mine = groups[load.owner == node]
        admitted = [g for g in mine.tolist() if g not in made.hold]
        one = max((seconds(load, [g], node) for g in admitted), default=0.0)
        assert seconds(load, admitted, node) <= max(limit, one) * (1 + 1e-9)
        if seconds(load, mine, node) <= limit:
            assert not set(mine.tolist()) & set(made.hold), "held although there is time"
        waiting = [g for g in mine.tolist() if load.held_rows[g]]
        if waiting:
            oldest = min(load.held_since[g] for g in waiting)
            assert any(load.held_since[g] == oldest for g in made.release if g in waiting), (
                "the oldest waits on"
            )


@given(loads())
def test_a_group_is_either_held_or_let_in_with_all_that_waited(load: Load) -> None:
    made = admit(load)
    assert not set(made.hold) & set(made.release)
    waiting = set(np.flatnonzero(load.held_rows).tolist())
    assert set(made.release) == waiting - set(made.hold), "new rows would overtake those that wait"


@given(loads())
def test_nothing_is_held_when_nodes_are_alike(load: Load) -> None:
    """The same pace and the same rows everywhere, however many."""
    nodes = len(load.pace_s)
    even = Load(
        np.arange(nodes * 4) % nodes,
        np.full(nodes * 4, 1e7),
        np.zeros(nodes * 4, dtype=np.int64),
        np.full(nodes * 4, NEVER),
        np.full(nodes, 1e-3),
    )
    assert admit(even) == admission.OPEN


@given(loads(), st.integers(0, 2**32))
def test_a_held_group_is_released_within_as_many_ticks_as_groups(load: Load, seed: int) -> None:
    """Input goes on at any rate; after `groups` ticks everybody who waited at the start has been let in."""
    rng, held, since = np.random.default_rng(seed), load.held_rows.copy(), load.held_since.copy()
    left = set(np.flatnonzero(held).tolist())
    for version in range(100, 101 + len(held)):
        arriving = rng.integers(0, 9000, len(held))
        made = admit(replace(load, held_rows=held.copy(), held_since=since.copy()))
        left -= set(made.release)
        held[list(made.release)], since[list(made.release)] = 0, NEVER
        for g in made.hold:
            since[g] = version if held[g] == 0 and arriving[g] else since[g]
            held[g] += arriving[g]
    assert not left


@given(loads(), st.integers(1, 20_000))
def test_draining_takes_the_oldest_first_and_ends(load: Load, rows_max: int) -> None:
    held, since = load.held_rows.copy(), load.held_since.copy()
    for _ in range(len(held)):
        if not held.any():
            break
        made = drain(held, since, rows_max)
        taken = list(made.release)
        assert taken and not made.hold
        assert held[taken].sum() <= rows_max or len(taken) == 1
        rest = [g for g in np.flatnonzero(held).tolist() if g not in taken]
        assert max(since[taken]) <= min(since[rest], default=NEVER)
        held[taken], since[taken] = 0, NEVER
    assert not held.any()


# -- the engine --------------------------------------------------------------------------------------

NODES, SLOW = 3, 1
TICKS, ROWS, KEYS = 7, 900, 300


def make(root: Path, ticks: int = TICKS) -> Case:
    """b's keys come first, all at once; so each row of a gives its result in the tick that takes it in."""
    case = Case(
        root,
        "SELECT a.k, a.v FROM a JOIN b ON a.k = b.k",
        {"a": "k long, v long", "b": "k long"},
        nodes=NODES,
        groups=24,
    )
    case.write()
    rng = np.random.default_rng(3)
    case.feed("b", 0, pa.table({"k": np.arange(KEYS)}))
    for number in range(ticks):
        keys = rng.integers(0, KEYS, ROWS)
        case.feed("a", number, pa.table({"k": keys, "v": np.full(ROWS, number)}))
        os.utime(
            source_file(case, number), (10**9 + number, 10**9 + number)
        )  # Spark's order of files
    return case


def source_file(case: Case, number: int) -> Path:
    return case.root / "data" / "a" / f"{number:03d}.parquet"


class Watch(Kept):
    """Keeps the reports and does something at each."""

    def __init__(self, then: Callable[[TickReport], None] = lambda _: None) -> None:
        super().__init__()
        self.then = then

    def publish(self, report: TickReport) -> None:
        super().publish(report)
        self.then(report)

    @property
    def batches(self) -> list[TickReport]:
        return [r for r in self.reports if r.tick is not None]


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ticks count too, so that the slow node need not be slow for long."""
    monkeypatch.setattr(pacing, "admit", functools.partial(admit, floor_s=0.2))


def paced(
    case: Case, *ports: Kept, once: bool = True, settings: Settings | None = None, slow: float = 1.5
) -> QueryRun:
    """A run in which node SLOW takes `slow` seconds more for every 1000 rows."""
    run = QueryRun(read_query(case.file), settings or quiet(), ports, once=once)
    run.pacing.enabled = True
    run.slow[SLOW] = slow
    return run


def waits(report: TickReport) -> dict[int, int]:
    return {node.node: node.held_rows for node in report.nodes if node.held_rows}


def in_order(case: Case) -> None:
    """For every key the results of a's rows come in the order in which those arrived."""
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for path in case.out.glob("part-*.parquet"):
        version = int(re.match(r"part-(\d+)", path.name)[1])
        table = pq.read_table(path)
        for k, v in zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True):
            seen[k].append((version, v))
    for pairs in seen.values():
        came = [v for _, v in sorted(pairs)]
        assert came == sorted(came)


def test_a_slow_node_does_not_hold_up_the_others(
    spark: SparkSession, tmp_path: Path, brisk: None
) -> None:
    case, watch = make(tmp_path), Watch()
    run = paced(case, watch)

    def recover(report: TickReport) -> None:
        if report.tick == TICKS - 1:
            run.slow.clear()

    watch.then = recover
    summary = run.run(None)
    assert case.check() == summary.rows_out == TICKS * ROWS
    in_order(case)
    assert any(waits(r) for r in watch.reports), "nothing waited: the test proves nothing"
    assert all(set(waits(r)) <= {SLOW} for r in watch.reports), "rows of other nodes waited"
    first, last = watch.batches[0], watch.batches[-1]
    assert last.nodes[SLOW].rows_in < first.nodes[SLOW].rows_in * 0.7
    slept = [r.nodes[SLOW].rows_in * 1.5 / 1000 for r in watch.batches]
    assert min(slept[3:]) < 0.7 * slept[1], "ticks are as long as if nothing was held"
    assert watch.reports[-1].held_rows == 0 and watch.reports[-1].tick is None
    per_group = watch.reports[-1].groups[0]
    assert per_group.rows_in.sum() == TICKS * ROWS + KEYS


class Cut(Exception):
    """The process ends here, as far as state goes."""


@pytest.mark.parametrize("where", ["committed", "uncommitted"])
def test_what_waits_survives_the_end_of_the_process(
    spark: SparkSession, tmp_path: Path, brisk: None, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Memory is gone too; on another number of nodes it goes on; no row twice, none lost."""
    case, watch = make(tmp_path, ticks=5), Watch()
    run = paced(case, watch)
    append = CommitLog.append

    def die_before(log: CommitLog, commit: object) -> None:
        if any(r.held_rows for r in watch.reports):
            raise Cut
        append(log, commit)

    def die_after(report: TickReport) -> None:
        if report.held_rows:
            raise Cut

    with monkeypatch.context() as patch:
        if where == "committed":
            watch.then = die_after
        else:
            patch.setattr(CommitLog, "append", die_before)
        with pytest.raises(Cut):
            run.run(None)
    manifest = CommitLog(case.checkpoint / "commits").recover().manifest
    assert manifest.holds, "nothing waited: the test proves nothing"
    for folder in Path(quiet().mem_dir).glob("spillway-*"):
        shutil.rmtree(folder)
    again = replace(case, nodes=NODES + 1)
    again.write()
    summary = again.run()
    assert again.check() == summary.rows_out == 5 * ROWS
    in_order(again)


def test_a_damaged_hold_is_not_let_in(spark: SparkSession, tmp_path: Path, brisk: None) -> None:
    case, watch = make(tmp_path, ticks=5), Watch()
    run = paced(case, watch)
    watch.then = lambda report: run.stop() if report.held_rows else None
    with pytest.raises(KeyboardInterrupt):  # stopped before its input was done
        run.run(None)
    hold = CommitLog(case.checkpoint / "commits").recover().manifest.holds[0]
    path = case.checkpoint / "state" / hold.segment.file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(SpillwayError, match="does not match its checksum") as caught:
        case.run()
    assert caught.value.where == str(path)
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    case.run()
    assert case.check() == 5 * ROWS


def test_a_full_buffer_makes_the_source_wait(
    spark: SparkSession, tmp_path: Path, brisk: None
) -> None:
    case, watch = make(tmp_path, ticks=5), Watch()
    paced(case, watch, settings=replace(quiet(), hold_bytes_max=1)).run(None)
    assert any(r.held_rows for r in watch.reports)
    for before, after in itertools.pairwise(watch.reports):
        assert not (after.tick is not None and before.held_rows), (
            "more input taken though the buffer is full"
        )
    assert case.check() == 5 * ROWS


def test_what_waits_is_let_in_without_input(
    spark: SparkSession, tmp_path: Path, brisk: None
) -> None:
    """In real time: no more files come, yet the buffer empties."""
    case, watch = make(tmp_path, ticks=5), Watch()
    run = paced(case, watch, once=False)
    watch.then = lambda r: (
        run.stop() if any(x.held_rows for x in watch.reports[:-1]) and drained(r) else None
    )

    def drained(report: TickReport) -> bool:
        return report.tick is None and report.held_rows == 0 and len(watch.batches) >= 5

    summary = run.run(None)
    assert summary.rows_out == case.check() == 5 * ROWS
    in_order(case)


@pytest.mark.timeout(120)
def test_stopping_meets_a_tick_that_is_about_to_begin(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's thread waits for ours and ours for Spark's, unless the tick gives up."""
    case, entered = make(tmp_path, ticks=1), threading.Event()
    run = QueryRun(read_query(case.file), quiet(), [Watch(lambda _: run.stop())], once=False)
    inner, stop = QueryRun._on_batch, StreamingQuery.stop

    def on_batch(self: QueryRun, ticker: object) -> Callable[[object, int], None]:
        real = inner(self, ticker)

        def call(rows: object, batch: int) -> None:
            entered.set()
            real(rows, batch)

        return call

    def stop_late(stream: StreamingQuery) -> None:
        entered.clear()
        case.feed("a", 1, pa.table({"k": [1, 2], "v": [9, 9]}))
        assert entered.wait(20)
        stop(stream)

    with monkeypatch.context() as patch:
        patch.setattr(QueryRun, "_on_batch", on_batch)
        patch.setattr(StreamingQuery, "stop", stop_late)
        summary: RunSummary = run.run(None)
    assert summary.rows_out == ROWS
    case.run()
    assert case.check() == ROWS + 2
