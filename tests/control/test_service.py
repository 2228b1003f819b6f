"""The control process: it beats, says what is wrong, goes on afterwards, and nothing slow holds it up."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from control import service
from control.samples import Heartbeat
from control.service import BEAT, Service, serve, waken
from tests.control.loops import MB, calm, text
from tests.control.stage import Stage

WAIT_S = 20.0  # far more than it takes; nothing here waits for so long unless it is broken


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    owner = (np.arange(64) % 4 == 3).astype(np.int64)
    made = Stage(tmp_path, calm(), owner, np.array([400 * MB, 400 * MB]))
    made.world.memory[:] = 1000.0
    made.tell()
    yield made
    made.store.close()


def served(stage: Stage) -> Service:
    return Service(stage.store, stage.dispatcher, stage.clock, dict)


def beat_of(stage: Stage) -> Heartbeat:
    return next(b for b in stage.store.metrics.heartbeats() if b.process == "control")


def test_a_beat_runs_rules_alerts_and_lessons(stage: Stage) -> None:
    work = served(stage)
    stage.rule(text())
    for _ in range(40):
        stage.second()
        work.beat()
    assert len(stage.done) == 1
    assert len(stage.store.learning.page()) == 1  # of its bandwidth
    told = beat_of(stage)
    assert told.state == "running" and told.beat_s == stage.now_s
    assert told.about["rounds"] == 40 and not told.about["trouble"]


def test_what_is_wrong_is_in_the_heartbeat_until_it_is_right_again(
    stage: Stage, tmp_path: Path
) -> None:
    work = served(stage)
    stage.rule(text())
    stage.seconds(14)
    stage.second()
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    work.beat()
    assert beat_of(stage).about["trouble"]
    assert beat_of(stage).about["trouble_s"] == stage.now_s
    other.execute("ROLLBACK")
    other.close()
    stage.second()
    work.beat()
    assert not beat_of(stage).about["trouble"]
    assert len(stage.store.proposals.page()) == 1


def test_one_thing_that_fails_keeps_nothing_else_from_its_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = served(stage)

    def broken(now_s: float) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr(work.watch, "run_once", broken)
    stage.rule(text())
    for _ in range(25):
        stage.second()
        work.beat()
        assert "ZeroDivisionError: by hand" in work.pulse.trouble
    assert len(stage.done) == 1 and stage.store.learning.page()


def test_a_clock_set_back_does_not_stop_alerts_and_lessons(stage: Stage) -> None:
    work = served(stage)
    looked: list[float] = []
    work.watch.run_once = lambda now_s: looked.append(now_s) or []  # type: ignore[method-assign,func-returns-value]
    for seconds in (0, 1, 5, -100_000, 1, 5):
        stage.now_s += seconds
        work.beat()
    assert len(looked) == 4


def test_served_until_told_to_stop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chores run in threads of their own: one never returns before the end, the others go on."""
    for name in ("TIDY_S", "CHECKPOINT_S", "DELIVER_S", "BEAT_S"):
        monkeypatch.setattr(service, name, 0.01)
    stop, stuck, tidied, failed = (threading.Event() for _ in range(4))
    delivered: list[float] = []

    def deliver(now_s: float) -> None:
        delivered.append(now_s)
        if len(delivered) == 1:
            raise OSError("no network")
        failed.set()

    thread = threading.Thread(
        target=serve,
        args=(stage.store, stage.dispatcher, stop, stage.clock),
        kwargs={
            "tidy": lambda now_s: tidied.set(),
            "checkpoint": lambda now_s: stuck.wait(WAIT_S),
            "deliver": deliver,
            "disks": dict,
        },
    )
    thread.start()
    try:
        assert tidied.wait(WAIT_S) and failed.wait(WAIT_S)
    finally:
        stop.set()
        stuck.set()
        thread.join(WAIT_S)
    assert not thread.is_alive()
    assert beat_of(stage).state == "stopped" and beat_of(stage).about["rounds"] >= 1


def test_a_beat_that_lies_far_ahead_is_brought_to_now() -> None:
    """As after the clock was set back: the scheduler would wait until the old time comes again."""
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(lambda: None, "interval", seconds=1, id=BEAT)
    scheduler.start(paused=True)
    try:
        assert not waken(scheduler, 5.0)
        scheduler.modify_job(BEAT, next_run_time=datetime.now(UTC) + timedelta(hours=1))
        assert waken(scheduler, 5.0)
        assert not waken(scheduler, 5.0)
    finally:
        scheduler.shutdown()
