"""The arbiter: each refusal by itself with its numbers; requests made into plans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.arbiter import Refusal, Running, Why, judge
from control.errors import PlanError
from control.limits import OPEN, Limits
from control.plans import (
    Cleanup,
    Move,
    Part,
    Plan,
    Reason,
    SetBudget,
    Spill,
    Step,
    Topic,
    step_from_json,
    step_to_json,
)
from control.requests import Request, plan_for
from control.snapshot import ClusterSnapshot, History, Operator
from tests.control.made import MB, cluster, snapshots


def plan(*steps: Step, local: bool = False) -> Plan:
    return Plan(steps, (Reason.of(Topic.CHOSEN, "a test"),), local)


def part(*groups: int, operator: str = "join") -> tuple[Part, ...]:
    return (Part(operator, groups),)


def some() -> ClusterSnapshot:
    """Groups 0, 1 on node 0, 2, 3 on node 1, 4 on node 2 (down), 5 on node 3. 1 is spilled, 3 in flight."""
    return cluster(
        [[40 * MB, 30 * MB], [20 * MB, 0], [MB], [190 * MB]],
        disk_bytes=[0, 150 * MB, 0, 0, 0, 0],
        generations=[0, 1, 0, 0, 0, 0],
        in_flight=[0, 0, 0, 1, 0, 0],
        nodes={
            "alive": [True, True, False, True],
            "disk_free_bytes": [10 * MB, 1 << 40, 0, 1 << 40],
        },
        history=History(last_adaptation_s=990.0),
    )


CASES: list[tuple[Step, Limits, Why]] = [
    (Move(part(0), 0, 9, MB), OPEN, Why.UNKNOWN_NODE),
    (Move(part(77), 0, 1, MB), OPEN, Why.UNKNOWN_GROUP),
    (Move(part(-1), 0, 1, MB), OPEN, Why.UNKNOWN_GROUP),
    (Move(part(0, operator="sort"), 0, 1, MB), OPEN, Why.UNKNOWN_OPERATOR),
    (Move((), 0, 1, MB), OPEN, Why.NO_GROUPS),
    (Move(part(0), 0, 0, MB), OPEN, Why.MOVE_TO_ITSELF),
    (Move(part(0), 1, 0, MB), OPEN, Why.WRONG_OWNER),
    (Move(part(1), 0, 1, MB), OPEN, Why.SPILLED_GROUP_MOVED),
    (Move(part(3), 1, 0, MB), OPEN, Why.GROUP_IN_FLIGHT),
    (Move(part(0), 0, 2, MB), OPEN, Why.NODE_NOT_ALIVE),
    (Move(part(0), 0, 3, MB), OPEN, Why.RECEIVER_FULL),
    (Move(part(0), 0, 1, MB), Limits(receiver_fill_max=0.2), Why.RECEIVER_FULL),
    (Move(part(0), 0, 1, MB), Limits(cooldown_s=15), Why.COOL_DOWN),
    (Move(part(0), 0, 1, MB), Limits(action_bytes_max=MB), Why.ACTION_BYTES),
    (Move(part(0), 0, 1, MB), Limits(daily_bytes_left=MB), Why.DAILY_BYTES),
    (Move(part(0), 0, 1, MB), Limits(held=True), Why.ON_HOLD),
    (Move(part(0), 0, 1, MB), Limits(steps_max=0), Why.TOO_MANY_STEPS),
    (Spill(part(0), 0, MB), OPEN, Why.DISK_FULL),
    (Spill(part(3), 1, MB), OPEN, Why.NOTHING_IN_MEMORY),
    (Spill(part(2, 2), 1, MB), OPEN, Why.GROUP_TWICE),
    (Cleanup(part(0), 0, MB), OPEN, Why.NOTHING_ON_DISK),
    (Cleanup(part(1), 0, MB), OPEN, Why.NO_ROOM_FOR_CLEANUP),
    (SetBudget(0, 39 * MB), OPEN, Why.BUDGET_TOO_SMALL),
    (SetBudget(0, 0), OPEN, Why.BUDGET_TOO_SMALL),
    (SetBudget(7, MB), OPEN, Why.UNKNOWN_NODE),
]


@pytest.mark.parametrize(
    ("step", "limits", "why"), CASES, ids=lambda x: str(x) if isinstance(x, Why) else ""
)
def test_refused_with_the_reason(step: Step, limits: Limits, why: Why) -> None:
    verdict = judge(plan(step), some(), (), limits)
    assert not verdict.accepted
    assert why in {refusal.why for refusal in verdict.refusals}
    assert all(refusal.text for refusal in verdict.refusals) and str(verdict)


@pytest.mark.parametrize(
    "step", [Move(part(0), 0, 1, MB), Spill(part(2), 1, MB), SetBudget(0, 40 * MB)]
)
def test_accepted(step: Step) -> None:
    assert judge(plan(step), some(), (), OPEN).accepted


def test_refusals_carry_numbers() -> None:
    (refusal,) = judge(plan(Move(part(0), 0, 3, MB)), some(), (), OPEN).refusals
    assert (refusal.found, refusal.limit) == (40 * MB, 10 * MB)
    assert str(refusal) == "node 3 has no room for the move (40,000,000, limit 10,000,000)"


def test_nothing_to_carry_out() -> None:
    assert judge(Plan.nothing("balanced"), some(), (), OPEN).refusals[0].why is Why.NO_STEPS


MOVING = Running("a1", "q", Move(part(2), 1, 0, MB))
ELSEWHERE = Running("a2", "other", Move(part(5), 1, 3, MB))


@pytest.mark.parametrize(
    ("steps", "running", "local", "whys"),
    [
        ((Spill(part(2), 1, MB),), [MOVING], True, {Why.GROUP_IN_FLIGHT}),
        ((Spill(part(5), 3, MB),), [MOVING], True, set()),
        ((Spill(part(5), 3, MB),), [MOVING], False, {Why.OVERLAP}),
        ((Spill(part(5), 3, MB),), [ELSEWHERE], False, set()),
        ((Move(part(0), 0, 1, MB),), [ELSEWHERE], False, {Why.TRANSFER_ON_NODE}),
        ((Move(part(0), 0, 1, MB),), [MOVING], False, {Why.TRANSFER_ON_NODE, Why.OVERLAP}),
        ((Move(part(0), 0, 1, MB), Move(part(2), 1, 0, MB)), [], False, {Why.TRANSFER_ON_NODE}),
        ((Move(part(0), 0, 1, MB), Spill(part(5), 3, MB)), [], False, {Why.OVERLAP}),
        ((SetBudget(1, 90 * MB),), [MOVING], False, set()),
    ],
)
def test_l9_never_two_at_once(
    steps: Sequence[Step], running: list[Running], local: bool, whys: set[Why]
) -> None:
    verdict = judge(plan(*steps, local=local), some(), running, OPEN)
    assert {refusal.why for refusal in verdict.refusals} == whys


def test_local_spill_ignores_hold_and_budgets() -> None:
    limits = Limits(held=True, cooldown_s=99, action_bytes_max=1, daily_bytes_left=0)
    assert judge(plan(Spill(part(2), 1, MB), local=True), some(), (), limits).accepted


@given(snapshots(), st.integers(-1, 30), st.integers(-1, 6), st.integers(-1, 6))
def test_accepted_moves_keep_the_invariants(
    snapshot: ClusterSnapshot, group: int, source: int, target: int
) -> None:
    """Whatever is asked for: one owner, nothing on disk, room, never an exception."""
    for operator in ("low", "high"):
        step = Move(part(group, operator=operator), source, target, 0)
        if judge(plan(step), snapshot, (), OPEN).accepted:
            row = snapshot.row(operator, group)
            assert row is not None and source != target
            groups, nodes = snapshot.groups, snapshot.nodes
            assert groups.owner[row] == source and not groups.spilled[row]
            assert (
                nodes.memory_bytes[target] + groups.memory_bytes[row] <= nodes.budget_bytes[target]
            )


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request("spill", 0, percent=0), Why.PERCENT_OUT_OF_RANGE),
        (Request("spill", 0, percent=101), Why.PERCENT_OUT_OF_RANGE),
        (Request("spill", 9, percent=10), Why.UNKNOWN_NODE),
        (Request("move", 0), Why.UNKNOWN_NODE),
        (Request("move", 0, to=9), Why.UNKNOWN_NODE),
        (Request("spill", 0, operator="sort"), Why.UNKNOWN_OPERATOR),
        (Request("spill", 0, groups=(99,)), Why.UNKNOWN_GROUP),
        (Request("cleanup", 1), Why.NOTHING_ON_DISK),
        (Request("move", 0, to=1, bytes=1), Why.NOTHING_IN_MEMORY),
    ],
)
def test_requests_refused(request_: Request, why: Why) -> None:
    refusal = plan_for(request_, some())
    assert isinstance(refusal, Refusal) and refusal.why is why


@pytest.mark.parametrize(
    ("request_", "step"),
    [
        (Request("spill", 0, percent=30), Spill(part(0), 0, 40 * MB)),
        (Request("spill", 0, groups=(1,)), Spill(part(1), 0, 30 * MB)),
        (Request("move", 0, to=1, percent=100), Move(part(0), 0, 1, 40 * MB)),
        (Request("cleanup", 0), Cleanup(part(1), 0, 150 * MB)),
        (Request("budget", 2, bytes=5), SetBudget(2, 5)),
    ],
)
def test_requests(request_: Request, step: Step) -> None:
    made = plan_for(request_, some())
    assert isinstance(made, Plan) and made.steps == (step,)
    assert step_from_json(step_to_json(step)) == step


def test_unclear_requests() -> None:
    two = cluster([[1, 2]], operators=(Operator("a", 2, 2), Operator("b", 2, 2)))
    refusal = plan_for(Request("spill", 0, groups=(1,)), two)
    assert isinstance(refusal, Refusal) and "name one" in refusal.text
    with pytest.raises(PlanError, match="no such request"):
        plan_for(Request("shuffle", 0), two)
