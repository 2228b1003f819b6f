"""Learning from migrations: a made-up engine whose numbers are other than the guesses, and noisy."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.cost.coefficients import Coefficients
from control.cost.price import BUSY_MAX
from control.cost.recalibrate import estimates_of, numbers_of
from control.learn import lesson
from control.ledger import ActionRow, Json
from control.migration.calibrate import figures
from control.migration.joins import UNTOLD
from control.migration.strategies import Change, Estimate, moving, parallel
from tests.control.migration.made import joins_of
from tests.control.migration.outlooks import NEW, OLD, skewed

GUESS = Coefficients()


def told(numbers: Coefficients, change: Change) -> Estimate:
    """What is predicted, one pass so that lengths are easy to add up."""
    pace = joins_of(change.model, change.old.tree).pace(numbers, nodes=2)
    return moving(change, replace(pace, passes=1))


def really(true: Coefficients, change: Change, noise: np.random.Generator) -> tuple[Json, float]:
    """A migration on an engine with these numbers, each about a twelfth off at random; and how long it lasts."""
    off = np.exp(noise.normal(0.0, 0.08, 5))
    one = replace(
        true,
        recompute_s_per_row=true.recompute_s_per_row * off[0],
        sort_s_per_row=true.sort_s_per_row * off[1],
        side_cores=true.side_cores * off[2],
        job_ticks=true.job_ticks * off[3],
        swap_s=true.swap_s * off[4],
    )
    estimate = told(one, change)
    return figures(one, estimate), estimate.length_s


def row(numbers: Coefficients, estimate: Estimate, actual: Json) -> ActionRow:
    predicted = {"figures": figures(numbers, estimate), "coefficients": asdict(numbers)}
    return ActionRow(
        "a", "q", {}, "me", "done", 1.0, 2.0, 0, None, "", "", predicted, actual, {}
    )  # fmt: skip


def test_a_tick_is_idle_but_for_what_its_rows_take() -> None:
    """Twice what T_j and T_s say, of the cores that ticks get; however much there is to do, something is left."""
    for rate, busy in ((100.0, None), (1e5, BUSY_MAX)):
        change = Change.of(skewed(rate=rate), OLD, NEW)
        pace = joins_of(change.model, OLD).pace(replace(GUESS, cores=2.0), nodes=2)
        load = UNTOLD * change.old.cpu(pace.join_s, pace.insert_s) / 2
        wanted = pace.tick_s * (1 - (load if busy is None else busy))
        assert pace.least_s == pytest.approx(wanted, rel=0.05) and 0 < pace.least_s < pace.tick_s


@given(
    st.floats(0.2, 5),
    st.floats(0.2, 5),
    st.floats(0.3, 1.5),
    st.floats(0.2, 5),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=15)
def test_after_some_migrations_lengths_are_predicted(
    recompute: float, sort: float, side: float, swap: float, seed: int
) -> None:
    """Within 25 % in four of five, whatever the engine's numbers are."""
    true = replace(
        GUESS,
        recompute_s_per_row=GUESS.recompute_s_per_row * recompute,
        sort_s_per_row=GUESS.sort_s_per_row * sort,
        side_cores=GUESS.side_cores * side,
        swap_s=GUESS.swap_s * swap,
        job_ticks=GUESS.job_ticks / swap,
    )
    noise, estimates = np.random.default_rng(seed), estimates_of(GUESS)
    near = []
    for turn in range(50):
        change = Change.of(skewed(rate=float(noise.uniform(500, 5_000))), OLD, NEW)
        numbers = numbers_of(GUESS, estimates)
        estimate = told(numbers, change)
        actual, length = really(true, change, noise)
        if turn >= 20:
            near.append(abs(estimate.length_s / length - 1) <= 0.25)
        _, estimates = lesson(row(numbers, estimate, actual), estimates, 1.0)
    assert np.mean(near) >= 0.8


def test_nothing_measured_teaches_nothing() -> None:
    before = estimates_of(GUESS)
    estimate = told(GUESS, Change.of(skewed(), OLD, NEW))
    lines, after = lesson(row(GUESS, estimate, {}), before, 1.0)
    assert not lines and after == before


def test_a_migration_of_twice_the_rows_teaches_nothing_of_a_rows_price() -> None:
    """Rows are scaled to what there really was: only what each took is compared."""
    before = estimates_of(GUESS)
    estimate = told(GUESS, Change.of(skewed(), OLD, NEW))
    right = figures(GUESS, estimate)
    twice = {name: right[name] * 2 for name in ("recompute_rows", "recompute_cpu_s")}
    lines, after = lesson(row(GUESS, estimate, {**right, **twice}), before, 1.0)
    assert {line.figure for line in lines} >= {"recompute_cpu_s", "side_cores", "job_s", "swap_s"}
    for name, one in after.items():
        assert one.value == pytest.approx(before[name].value)


def test_the_parallel_track_is_taught_by_ticks() -> None:
    pace = joins_of(skewed(), OLD).pace(GUESS, nodes=2)
    assert figures(GUESS, parallel(Change.of(skewed(), OLD, NEW), pace)) == {}
