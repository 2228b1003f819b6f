"""An action's life as a table-driven state machine, its named steps, and what a restart makes of it.

    proposed ──accept──▶ accepted ──begin──▶ running(step) ──finish──▶ done
        │                   │                  │   │
        └─reject─▶ rejected ├─reject─▶ …       │   └─fail─▶ failed     (state unchanged)
        └─cancel─▶ cancelled ◀────cancel───────┘   (until the commit)

`begin` opens the next step, `end` closes it with its bytes. The step named `commit` of each kind is where
the manifest changes: once it has ended there is no way back, only on. Nothing here does any of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from control.errors import ImpossibleTransition
from control.plans import Migrate, Step, name_of, step_from_json, step_to_json


class State(StrEnum):
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    REJECTED = "rejected"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    ACCEPT = "accept"
    REJECT = "reject"
    BEGIN = "begin"
    END = "end"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


TABLE: Mapping[tuple[State, Event], State] = {
    (State.PROPOSED, Event.ACCEPT): State.ACCEPTED,
    (State.PROPOSED, Event.REJECT): State.REJECTED,
    (State.PROPOSED, Event.CANCEL): State.CANCELLED,
    (State.ACCEPTED, Event.BEGIN): State.RUNNING,
    (State.ACCEPTED, Event.REJECT): State.REJECTED,
    (State.ACCEPTED, Event.FAIL): State.FAILED,
    (State.ACCEPTED, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.BEGIN): State.RUNNING,
    (State.RUNNING, Event.END): State.RUNNING,
    (State.RUNNING, Event.FINISH): State.DONE,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
}
FINAL = frozenset({State.DONE, State.REJECTED, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Course:
    """The steps of one kind of action, in order, and the one that commits."""

    steps: tuple[str, ...]
    commit: str


# The paper's eight steps in its order, and with the copy made first while the groups stay active.
COURSES: Mapping[str, Course] = {
    "move_hold": Course(
        (
            "ComputePartitionsToMove",
            "PartitionsToMove",
            "DeactivatePartitions",
            "Deactivated",
            "SendPartitions",
            "ReceivePartitions",
            "Received",
            "ReactivatePartitions",
        ),
        "ReactivatePartitions",
    ),
    "move": Course(
        (
            "ComputePartitionsToMove",
            "PartitionsToMove",
            "SendPartitions",
            "ReceivePartitions",
            "Received",
            "DeactivatePartitions",
            "Deactivated",
            "ReactivatePartitions",
        ),
        "ReactivatePartitions",
    ),
    "spill": Course(("ChooseGroups", "WriteDisk", "Commit", "DropMemory"), "Commit"),
    "cleanup": Course(("ChooseGroups", "ReadDisk", "JoinOwed", "Commit", "DropDisk"), "Commit"),
    "budget": Course(("Commit",), "Commit"),
    "migrate": Course(
        ("CleanAccumulated", "MatchStates", "Recompute", "CatchUp", "Swap", "DropOld"), "Swap"
    ),
    # Results of both plans at once, and as the paper has it: the new plan's when the old one ends.
    "migrate_parallel": Course(("CleanAccumulated", "Start", "BothPlans", "End"), "End"),
    "migrate_parallel_hold": Course(("CleanAccumulated", "Start", "BothPlans", "End"), "End"),
    "migrate_delta": Course(
        (
            "CleanAccumulated",
            "MatchStates",
            "SortBases",
            "ToDelta",
            "Recompute",
            "CatchUp",
            "Swap",
            "DropOld",
        ),
        "Swap",
    ),
}


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step: when it began and ended, and the bytes it handled."""

    name: str
    start_s: float
    end_s: float | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of an action's history."""

    time_s: float
    event: Event
    state: State
    note: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan being carried out. Immutable: each event gives the next."""

    id: str
    query: str
    step: Step
    course: str
    state: State = State.PROPOSED
    records: tuple[StepRecord, ...] = ()
    history: tuple[Happened, ...] = ()
    note: str = ""  # why rejected, failed or cancelled

    @staticmethod
    def propose(id: str, query: str, step: Step, *, hold: bool = False) -> Action:
        return Action(id, query, step, _course(step, hold))

    @property
    def over(self) -> bool:
        return self.state in FINAL

    @property
    def current(self) -> str | None:
        """The step that is open."""
        return self.records[-1].name if self.records and self.records[-1].end_s is None else None

    @property
    def following(self) -> str | None:
        """The step that comes next."""
        names = COURSES[self.course].steps
        return names[len(self.records)] if len(self.records) < len(names) else None

    @property
    def committed(self) -> bool:
        """The manifest has changed: no way back."""
        name = COURSES[self.course].commit
        return any(r.name == name and r.end_s is not None for r in self.records)

    @property
    def cancellable(self) -> bool:
        """Until the commit begins."""
        begun = any(r.name == COURSES[self.course].commit for r in self.records)
        return not self.over and not begun

    @property
    def bytes(self) -> int:
        return max((record.bytes for record in self.records), default=0)

    def accept(self, now_s: float) -> Action:
        return self._on(Event.ACCEPT, now_s)

    def reject(self, now_s: float, why: str) -> Action:
        return self._on(Event.REJECT, now_s, why)

    def begin(self, now_s: float, name: str | None = None) -> Action:
        """Open the next step; `name`, when given, must be it."""
        wanted = self.following
        if self.current or wanted is None or name not in (None, wanted):
            raise self._impossible(Event.BEGIN, f"step {name or wanted}, open: {self.current}")
        after = self._on(Event.BEGIN, now_s, wanted)
        return replace(after, records=(*self.records, StepRecord(wanted, now_s)))

    def end(self, now_s: float, bytes: int = 0) -> Action:
        """Close the open step."""
        name = self.current
        if name is None:
            raise self._impossible(Event.END, "no step is open")
        after = self._on(Event.END, now_s, name)
        closed = replace(self.records[-1], end_s=max(now_s, self.records[-1].start_s), bytes=bytes)
        return replace(after, records=(*self.records[:-1], closed))

    def finish(self, now_s: float) -> Action:
        """Done: every step has ended."""
        if self.current or self.following is not None:
            raise self._impossible(Event.FINISH, f"not through: {self.current or self.following}")
        return self._on(Event.FINISH, now_s)

    def fail(self, now_s: float, why: str) -> Action:
        """Failed, state unchanged; not possible once committed."""
        if self.committed:
            raise self._impossible(Event.FAIL, "it is committed: it can only be finished")
        return self._on(Event.FAIL, now_s, why)

    def cancel(self, now_s: float, why: str) -> Action:
        if not self.over and not self.cancellable:
            raise self._impossible(Event.CANCEL, "the commit has begun")
        return self._on(Event.CANCEL, now_s, why)

    def _on(self, event: Event, now_s: float, note: str = "") -> Action:
        state = TABLE.get((self.state, event))
        if state is None:
            raise self._impossible(event, note)
        line = Happened(now_s, event, state, note)
        kept = note if state in FINAL else self.note
        return replace(self, state=state, history=(*self.history, line), note=kept)

    def _impossible(self, event: Event, note: str) -> ImpossibleTransition:
        past = " → ".join(
            f"{h.event.value}({h.note})" if h.note else h.event.value for h in self.history
        )
        return ImpossibleTransition(
            f"{event.value} is not possible when {self.state.value}: {note}",
            where=f"action {self.id} ({self.course})",
            hint=f"history: proposed{' → ' + past if past else ''}",
        )


def _course(step: Step, hold: bool) -> str:
    """The kind of action, and where there are several ways, which."""
    name = name_of(step)
    if isinstance(step, Migrate) and step.strategy != "moving":
        name = f"{name}_{step.strategy}"
    return f"{name}_hold" if hold and f"{name}_hold" in COURSES else name


class Restart(StrEnum):
    """What a restart makes of an action it finds."""

    KEEP = "keep"  # proposed, or over
    RESUME = "resume"  # accepted, nothing begun: start it
    ROLL_BACK = "roll_back"  # begun, not committed: drop what was copied, state is as before
    ROLL_FORWARD = "roll_forward"  # committed: drop what is no longer needed, finish


def at_restart(action: Action, committed: bool) -> Restart:
    """`committed`: the manifest's log has this action's commit; it knows better than the action."""
    if action.over or action.state is State.PROPOSED:
        return Restart.KEEP
    if committed or action.committed:
        return Restart.ROLL_FORWARD
    return Restart.ROLL_BACK if action.records else Restart.RESUME


def rolled(action: Action, committed: bool, now_s: float) -> Action:
    """The action after a restart, once what `at_restart` says has been done."""
    decision = at_restart(action, committed)
    if decision is Restart.ROLL_BACK:
        return action.fail(now_s, "rolled back at a restart, state unchanged")
    if decision is not Restart.ROLL_FORWARD:
        return action
    if action.current:
        action = action.end(now_s, action.bytes)
    while action.following is not None:
        action = action.begin(now_s).end(now_s, action.bytes)
    return action.finish(now_s)


def to_json(action: Action) -> dict[str, Any]:
    return {
        "id": action.id,
        "query": action.query,
        "step": step_to_json(action.step),
        "course": action.course,
        "state": action.state.value,
        "records": [[r.name, r.start_s, r.end_s, r.bytes] for r in action.records],
        "history": [[h.time_s, h.event.value, h.state.value, h.note] for h in action.history],
        "note": action.note,
    }


def from_json(raw: Mapping[str, Any]) -> Action:
    return Action(
        raw["id"],
        raw["query"],
        step_from_json(raw["step"]),
        raw["course"],
        State(raw["state"]),
        tuple(StepRecord(*record) for record in raw["records"]),
        tuple(Happened(t, Event(e), State(s), n) for t, e, s, n in raw["history"]),
        raw["note"],
    )
