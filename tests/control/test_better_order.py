"""Policies that change the join order: only what is likely and worth it, only once the running order has been seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.arbiter import judge
from control.limits import OPEN, Limits
from control.migration.model import Model
from control.migration.strategies import ESTIMATES
from control.migration.trees import Tree
from control.orders import priced_order
from control.plans import STRATEGIES, Migrate, Plan, Topic, plan_from_json, plan_to_json
from control.policies.best_gain import BestGain
from control.policies.better_order import BetterOrder
from control.policies.orders import SEEN_S, SETTLE_S
from control.rules import rule_from
from control.simulate.backtest import Setting, backtest
from control.snapshot import ClusterSnapshot, History
from tests.control.made import MB, cluster
from tests.control.migration.made import all_trees, joins_of, models
from tests.control.migration.outlooks import NEW, OLD, skewed
from tests.control.running import NUMBERS, running

POLICIES = (BetterOrder, BestGain)


def settled(tree: Tree, model: Model | None = None, **more: Any) -> ClusterSnapshot:
    """A query that runs a tree, and has for a day."""
    snapshot = running(model or skewed(), tree)
    assert snapshot.joins is not None
    joins = replace(snapshot.joins, since_s=snapshot.time_s - 86_400, **more)
    return replace(snapshot, joins=joins)


def step_of(plan: Plan) -> Migrate:
    (step,) = plan.steps
    assert isinstance(step, Migrate)
    return step


@given(models(5, 3), st.data())
@settings(deadline=None, max_examples=25)
def test_only_what_is_likely_and_worth_it_is_done(model: Model, data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(list(all_trees(model.classes, model.everything))))
    snapshot = settled(tree, model)
    policy = BetterOrder(numbers=NUMBERS)
    plan = policy.decide(snapshot, OPEN)
    assert plan == policy.decide(snapshot, OPEN) and plan_from_json(plan_to_json(plan)) == plan
    if not plan.steps:
        assert any(reason.topic is Topic.NOTHING for reason in plan.reasons)
        return
    step = step_of(plan)
    told = priced_order(snapshot, NUMBERS, step.order, step.strategy)
    assert step.strategy in STRATEGIES and told["recommended"] == step.strategy
    assert told["chance"] >= 0.8 and told["gain_row_s"] >= 2 * told["cost_row_s"] > 0
    assert judge(plan, snapshot, (), OPEN).accepted
    figures = plan.reasons[-1].figures
    assert figures["gain_row_s"] == pytest.approx(told["gain_row_s"])
    assert figures["chance"] == pytest.approx(told["chance"])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_bad_order_is_left_and_a_good_one_is_not(policy: type[BetterOrder | BestGain]) -> None:
    made = policy(numbers=NUMBERS)
    assert step_of(made.decide(settled(OLD), OPEN)).order
    assert not made.decide(settled(NEW), OPEN).steps


@pytest.mark.parametrize("policy", POLICIES)
def test_an_order_is_not_left_before_it_was_seen(policy: type[BetterOrder | BestGain]) -> None:
    """As long as it takes to see its selectivities, after a change and at the beginning."""
    made = policy(numbers=NUMBERS)
    snapshot = settled(OLD)
    assert snapshot.joins is not None
    for since_s, acts in ((SETTLE_S - 1, False), (SETTLE_S, True)):
        joins = replace(snapshot.joins, since_s=snapshot.time_s - since_s)
        plan = made.decide(replace(snapshot, joins=joins), OPEN)
        assert bool(plan.steps) == acts, since_s
    for seen_s, acts in ((SEEN_S - 1, False), (SEEN_S, True)):
        young = replace(snapshot, joins=joins_of(skewed(), OLD, seen_s))
        assert bool(made.decide(young, OPEN).steps) == acts, seen_s
    hasty = replace(made, settle_s=0.0)
    assert hasty.decide(replace(snapshot, joins=joins_of(skewed(), OLD, 1.0)), OPEN).steps
    lately = replace(snapshot, history=History(last_adaptation_s=snapshot.time_s - 5))
    assert not made.decide(lately, OPEN).steps


def test_what_speaks_against_it_is_said_with_figures() -> None:
    snapshot = settled(OLD)
    early = BetterOrder(settle_s=86_401.0).decide(snapshot, OPEN)
    assert early.reasons[0].figures == {"since_s": 86_400.0, "threshold_s": 86_401.0}
    small = BetterOrder(numbers=NUMBERS).decide(snapshot, Limits(action_bytes_max=1))
    assert small.reasons[0].figures["limit_bytes"] == 1 and not small.steps
    dear = BetterOrder(times=1e6, numbers=NUMBERS).decide(snapshot, OPEN)
    assert not dear.steps and "less than 1e+06 times its cost" in dear.reasons[0].text
    assert dear.reasons[0].topic is Topic.SKIPPED and dear.reasons[0].figures["gain_row_s"] > 0
    nothing = BetterOrder().decide(cluster([[MB], [MB]]), OPEN)
    assert "not known yet" in nothing.reasons[0].text


def test_unsure_gains_are_left_alone() -> None:
    """As nothing but one tree was ever seen, what the others would make is a guess."""
    snapshot = settled(OLD)
    assert snapshot.joins is not None
    told = dict(snapshot.joins.told)
    blind = replace(snapshot, joins=replace(snapshot.joins, told={**told, "evidence": []}))
    sure = BetterOrder(chance=1.0, numbers=NUMBERS)
    found = sure.decide(blind, OPEN)
    assert not found.steps
    texts = " ".join(reason.text for reason in found.reasons)
    assert "too unsure" in texts or "less than" in texts or "loses" in texts or "no other" in texts


@pytest.mark.parametrize("strategy", list(ESTIMATES))
def test_a_way_there_may_be_prescribed(strategy: str) -> None:
    plan = BetterOrder(strategy=strategy, numbers=NUMBERS).decide(settled(OLD), OPEN)
    assert not plan.steps or step_of(plan).strategy == strategy
    if strategy != "parallel":
        assert plan.steps


def test_best_gain_weighs_it_with_everything_else() -> None:
    """Ranked among the others by the one model; `only` leaves out what is not wanted."""
    snapshot = settled(OLD)
    plan = BestGain(numbers=NUMBERS).decide(snapshot, OPEN)
    ranked = [reason for reason in plan.reasons if reason.topic is Topic.CANDIDATES]
    gains = [reason.figures["gain_row_s"] for reason in ranked]
    assert gains == sorted(gains, reverse=True)
    words = {reason.text.split(":")[0].split()[0] for reason in ranked}
    assert {"migrate", "nothing"} <= words
    assert step_of(BestGain(only="migrate", numbers=NUMBERS).decide(snapshot, OPEN)).order
    for only in ("move", "spill", "cleanup"):
        found = BestGain(only=only, numbers=NUMBERS).decide(snapshot, OPEN)
        assert not any(isinstance(step, Migrate) for step in found.steps)
        assert "migrate" not in {reason.text.split(":")[0] for reason in found.reasons}


RULE = """
name = "order"
mode = "auto"
every = "30s"
cooldown = "60s"
[policy]
name = "better_order"
"""


def recorded(tree: Tree, minutes: int) -> list[ClusterSnapshot]:
    """A snapshot a minute of a query that nobody has changed."""
    bare = running(skewed(), tree)
    assert bare.joins is not None
    return [
        replace(bare, time_s=1000.0 + 60 * n, version=n, joins=replace(bare.joins, since_s=0.0))
        for n in range(minutes)
    ]


def test_a_backtest_changes_the_order_once_and_says_what_it_does_not_know() -> None:
    """The order that it was changed to is good: it stays. Memory and delays are as they were recorded."""
    told = backtest(rule_from(RULE), recorded(OLD, 20), Setting(NUMBERS))
    assert told["by_kind"] == {"migrate": 1}
    (fired,) = told["fired"]
    assert fired["order"] and fired["gain_row_s"] > 0
    assert told["orders"]["changes"] == 1
    assert told["orders"]["gain_row_s"] == pytest.approx(fired["gain_row_s"])
    assert "as they were recorded" in told["orders"]["text"]
    benefit = told["benefit"]
    assert benefit["with"] == benefit["without"] and benefit["gain_row_s"] == 0
    there = backtest(rule_from(RULE), recorded(NEW, 20), Setting(NUMBERS))
    assert there["orders"] == {"changes": 0, "gain": "model", "gain_row_s": 0, "text": ""}


def test_a_backtest_of_what_knows_nothing_of_joins_does_nothing() -> None:
    bare = [replace(one, joins=None) for one in recorded(OLD, 10)]
    told = backtest(rule_from(RULE), bare, Setting(NUMBERS))
    assert told["firings"] == 0 and told["nothing"]
