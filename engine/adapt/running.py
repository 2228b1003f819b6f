"""Actions on their way: each a course that waits for a side job or for a tick, and what its end is called.

The desk calls these at the boundaries between ticks; what an action does is in courses.py and moving.py.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from control import actions
from control.actions import Action
from control.redaction import redacted
from engine.adapt.progress import Course, Log, Tick
from engine.adapt.side import Found, Job, SideJobs
from engine.adapt.tasks import Order
from engine.errors import SinkError, SpillwayError


class Cancelled(Exception):
    """Somebody asked for an action's end before its commit."""


class GivenUp(Cancelled):
    """The query stops: nobody asked for this action's end."""


@dataclass
class Running:
    """An action on its way, and what it waits for."""

    log: Log
    course: Course
    since: int
    waits: Job | Tick | None = None
    future: Future[Found] | None = None
    ticks: int = 0
    along: bool = False  # its job is done along with a tick
    found: Found | None = None  # what came of that

    @property
    def action(self) -> Action:
        return self.log.action


class Runs:
    """All actions of one desk that are on their way. `over` hears of each that has ended."""

    def __init__(
        self, side: SideJobs, wall_s: Callable[[], float], over: Callable[[Running], None]
    ) -> None:
        self.side, self.wall_s, self._over = side, wall_s, over
        self.now: list[Running] = []
        self.ticks = 0  # there have been
        self.gave_way = 0  # actions, because a node was over its budget
        self.apart = False  # every job is one of its own

    def waits_for_tick(self, *, ending: bool) -> bool:
        """Does any of them need a tick though no input comes? At the end, all that wait for one do."""
        return any(
            run.along or (isinstance(run.waits, Tick) and (run.waits.any or ending))
            for run in self.now
        )

    @property
    def waits_for_job(self) -> bool:
        return any(run.future for run in self.now)

    @property
    def along(self) -> dict[int, tuple[Order, ...]]:
        """What the next tick is to do besides, by node."""
        out: dict[int, tuple[Order, ...]] = {}
        for run in self.now:
            if run.along and isinstance(run.waits, Job):
                for node, orders in run.waits.work.items():
                    out[node] = (*out.get(node, ()), *orders)
        return out

    def ticked(self, work: Found) -> None:
        """A tick has been, and did this besides."""
        self.ticks += 1
        left = {node: list(found) for node, found in work.items()}
        for run in self.now:
            if run.along and isinstance(run.waits, Job):
                run.found = {
                    node: [left[node].pop(0) for _ in orders]
                    for node, orders in run.waits.work.items()
                }

    @property
    def files(self) -> frozenset[str]:
        """What side jobs read."""
        return frozenset(f for r in self.now if isinstance(r.waits, Job) for f in r.waits.files)

    @property
    def since(self) -> int | None:
        """The version that the oldest began with."""
        return min((run.since for run in self.now), default=None)

    def begin(self, log: Log, course: Course, since: int) -> Action:
        run = Running(log, course, since)
        self.now.append(run)
        self._resume(run, None)
        return run.action

    def advance(self) -> None:
        """Everything as far as it goes."""
        for run in list(self.now):
            self._advance(run)

    def wait(self) -> None:
        """For the side jobs that run now, whatever they come to."""
        for run in self.now:
            if run.future is not None:
                run.future.exception()

    def cancel(self, name: str) -> str:
        """End an action before its commit; why not, if it cannot be."""
        for run in self.now:
            if run.action.id == name or name in ("", "last"):
                if not run.action.cancellable:
                    return f"action {run.action.id} has been committed"
                if run.log.onward:
                    return run.log.onward
                self._throw(run, Cancelled("cancelled"))
                return ""
        return f"no action {name} is running"

    def pressed(self, error: SpillwayError) -> None:
        """A node is over its budget: whoever keeps it from spilling gives way, or gets its jobs done before the next
        tick begins."""
        for run in list(self.now):
            if run.log.pressed == "gives way":
                self.gave_way += 1
                self._throw(run, error)
            while run.log.pressed == "hurries" and run.future is not None and run in self.now:
                self.side.wait(run.future)
                self._advance(run)

    def give_up(self, why: str) -> None:
        for run in list(self.now):
            self._throw(run, GivenUp(why))
        self.side.close()

    def _advance(self, run: Running) -> None:
        if isinstance(run.waits, Tick):
            if self.ticks > run.ticks:
                self._resume(run, None)
        elif run.found is not None:
            self._resume(run, run.found)
        elif run.future is not None and run.future.done():
            error = run.future.exception()
            if error is not None:
                self._throw(run, error)
            else:
                self._resume(run, run.future.result())

    def _resume(self, run: Running, value: Found | None) -> None:
        run.waits, run.future, run.found, run.along = None, None, None, False
        made = run.log.took(value) if value is not None else None
        try:
            self._waiting(run, run.course.send(made) if made is not None else next(run.course))
        except StopIteration:
            self._finished(run)
        except SinkError:
            raise  # of results that are committed: this start is over, the next one publishes them
        except SpillwayError as error:
            self._failed(run, error)

    def _waiting(self, run: Running, asked: Job | Tick) -> None:
        run.waits, run.ticks = asked, self.ticks
        if isinstance(asked, Job):
            run.along = asked.small and not self.apart and not asked.at_once
            if not run.along:
                run.future = self.side.start(asked)
            if asked.at_once and run.future is not None:
                self.side.wait(run.future)
                self._advance(run)

    def _throw(self, run: Running, error: BaseException) -> None:
        try:
            run.course.throw(error)
        except StopIteration:
            self._finished(run)
        except Cancelled as found:
            self._cancelled(run, found)
        except Exception as found:
            if isinstance(found, SinkError) and found is not error:
                raise  # as above: not a job's, but of what was committed on the way back
            self._failed(run, found)

    def _cancelled(self, run: Running, why: Cancelled) -> None:
        if isinstance(why, GivenUp) and run.log.lasting:
            self.now.remove(run)
        elif not run.action.cancellable:
            self._failed(run, why)
        else:
            note = f"{why}; {run.log.kept}" if run.log.kept else str(why)
            run.log.action = run.action.cancel(self.wall_s(), note)
            self._end(run)

    def _failed(self, run: Running, error: Exception) -> None:
        """Before the commit state is as it was; after it, what is left undone is only a matter of tidiness."""
        text = redacted(str(error)).splitlines()[0] if str(error) else type(error).__name__
        if run.action.committed:
            run.log.action = actions.rolled(run.action, True, self.wall_s())
        else:
            kept = run.log.kept or "state unchanged"
            run.log.action = run.action.fail(self.wall_s(), f"{text}; {kept}")
        self._end(run)

    def _finished(self, run: Running) -> None:
        run.log.action = run.action.finish(self.wall_s())
        self._end(run)

    def _end(self, run: Running) -> None:
        if run in self.now:
            self.now.remove(run)
        self._over(run)
