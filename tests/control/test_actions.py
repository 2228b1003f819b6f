"""Actions: the table, the steps, cancelling until commit, and restarts at every point."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from control.actions import (
    COURSES,
    FINAL,
    TABLE,
    Action,
    Event,
    Restart,
    State,
    at_restart,
    from_json,
    rolled,
    to_json,
)
from control.errors import ImpossibleTransition
from control.plans import Cleanup, Migrate, Move, Part, SetBudget, Spill, Step

PARTS = (Part("join", (1, 2)),)
STEPS: dict[str, tuple[Step, bool]] = {
    "move": (Move(PARTS, 0, 1, 10), False),
    "move_hold": (Move(PARTS, 0, 1, 10), True),
    "spill": (Spill(PARTS, 0, 10), False),
    "cleanup": (Cleanup(PARTS, 0, 10), False),
    "budget": (SetBudget(0, 10), False),
    "migrate": (Migrate("((a c) b)", "moving", 10), False),
    "migrate_delta": (Migrate("((a c) b)", "delta", 10), False),
    "migrate_parallel": (Migrate("((a c) b)", "parallel", 10), False),
    "migrate_parallel_hold": (Migrate("((a c) b)", "parallel", 10), True),
}
EIGHT = {
    "ComputePartitionsToMove",
    "PartitionsToMove",
    "DeactivatePartitions",
    "Deactivated",
    "SendPartitions",
    "ReceivePartitions",
    "Received",
    "ReactivatePartitions",
}


def proposed(course: str) -> Action:
    step, hold = STEPS[course]
    return Action.propose("a1", "q", step, hold=hold)


def along(course: str) -> list[Action]:
    """Every state of an undisturbed life."""
    seen = [proposed(course)]
    seen.append(seen[-1].accept(1))
    for number in range(len(COURSES[course].steps)):
        seen.append(seen[-1].begin(2 + number))
        seen.append(seen[-1].end(2.5 + number, 7))
    seen.append(seen[-1].finish(99))
    return seen


def tell(action: Action, event: Event) -> Action:
    return {
        Event.ACCEPT: lambda: action.accept(5),
        Event.REJECT: lambda: action.reject(5, "no"),
        Event.BEGIN: lambda: action.begin(5),
        Event.END: lambda: action.end(5, 3),
        Event.FINISH: lambda: action.finish(5),
        Event.FAIL: lambda: action.fail(5, "disk"),
        Event.CANCEL: lambda: action.cancel(5, "asked"),
    }[event]()


@pytest.mark.parametrize("course", COURSES)
def test_l7_a_whole_life(course: str) -> None:
    done = along(course)[-1]
    assert done.state is State.DONE and done.committed and done.over
    assert [record.name for record in done.records] == list(COURSES[course].steps)
    assert all(r.end_s is not None and r.end_s >= r.start_s and r.bytes == 7 for r in done.records)
    assert done.history[0].event is Event.ACCEPT
    if course.startswith("move"):
        assert {record.name for record in done.records} == EIGHT


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("course", COURSES)
def test_the_table_is_all_there_is(course: str, event: Event) -> None:
    for action in along(course):
        if (action.state, event) not in TABLE:
            with pytest.raises(ImpossibleTransition, match="history: proposed"):
                tell(action, event)


@pytest.mark.parametrize("course", COURSES)
def test_cancelled_until_the_commit_begins(course: str) -> None:
    commit = COURSES[course].commit
    for action in along(course):
        begun = commit in [record.name for record in action.records]
        assert action.cancellable == (not begun and not action.over)
        if action.cancellable:
            after = action.cancel(50, "asked")
            assert (after.state, after.note) == (State.CANCELLED, "asked")
        else:
            with pytest.raises(ImpossibleTransition):
                action.cancel(50, "asked")
        if action.committed:
            with pytest.raises(ImpossibleTransition):
                action.fail(50, "late")


def test_steps_go_in_order() -> None:
    action = proposed("spill").accept(1)
    with pytest.raises(ImpossibleTransition, match="WriteDisk"):
        action.begin(2, "WriteDisk")
    with pytest.raises(ImpossibleTransition, match="not through"):
        action.begin(2).finish(3)
    with pytest.raises(ImpossibleTransition, match="no step is open"):
        action.begin(2).end(3).end(4)
    with pytest.raises(ImpossibleTransition, match=r"accept → begin\(ChooseGroups\)"):
        action.begin(2).accept(3)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("course", COURSES)
def test_a_restart_leaves_nothing_half_done(course: str, committed: bool) -> None:
    for action in along(course):
        known = committed and action.state is not State.PROPOSED
        decision = at_restart(action, known)
        after = rolled(action, known, 100)
        if action.over or action.state is State.PROPOSED:
            assert decision is Restart.KEEP and after == action
        elif known or action.committed:
            assert decision is Restart.ROLL_FORWARD and after.state is State.DONE
            assert len(after.records) == len(COURSES[course].steps)
        elif action.records:
            assert decision is Restart.ROLL_BACK and after.state is State.FAILED
            assert "state unchanged" in after.note
        else:
            assert decision is Restart.RESUME and after == action


class Life(RuleBasedStateMachine):
    """Events in any order: either in the table or refused; JSON gives back the same action."""

    def __init__(self) -> None:
        super().__init__()
        self.action = proposed("move")
        self.clock = 0.0

    @rule(event=st.sampled_from(Event))
    def any_event(self, event: Event) -> None:
        before = self.action
        try:
            self.action = tell(before, event)
        except ImpossibleTransition:
            assert self.action is before
            return
        assert TABLE[(before.state, event)] is self.action.state
        assert before.state not in FINAL
        assert self.action.history[:-1] == before.history

    @rule()
    @precondition(lambda self: not self.action.over and self.action.following is not None)
    def onward(self) -> None:
        if self.action.state is State.RUNNING and self.action.current is None:
            self.action = self.action.begin(9)

    @rule()
    def written_and_read(self) -> None:
        assert from_json(json.loads(json.dumps(to_json(self.action)))) == self.action


TestLife = Life.TestCase


@given(st.sampled_from(sorted(COURSES)), st.integers(0, 30))
def test_json(course: str, at: int) -> None:
    life = along(course)
    action = life[min(at, len(life) - 1)]
    assert from_json(json.loads(json.dumps(to_json(action)))) == action
