"""Better orders from a snapshot alone: what is in them, what they are refused for, and that they come back from the store."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.arbiter import judge
from control.codec import pack, unpack
from control.errors import PlanError
from control.limits import OPEN, Limits
from control.menu import menu
from control.migration.model import Model
from control.migration.optimise import same_joins
from control.migration.strategies import ESTIMATES
from control.orders import better_orders, priced_order, tree_of
from control.plans import STRATEGIES, Plan, Reason, Topic, migrate_to, plan_from_json
from control.predict import preview
from tests.control.made import MB, cluster
from tests.control.migration.made import all_trees, models
from tests.control.migration.outlooks import NEW, OLD, skewed
from tests.control.running import NUMBERS, running

CHOSEN = (Reason.of(Topic.CHOSEN, "asked for"),)


@given(models(5, 3), st.data())
@settings(deadline=None, max_examples=25)
def test_whatever_is_better_can_be_proposed_as_it_stands(model: Model, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    snapshot = running(model, tree)
    found = better_orders(snapshot, NUMBERS)
    gains = [one["gain_row_s"] for one in found]
    assert gains == sorted(gains, reverse=True)
    for one in found:
        assert json.loads(json.dumps(one, allow_nan=False)) == one
        plan = plan_from_json(one["plan"])
        assert judge(plan, snapshot, (), OPEN).accepted and plan.steps[0].bytes == plan.bytes
        assert one["step"]["order"] == one["join_order"] and one["strategy"] in STRATEGIES
        again = priced_order(snapshot, NUMBERS, one["join_order"])
        assert again == one, "typed or proposed: the same figures"
        assert snapshot.joins is not None
        assert not same_joins(tree_of(snapshot.joins, one["join_order"]), snapshot.joins.running)


@given(models(6, 2), st.data())
@settings(deadline=None, max_examples=25)
def test_it_comes_back_from_the_store(model: Model, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    snapshot = running(model, tree)
    found = unpack(pack(snapshot))
    assert found.joins == snapshot.joins
    assert len(pack(snapshot)) - len(pack(replace(snapshot, joins=None))) < 2_500


def test_without_anything_told_nothing_is_proposed() -> None:
    bare = cluster([[MB], [MB]])
    assert better_orders(bare, NUMBERS) == []
    with pytest.raises(PlanError, match="not known yet"):
        priced_order(bare, NUMBERS, "((a b) c)")


def test_a_typed_order_says_where_it_is_wrong() -> None:
    snapshot = running(skewed(), OLD)
    for text, told in (
        ("((a c) b d)", "column 2: .a c. share no key"),
        ("((a b) c)", "d missing"),
        ("(((a b) c) e)", "no stream `e`"),
        ("(((a b) c) d", "not closed"),
    ):
        with pytest.raises(PlanError, match=told):
            priced_order(snapshot, NUMBERS, text)
    with pytest.raises(PlanError, match="no strategy 'magic'"):
        priced_order(snapshot, NUMBERS, "((a b) (c d))", "magic")


def test_a_named_strategy_has_its_own_figures() -> None:
    snapshot = running(skewed(), OLD)
    auto = priced_order(snapshot, NUMBERS, "(((c d) b) a)")
    for name in ESTIMATES:
        one = priced_order(snapshot, NUMBERS, "(((c d) b) a)", name)
        assert one["strategy"] == one["step"]["strategy"] == name
        assert one["gain_row_s"] == one["strategies"][name]["gain_row_s"]
        assert one["recommended"] == auto["recommended"] == auto["strategy"]


def test_the_best_order_of_a_skewed_chain_is_found_and_is_far_better() -> None:
    best = better_orders(running(skewed(), OLD), NUMBERS)[0]
    assert best["pays"] and best["after"]["between_per_s"] < best["before"]["between_per_s"] / 5
    there = better_orders(running(skewed(), NEW), NUMBERS)
    assert all(not one["pays"] for one in there), "once there, it is not left again"


def test_one_action_may_not_touch_so_much() -> None:
    snapshot = running(skewed(), OLD)
    assert better_orders(snapshot, NUMBERS, Limits(action_bytes_max=1)) == []


@given(models(4, 3), st.integers(1, 8), st.data())
@settings(deadline=None, max_examples=20)
def test_the_menu_weighs_orders_with_everything_else(
    model: Model, most: int, data: st.DataObject
) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    snapshot = running(model, tree)
    entries = menu(snapshot, NUMBERS, OPEN, most=most)
    gains = [entry["gain_row_s"] for entry in entries]
    assert len(entries) <= most and gains == sorted(gains, reverse=True)
    assert json.loads(json.dumps(entries, allow_nan=False)) == entries
    assert sum(entry["do"] == "nothing" for entry in entries) == 1
    for one in (entry for entry in entries if entry["do"] == "migrate"):
        told = preview(plan_from_json(one["plan"]), snapshot, NUMBERS)
        for name in ("gain_row_s", "cost_row_s", "chance", "p10_row_s", "p50_row_s", "p90_row_s"):
            assert told["whole"][name] == pytest.approx(one[name])
        (step,) = told["steps"]
        assert step["migration"]["trees"] == one["trees"]
        assert step["duration_s"] == pytest.approx(one["duration_s"])
        assert step["figures"]["pause_s"] == pytest.approx(one["pause_s"])
        assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_preview_of_what_nobody_knows_yet_says_the_most_that_it_takes() -> None:
    bare = cluster([[MB], [MB]])
    told = preview(Plan((migrate_to("(b a)", "moving", bare),), CHOSEN), bare, NUMBERS)
    (step,) = told["steps"]
    assert step["migration"] is None and step["duration_s"] > 0
    snapshot = running(skewed(), OLD)
    with pytest.raises(PlanError, match="share no key"):
        preview(Plan((migrate_to("((a c) b d)", "moving", snapshot),), CHOSEN), snapshot, NUMBERS)


def test_what_would_never_end_has_figures_and_says_why_it_cannot_be() -> None:
    model = Model.of([10.0] * 3, [[0, 1], [1, 2]], [0.01] * 2, ages_s=[600.0] * 3)
    snapshot = running(model, ((0, 1), 2))
    plan = Plan((migrate_to("(a (b c))", "parallel", snapshot),), CHOSEN)
    (step,) = preview(plan, snapshot, NUMBERS)["steps"]
    assert "would not end" in step["migration"]["hindrance"]
    assert step["migration"]["verdict"] == "cannot be done"
    assert step["duration_s"] == 300.0
