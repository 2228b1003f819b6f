"""Which course an action takes, by what its step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.plans import Cleanup, Migrate, Move, Spill
from engine.adapt import courses, migrating, moving
from engine.adapt.progress import Course, Log

if TYPE_CHECKING:
    from engine.adapt.desk import Desk


def course(desk: Desk, log: Log, step: Move | Spill | Cleanup | Migrate) -> Course:
    """The course of an action."""
    if isinstance(step, Migrate):
        return migrating.migrate(desk, log, step)
    if isinstance(step, Move):
        return moving.move(desk, log, step)
    if isinstance(step, Spill):
        return courses.spill(desk, log, step)
    return courses.cleanup(desk, log, step)
