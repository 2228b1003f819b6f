"""Both strategies on the simulated processor: no result missing, none twice; and how long each takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.migration.lengths import Times, crossover, moving_s, span_s
from control.migration.model import Model, load_of
from control.migration.trees import Mask, Tree, below, joins, mask_of
from control.simulate.migrate import FREE, Pace, Ran, run
from control.simulate.tracks import ABSENT, Arrivals, Box, Ids, Join, Rows, Work, arrived, poisson
from tests.control.migration.made import all_trees, graphs

CHAIN = [0b0011, 0b0110, 0b1100]
OLD: Tree = (((0, 1), 2), 3)
NEW: Tree = (((1, 2), 3), 0)


def multiset(ids: Ids) -> list[tuple[int, ...]]:
    return sorted(map(tuple, ids.tolist()))


def batch_join(arrivals: Arrivals, tree: Tree, window_s: float) -> Ids:
    """All results, by joining everything with everything at once."""
    held: dict[Mask, Rows] = {}
    for n, times in enumerate(arrivals.times):
        ids = np.full((len(times), len(arrivals)), ABSENT, np.int32)
        ids[:, n] = np.arange(len(times))
        held[1 << n] = Rows(ids, times, times, np.zeros(len(times), dtype=np.bool_))
    for parts in joins(tree):
        join = Join(parts, arrivals, window_s)
        left, right = join.masks
        held[left | right] = join.matches(held[left], 0, held[right])
    return held[below(tree)].ids


@given(
    graphs(5),
    st.integers(0, 2**32 - 1),
    st.floats(0.2, 2.0),
    st.floats(0, 6.0),
    st.sampled_from(["moving", "parallel"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([FREE, Pace(1e-4, 1e-4), Pace(5e-3, 5e-3)]),
    st.data(),
)
@settings(deadline=None, max_examples=80)
def test_a_migration_loses_and_doubles_nothing(
    spans: list[list[int]],
    seed: int,
    window: float,
    at: float,
    strategy: str,
    exact_purge: bool,
    hold: bool,
    clean_all: bool,
    pace: Pace,
    data: st.DataObject,
) -> None:
    classes = tuple(mask_of(span) for span in spans)
    count = 1 + max(n for span in spans for n in span)
    arrivals = poisson([8.0] * count, classes, [0.3] * len(classes), 5.0, seed)
    trees = list(all_trees(classes, (1 << count) - 1))
    old, new = data.draw(st.sampled_from(trees)), data.draw(st.sampled_from(trees))
    ran = run(
        arrivals, old, window, pace, new=new, strategy=strategy, at_s=at,  # type: ignore[arg-type]
        exact_purge=exact_purge, hold=hold, clean_all=clean_all,
    )  # fmt: skip
    assert multiset(ran.results) == multiset(batch_join(arrivals, trees[0], window))


def by_hand(arrivals: Arrivals, window: float) -> int:
    """Chains of three by nested loops: what nothing here shares code with."""
    (ta, tb, tc), (ka, kb, kc) = arrivals.times, arrivals.keys
    return sum(
        max(x, y, z) - min(x, y, z) <= window and ka[i, 0] == kb[j, 0] and kb[j, 1] == kc[k, 1]
        for i, x in enumerate(ta) for j, y in enumerate(tb) for k, z in enumerate(tc)
    )  # fmt: skip


def test_the_batch_join_is_right() -> None:
    arrivals = poisson([10.0] * 3, (0b011, 0b110), [0.2, 0.2], 4.0, 3)
    assert len(batch_join(arrivals, ((0, 1), 2), 0.7)) == by_hand(arrivals, 0.7) > 20


def chain(rate: float, selectivity: list[float], until: float, seed: int = 1) -> Arrivals:
    return poisson([rate] * 4, CHAIN, selectivity, until, seed)


def lengths(window: float, *, exact_purge: bool) -> Ran:
    arrivals = chain(20.0, [0.1, 0.05, 0.05], 6 * window)
    return run(
        arrivals, OLD, window, FREE, new=NEW, strategy="parallel", at_s=2 * window,
        exact_purge=exact_purge,
    )  # fmt: skip


@pytest.mark.parametrize("window", [1.0, 2.0, 4.0])
def test_the_parallel_track_lasts_two_windows_because_of_how_the_paper_purges(
    window: float,
) -> None:
    """By lemma 2.2 a row made of an old and a new part lives on for a window after its *youngest* part; what can
    still be met is over after one window."""
    assert 1.7 * window <= lengths(window, exact_purge=False).stage_s <= 2.1 * window
    assert 0.9 * window <= lengths(window, exact_purge=True).stage_s <= 1.3 * window


@pytest.mark.parametrize("exact_purge", [True, False])
def test_rows_made_and_kept_are_those_of_the_model(exact_purge: bool) -> None:
    """Rates within 4 standard deviations; state as the model has it where rows go once they are of no use, twice
    that for a pair (a window of rate) by the paper's lemma."""
    window, rate, until = 2.0, 25.0, 80.0
    arrivals = chain(rate, [0.05, 0.05, 0.05], until)
    box = Box(OLD, arrivals, window, exact_purge=exact_purge)
    kept: list[int] = []
    for number, (time, input_, row) in enumerate(arrivals.in_order()):
        box.enter(input_, arrived(arrivals, input_, row), time, Work())
        if time > 2 * window and number % 20 == 0:
            kept.append(len(box.joins[1].sides[0]))
    model = Model.of([rate] * 4, [[0, 1], [1, 2], [2, 3]], [0.05] * 3, window)
    load = load_of(model, OLD)
    for join, told in zip(box.joins, load.operators, strict=True):
        expected = told.rows_out_per_s * (until - window)
        assert join.rows_out == pytest.approx(expected, rel=0.15), expected
    pairs = load.operators[1].state_rows[0] * (1 if exact_purge else 2)
    assert np.mean(kept) == pytest.approx(pairs, rel=0.1)


