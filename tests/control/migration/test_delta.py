"""The plan without intermediate state: its orders are the cheapest there are, and what it takes adds up."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import isclose, isfinite

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from control.migration.delta import WITHIN_S, bases_of, begun_by, load_of, orders_of
from control.migration.model import Model
from control.migration.strategies import Change, Pace, delta, moving
from control.migration.trees import State, key, mask_of, single, states
from tests.control.migration.made import all_trees, models


@given(models(most=5, least=3))
def test_each_inputs_order_is_the_cheapest(model: Model) -> None:
    """Against all orders, with the bases that earlier inputs have by then."""
    there: set[State] = set()
    for first, order in enumerate(orders_of(model, ())):
        rest = [n for n in range(len(model.rates)) if n != first]
        ways = [(first, *way) for way in permutations(rest)]
        best = min(cost(model, way, there) for way in ways if connected(model, way))
        assert order[0] == first and sorted(order) == list(range(len(model.rates)))
        assert connected(model, order)
        assert isclose(cost(model, order, there), best, rel_tol=1e-9)
        there.update(bases_of(model.classes, order))


def connected(model: Model, order: tuple[int, ...]) -> bool:
    return all(base.key for base in bases_of(model.classes, order))


def cost(model: Model, order: tuple[int, ...], there: set[State]) -> float:
    made = [begun_by(model, mask_of(order[:n])) for n in range(2, len(order))]
    rest = model.everything
    sorts = [
        model.state_rows(base.inputs, rest ^ base.inputs)
        for base in bases_of(model.classes, order)
        if base not in there
    ]
    return sum(made) + sum(sorts) / WITHIN_S


@given(models(least=3))
def test_what_it_makes_are_the_querys_results(model: Model) -> None:
    """Each result has one youngest part: the last rows of all orders are all results, and no more."""
    orders = orders_of(model, ())
    load = load_of(model, orders)
    between = sum(begun_by(model, mask_of(o[:n])) for o in orders for n in range(2, len(o)))
    assert isclose(load.made_per_s, between + model.rate(model.everything), rel_tol=1e-9)
    assert load.kept_per_s >= sum(model.rates) * (1 - 1e-12)
    assert all(single(base.inputs) for base in load.bases)
    for order in orders:
        for place, number in enumerate(order[1:], start=1):
            bit = 1 << number
            assert State(bit, key(model.classes, (mask_of(order[:place]), bit))) in load.bases


@given(models(most=4, least=3), st.integers(0, 2**32 - 1))
def test_its_estimate_computes_what_the_new_tree_joins(model: Model, seed: int) -> None:
    trees = list(all_trees(model.classes, model.everything))
    assume(len(trees) > 1)
    old, new = (trees[n] for n in np.random.default_rng(seed).permutation(len(trees))[:2])
    change, pace = Change.of(model, old, new), Pace(job_ticks=0.2, nodes=2)
    way, plain = delta(change, pace), moving(change, pace)
    assert way.rows >= plain.rows * (1 - 1e-12), "no state of the old tree's joins is kept"
    assert way.again_s <= way.stall_s and way.pause_s == way.stall_s + way.again_s
    assert 0 < way.ticks_s <= way.length_s and isfinite(way.length_s) and not way.hindrance
    missing = {s for s in states(new, model.classes) if not single(s.inputs)}
    assert (way.rows - way.sorted_rows > 0) == bool(missing)


def test_what_is_sorted_stays_until_its_plan_runs() -> None:
    """The longer sorting takes, the more rows are computed of; not where rows go one by one."""
    chain = Model.of([100.0] * 4, [[0, 1], [1, 2], [2, 3]], [0.01] * 3, 10.0)
    old, new = (((0, 1), 2), 3), (((2, 3), 1), 0)

    def computed(model: Model, job_ticks: float) -> float:
        way = delta(Change.of(model, old, new), Pace(job_ticks=job_ticks))
        return way.rows - way.sorted_rows

    by_ticks = replace(chain, tick_s=0.5)
    short, long = (computed(by_ticks, ticks) for ticks in (1.0, 9.0))
    # One round of sorting b and c, four seconds longer: their rows, and of results of c and d, read and made, half.
    more = 100 + 100 + 2 * chain.rate(0b1100) / 2 + chain.rate(0b1110) * 2 / 3
    assert isclose(long - short, 4 * more, rel_tol=1e-3)
    assert computed(chain, 9.0) == computed(chain, 1.0) < short
