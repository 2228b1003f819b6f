"""Joins at which nothing waits and nothing spills, so that another plan can begin between two ticks.

What spilled groups owe comes out first, held rows are let in; from then on neither happens, until it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.adapt import courses
from engine.adapt.progress import TICK, Course
from engine.errors import StateError

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.flow import Op


class Quiet:
    """Some joins of a desk's query, from now on until `over`."""

    def __init__(self, desk: Desk, ops: Sequence[Op]) -> None:
        self.desk, self.ops = desk, tuple(ops)
        self._pairs = [(op.id, group) for op in self.ops for group in range(op.groups)]
        self._names = frozenset(op.id for op in self.ops)
        desk.open = self._names

    def clean(self) -> Course:
        """What operators owe comes out, what waits is let in, and nothing more is spilled."""
        for op in self.ops:
            for node in range(self.desk.nodes):
                yield from courses.unspill(self.desk, op, node)
            if self.waiting():
                yield TICK  # what an operator owed is let in at the one above
        self.keep()
        if self.waiting():
            yield TICK
        self.settled()

    def keep(self) -> None:
        """Nobody else is to touch their groups."""
        self.desk.fly(self._pairs)

    def waiting(self) -> int:
        """Rows on hold."""
        holds = self.desk.ticker.manifest.holds
        return sum(sum(hold.rows) for hold in holds if hold.operator in self._names)

    def settled(self) -> None:
        """An error, unless all their state is in memory and no row waits."""
        disk = self.desk.ticker.manifest.disk
        left = [runs for place, runs in disk.items() if place.operator in self._names]
        if left:
            size = sum(segment.bytes for runs in left for run in runs for segment in run.durable)
            raise self.error(
                f"{size:,} bytes of state are on disk and the nodes have no room for them",
                "Raise memory_per_node, or clean up first.",
            )
        if waiting := self.waiting():
            raise self.error(f"{waiting:,} rows still wait at an exchange", "Try again.")

    def error(self, what: str, hint: str) -> StateError:
        return StateError(what, where=self.desk.ticker.setup.plan.name, hint=hint)

    def over(self) -> None:
        """Nothing is asked of the ticks any longer."""
        self.desk.open = frozenset()
        self.desk.land(self._pairs)
