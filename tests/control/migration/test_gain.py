"""What both strategies take here, what a change is worth, and which strategy is advised."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.cost.coefficients import LocalRule
from control.cost.outlook import look
from control.migration import strategies
from control.migration.gain import advise, grown, offer
from control.migration.lengths import scaled
from control.migration.model import Known, Model
from control.migration.optimise import best, weights_from
from control.migration.strategies import Change, Pace, anew_bytes, moving, parallel, ways
from control.migration.words import mb, rows_s
from control.plans import STRATEGIES
from engine.adapt import making
from engine.adapt.side import TICK_BYTES
from tests.control.made import MB
from tests.control.migration.made import all_trees, models
from tests.control.migration.outlooks import CHAIN, NEW, NUMBERS, OLD, PACE, outlook, skewed


@given(models(5, 3), st.floats(1.01, 4), st.data())
@settings(deadline=None)
def test_more_state_and_more_rows_never_take_less(
    model: Model, more: float, data: st.DataObject
) -> None:
    trees = list(all_trees(model.classes, model.everything))
    old, new = data.draw(st.sampled_from(trees)), data.draw(st.sampled_from(trees))
    wide = scaled(model, more)
    fast = replace(model, rates=tuple(r * more for r in model.rates), _kept={})
    one = Change.of(model, old, new)
    for other in (Change.of(wide, old, new), Change.of(fast, old, new)):
        once = replace(PACE, passes=1)  # one pass more may leave less to the swap
        a, b = moving(one, once), moving(other, once)
        assert b.stall_s >= a.stall_s * (1 - 1e-9) and b.rows >= a.rows * (1 - 1e-9)
        c, d = parallel(one, PACE), parallel(other, PACE)
        assert c.hindrance == d.hindrance
        if not c.hindrance:
            assert d.length_s >= c.length_s * (1 - 1e-9)
            assert d.extra_bytes >= c.extra_bytes * (1 - 1e-9)


@given(models(5, 2), st.data())
@settings(deadline=None)
def test_what_matches_is_not_paid_for(model: Model, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    change = Change.of(model, tree, tree)
    told = moving(change, PACE)
    assert (told.rows, told.cpu_s, told.extra_bytes) == (0, 0, 0)
    assert told.stall_s == told.length_s == PACE.swap_s
    assert anew_bytes(change) == 0 and grown(change) == 1


def test_figures_of_one_change_by_hand() -> None:
    """Chain a b c, all 100 rows/s within 10 s, σ 0.01: ((a b) c) to (a (b c))."""
    model = Model.of([100.0] * 3, CHAIN[:2], [0.01, 0.01], 10.0)
    change = Change.of(model, ((0, 1), 2), (0, (1, 2)))
    pace = Pace(recompute_s=1e-4, sort_s=0.0, side_cores=0.5, swap_s=1.0, tick_s=0.5)
    told = moving(change, pace)
    # BC: 1000 × 1000 × 0.01 rows of two sides of 1000; 2 · 100² · 10 · 0.01 = 2000 arrive a second, of 100 and 100.
    # a and b are wanted by another key: a by (bc)'s, which is the same class 0; b by class 1, c as it was.
    assert told.rows == pytest.approx(10_000 + 2 * 1000 + 1000)
    # 200 rows a second of b and c are so few bytes that they are left to the swap, with its two jobs.
    first = 1.2 / 0.5
    assert told.stall_s == pytest.approx(2.0 + first * 0.22 / pace.cores) and told.swap_s == 2.0
    assert told.length_s == pytest.approx(first + told.stall_s)
    beside = parallel(change, replace(pace, join_s=0.0, insert_s=0.0))
    assert (beside.length_s, beside.stall_s) == (10.25, 0.0)
    # a, b, c: 100 a second each come to 1000; BC as t²: half of what comes in a steady window; then a quarter of a second more.
    rows = 3 * 1000 + 2000 * 10 / 2 + (300 + 2000) * 0.25
    assert beside.rows == pytest.approx(rows)


def test_passes_go_on_as_long_as_each_leaves_half() -> None:
    """Rows of 100 kB: what comes meanwhile is much. Two jobs a pass (one sorts b, one joins b and c), each two ticks."""
    wide = Model.of([100.0] * 3, CHAIN[:2], [0.01, 0.01], 10.0, row_bytes=[1e5] * 3)
    change = Change.of(wide, ((0, 1), 2), (0, (1, 2)))
    pace = Pace(recompute_s=1e-4, sort_s=0.0, side_cores=0.5, swap_s=1.0, tick_s=0.5, job_ticks=2.0)
    first, share, jobs = 1.2 / 0.5, 2200 * 1e-4 / 0.5, 2 * 2 * 0.5
    passes = [
        jobs + first
    ]  # then what came meanwhile, and again: that leaves more than half, and is left to the swap
    passes.append(jobs + share * passes[0])
    told = moving(change, pace)
    assert told.stall_s == pytest.approx(2.0 + passes[1] * 0.22 / pace.cores)
    assert told.length_s == pytest.approx(sum(passes) + told.stall_s) and told.job_s == 1.0
    # With much to read nodes work one after the other.
    assert moving(change, replace(pace, nodes=2)).length_s > told.length_s + 2 * jobs


def test_passes_are_those_of_the_engine() -> None:
    assert PACE.passes == 1 + making.CATCH_UPS
    assert (strategies.SMALL_BYTES, strategies.LAST_BYTES) == (TICK_BYTES, making.LAST_BYTES)


def test_ticks_are_longer_the_less_idle_they_are() -> None:
    pace = Pace(cores=2.0, tick_s=0.6)
    assert pace.under(1.0, 1.0).tick_s == pytest.approx(0.6)
    assert pace.under(1.0, 1.5).tick_s == pytest.approx(0.6 * 0.5 / 0.25)
    assert pace.under(1.0, 0.0).tick_s == pytest.approx(0.3)
    assert pace.under(1.0, 9.0).tick_s == pytest.approx(0.6 * 0.5 / 0.05), (
        "and then they fall behind"
    )


def test_ticks_under_another_plan_are_told_by_how_long_they_were() -> None:
    """A tick of a second, of which a quarter is there with little to do: the rest is the plan's."""
    pace = Pace(tick_s=1.0, least_s=0.25)
    assert pace.told(0.1, 0.1).tick_s == pytest.approx(1.0)
    assert pace.told(0.1, 0.05).tick_s == pytest.approx(0.25 / (1 - 0.75 / 2))
    assert pace.told(0.1, 0.0).tick_s == pytest.approx(0.25)
    assert pace.told(0.1, 9.0).tick_s == pytest.approx(0.25 / 0.05)
    unknown = replace(pace, least_s=0.0)
    assert unknown.told(1.0, 0.5) == unknown.under(1.0, 0.5)


