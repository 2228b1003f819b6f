"""Watermarks: what may be forgotten is only what no accepted row to come can join (brute force)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.watermarks import watermarks


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)), st.sets(st.sampled_from("abc"))
)
def test_an_idle_input_takes_the_least_of_the_rest_and_never_goes_back(
    seen: dict[str, int], idle: set[str]
) -> None:
    delays = dict.fromkeys("abc", 5)
    marks = watermarks(seen, delays, idle)
    for alias, mark in marks.items():
        assert mark >= seen.get(alias, -(10**9)) - 5
    active = [a for a in "abc" if a not in idle]
    if active and all(a in seen for a in active):
        least = min(seen[a] - 5 for a in active)
        for alias in idle:
            assert marks[alias] == max(seen.get(alias, least + 5) - 5, least)
