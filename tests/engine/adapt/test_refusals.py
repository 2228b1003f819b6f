"""What a desk refuses, with the reason; and that nothing has changed then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from control.arbiter import Refusal, Why
from control.policies.local_spill import LocalSpill
from control.policies.none import Nothing
from control.requests import Request
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.errors import StateError
from tests.engine.adapt.refused import SQL
from tests.engine.checked import scratch
from tests.engine.local import Local, LocalSide, stream


@pytest.fixture
def desk() -> Iterator[Desk]:
    with scratch() as root:
        local = Local(
            root, SQL, [stream("a", "k bigint, v bigint"), stream("b", "k bigint, v bigint")]
        )
        rng = np.random.default_rng(1)
        for _ in range(3):
            local.tick(
                {
                    name: pa.table({"k": rng.integers(0, 50, 80), "v": rng.integers(0, 9, 80)})
                    for name in "ab"
                }
            )
        policy = Policy(Nothing(), interval_s=1e9)
        made = Desk(local.ticker, policy, {}, Records(root / "a"), local.clock, LocalSide)
        made.jobs_apart = True
        yield made


def side(desk: Desk) -> LocalSide:
    assert isinstance(desk._runs.side, LocalSide)
    return desk._runs.side


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"do": "spill", "node": 7, "percent": 10}, Why.UNKNOWN_NODE),
        ({"do": "spill", "node": 0, "groups": (99,)}, Why.UNKNOWN_GROUP),
        ({"do": "spill", "node": 0, "operator": "join-9", "percent": 5}, Why.UNKNOWN_OPERATOR),
        ({"do": "spill", "node": 0, "percent": 0}, Why.PERCENT_OUT_OF_RANGE),
        ({"do": "spill", "node": 0, "percent": 101}, Why.PERCENT_OUT_OF_RANGE),
        ({"do": "move", "node": 0, "to": 0, "percent": 10}, Why.MOVE_TO_ITSELF),
        ({"do": "move", "node": 0, "percent": 10}, Why.UNKNOWN_NODE),
        ({"do": "cleanup", "node": 0}, Why.NOTHING_ON_DISK),
        ({"do": "budget", "node": 0, "bytes": 10}, Why.BUDGET_TOO_SMALL),
    ],
)
def test_bad_commands_are_refused(desk: Desk, asked: dict[str, Any], why: Why) -> None:
    before = desk.ticker.manifest
    found = desk.ask(Request(**asked), "test")
    assert isinstance(found, Refusal)
    assert found.why is why
    assert str(found)
    assert desk.ticker.manifest is before
    assert not desk.running


def test_a_spilled_group_is_not_moved(desk: Desk) -> None:
    side(desk).eager = True
    desk.ask(Request("spill", 0, percent=40.0), "test")
    desk.between(idle=False)
    gone = next(
        g for low, high in desk.ticker.manifest.owing("join-1", 0) for g in range(low, high)
    )
    found = desk.ask(Request("move", 0, to=1, operator="join-1", groups=(gone,)), "test")
    assert isinstance(found, Refusal)
    assert found.why is Why.SPILLED_GROUP_MOVED


def test_a_group_that_is_taken_along_is_judged_too() -> None:
    """Operators that share a task move as one: what one of them has on disk stays where it is, and so do all."""
    sql = "SELECT a.v AS va, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
    with scratch() as root:
        local = Local(
            root, sql, [stream(n, "k bigint, v bigint") for n in "abc"], order="((a b) c)"
        )
        feed = {n: pa.table({"k": range(60), "v": range(60)}) for n in "abc"}
        local.tick(feed)
        assert len(local.ticker.setup.flow.ops) == 2
        policy = Policy(Nothing(), interval_s=1e9)
        made = Desk(local.ticker, policy, {}, Records(root / "a"), local.clock, LocalSide)
        side(made).eager = True
        for op in local.ticker.setup.flow.ops:
            mine = [g for g, n in enumerate(local.ticker.placements[op.id]) if n == 0]
            found = made.ask(Request("move", 0, 1, op.id, groups=(mine[0],)), "test")
            assert not isinstance(found, Refusal)
            assert {part.operator for part in found.step.parts} == {"join-1", "join-2"}  # type: ignore[union-attr]
            while made.running:
                made.between(idle=True)
        made.ask(Request("spill", 0, operator="join-2", groups=(mine[1],)), "test")
        while made.running:
            made.between(idle=True)
        refused = made.ask(Request("move", 0, 1, "join-1", groups=(mine[1],)), "test")
        assert isinstance(refused, Refusal)
        assert refused.why is Why.SPILLED_GROUP_MOVED and "join-2" in str(refused)


def test_two_at_once_and_groups_on_their_way(desk: Desk) -> None:
    desk.ask(Request("move", 0, to=1, percent=50.0), "test")
    assert desk.running
    second = desk.ask(Request("spill", 0, percent=100.0), "test")
    assert isinstance(second, Refusal)
    assert second.why in (Why.OVERLAP, Why.GROUP_IN_FLIGHT)
    assert desk.cancel("last") == ""
    assert not desk.running
    assert not (desk.hold or desk.frozen), "nothing is asked of ticks any longer"


def test_no_room_at_the_receiver(desk: Desk) -> None:
    desk.budgets[1] = desk.ticker.manifest.memory_bytes(1) + 10
    found = desk.ask(Request("move", 0, to=1, percent=50.0), "test")
    assert isinstance(found, Refusal)
    assert found.why is Why.RECEIVER_FULL
    assert found.found is not None and found.limit is not None


def test_a_failed_job_changes_nothing(desk: Desk) -> None:
    before = desk.ticker.manifest
    action = desk.ask(Request("move", 0, to=1, percent=50.0), "test")
    assert not isinstance(action, Refusal)
    (waiting,) = side(desk).waiting
    waiting[1].set_exception(StateError("no space left for state", where="here"))
    desk.between(idle=False)
    ended = desk.records.actions[action.id]
    assert ended.state.value == "failed"
    assert "no space left" in ended.note and "state unchanged" in ended.note
    assert desk.ticker.manifest.runs == before.runs
    assert not (desk.hold or desk.frozen or desk.running)


def test_a_node_over_its_budget_stops_where_spilling_is_off(desk: Desk) -> None:
    desk.policy.kind = LocalSpill(spill_percent=0.0)
    desk.budgets[0] = 100
    with pytest.raises(StateError, match="node 0 needs"):
        desk.between(idle=False)
