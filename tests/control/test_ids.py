"""Names sort by time, come again from the same time and chance, and never twice from one source."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from control.ids import CHANCE_BITS, Ids, new_id, time_of

times = st.floats(0, 4e9, allow_nan=False)
chance = st.integers(0, 2**64)


@given(times, times, chance, chance)
def test_names_sort_by_time(one_s: float, other_s: float, one: int, other: int) -> None:
    a, b = new_id(one_s, one), new_id(other_s, other)
    if round(one_s * 1000) < round(other_s * 1000):
        assert a < b
    assert len(a) == len(b) == 16
    assert abs(time_of(a) - one_s) <= 0.000_501
    assert a == new_id(one_s, one)


@given(times, st.text(), st.text())
def test_chance_may_be_a_text(now_s: float, one: str, other: str) -> None:
    assert (new_id(now_s, one) == new_id(now_s, other)) == (one == other)


@given(st.lists(st.tuples(times, st.integers(0, 2 ** (CHANCE_BITS - 1) - 1)), min_size=2))
def test_a_source_goes_up_whatever_the_clock_does(steps: list[tuple[float, int]]) -> None:
    left = iter(steps)
    now = steps[0]

    def clock() -> float:
        nonlocal now
        now = next(left)
        return now[0]

    ids = Ids(clock, lambda _: now[1])
    made = [ids.next() for _ in steps]
    assert made == sorted(set(made))


def test_threads_get_names_of_their_own() -> None:
    ids = Ids(lambda: 1e9, lambda _: 7)
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(ids.next() for _ in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 800


def test_times_out_of_range_are_held_within() -> None:
    assert new_id(-5.0, 0) == "0" * 16
    assert new_id(1e300, -1) == "z" * 16
