"""Samples: a steady input is a steady rate however ticks and samples fall, and no row is lost or told twice in means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from control.policies.none import Nothing
from control.samples import Sample
from db.tiles import QUERY_FIGURES, bucketed, of_ticks
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.batches import Planned
from engine.rates import PATIENCE_S, BatchRates
from engine.telemetry import Telemetry
from tests.engine.checked import scratch
from tests.engine.local import Clock, Local, LocalSide, stream
from tests.engine.telling import made_report

SQL = "SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k"
RATE = 300  # rows a second of both streams
START_S = 1_000_000.0


class Stage:
    """A query by a clock that is set by hand: `batch` lets time pass, as a trigger that is sometimes late does."""

    def __init__(self, local: Local, every_s: float) -> None:
        self.local, self.samples = local, list[Sample]()
        local.clock.now = START_S
        local.ticker.wall = local.clock
        policy = Policy(Nothing(), interval_s=1e9)
        records = Records(local.root / "a")
        self.desk = Desk(local.ticker, policy, {}, records, local.clock, LocalSide)
        telemetry = Telemetry(self.samples.append, local.clock, every_s)
        local.ticker.ports = (*local.ticker.ports, telemetry)
        self.desk.watch = telemetry.look
        self.handed_s = START_S

    def batch(self, later_s: float, *, rate: float = RATE) -> int:
        """So much later a batch with what has come in since the one before; how many rows."""
        self.local.clock.now = self.handed_s = self.handed_s + later_s
        self.desk.between(idle=False)  # as the runner: a sample at the boundary, before the tick
        half = round(rate * later_s / 2)
        table = pa.table({"k": np.arange(half) % 50, "v": np.arange(half)})
        self.local.tick({"a": table, "b": table})
        self.local.clock.now += 0.2  # until then it is joined
        return 2 * half

    def rest(self, seconds: float) -> None:
        """Nothing comes; the runner looks four times a second."""
        for _ in range(round(4 * seconds)):
            self.local.clock.now += 0.25
            self.desk.between(idle=True)

    def figure(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([sample.figures[name] for sample in self.samples])


@pytest.fixture
def local() -> Iterator[Local]:
    with scratch() as root:
        ddl = "k bigint, v bigint"
        yield Local(root, SQL, [stream("a", ddl), stream("b", ddl)])


def test_a_steady_input_is_a_steady_rate(local: Local) -> None:
    """Batches that are alternately early and late: the rows of each were divided by the time of another."""
    stage = Stage(local, 1.0)
    for later_s in [1.0, 0.6, 1.4, 0.7, 1.3, 0.9, 1.1] * 4:
        stage.batch(later_s)
    stage.rest(1)
    told = stage.figure("rows_in_per_s")[1:]
    assert len(told) > 20
    np.testing.assert_allclose(told, RATE, rtol=0.02)
    by_node = np.array([sample.nodes["rows_in_per_s"].sum() for sample in stage.samples[1:]])
    np.testing.assert_allclose(by_node, RATE, rtol=0.02)


def test_a_slow_trigger_is_no_saw(local: Local) -> None:
    """Samples come every second, batches every eight: in between the rate stays what it was."""
    stage = Stage(local, 8.0)
    for _ in range(4):
        stage.batch(8.0)
        stage.rest(7.5)
    told = stage.figure("rows_in_per_s")[1:]
    assert len(told) > 20
    np.testing.assert_allclose(told[8:], RATE, rtol=0.02)


def test_a_batch_that_waits_for_its_tick_is_no_dip() -> None:
    """Planned while something else has the tick's turn: samples meanwhile repeat the rate, however late it is."""
    rates, blank = BatchRates(START_S, 1.0), made_report()
    rates.add(replace(blank, tick=1, until_s=START_S + 2, rows_in=200))
    assert rates.take(START_S + 5.5).rows_in_per_s == 100
    between = rates.take(START_S + 2 + PATIENCE_S + 1)
    assert (between.rows_in_per_s, between.covered_s) == (100, 0)
    rates.add(replace(blank, tick=2, until_s=START_S + 6, rows_in=400))
    found = rates.take(START_S + 9)
    assert (found.rows_in_per_s, found.covered_s) == (100, 4)


def test_when_nothing_comes_the_rate_ends(local: Local) -> None:
    stage = Stage(local, 1.0)
    for _ in range(5):
        stage.batch(1.0)
    stage.rest(PATIENCE_S + 3)
    assert stage.figure("rows_in_per_s")[-1] == 0
    stage.handed_s = local.clock.now
    stage.batch(1.0)
    stage.rest(1)
    assert 0 < stage.figure("rows_in_per_s")[-1] <= RATE