def test_a_slow_processor_falls_behind_and_catches_up_with_a_better_plan() -> None:
    arrivals = poisson([20.0] * 4, CHAIN, [0.2, 0.05, 0.05], 20.0, 5)
    pace = Pace(2e-5, 2e-5)
    stay = run(arrivals, OLD, 2.0, pace)
    go = run(arrivals, OLD, 2.0, pace, new=NEW, strategy="parallel", at_s=5.0)
    free = run(arrivals, NEW, 2.0, pace)
    assert max(free.end_s, go.end_s) < 20.5 and stay.end_s > 25
    assert go.stage_s > 5 > free.stage_s == 0, "two windows of input, and more time than that"
    assert multiset(go.results) == multiset(stay.results) == multiset(free.results)


def test_held_results_come_out_at_the_end_and_otherwise_at_once() -> None:
    arrivals = chain(20.0, [0.1, 0.1, 0.1], 8.0)
    held, now = (
        run(arrivals, OLD, 1.0, FREE, new=NEW, strategy="parallel", at_s=3.0, hold=hold)
        for hold in (True, False)
    )
    at = next(n for n, s in enumerate(held.samples) if s.time_s >= 4.5)
    assert held.samples[at].results < now.samples[at].results
    assert multiset(held.results) == multiset(now.results)


def test_the_predicted_choice_is_never_much_worse_than_the_better_one() -> None:
    """Windows from a third to three times the crossover. The parallel track on a processor that keeps up."""
    rate, s = 20.0, [0.1, 0.1, 0.1]
    times = Times(1e-3, 5e-4)

    def model(window: float) -> Model:
        return Model.of([rate] * 4, [[0, 1], [1, 2], [2, 3]], s, window)

    unit = crossover(
        model(1.0), lambda m: moving_s(m, OLD, NEW, times), lambda m: span_s(OLD, m.span_s)
    )
    for factor in (0.35, 0.7, 0.9, 1.1, 1.4, 2.5):
        window = unit * factor
        predicted = {"moving": moving_s(model(window), OLD, NEW, times), "parallel": 2 * window}
        found = {"moving": 0.0, "parallel": 0.0}
        for strategy, seeds in (("moving", 24), ("parallel", 2)):
            more = 2.3 * window if strategy == "parallel" else 0.0
            pace = Pace(times.join_s, times.insert_s) if strategy == "moving" else FREE
            for seed in range(seeds):
                arrivals = poisson([rate] * 4, CHAIN, s, 2.2 * window + more, seed)
                found[strategy] += run(
                    arrivals, OLD, window, pace, new=NEW, strategy=strategy, at_s=2.2 * window,  # type: ignore[arg-type]
                    slow_from_start=False,
                ).stage_s / seeds  # fmt: skip
        chosen = min(predicted, key=lambda name: predicted[name])
        assert found[chosen] <= 1.1 * min(found.values()), (factor, predicted, found)
