"""What the feed keeps for all watchers, and that it lets go of everything else."""

from __future__ import annotations

import threading

import pytest

from app.desk import desk_of
from control.errors import PlanError, StoreError
from tests.app.made import QUERY, Console


def test_readings_that_fail_leave_nothing_behind(running: Console) -> None:
    """A join order that is none fails at each look, under a key of its own each time."""
    feed = desk_of(running.app).feed
    sample = feed.newest(QUERY)
    assert sample is not None
    for number in range(50):
        with pytest.raises(PlanError):
            feed.order(sample, f"(no {number}")
    assert not feed._readings


def test_of_many_who_ask_at_once_one_reads_and_nothing_is_left(running: Console) -> None:
    feed, reads, inside = desk_of(running.app).feed, [], threading.Event()
    go_on = threading.Event()

    def read() -> str:
        reads.append(threading.get_ident())
        inside.set()
        assert go_on.wait(30)
        return "what was read"

    found: list[str] = []
    many = [
        threading.Thread(target=lambda: found.append(feed.kept("key", 60, read))) for _ in range(8)
    ]
    for one in many:
        one.start()
    assert inside.wait(30)
    go_on.set()
    for one in many:
        one.join()
    assert found == ["what was read"] * 8 and len(reads) == 1
    assert not feed._readings


def test_one_that_waits_for_a_reading_that_fails_reads_itself(running: Console) -> None:
    feed, tries = desk_of(running.app).feed, []
    inside, go_on = threading.Event(), threading.Event()

    def read() -> str:
        tries.append(1)
        if len(tries) == 1:
            inside.set()
            assert go_on.wait(30)
            raise StoreError("away")
        return "read"

    failed: list[Exception] = []

    def first() -> None:
        try:
            feed.kept("key", 60, read)
        except StoreError as error:
            failed.append(error)

    one = threading.Thread(target=first)
    one.start()
    assert inside.wait(30)
    found: list[str] = []
    other = threading.Thread(target=lambda: found.append(feed.kept("key", 60, read)))
    other.start()
    go_on.set()
    one.join()
    other.join()
    assert failed and found == ["read"]
    assert not feed._readings