def test_without_windows_the_parallel_track_does_not_end() -> None:
    model = Model.of([10.0] * 3, CHAIN[:2], [0.01] * 2, ages_s=[600.0] * 3)
    change = Change.of(model, ((0, 1), 2), (0, (1, 2)))
    assert "would not end" in parallel(change, PACE).hindrance
    assert moving(change, PACE).rows > 0
    told = advise(outlook(model, ((0, 1), 2)), model, ((0, 1), 2), (0, (1, 2)), PACE)
    assert told.chosen is not None and told.chosen.strategy in ("moving", "delta")
    assert told.crossover == inf and "not possible" in told.why


def test_a_better_order_gains_and_a_worse_one_loses() -> None:
    model = skewed()
    there = advise(outlook(model, OLD), model, OLD, NEW, PACE)
    back = advise(outlook(model, NEW), model, NEW, OLD, PACE)
    assert there.chosen is not None and there.chosen.gain_row_s > 0 and there.chosen.pays
    assert all(one.gain_row_s < 0 and not one.pays for one in back.offers)
    assert there.change.new.between_per_s < there.change.old.between_per_s / 5
    assert best(model, weights_from(there.change.old)).score < 1


@given(models(4, 3), st.sampled_from(STRATEGIES), st.floats(0, 1), st.data())
@settings(deadline=None, max_examples=8)
def test_figures_fit_together(
    model: Model, strategy: str, busy: float, data: st.DataObject
) -> None:
    trees = list(all_trees(model.classes, model.everything))
    old, new = data.draw(st.sampled_from(trees)), data.draw(st.sampled_from(trees))
    look_ = outlook(model, old, budget=2 * 10**9, busy=busy)
    told = offer(look_, Change.of(model, old, new), strategy, PACE)  # type: ignore[arg-type]
    assert told.cost_row_s >= -1e-6 * abs(told.nothing_row_s) - 1e-6 and isfinite(told.gain_row_s)
    assert told.sure.p10 <= told.sure.p50 <= told.sure.p90
    again = offer(look_, Change.of(model, old, new), strategy, PACE)  # type: ignore[arg-type]
    assert again == told


