"""Learning from migrations: a made-up engine whose numbers are other than the guesses, and noisy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.migration.calibrate import Moved, estimates_of, learned, pace_of
from control.migration.strategies import Change, Estimate, Pace, moving
from tests.control.migration.test_gain import NEW, OLD, skewed

GUESS = Pace()


def really(true: Pace, told: Estimate, change: Change, noise: np.random.Generator) -> Moved:
    """A migration on an engine with these numbers, each about a twelfth off at random."""
    off = np.exp(noise.normal(0.0, 0.08, 4))
    sorted_rows = sum(
        one.state_rows[side]
        for one in change.new.operators
        for side, mask in enumerate(one.parts)
        if mask in {state.inputs for state in change.matched.sorted_anew}
    )
    rows = told.rows - sorted_rows
    recompute, sort = true.recompute_s * rows * off[0], true.sort_s * sorted_rows * off[1]
    stall_cpu = 0.1
    return Moved(
        rows, recompute, sorted_rows, sort, (recompute + sort) / (true.side_cores * off[2]),
        true.swap_s * off[3] + stall_cpu / true.cores, stall_cpu,
    )  # fmt: skip


@given(
    st.floats(0.2, 5),
    st.floats(0.2, 5),
    st.floats(0.3, 3),
    st.floats(0.2, 5),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=25)
def test_after_some_migrations_lengths_are_predicted(
    recompute: float, sort: float, side: float, swap: float, seed: int
) -> None:
    """Within 25 % in four of five, whatever the engine's numbers are."""
    true = replace(
        GUESS, recompute_s=GUESS.recompute_s * recompute, sort_s=GUESS.sort_s * sort,
        side_cores=GUESS.side_cores * side, swap_s=GUESS.swap_s * swap,
    )  # fmt: skip
    noise, estimates = np.random.default_rng(seed), estimates_of(GUESS)
    near = []
    for turn in range(60):
        change = Change.of(skewed(rate=float(noise.uniform(50, 300))), OLD, NEW)
        pace = pace_of(GUESS, estimates)
        told = moving(change, replace(pace, passes=1))
        one = really(true, told, change, noise)
        length = one.side_s + one.stall_s
        if turn >= 20:
            near.append(abs(told.length_s / length - 1) <= 0.25)
        estimates = learned(estimates, pace, one)
    assert np.mean(near) >= 0.8
    exact = moving(Change.of(skewed(), OLD, NEW), pace_of(GUESS, estimates))
    assert exact.length_s == pytest.approx(
        moving(Change.of(skewed(), OLD, NEW), true).length_s, rel=0.3
    )


def test_nothing_measured_teaches_nothing() -> None:
    before = estimates_of(GUESS)
    after = learned(before, GUESS, Moved(0, 0, 0, 0, 0, 0, 0))
    assert after == before and pace_of(GUESS, after) == GUESS


def test_the_swap_is_what_is_left_of_a_stall_without_catching_up() -> None:
    one = Moved(0, 0, 0, 0, 0, stall_s=3.0, stall_cpu_s=2.0)
    estimates = estimates_of(GUESS)
    for _ in range(60):
        estimates = learned(estimates, pace_of(GUESS, estimates), one)
    assert pace_of(GUESS, estimates).swap_s == pytest.approx(3.0 - 2.0 / GUESS.cores, rel=0.01)
    assert pace_of(GUESS, estimates).recompute_s == GUESS.recompute_s