def test_means_have_every_row_once(local: Local) -> None:
    """Over any time a rate's mean by the time that it is about, as the store has it, is the rows that came."""
    stage, rows = Stage(local, 1.0), 0
    for later_s, rest_s in [(1.0, 0), (0.6, 0), (3.0, 2), (0.5, 20), (20.0, 1), (1.5, 0), (0.4, 9)]:
        rows += stage.batch(later_s)
        stage.rest(rest_s)
        stage.handed_s = max(stage.handed_s, local.clock.now - 0.3)
    covered, rates = stage.figure("covered_s"), stage.figure("rows_in_per_s")
    assert float(covered @ rates) == pytest.approx(rows)
    figures = [
        np.array([s.figures[name] for name in QUERY_FIGURES]).tobytes() for s in stage.samples
    ]
    nodes = [np.zeros((0,), np.float32).tobytes()] * len(figures)
    minutes = bucketed([of_ticks([s.time_s for s in stage.samples], figures, nodes)], 10)
    assert len(minutes) > 4
    for tile in (minutes, bucketed([minutes], 1e9)):  # means, and means of means
        mean, seconds = (
            tile.figures[QUERY_FIGURES.index(name)] for name in ("rows_in_per_s", "covered_s")
        )
        assert float(mean @ seconds) == pytest.approx(rows)


def test_a_clock_that_is_set_back_or_on_ends_no_samples_and_makes_no_peak(local: Local) -> None:
    stage = Stage(local, 1.0)
    for jump_s in (0, 0, 0, -3600, 0, 0, 0, 7200, 0, 0):
        stage.handed_s += jump_s
        local.clock.now += jump_s
        stage.batch(1.0)
    stage.rest(1)
    told = stage.figure("rows_in_per_s")[1:]
    assert len(told) >= 9
    # The batch during which the clock changed is the exception: nobody knows how long it really was.
    assert float(np.median(told)) == pytest.approx(RATE, rel=0.02)
    assert (np.abs(told - RATE) < 0.02 * RATE).sum() >= len(told) - 2


def test_results_without_a_batch_wait_for_the_next_or_for_the_end_of_patience() -> None:
    """A clean-up's results come out beside the batches; they shorten no batch's time."""
    rates, blank = BatchRates(START_S, 1.0), made_report()
    rates.add(replace(blank, tick=1, until_s=START_S + 1, rows_in=100))
    assert rates.take(START_S + 1.2).rows_in_per_s == 100
    rates.add(replace(blank, tick=None, until_s=START_S + 1.4, rows_out=50))
    between = rates.take(START_S + 1.8)
    assert (between.rows_in_per_s, between.rows_out_per_s, between.covered_s) == (100, 0, 0)
    rates.add(replace(blank, tick=2, until_s=START_S + 2, rows_in=100, rows_out=10))
    found = rates.take(START_S + 2.2)
    assert (found.rows_in_per_s, found.rows_out_per_s, found.covered_s) == (100, 60, 1)
    rates.add(replace(blank, tick=None, until_s=START_S + 3, rows_out=500))
    found = rates.take(START_S + 2.3 + PATIENCE_S)
    assert (found.rows_out_per_s, found.covered_s) == (500 / PATIENCE_S, PATIENCE_S)


def test_a_batch_ends_when_spark_planned_it(tmp_path: Path) -> None:
    """As its log of offsets says; not where the log is of an earlier life, of another clock, broken or gone."""
    clock = Clock(START_S)
    planned = Planned(tmp_path, clock)

    def note(batch: int, text: str) -> None:
        (tmp_path / str(batch)).write_text(text)

    clock.now += 2
    note(0, f'v1\n{{"batchTimestampMs":{(START_S + 1.5) * 1e3:.0f}}}\n{{}}')
    assert planned.time_s(0) == START_S + 1.5
    note(1, f'v1\n{{"batchTimestampMs":{(START_S + 1) * 1e3:.0f}}}\n{{}}')
    assert planned.time_s(1) == clock.now, "before the batch before"
    note(2, f'v1\n{{"batchTimestampMs":{(START_S + 9) * 1e3:.0f}}}\n{{}}')
    assert planned.time_s(2) == clock.now, "in time to come"
    for text in ("", "v1", "v1\n[]", "v1\n{}", 'v1\n{"batchTimestampMs":null}'):
        note(3, text)
        assert planned.time_s(3) == clock.now
    assert planned.time_s(4) == clock.now, "nothing is noted"
    clock.now -= 3600  # set back: from the next batch on it is believed again
    assert planned.time_s(5) == clock.now
    clock.now += 1
    note(6, f'v1\n{{"batchTimestampMs":{(clock.now - 0.5) * 1e3:.0f}}}\n{{}}')
    assert planned.time_s(6) == clock.now - 0.5