def test_what_is_not_known_makes_the_gain_less_sure() -> None:
    model = skewed()
    open_ = replace(
        model, class_factor=tuple(Known(f.log_value, 2.0) for f in model.class_factor), _kept={}
    )
    sure, unsure = (
        offer(outlook(m, OLD), Change.of(m, OLD, NEW), "moving", PACE).sure for m in (model, open_)
    )
    assert unsure.chance < sure.chance and unsure.p10 < sure.p10


@pytest.mark.parametrize("window", [5.0, 60.0, 600.0])
def test_at_the_crossover_both_gain_the_same(window: float) -> None:
    model = skewed(window, 200.0)
    told = advise(outlook(model, OLD), model, OLD, NEW, PACE)
    assert 0 < told.crossover < inf, "there is one for these figures"
    for factor, equal in ((1.0, True), (0.5, False), (2.0, False)):
        there = scaled(model, told.crossover * factor)
        one, two = (offer(outlook(model, OLD), Change.of(there, OLD, NEW), name, PACE)
                    for name in ("moving", "parallel"))  # fmt: skip
        near = one.gain_row_s == pytest.approx(two.gain_row_s, rel=1e-3)
        assert near == equal
    assert f"{told.crossover * window:,.3g} s" in told.why
    assert told.chosen is not None
    assert told.chosen.gain_row_s == max(one.gain_row_s for one in told.offers)


def test_no_memory_for_both_is_said_with_figures() -> None:
    model = skewed()
    size = int(Change.of(model, OLD, OLD).old.state_bytes / 20) + 1
    tight = outlook(model, OLD, budget=10 * size + MB)
    told = advise(tight, model, OLD, NEW, PACE)
    beside = next(one for one in told.offers if one.strategy == "parallel")
    assert (
        not beside.possible and "1.0 MB free" in beside.hindrance and beside.hindrance in told.why
    )
    assert not beside.pays
    roomy = advise(outlook(model, OLD, budget=40 * size), model, OLD, NEW, PACE)
    assert all(one.possible for one in roomy.offers)
    assert roomy.offers[1].cost_row_s <= beside.cost_row_s, "crowding costs"


def test_what_has_been_spilled_is_cleaned_up_first() -> None:
    model = skewed()
    plain, spilled = outlook(model, OLD), outlook(model, OLD, disk=[0] * 10 + [8 * MB] * 10)
    change = Change.of(model, OLD, NEW)
    cpu_s = 80 * MB * NUMBERS.read_s_per_byte + 10_000 * NUMBERS.join_s_per_row
    for strategy in STRATEGIES:
        before, after = (offer(one, change, strategy, PACE) for one in (plain, spilled))
        assert after.estimate.cpu_s == pytest.approx(before.estimate.cpu_s + cpu_s)
        longer = after.estimate.length_s - before.estimate.length_s
        assert longer == pytest.approx(cpu_s / PACE.side_cores)
        assert after.estimate.stall_s == before.estimate.stall_s
        assert before.possible and after.possible
    size = int(change.old.state_bytes / 20) + 1
    tight = outlook(model, OLD, budget=10 * size + 60 * MB, disk=[0] * 10 + [8 * MB] * 10)
    told = offer(tight, change, "moving", PACE)
    assert "node 1" in told.hindrance and "60.0 MB free" in told.hindrance


def test_a_tree_with_less_state_puts_spilling_off() -> None:
    """Nodes that fill up within the horizon: half the state, half the growth."""
    model = skewed()
    size = int(Change.of(model, OLD, OLD).old.state_bytes / 20) + 1
    full = outlook(model, OLD, budget=11 * size, busy=0.0, window=None)
    assert full.nothing.row_s.sum() > 0
    told = offer(full, Change.of(model, OLD, NEW), "moving", PACE)
    assert grown(Change.of(model, OLD, NEW)) < 0.6
    assert told.gain_row_s > 0.5 * full.nothing.row_s.sum()


def test_advice_is_quick_and_text_is_readable() -> None:
    model, start = skewed(), process_time()
    told = advise(outlook(model, OLD), model, OLD, NEW, PACE)
    assert process_time() - start < 1.0
    assert "rows computed anew" in told.why and "both plans for" in told.why
    assert (mb(1.5e6), rows_s(2.5e6), rows_s(-3.2e3), rows_s(7.0)) == (
        "1.5 MB", "2.5 M row·s", "-3.2 k row·s", "7 row·s")  # fmt: skip


def test_nodes_that_do_not_say_how_busy_they_are_gain_all_the_same() -> None:
    """Their joins are work, whatever they say."""
    model = skewed()
    told = offer(outlook(model, OLD, busy=0.0), Change.of(model, OLD, NEW), "moving", PACE)
    assert told.gain_row_s > 0


