"""Statistics on a fake feed whose rates, selectivities and prices are known."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.migration.fit import OPEN, Evidence, fit
from control.migration.model import load_of
from control.migration.optimise import best, weights_from
from control.migration.prices import RowPrices, RowWork
from control.migration.statistics import Counted, QueryShape, Statistics, TickTold
from control.migration.trees import Tree, mask_of
from control.simulate.tracks import Arrivals, poisson
from tests.control.migration.feed import INSERT_S, JOIN_S, TASK_S, ticks

CHAIN = ((0, 1), (1, 2), (2, 3))
OLD: Tree = (((0, 1), 2), 3)
WINDOW = 4.0


def shape(window: float | None = WINDOW, inputs: int = 4) -> QueryShape:
    every = [(i, j) for i in range(inputs) for j in range(inputs) if i != j]
    bounds = () if window is None else tuple((i, j, window) for i, j in every)
    return QueryShape(tuple("abcd"[:inputs]), CHAIN[: inputs - 1], bounds)


def feed(rates: list[float], selectivity: list[float], until: float, seed: int = 1) -> Arrivals:
    classes = [mask_of(span) for span in CHAIN]
    return poisson(rates, classes, selectivity, until, seed)


def fed(statistics: Statistics, told: object) -> Statistics:
    for tick in told:  # type: ignore[attr-defined]
        statistics.add(tick)
    return statistics


def test_what_the_running_tree_shows_is_measured() -> None:
    rates, selectivity = [10.0, 20.0, 30.0, 5.0], [0.1, 0.02, 0.05]
    statistics = fed(Statistics(shape()), ticks(feed(rates, selectivity, 90.0), OLD, WINDOW))
    model = statistics.model()
    assert model.rates == pytest.approx(rates, rel=0.12)
    assert model.row_bytes == (24.0,) * 4
    for number, true in enumerate(selectivity):
        assert model.class_factor[number].log_value == pytest.approx(log(true), abs=0.25)
        assert model.class_factor[number].spread < 0.3
    load = load_of(model, OLD)
    made = [10 * 20 * 0.1 * 2 * WINDOW, 10 * 20 * 30 * 0.1 * 0.02 * 3 * WINDOW**2]
    assert [one.rows_out_per_s for one in load.operators[:2]] == pytest.approx(made, rel=0.2)


def test_how_long_it_is_from_one_tick_to_the_next() -> None:
    """Also of long ones; but where no input comes nobody waits for it."""
    statistics = Statistics(shape())
    assert statistics.tick_s == 0
    for number in range(5):
        statistics.add(TickTold(100 + 0.5 * number, (), wall_s=0.1))
    assert statistics.tick_s == pytest.approx(0.5)
    for number in range(300):
        statistics.add(TickTold(103 + 3.0 * number, (), wall_s=2.5))
    assert statistics.tick_s == pytest.approx(3.0, rel=0.01)
    for number in range(60):
        statistics.add(TickTold(1100 + 60.0 * number, (), wall_s=0.2))
    assert statistics.tick_s == pytest.approx(1.2, rel=0.01)
    kept = json.loads(json.dumps(statistics.pack()))
    assert Statistics.unpack(shape(), kept).tick_s == statistics.tick_s


def test_t_j_and_t_s_are_told_apart() -> None:
    arrivals = feed([10.0, 20.0, 30.0, 20.0], [0.2, 0.1, 0.1], 60.0)
    for split in (False, True):
        statistics = fed(Statistics(shape()), ticks(arrivals, OLD, WINDOW, split=split))
        assert statistics.prices.join_s == pytest.approx(JOIN_S, rel=0.05)
        assert statistics.prices.insert_s == pytest.approx(INSERT_S, rel=0.15)
        assert statistics.prices._solved()[2] == pytest.approx(TASK_S, rel=0.05)


@pytest.mark.parametrize("speed", [0.2, 1.0, 10.0])
def test_event_time_may_go_faster_or_slower_than_the_clock(speed: float) -> None:
    """Input that is caught up on: the same rows, told at another pace."""
    arrivals = feed([10.0, 20.0, 30.0, 5.0], [0.1, 0.02, 0.05], 60.0)
    statistics = Statistics(shape())
    for tick in ticks(arrivals, OLD, WINDOW):
        newest = dict.fromkeys(range(4), tick.time_s)
        statistics.add(replace(tick, time_s=tick.time_s / speed, newest_s=newest))
    model = statistics.model(delay_s=2.0)
    assert statistics.speed == pytest.approx(speed, rel=0.05)
    assert model.rates == pytest.approx([r * speed for r in (10.0, 20.0, 30.0, 5.0)], rel=0.15)
    assert model.span_s == pytest.approx(WINDOW / speed, rel=0.05)
    assert model.delay_s == pytest.approx(2.0 / speed, rel=0.05)
    for number, true in enumerate([0.1, 0.02, 0.05]):
        assert model.class_factor[number].log_value == pytest.approx(log(true), abs=0.3)


def test_a_gap_in_event_times_is_forgotten() -> None:
    """A year without rows, then input as it arises."""
    told = list(ticks(feed([20.0] * 4, [0.1] * 3, 30.0), OLD, WINDOW))
    statistics = Statistics(shape())
    for n, tick in enumerate(
        [replace(t, time_s=t.time_s + 31 * k) for k in range(30) for t in told]
    ):
        at = tick.time_s + (3e7 if n > 5 else 0.0)
        statistics.add(replace(tick, newest_s={0: at, 1: at, 2: at, 3: at}))
    assert statistics.speed == pytest.approx(1.0, rel=0.2)


@given(st.floats(1e-7, 1e-5), st.floats(1e-7, 1e-5), st.floats(0, 0.02), st.integers(0, 99))
def test_prices_are_found_whatever_they_are(
    join: float, insert: float, task: float, seed: int
) -> None:
    prices = RowPrices()
    for n in range(200):
        made, kept = (n * 37 + seed) % 101 * 10_000, (n * 17 + seed) % 53 * 10_000 + 1
        prices.add(RowWork(made + kept, kept, join * (made + kept) + insert * kept + task))
    assert prices.join_s == pytest.approx(join, rel=0.05, abs=2e-8)
    assert prices.insert_s == pytest.approx(insert, rel=0.05, abs=2e-8)
    assert RowPrices.unpack(json.loads(json.dumps(prices.pack()))) == prices


def test_a_drift_is_followed_within_minutes() -> None:
    """Selectivities change places; after four half-lives nothing is left of the old ones."""
    first, second = (
        feed([10.0] * 4, [0.2, 0.02, 0.1], 60.0),
        feed([20.0] * 4, [0.02, 0.2, 0.1], 240.0),
    )
    statistics = fed(Statistics(shape()), ticks(first, OLD, WINDOW))
    wanted = best(statistics.model(), weights_from(load_of(statistics.model(), OLD)), "left").tree
    assert wanted == (((1, 2), 3), 0) or wanted == (((1, 2), 0), 3)
    fed(statistics, ticks(second, OLD, WINDOW, since_s=60.5))
    model = statistics.model()
    assert model.rates == pytest.approx([20.0] * 4, rel=0.2)
    assert model.class_factor[0].log_value == pytest.approx(log(0.02), abs=0.4)
    assert model.class_factor[1].log_value == pytest.approx(log(0.2), abs=0.4)


def test_what_an_earlier_tree_showed_is_remembered_for_a_while() -> None:
    """Classes ab, bc and ac: ((a b) c) shows s(ab) and the product of the others only."""
    spans = ((0, 1), (1, 2), (0, 2))
    bounds = tuple((i, j, WINDOW) for i in range(3) for j in range(3) if i != j)
    statistics = Statistics(QueryShape(("a", "b", "c"), spans, bounds))
    arrivals = poisson([20.0] * 3, [mask_of(s) for s in spans], [0.1, 0.5, 0.05], 60.0, 4)
    fed(statistics, ticks(arrivals, ((0, 1), 2), WINDOW))
    model = statistics.model()
    assert model.selectivity(0b011).value == pytest.approx(0.1, rel=0.2)
    assert model.selectivity(0b110).spread > 0.8, "open: only the product is known"
    assert model.selectivity(0b011).spread < 0.2
    fed(statistics, ticks(arrivals, ((1, 2), 0), WINDOW, since_s=60.5))
    model = statistics.model()
    assert model.selectivity(0b110).value == pytest.approx(0.5, rel=0.2)
    assert model.selectivity(0b110).spread < 0.2
    assert model.selectivity(0b011).value == pytest.approx(0.1, rel=0.25), "seen a minute ago"
    assert model.selectivity(0b101).value == pytest.approx(0.05, rel=0.6), "what is left over"


def test_rows_joined_on_purpose_close_what_is_open() -> None:
    spans = ((0, 1), (1, 2), (0, 2))
    arrivals = poisson([20.0] * 3, [mask_of(s) for s in spans], [0.1, 0.5, 0.05], 60.0, 4)
    query = QueryShape(
        ("a", "b", "c"), spans, tuple((i, j, WINDOW) for i, j, _ in shape(inputs=3).bounds)
    )
    statistics = fed(Statistics(query), ticks(arrivals, ((0, 1), 2), WINDOW))
    statistics.add(TickTold(61.0, (), (Counted((1, 2), 4000.0, 2000.0),)))
    model = statistics.model()
    assert model.selectivity(0b110).value == pytest.approx(0.5, rel=0.05)
    assert model.selectivity(0b101).value == pytest.approx(0.05, rel=0.3)


def test_without_windows_state_says_how_far_back_rows_reach() -> None:
    """No row ever goes: after T seconds results come at m · λ^m · T^(m−1) · s."""
    arrivals = feed([10.0] * 3 + [0.1], [0.01, 0.01, 1.0], 60.0, 2)
    query = QueryShape(("a", "b", "c"), CHAIN[:2])
    small = Arrivals(arrivals.classes[:2], arrivals.times[:3], arrivals.keys[:3])
    model = fed(Statistics(query), ticks(small, ((0, 1), 2), 1e9)).model()
    assert model.rate(0b011) == pytest.approx(2 * 10 * 10 * 60 * 0.01, rel=0.25)
    assert model.state_rows(0b011, 0b100) == pytest.approx(10 * 10 * 60 * 60 * 0.01, rel=0.25)


@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
@settings(deadline=None, max_examples=20)
def test_a_restart_goes_on_with_what_was_known(seed: int, cut: int) -> None:
    told = list(ticks(feed([5.0] * 4, [0.3, 0.3, 0.3], 15.0, seed), OLD, WINDOW))
    whole = fed(Statistics(shape()), told)
    half = fed(Statistics(shape()), told[:cut])
    again = fed(Statistics.unpack(shape(), json.loads(json.dumps(half.pack()))), told[cut:])
    assert again.pack() == whole.pack()


def test_before_anything_is_told_there_is_a_model_all_the_same() -> None:
    statistics = Statistics(shape())
    model = statistics.model()
    assert model.rates == (0.0,) * 4 and model.rate(model.everything) == 0.0
    assert load_of(model, OLD).state_bytes == 0
    told = next(iter(ticks(feed([5.0] * 4, [0.3] * 3, 1.0), OLD, WINDOW)))
    statistics.add(told)
    statistics.add(replace(told, time_s=told.time_s - 5))  # a clock that went back teaches nothing
    assert statistics.model().rates == (0.0,) * 4


@given(st.lists(st.floats(-6, -0.1), min_size=2, max_size=2), st.floats(10, 1e6))
def test_the_fit_returns_what_it_was_given(logs: list[float], tried: float) -> None:
    """Two sets that close both classes: each is as counted, and more rows make it surer."""
    evidence = {
        0b011: Evidence(tried * 1e3, tried * 1e3 * 2.718281828 ** logs[0]),
        0b111: Evidence(tried * 1e6, tried * 1e6 * 2.718281828 ** sum(logs)),
    }
    factors, seen = fit((0b011, 0b110), [-3.0, -3.0], evidence)
    assert seen[0b011].log_value == pytest.approx(logs[0], abs=0.1)
    assert factors[1].log_value == pytest.approx(logs[1], abs=0.2)
    fewer = {mask: one.faded(0.01) for mask, one in evidence.items()}
    assert fit((0b011, 0b110), [-3.0, -3.0], fewer)[1][0b011].spread >= seen[0b011].spread
    assert fit((0b011, 0b110), [-3.0, -2.0], {})[0][1].spread == pytest.approx(OPEN)
