"""How a backtest went over time: nothing of the worst is lost, gaps stay gaps."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from control.rules import rule_from
from control.simulate.backtest import Setting, backtest
from control.simulate.course import NEAR, POINTS_MAX, Course
from tests.control.drifting import MB, drift, even, record

SHARES = st.floats(0.0, 2.0, allow_nan=False)


@given(st.lists(st.tuples(SHARES, SHARES, SHARES, SHARES), min_size=1, max_size=2_000))
def test_thinning_keeps_the_fullest_and_the_least_even(values: list[tuple[float, ...]]) -> None:
    course = Course(lines=[(float(n), *four) for n, four in enumerate(values)])  # type: ignore[misc]
    told = course.told()
    assert len(told["time_s"]) <= POINTS_MAX
    assert max(told["with_peak"]) == max(line[0] for line in values)
    assert max(told["without_peak"]) == max(line[1] for line in values)
    assert min(told["with_balance"]) == min(line[2] for line in values)
    assert told["time_s"] == sorted(told["time_s"])


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_spans_in_which_a_rule_was_held_do_not_touch(steps: list[int]) -> None:
    course, now_s = Course(), 0.0
    for step in steps:
        now_s += step
        course.was_held(now_s, 15.0)
    spans = course.told()["held"]
    assert all(a <= b for a, b in spans)
    assert all(after[0] - before[1] > 22.5 for before, after in itertools.pairwise(spans))
    assert spans[-1][1] == now_s


def test_a_break_in_the_recording_is_a_gap() -> None:
    course = Course(lines=[(1.0, 0.5, 0.5, 1.0, 1.0)])
    course.broken()
    course.lines.append((99.0, 0.4, 0.4, 1.0, 1.0))
    assert course.told()["with_peak"] == [0.5, None, 0.4]
    assert json.loads(json.dumps(course.told()))


def test_a_backtest_tells_its_course() -> None:
    shots = record(drift(1), [0] * 24 + [1] * 8, 24 * MB, 25)
    found = backtest(rule_from(even()), shots, Setting(local=None))
    course, benefit = found["course"], found["benefit"]
    assert max(course["with_peak"]) == benefit["with"]["peak_memory_share"]
    assert max(course["without_peak"]) == benefit["without"]["peak_memory_share"]
    length = found["until_s"] - found["from_s"]
    for name in ("with", "without"):
        assert 0 <= course[f"{name}_near_s"] <= length
        near = any(peak > NEAR for peak in course[f"{name}_peak"][1:])
        assert (course[f"{name}_near_s"] > 0) == near
    assert found["firings"] and all(0 <= b <= 1 for b in course["with_balance"])
