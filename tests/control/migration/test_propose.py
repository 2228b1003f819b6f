"""From ticks to proposals, end to end on the simulator's feed; and what is said of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.errors import PlanError
from control.migration.model import Model, load_of
from control.migration.optimise import same_joins
from control.migration.propose import price, proposals, summary, told
from control.migration.statistics import QueryShape, Statistics
from control.migration.strategies import Pace
from control.migration.trees import Tree, mask_of
from control.plans import STRATEGIES
from control.simulate.tracks import poisson
from tests.control.migration.feed import JOIN_S, ticks
from tests.control.migration.made import all_trees, models
from tests.control.migration.outlooks import NEW, OLD, PACE, outlook, skewed

CHAIN = ((0, 1), (1, 2), (2, 3))


def test_what_ticks_tell_leads_to_the_better_order() -> None:
    """a ⋈ b is not selective, c ⋈ d is; by the feed alone the optimiser must find out, and say what it expects."""
    window, s = 4.0, [0.2, 0.05, 0.02]
    bounds = tuple((i, j, window) for i in range(4) for j in range(4) if i != j)
    statistics = Statistics(QueryShape(tuple("abcd"), CHAIN, bounds))
    arrivals = poisson([15.0] * 4, [mask_of(span) for span in CHAIN], s, 60.0, 8)
    for tick in ticks(arrivals, OLD, window):
        statistics.add(tick)
    model = statistics.model()
    prices = statistics.prices
    pace = replace(Pace(), join_s=prices.join_s, insert_s=prices.insert_s)
    assert pace.join_s == pytest.approx(JOIN_S, rel=0.1)
    found = proposals(outlook(model, OLD), model, OLD, pace)
    true = Model.of([15.0] * 4, CHAIN, s, window)
    for one in found:
        expected, really = load_of(model, one.tree), load_of(true, one.tree)
        assert expected.between_per_s == pytest.approx(really.between_per_s, rel=0.35)
        assert really.between_per_s < load_of(true, OLD).between_per_s / 2
    assert found and "rows a second in between instead of" in summary(found[0])


def test_the_best_comes_first_and_is_not_the_same_tree() -> None:
    model = skewed()
    found = proposals(outlook(model, OLD), model, OLD, PACE)
    gains = [one.gain_row_s for one in found]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    assert not any(same_joins(one.tree, OLD) for one in found)
    there = found[0].tree
    assert all(
        one.gain_row_s < gains[0] / 10
        for one in proposals(outlook(model, there), model, there, PACE)
    ), "once there, there is little left to gain"


def test_streams_of_less_than_a_row_a_second_are_proposed_for_too() -> None:
    model = Model.of([0.1] * 4, CHAIN, [0.1, 0.005, 0.002], 60.0)
    assert 0 < load_of(model, OLD).rows_in_per_s < 1
    assert proposals(outlook(model, OLD), model, OLD, PACE)


@given(models(5, 3), st.data())
@settings(deadline=None, max_examples=15)
def test_whatever_is_proposed_can_be_told(model: Model, data: st.DataObject) -> None:
    running: Tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    for one in proposals(outlook(model, running), model, running, PACE):
        entry = told(one)
        assert json.loads(json.dumps(entry, allow_nan=False)) == entry
        assert entry["do"] == "migrate" and entry["strategy"] in STRATEGIES
        assert entry["gain_row_s"] == entry["strategies"][entry["strategy"]]["gain_row_s"]
        assert (entry["verdict"] == "loses against doing nothing") == (entry["gain_row_s"] <= 0)
        assert entry["pays"] == entry["verdict"].startswith("gains in")


def test_a_persons_own_tree_is_priced_or_refused() -> None:
    model = skewed()
    mine = price(outlook(model, OLD), model, OLD, ((0, 1), (2, 3)), PACE)
    assert (mine.text, mine.shape) == ("((a b) (c d))", "bushy")
    with pytest.raises(PlanError, match="share no key"):
        price(outlook(model, OLD), model, OLD, ((0, 2), (1, 3)), PACE)


def test_nothing_is_proposed_before_anything_came() -> None:
    bounds = tuple((i, j, 4.0) for i in range(4) for j in range(4) if i != j)
    model = Statistics(QueryShape(tuple("abcd"), CHAIN, bounds)).model()
    assert proposals(outlook(skewed(), OLD), model, OLD, PACE) == []


def test_one_join_of_all_is_looked_at_where_all_share_one_key() -> None:
    """It makes no rows in between, so nothing is better than to stay with it; and it is proposed to a tree."""
    model = Model.of([500.0] * 3, [[0, 1, 2]], [1e-3], 60.0)
    tree: Tree = ((0, 1), 2)
    there = proposals(outlook(model, tree), model, tree, PACE)
    assert there[0].tree == (0, 1, 2) and there[0].gain_row_s > 0
    assert there[0].shape == "one join" and there[0].advice.change.new.between_per_s == 0
    back = proposals(outlook(model, (0, 1, 2)), model, (0, 1, 2), PACE)
    assert back and all(one.gain_row_s < 0 for one in back)


def test_what_the_engine_cannot_do_is_not_advised() -> None:
    model = skewed(5.0)
    both = proposals(outlook(model, OLD), model, OLD, PACE)[0].advice
    assert both.chosen is not None
    other = next(one.strategy for one in both.offers if one.strategy != both.chosen.strategy)
    only = proposals(outlook(model, OLD), model, OLD, PACE, able=[other])[0]
    assert only.advice.chosen is not None and only.advice.chosen.strategy == other
    assert "does not do it yet" in told(only)["text"] and only.gain_row_s <= both.chosen.gain_row_s
    none = price(outlook(model, OLD), model, OLD, NEW, PACE, able=[])
    assert none.advice.chosen is None and told(none)["verdict"] == "cannot be done"
    assert "none can be done" in none.advice.why
