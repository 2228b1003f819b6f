"""Policies: what every one of them keeps to, then each one's own rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.arbiter import Why, judge
from control.cost.options import NOTHING
from control.errors import PolicyError
from control.limits import OPEN, Limits
from control.plans import (
    Cleanup,
    Move,
    Plan,
    Spill,
    Topic,
    pairs_of,
    plan_from_json,
    plan_to_json,
)
from control.policies import victims
from control.policies.active_disk import ActiveDisk, state_estimate_bytes
from control.policies.flux import next_round_s, pairs
from control.policies.flux_hybrid import FluxHybrid
from control.policies.flux_load import FluxLoad
from control.policies.flux_memory import FluxMemory
from control.policies.lazy_disk import LazyDisk
from control.policies.local_spill import LocalSpill
from control.policies.registry import KINDS, parameters_of, policy_from
from control.policies.relocate import SHARE, Relocate
from control.snapshot import ClusterSnapshot, History
from tests.control.made import MB, cluster, snapshots

NAMES = sorted(KINDS)


def rows(snapshot: ClusterSnapshot, step: Move | Spill | Cleanup) -> list[int]:
    found = [snapshot.row(*pair) for pair in pairs_of(step)]
    return [row for row in found if row is not None]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), size=st.sampled_from([1 << 62, 60 * MB]))
def test_every_policy_keeps_the_rules(name: str, data: st.DataObject, size: int) -> None:
    snapshot = data.draw(snapshots())
    plan = KINDS[name]().decide(snapshot, Limits(action_bytes_max=size, receiver_fill_max=0.95))
    assert plan.reasons and all(reason.text for reason in plan.reasons)
    assert {"NOTHING", "CHOSEN"} & {reason.topic.name for reason in plan.reasons}
    touched = [pair for step in plan.steps for pair in pairs_of(step)]
    assert len(touched) == len(set(touched)), "a group in two steps"
    for step in plan.steps:
        mine = rows(snapshot, step)
        assert len(mine) == len(pairs_of(step)) > 0
        column = "disk_bytes" if isinstance(step, Cleanup) else "memory_bytes"
        assert step.bytes == getattr(snapshot.groups, column)[mine].sum()
        assert not snapshot.groups.in_flight[mine].any()
        assert plan.local or step.bytes <= size
        if isinstance(step, Move):
            assert step.source != step.target
            assert (snapshot.groups.owner[mine] == step.source).all()
            assert not snapshot.groups.spilled[mine].any(), "a spilled group moved"
    assert plan_from_json(plan_to_json(plan)) == plan
    assert (
        KINDS[name]().decide(snapshot, Limits(action_bytes_max=size, receiver_fill_max=0.95))
        == plan
    )


@pytest.mark.parametrize("name", ["relocate", "lazy_disk", "active_disk", "best_gain"])
@given(snapshot=snapshots())
def test_the_arbiter_accepts_what_memory_policies_decide(
    name: str, snapshot: ClusterSnapshot
) -> None:
    plan = KINDS[name]().decide(snapshot, OPEN)
    if plan.steps:
        allowed = {Why.DISK_FULL} if plan.local else set()
        assert {r.why for r in judge(plan, snapshot, (), OPEN).refusals} <= allowed


@given(snapshots(), st.sampled_from(victims.CHOICES), st.floats(0, 1e8))
def test_taking(snapshot: ClusterSnapshot, by: str, amount: float) -> None:
    sizes = snapshot.groups.memory_bytes
    every = np.arange(len(sizes))
    ordered = victims.in_order(snapshot, every, by, inactive_s=100, seed=3)
    assert sorted(ordered.tolist()) == every.tolist()
    assert sizes[victims.within(ordered, sizes, amount)].sum() <= amount
    more = victims.covering(ordered, sizes, amount)
    assert sizes[more].sum() >= min(amount, sizes.sum())
    assert sizes[more[:-1]].sum() < max(amount, 1)
    node = snapshot.groups.owner
    each = victims.covering_each(ordered, node, sizes, np.full(len(snapshot.nodes), amount))
    for n in range(len(snapshot.nodes)):
        alone = victims.covering(ordered[node[ordered] == n], sizes, amount)
        assert each[node[each] == n].tolist() == alone.tolist()


@given(snapshots(), st.floats(0, 1e8), st.floats(0, 1e8))
def test_more_is_taken_of_more(snapshot: ClusterSnapshot, a: float, b: float) -> None:
    sizes = snapshot.groups.memory_bytes
    ordered = victims.in_order(snapshot, np.arange(len(sizes)), victims.LEAST)
    low, high = sorted((a, b))
    assert set(victims.covering(ordered, sizes, low)) <= set(victims.covering(ordered, sizes, high))


def order(snapshot: ClusterSnapshot, by: str, inactive_s: float = 1e9) -> list[int]:
    every = np.arange(len(snapshot.groups))
    return victims.in_order(snapshot, every, by, inactive_s=inactive_s, seed=1).tolist()


def test_l5_orders() -> None:
    snapshot = cluster(
        [[10, 20, 40]], rows_out=[100, 100, 800], rows_out_per_s=[1, 8, 1], last_insert_s=[9, 5, 7]
    )
    assert order(snapshot, victims.LEAST) == [1, 0, 2]
    assert order(snapshot, victims.MOST) == [2, 0, 1]
    assert order(snapshot, victims.LEAST_DECAYED) == [2, 0, 1]
    assert order(snapshot, victims.LARGEST) == [2, 1, 0]
    assert order(snapshot, victims.OLDEST) == [1, 2, 0]
    assert sorted(order(snapshot, victims.RANDOM)) == [0, 1, 2]


def test_l5_inactive_groups_go_first_oldest_of_them_first() -> None:
    snapshot = cluster([[10, 10, 10]], rows_out=[5, 9, 1], last_insert_s=[700, 100, 999])
    assert order(snapshot, victims.LEAST, inactive_s=200) == [1, 0, 2]


def test_l4_local_spill_takes_k_percent_of_the_nodes_over_the_threshold() -> None:
    snapshot = cluster(
        [[10 * MB] * 19, [10 * MB] * 5], rows_out=list(range(24)), rows_out_per_s=range(24)
    )
    plan = LocalSpill().decide(snapshot, OPEN)
    (step,) = plan.steps
    assert isinstance(step, Spill) and plan.local
    assert (step.node, step.bytes) == (0, 60 * MB)
    assert step.parts[0].groups == tuple(range(6))
    assert not LocalSpill(threshold=0.96).decide(snapshot, OPEN).steps
    off = LocalSpill(spill_percent=0).decide(snapshot, OPEN)
    assert "off" in off.reasons[-1].text


def test_l8_half_of_the_difference_moves_productive_first() -> None:
    snapshot = cluster([[10 * MB] * 10, [10 * MB] * 4], rows_out_per_s=[*range(10), 1, 1, 1, 1])
    (step,) = Relocate().decide(snapshot, OPEN).steps
    assert isinstance(step, Move)
    assert (step.source, step.target, step.bytes) == (0, 1, 30 * MB)
    assert step.parts[0].groups == (7, 8, 9)


@pytest.mark.parametrize(
    ("ratio", "last", "moves"), [(0.4, -1e9, 0), (0.41, -1e9, 1), (0.9, 956, 0), (0.9, 955, 1)]
)
def test_l8_thresholds(ratio: float, last: float, moves: int) -> None:
    snapshot = cluster([[10 * MB] * 10, [10 * MB] * 4], history=History(last_adaptation_s=last))
    plan = Relocate(ratio=ratio).decide(snapshot, OPEN)
    assert len(plan.steps) == moves
    assert any(reason.topic is Topic.INPUT for reason in plan.reasons)


def test_shares_of_unlike_budgets() -> None:
    snapshot = cluster([[10 * MB] * 9, [10 * MB] * 9])
    snapshot.nodes.budget_bytes[1] = 100 * MB
    assert not Relocate().decide(snapshot, OPEN).steps
    (step,) = Relocate(measure=SHARE).decide(snapshot, OPEN).steps
    assert isinstance(step, Move) and (step.source, step.target) == (1, 0)
    assert step.bytes == 30 * MB


def test_l9_overflow_comes_before_relocation() -> None:
    snapshot = cluster([[10 * MB] * 19, [10 * MB]])
    lazy = LazyDisk().decide(snapshot, OPEN)
    assert [type(step) for step in lazy.steps] == [Spill]
    assert [type(s) for s in LazyDisk(threshold=1.0).decide(snapshot, OPEN).steps] == [Move]


def test_l10_least_productive_node_spills_up_to_the_cap() -> None:
    snapshot = cluster(
        [[10 * MB] * 10, [10 * MB] * 10],
        budget=120 * MB,
        rows_out_round=[40] * 10 + [10] * 10,
        rows_out_per_s=[4] * 10 + [1] * 10,
    )
    policy = ActiveDisk(query_bytes=265 * MB)
    (step,) = policy.decide(snapshot, OPEN).steps
    assert isinstance(step, Spill) and (step.node, step.bytes) == (1, 20 * MB)
    assert not ActiveDisk(query_bytes=240 * MB).decide(snapshot, OPEN).steps
    assert not ActiveDisk(query_bytes=265 * MB, rate_ratio=4.0).decide(snapshot, OPEN).steps


@given(snapshots(), st.floats(0, 1e4), st.floats(0, 1e4))
def test_l10_the_estimate_grows(snapshot: ClusterSnapshot, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert state_estimate_bytes(snapshot, low) <= state_estimate_bytes(snapshot, high) + 1


@given(snapshots())
def test_l10_forced_bytes_stay_under_the_cap(snapshot: ClusterSnapshot) -> None:
    policy = ActiveDisk()
    plan = policy.decide(snapshot, OPEN)
    if plan.steps and isinstance(plan.steps[0], Spill) and not plan.local:
        assert plan.bytes <= policy.cap_bytes(snapshot)


def test_f5_pairs_from_both_ends() -> None:
    busy = np.array([0.2, 0.9, 0.5, 0.7, 0.4])
    assert list(pairs(busy, np.arange(5))) == [(1, 0), (3, 4)]


def test_f5_figure_5_of_the_paper() -> None:
    """The first group in order of rows that lowers the imbalance, one per pair: group 0 would push the
    receiver over 1, group 3 would turn the imbalance round."""
    snapshot = cluster(
        [[MB] * 3, [MB] * 2, [MB], [MB]],
        rows_in_round=[60, 30, 10, 50, 10, 60, 10],
        nodes={"busy": [1.0, 0.8, 0.6, 0.2]},
    )
    plan = FluxLoad().decide(snapshot, OPEN)
    moves = [(s.source, s.target, s.parts[0].groups) for s in plan.steps if isinstance(s, Move)]
    assert moves == [(0, 3, (1,)), (1, 2, (4,))]


def test_f5_a_pair_that_fails_ends_the_round() -> None:
    snapshot = cluster([[MB]] * 4, rows_in_round=[9, 9, 9, 9], nodes={"busy": [1, 0.8, 0.75, 0.95]})
    plan = FluxLoad().decide(snapshot, OPEN)
    assert not plan.steps
    assert any("pairs after" in reason.text for reason in plan.reasons)


def test_f5_next_round() -> None:
    assert next_round_s(8, 3, 1) == 3, "as long as the move phase"
    assert next_round_s(8, 0, 1) == 4, "half, where nothing moved"
    assert next_round_s(1, 0, 1) == 1, "never under the shortest"
    waits = cluster([[MB]] * 2, history=History(round_start_s=995, round_s=10))
    assert "collection" in FluxLoad().decide(waits, OPEN).reasons[-1].text


def test_f7_in_memory_first_then_larger() -> None:
    snapshot = cluster(
        [[30 * MB, 20 * MB, 5 * MB], [MB]], disk_bytes=[5 * MB, 0, 0, 0], generations=[1, 0, 0, 0]
    )
    (step,) = FluxMemory().decide(snapshot, OPEN).steps
    assert isinstance(step, Move) and step.parts[0].groups == (1,)


@pytest.mark.parametrize(("budget", "moves"), [(9 * MB, 1), (8 * MB, 0)])
def test_f8_a_receiver_is_filled_to_its_share_and_no_further(budget: int, moves: int) -> None:
    """A group of 3 MB goes to a node with 3 MB of its own: that is 6 MB, of 8 MB more than 7 tenths."""
    snapshot = cluster(
        [[3 * MB, 3 * MB], [3 * MB]],
        budget=budget,
        rows_in_round=[50, 50, 100],
        nodes={"busy": [1.0, 0.2]},
    )
    plan = FluxLoad(fits_memory=True).decide(snapshot, Limits(receiver_fill_max=0.7))
    assert len(plan.steps) == moves


def test_f8_takes_any_imbalance_from_1_on() -> None:
    policy = policy_from({"policy": "flux_hybrid", "imbalance": 1.0})
    assert policy == FluxHybrid(imbalance=1.0)
    with pytest.raises(PolicyError, match="1 to 100"):
        policy_from({"policy": "flux_hybrid", "imbalance": 0.9})


def test_f8_memory_while_anything_is_on_disk() -> None:
    assert "load" in FluxHybrid().decide(cluster([[MB], [MB]]), OPEN).reasons[0].text
    spilled = cluster([[MB], [MB]], disk_bytes=[1, 0])
    assert "memory" in FluxHybrid().decide(spilled, OPEN).reasons[0].text


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "which is none"),
        ({"policy": "lazy_disc"}, "did you mean 'lazy_disk'"),
        ({"policy": "relocate", "ratoi": 1}, "did you mean ratio?"),
        ({"policy": "relocate", "ratio": 1.5}, "0 to 1"),
        ({"policy": "relocate", "ratio": "high"}, "not a number"),
        ({"policy": "local_spill", "seed": True}, "not a whole number"),
        ({"policy": "local_spill", "victim": "newest"}, "one of least"),
    ],
)
def test_tables_that_are_wrong(table: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace("?", "[?]")):
        policy_from(table)


def test_tables_and_their_parameters() -> None:
    assert policy_from({"policy": "relocate", "ratio": 0.7, "span_s": 30}) == Relocate(0.7, 30.0)
    for name in NAMES:
        assert all(p.help and p.range for p in parameters_of(name))
        assert KINDS[name].help
    assert [p.name for p in parameters_of("none")] == []


def test_a_plan_explains_itself() -> None:
    with pytest.raises(Exception, match="why nothing"):
        Plan((), ())
    assert NOTHING.kind == "nothing"
