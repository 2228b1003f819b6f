"""Every policy acts on the engine in a situation made for it: begun with `--adapt`, and as a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from control.actions import Action, State
from control.plans import Move, Spill
from control.policies.registry import KINDS, policy_from
from control.requests import Request
from tests.engine.adapt.deciding import text_of
from tests.engine.adapt.feeds import OLD, fed
from tests.engine.adapt.situation import Feed, Situation, ruled, situated

KB = 1000
SLOW = {0: 0.02, 1: 0.002}  # node 0 takes ten times as long for a row
EVEN, MUCH, LITTLE = Feed(), Feed(rows=60, keys=30), Feed(rows=10, keys=8)
RESULTS, NONE = Feed(rows=40, keys=2), Feed(rows=40, keys=40, joins=False)


def moved(action: Action, source: int = 0) -> None:
    assert isinstance(action.step, Move) and action.step.source == source


def spilled(action: Action, node: int) -> None:
    assert isinstance(action.step, Spill) and action.step.node == node


def from_node_1(action: Action) -> None:
    spilled(action, 1)


# Of each policy: parameters, the situation, each node's rows, the ticks that it takes, and what it does first.
Acts = tuple[dict[str, Any], dict[str, Any], tuple[Feed, ...], int, Callable[[Action], None]]
ACTS: dict[str, Acts] = {
    "relocate": (
        {"span_s": 5.0, "measure": "share"},
        {"budgets": {0: 60 * KB, 1: 600 * KB}},
        (EVEN, EVEN),
        15,
        moved,
    ),
    "lazy_disk": (
        {"span_s": 5.0, "measure": "share"},
        {"budgets": {0: 60 * KB, 1: 600 * KB}},
        (EVEN, EVEN),
        15,
        moved,
    ),
    "active_disk": (
        {"span_s": 5.0, "query_bytes": 4000 * KB, "ratio": 0.5},
        {"budgets": dict.fromkeys((0, 1), 600 * KB)},
        (RESULTS, NONE),
        15,
        from_node_1,
    ),
    "flux_load": ({"delta_min_s": 3.0}, {"pace": SLOW}, (EVEN, EVEN), 15, moved),
    "flux_memory": (
        {"delta_min_s": 3.0},
        {"budgets": dict.fromkeys((0, 1), 600 * KB)},
        (MUCH, LITTLE),
        15,
        moved,
    ),
    "flux_hybrid": ({"delta_min_s": 3.0}, {"pace": SLOW}, (EVEN, EVEN), 15, moved),
    "best_gain": (
        {"span_s": 5.0, "chance": 0.5},
        {"budgets": {0: 60 * KB, 1: 6000 * KB}},
        (MUCH, LITTLE),
        25,
        moved,
    ),
}
# The others: what they do is done without an action of theirs, or by a query of its own.
ELSEWHERE = {
    "none": "test_none_leaves_everything_to_the_nodes",
    "local_spill": "test_local_spill_is_what_nodes_do_by_themselves",
    "better_order": "test_better_order_changes_the_order_of_a_tree",
}


def made_for(
    name: str, **more: Any
) -> tuple[dict[str, Any], dict[str, Any], tuple[Feed, ...], int]:
    parameters, about, feeds, count, _ = ACTS[name]
    return parameters, {**about, **more}, feeds, count


def first(situation: Situation, who: str) -> Action:
    """The first action of a policy or rule that was done."""
    assert situation.by(who), situation.desk.records.decisions[-3:]
    action = situation.by(who)[0]
    assert action.state is State.DONE, action.note
    return action


@pytest.mark.parametrize("name", ACTS)
def test_begun_with_adapt_it_acts(name: str) -> None:
    parameters, about, feeds, count = made_for(name)
    with situated(policy_from({"policy": name, **parameters}), **about) as it:
        it.ticks(count, *feeds)
        ACTS[name][4](first(it, name))
        assert it.check() > 100


@pytest.mark.parametrize("name", ACTS)
def test_as_a_rule_it_acts(name: str) -> None:
    parameters, about, feeds, count = made_for(name)
    with ruled(text_of(name, **parameters), **about) as (it, house):
        house.ticks(count + 5, *feeds)
        ACTS[name][4](first(it, "rule it"))
        assert it.check() > 100


def test_a_flux_rule_is_due_when_a_round_ends_whatever_its_interval() -> None:
    """Once for each round, also when the control process is started again."""
    about: dict[str, Any] = {"pace": SLOW}
    with ruled(text_of("flux_load", delta_min_s=4.0, imbalance=90.0), **about) as (it, house):
        house.rule(text_of("flux_load", delta_min_s=4.0, imbalance=90.0).replace('"1s"', '"1h"'))
        house.ticks(20)
        assert it.desk._rounds.number >= 2
        evaluated = sum(e.times for e in house.store.rules.evaluations())
        assert evaluated == it.desk._rounds.number
        house.loop = type(house.loop)(house.store, house.dispatcher, it.local.clock)
        house.loop.run_once()
        assert sum(e.times for e in house.store.rules.evaluations()) == evaluated
        facts = house.store.kept.get("round:it:local")
        assert facts[0] == it.desk._rounds.number


def test_every_policy_has_its_situation() -> None:
    assert {*ACTS, *ELSEWHERE} == set(KINDS) and not {*ACTS} & {*ELSEWHERE}
    assert all(callable(globals()[test]) for test in ELSEWHERE.values())


def test_better_order_changes_the_order_of_a_tree() -> None:
    with fed() as feed:
        feed.desk.policy.kind = policy_from(
            {"policy": "better_order", "settle_s": 20.0, "span_s": 0.0}
        )
        feed.desk.policy.interval_s = 1.0
        feed.ticks(50)
        (action,) = feed.desk.records.actions.values()
        assert action.state is State.DONE and feed.desk.records.by[action.id] == "better_order"
        assert feed.joins.order != OLD


TIGHT = dict.fromkeys((0, 1), 40 * KB)


@pytest.mark.parametrize("door", ["adapt", "rule"])
def test_none_leaves_everything_to_the_nodes(door: str) -> None:
    parameters: dict[str, Any] = {"budgets": TIGHT, "pace": SLOW}
    if door == "adapt":
        with situated(policy_from({"policy": "none"}), **parameters) as it:
            it.ticks(30, MUCH, LITTLE)
            assert it.by("node 0") and not it.by("none")
            assert it.desk.records.decisions and it.check() > 100
        return
    with ruled(text_of("none"), **parameters) as (it, house):
        house.ticks(30, MUCH, LITTLE)
        assert it.by("node 0") and not it.by("rule") and it.desk.led is None
        assert house.store.rules.evaluations()[0].outcome == "nothing"


@pytest.mark.parametrize("door", ["adapt", "rule"])
def test_local_spill_is_what_nodes_do_by_themselves(door: str) -> None:
    own = {"threshold": 0.3, "spill_percent": 15.0}
    if door == "adapt":
        with situated(policy_from({"policy": "local_spill", **own}), budgets=TIGHT) as it:
            spills_early(it, it.ticks)
        return
    with ruled(text_of("local_spill", **own), budgets=TIGHT) as (it, house):
        spills_early(it, house.ticks)


def spills_early(it: Situation, ticks: Callable[..., None]) -> None:
    while not it.by("node 0"):
        ticks(1)
        assert it.desk.snapshot().nodes.memory_bytes.max() < 0.5 * 40 * KB, "it spills at 30 %"
    ticks(10)
    assert it.check() > 100


@pytest.mark.parametrize("door", ["adapt", "rule"])
def test_the_hybrid_balances_memory_once_anything_is_on_disk(door: str) -> None:
    """All nodes are as busy as each other; one has spilled, and has much more state."""
    about: dict[str, Any] = {
        "budgets": dict.fromkeys((0, 1), 600 * KB),
        "pace": {0: 0.001, 1: 0.006},
    }
    if door == "adapt":
        with situated(policy_from({"policy": "flux_hybrid", "delta_min_s": 3.0}), **about) as it:
            hybrid(it, it.ticks, "flux_hybrid")
        return
    with ruled(text_of("flux_hybrid", delta_min_s=3.0), **about) as (it, house):
        hybrid(it, house.ticks, "rule it")


def hybrid(it: Situation, ticks: Callable[..., None], who: str) -> None:
    it.take(MUCH, LITTLE)
    mine = it.desk.snapshot().on(0)[:1]
    it.desk.ask(Request("spill", 0, groups=tuple(int(g) for g in mine)), "ann")
    ticks(15, MUCH, LITTLE)
    moved(first(it, who))
    assert it.check() > 100
