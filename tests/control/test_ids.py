"""Names sort by time, and come again from the same time and chance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control.ids import new_id

times = st.floats(0, 4e9, allow_nan=False)
chance = st.integers(0, 2**64)


@given(times, times, chance, chance)
def test_names_sort_by_time(one_s: float, other_s: float, one: int, other: int) -> None:
    a, b = new_id(one_s, one), new_id(other_s, other)
    if round(one_s * 1000) < round(other_s * 1000):
        assert a < b
    assert len(a) == len(b) == 16
    assert a == new_id(one_s, one)


@given(times, st.text(), st.text())
def test_chance_may_be_a_text(now_s: float, one: str, other: str) -> None:
    assert (new_id(now_s, one) == new_id(now_s, other)) == (one == other)


def test_times_out_of_range_are_held_within() -> None:
    assert new_id(-5.0, 0) == "0" * 16
    assert new_id(1e300, -1) == "z" * 16
