"""Rows and bytes of state in memory, followed from tick to tick: runs are counted as they come and go, not all over again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.state.commits import Commit
    from engine.state.model import Manifest, Place, Run


@dataclass
class _Place:
    """Runs of one side on one node: rows and bytes by id, in order, and their sums."""

    runs: dict[str, tuple[int, int]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    def add(self, run: Run) -> None:
        self.runs[run.id] = size = (run.rows, run.bytes)
        self.rows, self.bytes = self.rows + size[0], self.bytes + size[1]

    def drop(self, size: tuple[int, int]) -> None:
        self.rows, self.bytes = self.rows - size[0], self.bytes - size[1]


class Counts:
    """Rows and bytes in memory by place, followed from commit to commit."""

    def __init__(self) -> None:
        self._places: dict[Place, _Place] = {}
        self._version = -1

    def follow(self, commit: Commit, after: Manifest) -> None:
        """Take in a tick's commit. After any other commit everything is counted anew."""
        if commit.version != self._version + 1 or len(self._places) != len(after.runs):
            self._places = {place: _counted(runs) for place, runs in after.runs.items()}
        else:
            self._moved(commit, after)
        self._version = commit.version

    def _moved(self, commit: Commit, after: Manifest) -> None:
        for place, gone in commit.expired.items():
            mine = self._places[place]
            if any(gone.values()):  # some of their groups stay
                self._places[place] = _counted(after.runs[place])
                continue
            for name in gone:
                mine.drop(mine.runs.pop(name))
        for place, change in commit.changes.items():
            mine = self._places[place]
            if any(commit.expired.get(place, {}).values()):
                continue  # counted anew
            while len(mine.runs) > change.kept:
                mine.drop(mine.runs.popitem()[1])
            for run in change.added:
                mine.add(run)

    def at(self, place: Place) -> tuple[int, int]:
        """Rows and bytes."""
        found = self._places.get(place)
        return (found.rows, found.bytes) if found is not None else (0, 0)


def _counted(runs: tuple[Run, ...]) -> _Place:
    made = _Place()
    for run in runs:
        made.add(run)
    return made
