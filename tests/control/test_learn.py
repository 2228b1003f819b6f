"""Learning from actions: what is compared, what is scaled, that the truth is found and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cost.coefficients import Coefficients
from control.cost.recalibrate import CORRECTS
from control.learn import (
    BASE,
    GROWS_WITH,
    SURE_ROWS,
    compared,
    estimates,
    estimates_from,
    learn,
    lesson,
    numbers,
)
from control.ledger import ActionRow
from control.plans import Plan, Reason, Topic
from control.predict import preview
from tests.control.cost_example import example
from tests.control.predicted import steps_of
from tests.db.template import fresh_store

FIGURES = sorted(CORRECTS)
SIZES = st.floats(1e-6, 1e6)


def row(id: str, predicted: dict[str, Any], actual: dict[str, Any], at: float = 10.0) -> ActionRow:
    return ActionRow(id, "q", {}, "ann", "done", at - 1, at, 5, predicted=predicted, actual=actual)


@given(st.sampled_from(FIGURES), SIZES, SIZES)
def test_a_figure_moves_its_coefficient_and_no_other(
    figure: str, predicted: float, actual: float
) -> None:
    before = estimates_from({})
    lines, after = lesson(row("a", {figure: predicted}, {figure: actual}), before, 5.0)
    (line,) = lines
    assert line.coefficient == CORRECTS[figure] and line.figure == figure
    assert line.before == before[line.coefficient].value
    assert line.after == after[line.coefficient].value
    up = actual > predicted
    assert (line.after > line.before) == up or actual == pytest.approx(predicted)
    assert {name for name in after if after[name] != before[name]} == {line.coefficient}


@given(
    st.sampled_from(FIGURES),
    st.sampled_from([0, -1.0, None, "soon", float("inf"), float("nan"), True]),
    st.booleans(),
)
def test_what_cannot_be_compared_teaches_nothing(figure: str, odd: Any, there: bool) -> None:
    told = ({figure: odd}, {figure: 1.0}) if there else ({figure: 1.0}, {figure: odd})
    lines, after = lesson(row("a", *told), estimates_from({}), 5.0)
    if odd is not True:
        assert not lines and after == estimates_from({})


@given(st.floats(0.1, 10.0))
def test_twice_the_bytes_are_no_lesson_about_a_byte(times: float) -> None:
    predicted = {"spill_cpu_s": 2.0, "bytes": 100.0, "move_bandwidth": 5.0}
    actual = {"spill_cpu_s": 2.0 * times, "bytes": 100.0 * times, "move_bandwidth": 5.0}
    lines, after = lesson(row("a", predicted, actual), estimates_from({}), 5.0)
    assert len(lines) == 2
    for line in lines:
        assert after[line.coefficient].value == pytest.approx(line.before)


@given(st.sampled_from(sorted(SURE_ROWS)), st.floats(1.1, 3.0))
def test_few_rows_teach_little_of_what_a_row_takes(figure: str, times: float) -> None:
    """Most of a small job is what it takes besides its rows."""

    def after(rows: float) -> float:
        told = {figure: 1.0, GROWS_WITH[figure]: rows}
        lines, _ = lesson(row("a", told, {**told, figure: times}), estimates_from({}), 5.0)
        return lines[0].after / lines[0].before

    assert 1.0 < after(2e4) < times**0.2 < times**0.7 < after(5e6) < times


@given(st.floats(0.3, 3.0), st.integers(1, 12))
def test_predictions_made_alike_do_not_teach_the_same_twice(truth: float, actions: int) -> None:
    """All predicted with what was known at first; learned from one after the other."""
    body = {"figures": {"tick_s": BASE.tick_s}, "coefficients": {"tick_s": BASE.tick_s}}
    now = estimates_from({})
    for number in range(actions):
        _, now = lesson(row(str(number), body, {"tick_s": BASE.tick_s * truth}), now, 1.0)
    low, high = sorted((1.0, truth))
    assert low - 1e-9 <= now["tick_s"].value / BASE.tick_s <= high + 1e-9


@given(st.integers(0, 2**32 - 1))
def test_previews_can_be_compared_with_what_actions_tell(seed: int) -> None:
    snapshot = example()
    plan = Plan(tuple(steps_of(snapshot, seed)), (Reason.of(Topic.CHOSEN, "test"),))
    for number, step in enumerate(preview(plan, snapshot, Coefficients())["steps"]):
        told = {name: value * 2 for name, value in step["figures"].items()}
        one = row(str(number), step, told)
        lines, _ = lesson(one, estimates_from({}), 1.0)
        wanted = {n for n in step["figures"] if n in CORRECTS and step["figures"][n] > 0}
        assert {line.figure for line in lines} == wanted
        assert all(line["ratio"] == 2.0 for line in compared(one) if line["ratio"] is not None)


def test_the_truth_is_found_kept_and_shown(tmp_path: Path) -> None:
    """Forty spills that take three times what was guessed, each predicted with what was known by then."""
    store = fresh_store(tmp_path)
    truth = replace(Coefficients(), write_s_per_byte=6e-9)
    for number in range(40):
        known = numbers(store)
        size = 1e8
        predicted = {
            "figures": {"spill_cpu_s": known.write_s_per_byte * size, "bytes": size},
            "coefficients": {"write_s_per_byte": known.write_s_per_byte},
        }
        actual = {"spill_cpu_s": truth.write_s_per_byte * size, "bytes": size}
        store.actions.keep([row(f"a{number:03}", predicted, actual, at=100.0 + number)])
        assert learn(store, 200.0 + number) == 1
    assert numbers(store).write_s_per_byte == pytest.approx(6e-9, rel=0.02)
    assert estimates(store)["write_s_per_byte"].count == 40
    assert numbers(store).read_s_per_byte == BASE.read_s_per_byte
    lines = store.learning.page(most=100)
    assert len(lines) == 40
    newest, oldest = lines[0], lines[-1]
    assert oldest.before == pytest.approx(2e-9) and newest.after == numbers(store).write_s_per_byte
    assert learn(store, 300.0) == 0
    store.close()


def test_an_action_without_a_lesson_is_not_offered_again(tmp_path: Path) -> None:
    store = fresh_store(tmp_path)
    store.actions.keep([row("a", {"figures": {"odd": 1.0}}, {"bytes": 3})])
    assert learn(store, 1.0) == 1
    assert learn(store, 2.0) == 0 and not store.learning.page()
    store.close()