def test_costs_by_hand() -> None:
    """Roomy nodes, so load and pauses only: ρ s² / 2 + π · CPU; or 1.5 · ρ · Δτ for as long as both run, with ticks as
    long as what they do leaves them idle: 0.3 of the time now, half a second."""
    model = skewed(5.0)
    change, look_ = Change.of(model, OLD, NEW), outlook(model, OLD)
    rho, price = look_.rows_out_per_s, float(look_.price.mean())

    def late(more_cpu_s: float, seconds: float) -> float:
        return 1.5 * rho * seconds * (0.5 * 0.3 / (0.3 - more_cpu_s / NUMBERS.cores) - 0.5)

    one = offer(look_, change, "moving", PACE)
    told = one.estimate
    assert one.cost_row_s == pytest.approx(rho * told.stall_s**2 / 2 + price * told.cpu_s)
    two = offer(look_, change, "parallel", PACE)
    both = two.estimate
    assert two.cost_row_s == pytest.approx(late(both.cpu_s / both.length_s, both.length_s))
    less = change.old.cpu(PACE.join_s, PACE.insert_s) - change.new.cpu(PACE.join_s, PACE.insert_s)
    for each in (one, two):
        saved = -late(-less, 300 - each.estimate.length_s)
        assert each.gain_row_s == pytest.approx(saved - each.cost_row_s) and saved > 0


def test_rows_in_between_keep_nobody_waiting() -> None:
    """Nodes tell them with the results; a change is worth what results gain."""
    model = skewed(5.0)
    change, told = Change.of(model, OLD, NEW), outlook(model, OLD)
    nodes = told.snapshot.nodes
    more = replace(nodes, rows_out_per_s=40 * nodes.rows_out_per_s)
    between = look(replace(told.snapshot, nodes=more), NUMBERS, told.horizon, LocalRule())
    for strategy in STRATEGIES:
        one, other = (offer(seen, change, strategy, PACE) for seen in (told, between))
        assert other.cost_row_s == pytest.approx(one.cost_row_s)
        assert other.gain_row_s == pytest.approx(one.gain_row_s)


def test_ticks_wait_for_what_takes_no_longer_than_one_of_them() -> None:
    """If that costs less: what goes on meanwhile goes on with the worse order."""
    model = skewed(5.0)
    change, told = Change.of(model, OLD, NEW), outlook(model, OLD)
    quick = replace(PACE, swap_s=0.1, tick_s=2.0)
    beside, whole = ways(change, quick)
    assert whole.at_once and not beside.at_once and beside == moving(change, quick)
    assert whole.length_s == whole.stall_s < 2.0 and whole.rows == beside.rows
    assert ways(change, replace(quick, tick_s=0.9 * whole.stall_s)) == [
        moving(change, replace(quick, tick_s=0.9 * whole.stall_s))
    ]
    assert ways(change, replace(quick, waits=False)) == [beside]
    assert ways(change, replace(quick, waits=True, tick_s=0.01)) == [whole]
    one = offer(told, change, "moving", quick)
    assert one.estimate == whole
    same = offer(
        outlook(model, OLD), Change.of(model, NEW, OLD), "moving", replace(quick, tick_s=2.0)
    )
    assert not same.estimate.at_once, "nobody waits for a worse order"


def test_what_comes_too_late_gains_nothing() -> None:
    """Nodes that fill up; the slower the side jobs, the less of the horizon is left."""
    model = skewed()
    size = int(Change.of(model, OLD, OLD).old.state_bytes / 20) + 1
    full = outlook(model, OLD, budget=11 * size, busy=0.0, window=None)
    change = Change.of(model, OLD, NEW)
    gains = []
    for cores in (2.0, 0.05, 0.02, 1e-4):
        one = offer(full, change, "moving", replace(PACE, side_cores=cores, passes=1))
        gains.append(one.gain_row_s)
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    assert one.estimate.length_s > 300 and one.gain_row_s <= -one.cost_row_s * (1 - 1e-9)


def test_two_plans_that_are_too_much_fall_behind() -> None:
    model = skewed(5.0)
    change = Change.of(model, OLD, NEW)
    assert parallel(change, PACE).behind_s == 0
    slow = replace(PACE, join_s=1e-4, insert_s=1e-4)
    told = parallel(change, slow)
    work = change.old.cpu(1e-4, 1e-4) * 5.25 + told.cpu_s
    assert told.behind_s == pytest.approx(work / slow.cores - 5.25) and told.behind_s > 1
    assert told.length_s == pytest.approx(work / slow.cores)
    advice = advise(outlook(model, OLD), model, OLD, NEW, slow)
    assert "of it behind" in advice.why
