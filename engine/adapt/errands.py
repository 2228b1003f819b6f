"""Commands from outside, on a query's desk: plans to be carried out step by step, actions to be cancelled.

Any thread may leave one; it is taken up at the next boundary between two ticks, by the thread that ticks.
What became of it is kept until somebody asks. A plan is checked against its fingerprint before its first
step, and every step is judged again when its turn comes: the engine's word is the last one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from control import proposals
from control.actions import State
from control.arbiter import Refusal
from control.limits import ON_REQUEST
from control.plans import Plan, Step, plan_from_json

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.adapt.records import Records

DONE, REFUSED, FAILED = "done", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command."""

    command: str
    state: str  # done, refused, failed
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wish:
    """A command as it is left: `cancel` names an action, or `plan` is to be carried out."""

    command: str
    by: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    cancel: str = ""


@dataclass
class _Errand:
    """A plan on its way."""

    wish: Wish
    plan: Plan
    left: list[Step]
    records: Records
    actions: list[str] = field(default_factory=list)
    now: str = ""  # the action that is on its way

    def given_up(self, why: str) -> str:
        """What there is to say when the query stops: some actions do not end with it."""
        action = self.records.actions.get(self.now)
        goes_on = action is not None and not action.over
        return f"{why}; action {self.now} goes on with the next start" if goes_on else why


class Errands:
    """All commands of one desk."""

    def __init__(self) -> None:
        self._left: queue.SimpleQueue[Wish] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._now: list[_Errand] = []
        self._closing = threading.Lock()
        self._closed = ""  # why nothing is taken up any more

    @property
    def waiting(self) -> bool:
        """Has anybody left something that was not taken up yet?"""
        return not self._left.empty()

    def leave(self, wish: Wish) -> None:
        """From any thread; after the end it is answered at once."""
        with self._closing:
            if not self._closed:
                self._left.put(wish)
                return
        self._end(wish.command, FAILED, f"{self._closed}; state unchanged", [])

    def outcomes(self) -> list[Outcome]:
        """From any thread: what came about since this was last asked."""
        found = []
        while not self._told.empty():
            found.append(self._told.get())
        return found

    def take_up(self, desk: Desk) -> None:
        """At a boundary, before actions go on: whoever cancels one means it as it is now."""
        while not self._left.empty():
            self._begin(desk, self._left.get())

    def advance(self, desk: Desk) -> None:
        """At a boundary, after actions went on: take every plan one step further."""
        for errand in list(self._now):
            self._further(desk, errand)

    def give_up(self, why: str) -> None:
        """The query stops: what is on its way has ended, what has not begun will not."""
        with self._closing:
            self._closed = why
        while not self._left.empty():
            self._end(self._left.get().command, FAILED, f"{why}; state unchanged", [])
        for errand in self._now:
            self._end(errand.wish.command, FAILED, errand.given_up(why), errand.actions)
        self._now.clear()

    def _begin(self, desk: Desk, wish: Wish) -> None:
        if wish.cancel:
            why = desk.cancel(wish.cancel)
            text = why or f"action {wish.cancel} is cancelled"
            self._end(wish.command, REFUSED if why else DONE, text, [wish.cancel])
            return
        try:
            changed = proposals.drift(proposals.from_json(wish.fingerprint), desk.snapshot())
            plan = plan_from_json(wish.plan)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            text = f"this is no plan of this version's ({type(error).__name__}: {error})"
            self._end(wish.command, FAILED, f"{text}; state unchanged", [])
            return
        if changed:
            text = "the proposal is stale: " + "; ".join(map(str, changed[:8]))
            said = [{"why": "stale", "text": str(one)} for one in changed]
            self._end(wish.command, REFUSED, text, [], said)
            return
        self._now.append(_Errand(wish, plan, list(plan.steps), desk.records))

    def _further(self, desk: Desk, errand: _Errand) -> None:
        while True:
            if errand.now:
                action = desk.records.actions[errand.now]
                if not action.over:
                    return None
                if action.state is not State.DONE:
                    return self._stopped(errand, f"{action.state}: {action.note}")
                errand.now = ""
            if not errand.left:
                self._now.remove(errand)
                count = len(errand.actions)
                text = f"{count} step{'s' if count != 1 else ''} done"
                return self._end(errand.wish.command, DONE, text, errand.actions)
            self._next(desk, errand)
            if errand not in self._now:
                return None

    def _next(self, desk: Desk, errand: _Errand) -> None:
        step, name = errand.left.pop(0), f"{errand.wish.command}-{len(errand.actions) + 1}"
        plan = Plan((step,), errand.plan.reasons)
        made = desk.submit(plan, errand.wish.by, desk.snapshot(), limits=ON_REQUEST, name=name)
        if made:
            errand.now = made[0].id
            errand.actions.append(errand.now)
            return
        self._refused(errand, desk.records.last_refusals)

    def _refused(self, errand: _Errand, why: Sequence[Refusal]) -> None:
        said = [
            {"why": r.why.value, "text": r.text, "found": r.found, "limit": r.limit} for r in why
        ]
        text, began = "; ".join(map(str, why)), len(errand.actions)
        self._now.remove(errand)
        if began:
            text = f"step {began + 1} of {len(errand.plan.steps)} refused: {text}"
        self._end(errand.wish.command, FAILED if began else REFUSED, text, errand.actions, said)

    def _stopped(self, errand: _Errand, text: str) -> None:
        done = len(errand.actions)
        self._now.remove(errand)
        if len(errand.plan.steps) > 1:
            text = f"step {done} of {len(errand.plan.steps)} {text}"
        self._end(errand.wish.command, FAILED, text, errand.actions)

    def _end(
        self,
        command: str,
        state: str,
        text: str,
        actions: Sequence[str],
        refusals: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        body = {"text": text, "actions": list(actions), "refusals": list(refusals)}
        self._told.put(Outcome(command, state, body))


__all__ = ["Errands", "Outcome", "Wish"]
