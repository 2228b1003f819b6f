"""The cost model: closed forms against numeric integration, the worked example of cost.md, the search."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.draws import Confidence, Spread, confidence, gain_draws
from control.cost.options import Option, move_seconds, price
from control.cost.outlook import Outlook, look
from control.cost.owed import delay, delay_onward, owed, owed_rate
from control.cost.price import cpu_price, load, load_change, tick_s
from control.cost.recalibrate import (
    CLIP,
    Estimate,
    estimates_of,
    learned,
    numbers_of,
)
from control.cost.search import ranked
from control.limits import OPEN, Limits
from control.plans import Move
from control.policies.best_gain import BestGain, rows_of
from control.snapshot import ClusterSnapshot, Nodes, Operator
from tests.control.cost_example import EXAMPLE, PLAIN, RULE, example
from tests.control.made import MB, cluster, snapshots

RATES = st.floats(0.1, 1e5)
TIMES = st.floats(0.0, 2000.0)
GROWTH = st.floats(0.0, 0.05)
WINDOWS = st.one_of(st.just(np.inf), st.floats(1.0, 3000.0))


def one(value: float) -> np.ndarray:
    return np.array([value], dtype=np.float64)


@given(RATES, GROWTH, st.integers(2, 6), WINDOWS, TIMES)
def test_closed_forms_are_the_integrals(
    rate: float, growth: float, streams: int, window: float, until: float
) -> None:
    t = np.linspace(
        0, min(until, window), 20_001
    )  # nothing is owed past the window: no kink inside
    if np.isfinite(window):
        o = np.where(t < window, rate * (1 - np.minimum(t / window, 1) ** (streams - 1)), 0.0)
    else:
        o = rate * ((1 + growth * t) ** (streams - 1) - (growth * t) ** (streams - 1))
        assert np.allclose(o, owed_rate(one(rate), one(growth), streams, t))
    about = (one(rate), one(growth), np.array([streams]), one(window))
    assert owed(*about, until)[0] == pytest.approx(np.trapezoid(o, t), rel=1e-3, abs=1e-3)
    late = np.trapezoid(o * (until - t), t)
    assert delay(*about, until)[0] == pytest.approx(late, rel=1e-3, abs=1e-3)


@given(RATES, GROWTH, TIMES)
def test_the_forms_of_two_and_three_streams(rate: float, growth: float, t: float) -> None:
    for m, rows, late in (
        (2, rate * t, rate * t**2 / 2),
        (3, rate * (t + growth * t**2), rate * (t**2 / 2 + growth * t**3 / 3)),
    ):
        about = (one(rate), one(growth), np.array([m]), one(np.inf))
        assert owed(*about, t)[0] == pytest.approx(rows)
        assert delay(*about, t)[0] == pytest.approx(late)


@given(RATES, GROWTH, st.integers(2, 5), st.floats(0, 100), st.floats(0, 500))
def test_going_on_is_what_is_left_of_the_whole(
    rate: float, growth: float, streams: int, spent: float, more: float
) -> None:
    about = (one(rate), one(growth), np.array([streams]), one(np.inf))
    now = owed_rate(one(rate), one(growth), streams, spent)
    onward = delay_onward(now, one(growth), one(growth * spent), *about[2:], more)
    whole = delay(*about, spent + more)
    paid = delay(*about, spent) + owed(*about, spent) * more
    assert onward[0] == pytest.approx((whole - paid)[0], rel=1e-6, abs=whole[0] * 1e-9 + 1e-6)


@given(RATES, GROWTH, st.integers(2, 5), WINDOWS, TIMES, TIMES)
def test_owed_and_delay_only_grow(
    rate: float, growth: float, streams: int, window: float, a: float, b: float
) -> None:
    about = (one(rate), one(growth), np.array([streams]), one(window))
    low, high = sorted((a, b))
    for form in (owed, delay):
        assert 0 <= form(*about, low)[0] <= form(*about, high)[0] * (1 + 1e-9) + 1e-9


def looked(horizon: Horizon = PLAIN, numbers: Coefficients = EXAMPLE) -> Outlook:
    return look(example(), numbers, horizon, RULE)


@pytest.mark.parametrize(
    ("option", "million_row_s"),
    [
        (Option("spill", 0, bytes=60 * MB), 322),
        (Option("move", 0, 1, 60 * MB), 110),
        (Option("move", 0, 1, 45 * MB), 28),
        (Option("move", 0, 1, 30 * MB), 39),
        (Option("move", 0, 1, 15 * MB), 114),
    ],
    ids=lambda x: f"{x.kind} {x.bytes / MB:g}" if isinstance(x, Option) else "",
)
def test_worked_example(option: Option, million_row_s: float) -> None:
    """cost.md's figures, to its last digit. They leave out what is charged after the horizon (min(W, H)
    more for rows still owed, which its first paragraph asks for) and take groups as divisible."""
    outlook = looked()
    assert outlook.nothing.row_s.sum() / 1e6 == pytest.approx(253, abs=0.7)
    assert outlook.nothing.full_s[0] == pytest.approx(40)
    (priced,) = price(outlook, [option])
    total = outlook.nothing.row_s.sum() - priced.gain_row_s
    assert total / 1e6 == pytest.approx(million_row_s, abs=0.7)


def test_worked_example_the_search_beats_the_papers_amount() -> None:
    """The paper moves 60 MB; more than 45 MB is too much, and early spill does not pay: 60 MB lose,
    the best amount gains less than it costs."""
    outlook = looked()
    menu = ranked(outlook, OPEN)
    best = menu[0]
    assert (best.option.kind, best.option.node, best.option.target) == ("move", 0, 1)
    assert 35 * MB < best.option.bytes < 55 * MB
    assert outlook.nothing.row_s.sum() - best.gain_row_s <= 28.5e6
    spill = next(priced for priced in menu if priced.option.kind == "spill")
    assert not spill.pays and spill.option.bytes < 10 * MB, "a little of lo, and hardly worth it"
    assert price(looked(), [Option("spill", 0, bytes=60 * MB)])[0].gain_row_s < 0


def test_with_the_charge_after_the_horizon_the_order_of_kinds_stays() -> None:
    """Owed rows then cost 300 s more: 30 MB (206 M) beats 45 MB (296 M); nothing is 1 242 M."""
    outlook = looked(Horizon(300))
    assert outlook.nothing.row_s.sum() / 1e6 == pytest.approx(1242, abs=5)
    moves = price(outlook, [Option("move", 0, 1, n * MB) for n in (15, 30, 45, 60)])
    after = [(outlook.nothing.row_s.sum() - p.gain_row_s) / 1e6 for p in moves]
    assert after == pytest.approx([616, 206, 296, 688], abs=5)
    assert ranked(outlook, OPEN)[0].option.kind == "move"


def test_the_policy_does_the_best_move() -> None:
    policy = BestGain(threshold=1.0, numbers=EXAMPLE)
    (step,) = policy.decide(example(), OPEN).steps
    assert isinstance(step, Move)
    assert all(120 <= group < 180 for group in step.parts[0].groups), "hi, the most productive"
    small = policy.decide(example(), Limits(action_bytes_max=10 * MB))
    assert small.bytes <= 10 * MB


def test_the_policy_says_why_it_does_nothing() -> None:
    roomy = cluster([[MB] * 3, [MB] * 3], rows_out_per_s=5.0)
    plan = BestGain().decide(roomy, OPEN)
    assert not plan.steps
    assert plan.reasons[-1].text == "nothing gains enough"
    assert any(reason.text == "nothing done until the horizon" for reason in plan.reasons)


def test_cleanup_pays_when_there_is_room() -> None:
    owing = cluster(
        [[MB] * 4],
        disk_bytes=[0, 20 * MB, 30 * MB, 0],
        generations=[0, 1, 1, 0],
        owed_rows=[0, 1e5, 10, 0],
        owed_rows_per_s=[0, 500, 1, 0],
        rows_out_per_s=10.0,
        nodes={"rows_out_per_s": [40.0]},
    )
    outlook = look(owing, Coefficients(), Horizon(), RULE)
    menu = ranked(outlook, OPEN)
    assert menu[0].option.kind == "cleanup" and menu[0].pays
    assert 1 in rows_of(outlook, menu[0].option)
    assert rows_of(outlook, Option("cleanup", 0, bytes=25 * MB)).tolist() == [1]
    plan = BestGain().decide(owing, OPEN)
    assert plan.steps and plan.reasons[-1].figures["chance"] >= 0.8


@given(snapshots())
def test_options_are_within_what_there_is(snapshot: ClusterSnapshot) -> None:
    outlook = look(snapshot, Coefficients(), Horizon(), LocalRule())
    assert (outlook.nothing.row_s >= 0).all() and np.isfinite(outlook.nothing.row_s).all()
    menu = ranked(outlook, Limits(action_bytes_max=40 * MB))
    assert [p.gain_row_s for p in menu] == sorted((p.gain_row_s for p in menu), reverse=True)
    for priced in menu:
        option = priced.option
        assert option.bytes <= 40 * MB and priced.cost_row_s >= 0
        if option.kind == "move":
            free = snapshot.nodes.free_bytes[option.target]
            assert option.bytes <= free * (1 + 1e-9)


@given(st.integers(1, 400), st.integers(1, 400))
def test_more_memory_is_never_much_worse(a: int, b: int) -> None:
    """Not strictly monotonic: the local rule spills in lumps of k % of what is in use, so a larger budget
    spills later but more at once. A quarter bounds what that makes."""
    low, high = sorted((a, b))
    costs = [
        look(cluster([[MB] * 20], budget=n * MB, bytes_per_s=3e4, rows_out_per_s=10.0),
             Coefficients(), Horizon(), RULE).nothing.row_s.sum()
        for n in (20 + low, 20 + high)
    ]  # fmt: skip
    assert costs[0] >= costs[1] * (1 - 0.25)


def test_a_full_disk_and_spilling_off_stop_the_results() -> None:
    full = cluster([[MB] * 10], budget=10 * MB, bytes_per_s=1e4, rows_out_per_s=1.0,
                   nodes={"rows_out_per_s": [10.0], "disk_free_bytes": [0]})  # fmt: skip
    off = LocalRule(percent=0)
    for rule in (RULE, off):
        row_s = look(full, Coefficients(), Horizon(300), rule).nothing.row_s.sum()
        assert row_s >= 10 * 300**2 / 2


def test_a_window_full_of_state_does_not_grow() -> None:
    still = cluster(
        [[6 * MB] * 10],
        budget=61 * MB,
        bytes_per_s=1e5,
        rows_out_per_s=1.0,
        operators=(Operator("join", 3, 10, 60.0),),
    )
    assert look(still, Coefficients(), Horizon(), RULE).nothing.row_s.sum() == 0


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_window_that_does_not_fit_is_full_on_the_way(share: float) -> None:
    """State grows as it comes until the window is over: not slower the nearer it is to its end."""
    beta, window, limit = 1e5, 90.0, 0.8 * 9e6
    now = share * 0.8 * 9e6
    filling = cluster(
        [[now / 10] * 10],
        budget=int(limit),
        bytes_per_s=beta / 10,
        rows_out_per_s=1.0,
        operators=(Operator("join", 3, 10, window),),
    )
    found = look(filling, Coefficients(), Horizon(), RULE).nothing.full_s[0]
    assert found == pytest.approx((limit - now) / beta, rel=0.01)


def test_prices() -> None:
    nodes = Nodes.of([1, 1], [0, 0], busy=[0.5, 1.0], rows_out_per_s=[100, 100])
    assert cpu_price(nodes, Coefficients()).tolist() == pytest.approx([20, 200])
    seconds, pause = move_seconds(90 * MB, 10e6, EXAMPLE, hold=False)
    assert (seconds, pause) == pytest.approx((1.0, 0.6))
    assert move_seconds(90 * MB, 10e6, EXAMPLE, hold=True)[1] == pytest.approx(1.5)
    assert load(10, 300, 2) == 9000
    assert tick_s(np.array([1.0, 3.0]), 1, 0.1) == pytest.approx(4.1)


@pytest.mark.parametrize(("cores", "gains"), [(1.0, False), (100.0, True), (0.0, False)])
def test_moving_for_load_gains_nothing_on_one_machine(cores: float, gains: bool) -> None:
    nodes = Nodes.of([1, 1], [0, 0], busy=[0.9, 0.1], rows_out_per_s=[100, 100])
    change = load_change(nodes, Coefficients(cores=cores), 300, 0, 1, 0.4)
    assert (change < 0) is gains and change <= 1e-9


def test_confidence() -> None:
    outlook = looked()
    good = confidence(outlook, Option("move", 0, 1, 45 * MB), seed=1)
    assert good.p10 <= good.p50 <= good.p90 and good.chance > 0.95
    bad = confidence(outlook, Option("spill", 0, bytes=60 * MB), seed=1)
    assert bad.chance < 0.5
    assert good == confidence(outlook, Option("move", 0, 1, 45 * MB), seed=1)
    assert isinstance(bad, Confidence)


@pytest.mark.parametrize(
    "option", [Option("move", 0, 1, 45 * MB), Option("spill", 0, bytes=60 * MB)]
)
def test_draws_without_spread_are_the_figure(option: Option) -> None:
    outlook = looked()
    gains = gain_draws(outlook, option, 1, Spread(0, 0, 0, 0), 3)
    assert gains == pytest.approx([price(outlook, [option])[0].gain_row_s] * 3, rel=1e-6)


@given(st.floats(0.05, 20.0))
def test_recalibration_finds_the_truth(truth: float) -> None:
    estimate = Estimate.of(1.0)
    for _ in range(60):
        estimate = estimate.learn(truth, estimate.value)
    assert estimate.log_value == pytest.approx(log(truth), abs=0.05)
    assert estimate.spread < 0.3


def test_one_measurement_moves_an_estimate_by_its_gain() -> None:
    before = Estimate(0.0, variance=1.0, noise=1.0, drift=0.0)
    after = before.learn(exp(10), 1.0)
    assert (after.log_value, after.variance) == pytest.approx((CLIP / 2, 0.5))
    assert before.learn(0.0, 1.0) is before
    numbers = Coefficients()
    known = learned(estimates_of(numbers), "move_bandwidth", 50e6, 100e6)
    assert numbers_of(numbers, known).bandwidth_bytes_per_s < 100e6
