"""The recorder: nobody waits for the store; what is lost is counted; it goes on when it can."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from control.errors import StoreError
from control.samples import Sample
from db.open import Store, open_store
from db.recorder import Recorder, Recording
from tests.db.locks import locked
from tests.db.made import START_S, sample

S = START_S
LONG_S = 30.0


class Gate:
    """A store's metrics behind a gate: closed, writing waits; `wrong`, it fails."""

    def __init__(self, store: Store) -> None:
        self.store, self.open, self.inside = store, threading.Event(), threading.Event()
        self.wrong: Callable[[], Exception | None] = lambda: None

    def write(self, samples: Sequence[Sample]) -> None:
        self.inside.set()
        assert self.open.wait(LONG_S)
        if error := self.wrong():
            raise error
        self.store.metrics.write(samples)


def times(store: Store) -> list[float]:
    return (store.metrics.query_series("q", S, S + 1000).time_s - S).tolist()


def test_what_is_put_is_written_in_order(store: Store) -> None:
    recorder = Recorder(store.metrics)
    for number in range(100):
        recorder.put(sample(S + number))
    assert recorder.settled(LONG_S)
    assert recorder.recording == Recording(written=100)
    assert times(store) == list(range(100))
    newest = store.metrics.newest("q")
    assert newest is not None
    assert newest.time_s == S + 99
    recorder.close()


def test_close_writes_what_waits(store: Store) -> None:
    gate = Gate(store)
    recorder = Recorder(gate)
    for number in range(70):
        recorder.put(sample(S + number))
    assert not recorder.settled(0.01)
    gate.open.set()
    recorder.close(LONG_S)
    assert times(store) == list(range(70))
    assert not recorder.alive


def test_a_full_queue_loses_its_oldest_and_counts_them(store: Store) -> None:
    gate = Gate(store)
    recorder = Recorder(gate, most=5)
    recorder.put(sample(S))
    assert gate.inside.wait(LONG_S)
    for number in range(1, 20):
        recorder.put(sample(S + number))  # must not wait: the gate is closed
    assert (recorder.recording.dropped, recorder.recording.waiting) == (14, 5)
    gate.open.set()
    assert recorder.settled(LONG_S)
    assert times(store) == [0, 15, 16, 17, 18, 19]
    assert recorder.recording == Recording(written=6, dropped=14)
    recorder.close()


@pytest.mark.chaos
def test_a_locked_store_is_tried_again_until_it_is_not(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True, busy_s=0.01)
    told: list[str] = []
    failed, fine = threading.Event(), threading.Event()

    def hear(text: str) -> None:
        told.append(text)
        (failed if text else fine).set()

    recorder = Recorder(store.metrics, told=hear, retry_s=0.01)
    with locked(tmp_path / "metrics.db"):
        recorder.put(sample(S))
        assert failed.wait(LONG_S)
        recorder.put(sample(S + 1))
    assert fine.wait(LONG_S)
    assert recorder.settled(LONG_S)
    found = recorder.recording
    assert (found.written, found.dropped, found.error) == (2, 0, "")
    assert found.failures >= 1
    assert times(store) == [0, 1]
    assert len(told) == 2, "once that it fails, once that it is well again"
    assert "locked" in told[0]
    recorder.close()
    store.close()


@pytest.mark.parametrize(
    "error", [lambda: StoreError("no use", again=False), lambda: ValueError("odd sample")]
)
def test_what_can_never_be_written_is_dropped_and_counted(
    store: Store, error: Callable[[], Exception]
) -> None:
    gate = Gate(store)
    gate.wrong = error
    gate.open.set()
    recorder = Recorder(gate, retry_s=0.0)
    recorder.put(sample(S))
    assert recorder.settled(LONG_S)
    found = recorder.recording
    assert (found.written, found.dropped, found.failures) == (0, 1, 1)
    assert str(error()) in found.error
    gate.wrong = lambda: None
    recorder.put(sample(S + 1))
    assert recorder.settled(LONG_S)
    assert recorder.recording == Recording(written=1, dropped=1, failures=1)
    recorder.close()


def test_close_gives_up_on_a_store_that_fails(store: Store) -> None:
    gate = Gate(store)
    gate.wrong = lambda: StoreError("locked")
    gate.open.set()
    recorder = Recorder(gate, retry_s=LONG_S)
    for number in range(40):
        recorder.put(sample(S + number))
    recorder.close(LONG_S)
    assert not recorder.alive
    assert recorder.recording.dropped == 40


def test_what_is_tried_again_stays_in_order(store: Store) -> None:
    """The first goes well, the three after it fail together and are tried again."""
    gate = Gate(store)
    recorder = Recorder(gate, retry_s=0.01)
    recorder.put(sample(S))
    assert gate.inside.wait(LONG_S)
    for number in range(1, 4):
        recorder.put(sample(S + number))
    outcomes = iter([None, StoreError("locked")])
    gate.wrong = lambda: next(outcomes, None)
    gate.open.set()
    assert recorder.settled(LONG_S)
    assert recorder.recording == Recording(written=4, failures=1)
    recorder.close()
    newest = store.metrics.newest("q")
    assert newest is not None
    assert newest.time_s == S + 3
    assert times(store) == [0, 1, 2, 3]
