"""An order or a strategy that is left open is chosen, or refused with why: whoever asks, and whatever is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.arbiter import Refusal, Why
from control.cost.coefficients import Coefficients
from control.migration.model import Model
from control.migration.strategies import ESTIMATES
from control.orders import better_orders, priced_order
from control.plans import AUTO, STRATEGIES, Migrate, Plan, Reason, Topic
from control.requests import Request, plan_for
from control.settle import Settled, concrete, settled
from control.snapshot import ClusterSnapshot
from tests.control.made import MB, cluster
from tests.control.migration.made import all_trees, models
from tests.control.migration.outlooks import NEW, OLD, skewed
from tests.control.running import NUMBERS, running

CHOSEN = (Reason.of(Topic.CHOSEN, "asked for"),)


def asked(snapshot: ClusterSnapshot, order: str = "", strategy: str = AUTO) -> Settled | Refusal:
    return settled(Migrate(order, strategy, 1000), snapshot, NUMBERS)


@given(models(5, 3), st.data())
@settings(deadline=None, max_examples=25)
def test_what_comes_out_is_concrete_or_a_refusal(model: Model, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    snapshot = running(model, tree)
    found = asked(snapshot)
    if isinstance(found, Refusal):
        assert found.why is Why.NO_BETTER_ORDER and found.text
        return
    assert found.step.strategy in STRATEGIES and found.step.order and found.step.bytes == 1000
    told = priced_order(snapshot, NUMBERS, found.step.order)
    assert told["recommended"] == found.step.strategy
    assert (
        told["gain_row_s"] == pytest.approx(found.figures["gain_row_s"]) and told["gain_row_s"] > 0
    )


def test_the_best_order_is_taken_and_said_to_be() -> None:
    found = asked(running(skewed(), OLD))
    assert isinstance(found, Settled)
    assert found.step.order == better_orders(running(skewed(), OLD), NUMBERS)[0]["join_order"]
    assert found.step.order in found.text and f"by {found.step.strategy}" in found.text


def test_where_none_is_better_it_says_so_with_the_figure() -> None:
    refusal = asked(running(skewed(), NEW))
    assert isinstance(refusal, Refusal) and refusal.why is Why.NO_BETTER_ORDER
    assert refusal.found is None or (refusal.found <= 0 and refusal.limit == 0)
    assert "order" in str(refusal)


def test_an_order_that_nobody_can_go_to_is_not_the_best() -> None:
    """Without windows the parallel track would not end."""
    model = Model.of([100.0] * 3, [[0, 1], [1, 2]], [0.5, 0.001], ages_s=[600.0] * 3)
    snapshot = running(model, ((0, 1), 2))
    refusal = asked(snapshot, strategy="parallel")
    assert isinstance(refusal, Refusal) and refusal.why is Why.NO_BETTER_ORDER
    found = asked(snapshot, strategy="moving")
    assert isinstance(found, Settled) and found.step.strategy == "moving"


@pytest.mark.parametrize("strategy", list(ESTIMATES))
def test_a_strategy_that_is_named_stays(strategy: str) -> None:
    """Only that ticks wait for moving state, where that costs less."""
    snapshot = running(skewed(), OLD)
    named = asked(snapshot, "(((c d) b) a)", strategy)
    waits = strategy == "moving"
    assert named == Settled(Migrate("(((c d) b) a)", strategy, 1000, at_once=waits))
    best = asked(snapshot, strategy=strategy)
    if isinstance(best, Refusal):  # by this way the best order loses
        told = priced_order(snapshot, NUMBERS, "(((c d) b) a)", strategy)
        assert best.why is Why.NO_BETTER_ORDER and told["gain_row_s"] <= 0
    else:
        assert best.step.strategy == strategy and best.figures["gain_row_s"] > 0


def test_an_order_that_is_typed_stays_and_its_strategy_is_chosen() -> None:
    found = asked(running(skewed(), OLD), "(((c d) b) a)")
    assert isinstance(found, Settled)
    told = priced_order(running(skewed(), OLD), NUMBERS, "(((c d) b) a)")
    assert (found.step.order, found.step.strategy) == ("(((c d) b) a)", told["recommended"])


def test_what_nobody_knows_yet() -> None:
    """An order that is typed can be judged all the same; which is the best cannot."""
    bare = cluster([[MB], [MB]])
    found = asked(bare, "((a b) c)")
    assert isinstance(found, Settled) and found.step.strategy == STRATEGIES[0]
    refusal = asked(bare)
    assert isinstance(refusal, Refusal) and refusal.why is Why.NO_PICTURE
    assert "not known yet" in str(refusal)


def test_what_is_no_order_is_left_to_whoever_judges_it() -> None:
    found = asked(running(skewed(), OLD), "((a c) b d)")
    assert isinstance(found, Settled) and found.step.order == "((a c) b d)"


def test_requests_and_plans_come_out_alike() -> None:
    snapshot = running(skewed(), OLD)
    plan = plan_for(Request("migrate", 0, strategy=AUTO), snapshot, numbers=NUMBERS)
    assert isinstance(plan, Plan)
    (step,) = plan.steps
    size = int(snapshot.groups.memory_bytes.sum() + snapshot.groups.disk_bytes.sum())
    assert isinstance(step, Migrate) and step.bytes == size
    first, why = plan.reasons
    assert first.text == "asked for: migrate"
    assert why.figures["gain_row_s"] > 0
    other = concrete(Plan((Migrate("", AUTO, size),), CHOSEN), snapshot, NUMBERS)
    assert isinstance(other, Plan) and other.steps == plan.steps
    assert concrete(plan, snapshot, NUMBERS) == plan
    there = running(skewed(), NEW)
    for found in (
        plan_for(Request("migrate", 0, strategy=AUTO), there, numbers=NUMBERS),
        concrete(Plan((Migrate("", AUTO, size),), CHOSEN), there, NUMBERS),
    ):
        assert isinstance(found, Refusal) and found.why is Why.NO_BETTER_ORDER


def test_cores_are_those_that_the_query_tells_of() -> None:
    """What is set counts more than what is told."""
    snapshot = running(skewed(), OLD)
    assert snapshot.joins is not None

    def gain(told: float, known: float) -> float:
        assert snapshot.joins is not None
        some = replace(snapshot, joins=replace(snapshot.joins, cores=told))
        return float(priced_order(some, Coefficients(cores=known), "(((c d) b) a)")["gain_row_s"])

    assert gain(2.0, 0.0) == gain(64.0, 2.0) == gain(0.0, 2.0)
    assert gain(1.0, 0.0) != gain(64.0, 0.0)
