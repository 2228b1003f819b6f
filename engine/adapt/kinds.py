"""Which course an action takes, by what its step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.plans import Cleanup, Migrate, Move, Spill
from engine.adapt import bridging, courses, migrating, moving, parallel
from engine.adapt.progress import Course, Log

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.tick import Ticker

Long = Move | Spill | Cleanup | Migrate  # what goes on over several ticks


def doing(ticker: Ticker) -> str:
    """The action that what runs now is half way of."""
    return parallel.doing(ticker) or bridging.doing(ticker)


def go_on(desk: Desk) -> None:
    """What an earlier life has left on its way, or a commit that could not be written, is taken further."""
    parallel.go_on(desk)
    bridging.go_on(desk)


def course(desk: Desk, log: Log, step: Long) -> Course:
    """The course of an action."""
    if isinstance(step, Migrate) and step.strategy == "parallel":
        return parallel.run_beside(desk, log, step)
    if isinstance(step, Migrate) and step.strategy == "delta":
        return bridging.bridge(desk, log, step)
    if isinstance(step, Migrate):
        return migrating.migrate(desk, log, step)
    if isinstance(step, Move):
        return moving.move(desk, log, step)
    if isinstance(step, Spill):
        return courses.spill(desk, log, step)
    return courses.cleanup(desk, log, step)
