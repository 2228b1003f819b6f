"""State as immutable values: segments, runs, holds, and the manifest that names them all.

A *segment* is a file of rows sorted by unsigned hash, cut at group boundaries. A *run* is a sorted
sequence of segments in memory together with the durable files from which it can be made again.
The *manifest* says which runs each node holds for each operator's inputs. Moving, spilling or sharing
state makes another manifest; files never change. No file is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 1
Times = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows [start, start + rows) of one immutable file. `lo` and `hi` are the first and last hash."""

    file: str
    start: int
    rows: int
    bytes: int  # of the whole file
    checksum: str  # xxh3-64 of the whole file
    lo: int
    hi: int

    @property
    def version(self) -> int:
        """The version whose tick wrote the file (its name begins with it)."""
        return int(self.file[:10])

    def pack(self) -> list[Any]:
        return [self.file, self.start, self.rows, self.bytes, self.checksum, self.lo, self.hi]


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted set of rows of one input. `memory` is what is probed; `durable` holds the same rows,
    oldest first, in the checkpoint: merged stably by hash it gives `memory` again, byte for byte. `times`:
    least and greatest of each event time column, in microseconds."""

    id: str
    rows: int
    memory: tuple[Segment, ...]
    durable: tuple[Segment, ...]
    times: Times = ()

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.memory)

    def pack(self) -> list[Any]:
        return [
            self.id,
            self.rows,
            [s.pack() for s in self.memory],
            [s.pack() for s in self.durable],
            self.times,
        ]

    @staticmethod
    def unpack(raw: list[Any]) -> Run:
        return Run(raw[0], raw[1], _segments(raw[2]), _segments(raw[3]), _times(raw[4]))


@dataclass(frozen=True, slots=True)
class Hold:
    """Input that waits at the exchange: one durable file of one input, and the groups still in it."""

    operator: str
    input: int
    segment: Segment
    groups: tuple[int, ...]
    rows: tuple[int, ...]  # of each group
    times: Times = ()

    def pack(self) -> list[Any]:
        return [
            self.operator,
            self.input,
            self.segment.pack(),
            list(self.groups),
            list(self.rows),
            self.times,
        ]

    @staticmethod
    def unpack(raw: list[Any]) -> Hold:
        return Hold(raw[0], raw[1], Segment(*raw[2]), tuple(raw[3]), tuple(raw[4]), _times(raw[5]))


def _times(raw: list[list[int]]) -> Times:
    return tuple((low, high) for low, high in raw)


def _segments(raw: list[list[Any]]) -> tuple[Segment, ...]:
    return tuple(Segment(*item) for item in raw)


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs belong: an operator's input on a node."""

    operator: str
    node: int
    input: int

    def __str__(self) -> str:
        return f"{self.operator}/{self.node}/{self.input}"

    @staticmethod
    def parse(text: str) -> Place:
        operator, node, index = text.rsplit("/", 2)
        return Place(operator, int(node), int(index))


Runs = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What one tick did to one place: the first `kept` runs stay, `added` follow them."""

    kept: int
    added: Runs

    def apply(self, runs: Runs) -> Runs:
        return runs[: self.kept] + self.added


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole state at one version. `tick` is the last Spark batch that is in it, -1 before any.
    `placement` gives the node of each group of an operator, among `nodes` of them; `seen` the greatest
    event time of each input so far; `fronts` the time before which an operator's results are all out,
    where it waits for the watermark."""

    version: int = 0
    tick: int = -1
    runs: Mapping[Place, Runs] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    placement: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: int = 0
    seen: Mapping[str, int] = field(default_factory=dict)
    fronts: Mapping[str, int] = field(default_factory=dict)

    def at(self, operator: str, node: int, inputs: int) -> tuple[Runs, ...]:
        """The runs of each of the operator's inputs on one node, oldest first."""
        return tuple(self.runs.get(Place(operator, node, i), ()) for i in range(inputs))

    def without(self, expired: Mapping[Place, Sequence[str]]) -> Manifest:
        """The same version, but for these runs, which no row to come can join."""
        if not expired:
            return self
        runs = dict(self.runs)
        for place, ids in expired.items():
            runs[place] = tuple(run for run in runs[place] if run.id not in ids)
        return replace(self, runs=runs)

    def after(
        self,
        *,
        tick: int,
        changes: Mapping[Place, Change],
        holds: tuple[Hold, ...],
        placement: Mapping[str, tuple[int, ...]],
        nodes: int,
        seen: Mapping[str, int],
        fronts: Mapping[str, int],
    ) -> Manifest:
        """The next version. `placement` names the operators whose groups have other nodes from now on."""
        runs = dict(self.runs)
        for place, change in changes.items():
            runs[place] = change.apply(runs.get(place, ()))
        return Manifest(
            self.version + 1,
            tick,
            runs,
            holds,
            {**self.placement, **placement},
            nodes,
            dict(seen),
            {**self.fronts, **fronts},
        )

    def memory_files(self) -> set[str]:
        return {s.file for run in self._all() for s in run.memory}

    def durable_files(self) -> set[str]:
        held = {hold.segment.file for hold in self.holds}
        return held | {s.file for run in self._all() for s in run.durable}

    def memory_bytes(self, node: int) -> int:
        mine = [runs for place, runs in self.runs.items() if place.node == node]
        return sum({s.file: s.bytes for runs in mine for r in runs for s in r.memory}.values())

    def durable_bytes(self, node: int) -> int:
        mine = [runs for place, runs in self.runs.items() if place.node == node]
        return sum({s.file: s.bytes for runs in mine for r in runs for s in r.durable}.values())

    def held_rows(self, operator: str, groups: int) -> npt.NDArray[np.int64]:
        """Rows that wait, by group."""
        out = np.zeros(groups, dtype=np.int64)
        for hold in self._holds(operator):
            np.add.at(out, list(hold.groups), hold.rows)
        return out

    def held_since(self, operator: str, groups: int) -> npt.NDArray[np.int64]:
        """The version of each group's oldest waiting row; the largest number where none waits."""
        out = np.full(groups, np.iinfo(np.int64).max)
        for hold in reversed(self._holds(operator)):
            out[list(hold.groups)] = hold.segment.version
        return out

    def _holds(self, operator: str) -> list[Hold]:
        return [hold for hold in self.holds if hold.operator == operator]

    def _all(self) -> Iterator[Run]:
        for runs in self.runs.values():
            yield from runs

    def pack(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "tick": self.tick,
            "runs": {str(place): [r.pack() for r in runs] for place, runs in self.runs.items()},
            "holds": [hold.pack() for hold in self.holds],
            "placement": {operator: list(owner) for operator, owner in self.placement.items()},
            "nodes": self.nodes,
            "seen": dict(self.seen),
            "fronts": dict(self.fronts),
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Manifest:
        runs = {Place.parse(p): tuple(Run.unpack(r) for r in rs) for p, rs in raw["runs"].items()}
        holds = tuple(Hold.unpack(h) for h in raw["holds"])
        placement = {operator: tuple(owner) for operator, owner in raw["placement"].items()}
        return Manifest(
            raw["version"],
            raw["tick"],
            runs,
            holds,
            placement,
            raw["nodes"],
            raw["seen"],
            raw.get("fronts", {}),
        )
