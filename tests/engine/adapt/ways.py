"""Whether ticks wait for moving state, said by a test and not by what it would cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from control.plans import Migrate
from engine.adapt import migrating
from engine.adapt.progress import Course, Log

if TYPE_CHECKING:
    from engine.adapt.desk import Desk


@contextmanager
def ticks_wait(yes: bool) -> Iterator[None]:
    inner = migrating.migrate

    def migrate(desk: Desk, log: Log, step: Migrate) -> Course:
        return inner(desk, log, replace(step, at_once=yes))

    with patch.object(migrating, "migrate", migrate):
        yield
