"""Commands left at a query's desk: carried out step by step, refused when stale, cancelled, given up; told once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from control import proposals
from control.plans import Move, Part, Plan, Reason, Spill, Step, Topic, plan_to_json
from control.policies.none import Nothing
from engine.adapt.desk import Desk
from engine.adapt.errands import Wish
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from tests.engine.adapt.refused import SQL
from tests.engine.checked import scratch
from tests.engine.local import Local, LocalSide, stream


@pytest.fixture
def local() -> Iterator[tuple[Local, Desk]]:
    with scratch() as root:
        made = Local(
            root, SQL, [stream("a", "k bigint, v bigint"), stream("b", "k bigint, v bigint")]
        )
        tick(made)
        policy = Policy(Nothing(), interval_s=1e9)
        yield made, Desk(made.ticker, policy, {}, Records(root / "a"), made.clock, LocalSide)


def tick(local: Local) -> None:
    rng = np.random.default_rng(1)
    local.tick(
        {n: pa.table({"k": rng.integers(0, 50, 80), "v": rng.integers(0, 9, 80)}) for n in "ab"}
    )


def wish(desk: Desk, *steps: Step) -> Wish:
    plan = Plan(steps, (Reason.of(Topic.CHOSEN, "test"),))
    print_ = proposals.fingerprint(desk.snapshot(), steps)
    return Wish("c1", "ann", plan_to_json(plan), proposals.to_json(print_))


def groups(desk: Desk, node: int, count: int) -> tuple[str, tuple[int, ...]]:
    seen = desk.snapshot()
    rows = [r for r in seen.on(node) if seen.groups.memory_bytes[r] > 0][:count]
    return seen.operators[0].name, tuple(int(seen.groups.group[r]) for r in rows)


def go_on(local: Local, desk: Desk, boundaries: int = 8) -> None:
    for _ in range(boundaries):
        desk.between(idle=False)
        tick(local)


def test_steps_one_after_the_other_and_told_once(local: tuple[Local, Desk]) -> None:
    made, desk = local
    op, some = groups(desk, 0, 4)
    moves = [Move((Part(op, some[:2]),), 0, 1, 1), Spill((Part(op, some[2:]),), 0, 1)]
    desk.errands.leave(wish(desk, *moves))
    assert desk.errands.waiting
    desk.between(idle=False)
    assert [a.id for a in desk.records.actions.values()] == ["c1-1"], "the second waits"
    go_on(made, desk)
    (told,) = desk.errands.outcomes()
    assert (told.command, told.state) == ("c1", "done")
    assert told.body["actions"] == ["c1-1", "c1-2"] and desk.errands.outcomes() == []
    assert all(desk.ticker.placements[op][g] == 1 for g in some[:2])
    assert all(desk.ticker.manifest.generations(op, 8).sum() >= 1 for _ in some[2:])


def test_what_drifted_is_refused_and_nothing_begins(local: tuple[Local, Desk]) -> None:
    _, desk = local
    op, some = groups(desk, 0, 1)
    left = wish(desk, Move((Part(op, some),), 0, 1, 1))
    desk.budgets[0] = 10**9
    desk.errands.leave(left)
    desk.between(idle=False)
    (told,) = desk.errands.outcomes()
    assert told.state == "refused" and "budget" in told.body["text"]
    assert not desk.records.actions


def test_a_plan_that_cannot_be_read_is_its_commands_failure(local: tuple[Local, Desk]) -> None:
    """The query ticks on, whatever was left on its desk."""
    made, desk = local
    for n, (plan, seen) in enumerate(
        [({"steps": 5}, {}), ({"steps": [{"do": "x"}]}, {}), ({}, {"v": []})]
    ):
        desk.errands.leave(Wish(f"c{n}", "ann", plan, seen))
    go_on(made, desk, 1)
    told = desk.errands.outcomes()
    assert [one.state for one in told] == ["failed"] * 3
    assert all("state unchanged" in one.body["text"] for one in told)


def test_the_desk_judges_again(local: tuple[Local, Desk]) -> None:
    _, desk = local
    op, some = groups(desk, 0, 1)
    desk.errands.leave(wish(desk, Move((Part(op, some),), 0, 0, 1)))
    desk.between(idle=False)
    (told,) = desk.errands.outcomes()
    assert told.state == "refused" and told.body["refusals"][0]["why"] == "move_to_itself"


def test_a_cancel_comes_before_the_action_goes_on(local: tuple[Local, Desk]) -> None:
    made, desk = local
    op, some = groups(desk, 0, 2)
    desk.errands.leave(wish(desk, Move((Part(op, some),), 0, 1, 1)))
    for _ in range(2):  # copied, then held for the last bit: the next boundary would commit
        desk.between(idle=False)
        tick(made)
    assert desk.records.actions["c1-1"].cancellable
    desk.errands.leave(Wish("c2", "ann", cancel="c1-1"))
    desk.between(idle=False)
    told = {one.command: one.state for one in desk.errands.outcomes()}
    assert told == {"c2": "done", "c1": "failed"}
    assert desk.records.actions["c1-1"].state == "cancelled"
    assert all(desk.ticker.placements[op][g] == 0 for g in some)


def test_a_query_that_stops_says_what_it_did_not_do(local: tuple[Local, Desk]) -> None:
    _, desk = local
    op, some = groups(desk, 0, 1)
    desk.errands.leave(wish(desk, Move((Part(op, some),), 0, 1, 1)))
    desk.close()
    (told,) = desk.errands.outcomes()
    assert told.state == "failed" and "state unchanged" in told.body["text"]
