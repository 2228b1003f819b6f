"""State as immutable values: segments, runs, holds, and the manifest that names them all.

A *segment* is a file of rows sorted by unsigned hash, cut at group boundaries. A *run* is a sorted
sequence of segments in memory together with the durable files from which it can be made again.
The *manifest* says which runs each node holds for each operator's inputs. Moving, spilling or sharing
state makes another manifest; files never change. No file is read or written here.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.state import ranges
from engine.state.ranges import Ranges
from engine.state.replan import Replan

FORMAT_VERSION = 2
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


Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted set of rows of one input. `memory` is what is probed; `durable` holds the same rows,
    oldest first, in the checkpoint: merged stably by hash it gives `memory` again, byte for byte. `times`:
    least and greatest of each event time column, in microseconds.

    `groups` says which groups' rows count; others may still lie in the files. `stored`: of which groups
    `memory` has rows. `counts`: rows and bytes of every group in `durable`, packed. A run on disk has no `memory`,
    and a `generation`: rows of one group and generation have met each other, and none of another.
    """

    id: str
    rows: int
    memory: tuple[Segment, ...]
    durable: tuple[Segment, ...]
    times: Times = ()
    counts: bytes = b""
    groups: Ranges | None = None
    stored: Ranges | None = None
    generation: str = ""
    until: int | None = None  # on disk, of window functions: results before that time are out

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.memory)

    @property
    def trimmed(self) -> bool:
        """Is there nothing in memory that does not count?"""
        return self.groups == self.stored

    def rows_of(self, groups: int) -> Longs:
        """Rows that count, by group."""
        return np.where(ranges.mask(self.groups, groups), unpack_counts(self.counts)[0], 0)

    def bytes_of(self, groups: int) -> Longs:
        """Bytes of the rows that count, by group: as Arrow has them, without what files add."""
        return np.where(ranges.mask(self.groups, groups), unpack_counts(self.counts)[1], 0)

    def only(self, wanted: Ranges, groups: int) -> Run | None:
        """The run with no groups but these, named as far as it has rows of them; None if it has none."""
        rows = np.where(ranges.mask(wanted, groups), self.rows_of(groups), 0)
        mine = ranges.of_mask(rows > 0)
        return replace(self, rows=int(rows.sum()), groups=mine) if mine else None

    def pack(self) -> list[Any]:
        return [
            self.id,
            self.rows,
            [s.pack() for s in self.memory],
            [s.pack() for s in self.durable],
            self.times,
            base64.b64encode(self.counts).decode(),
            self.groups,
            self.stored,
            self.generation,
            self.until,
        ]

    @staticmethod
    def unpack(raw: list[Any]) -> Run:
        return Run(
            raw[0],
            raw[1],
            _segments(raw[2]),
            _segments(raw[3]),
            _times(raw[4]),
            base64.b64decode(raw[5]),
            ranges.unpack(raw[6]),
            ranges.unpack(raw[7]),
            raw[8],
            raw[9],
        )


def pack_counts(rows: Longs, size: Longs) -> bytes:
    """Rows and bytes by group."""
    return zlib.compress(np.concatenate([rows, size]).astype(np.int64).tobytes(), 1)


@lru_cache(maxsize=4096)
def unpack_counts(packed: bytes) -> Longs:
    """Two rows: rows and bytes, by group. Not to be written to."""
    return np.frombuffer(zlib.decompress(packed), dtype=np.int64).reshape(2, -1)


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
    disk: Mapping[Place, Runs] = field(default_factory=dict)  # spilled, oldest generation first
    plan: Replan | None = None  # where it is not the query file's

    def at(self, operator: str, node: int, inputs: int) -> tuple[Runs, ...]:
        """The runs of each of the operator's inputs on one node, oldest first."""
        return tuple(self.runs.get(Place(operator, node, i), ()) for i in range(inputs))

    def disk_at(self, operator: str, node: int, inputs: int) -> tuple[Runs, ...]:
        """What is spilled of each of the operator's inputs on one node, oldest generation first."""
        return tuple(self.disk.get(Place(operator, node, i), ()) for i in range(inputs))

    def without(self, expired: Mapping[Place, Mapping[str, Ranges]]) -> Manifest:
        """The same version, but for these runs, which no row to come can join. Groups that still owe
        results keep their rows: the ranges name them."""
        if not expired:
            return self
        runs = dict(self.runs)
        for place, kept in expired.items():
            runs[place] = tuple(
                run
                for one in runs[place]
                if (run := one if one.id not in kept else _only(one, kept[one.id])) is not None
            )
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
        disk: Mapping[Place, Runs],
    ) -> Manifest:
        """The next version. `placement` names the operators whose groups have other nodes from now on; `disk`
        the places where what is spilled has changed."""
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
            {place: some for place, some in {**self.disk, **disk}.items() if some},
            self.plan,
        )

    def memory_files(self) -> set[str]:
        return {s.file for run in self._all() for s in run.memory}

    def durable_files(self) -> set[str]:
        held = {hold.segment.file for hold in self.holds}
        return held | {s.file for run in self._all() for s in run.durable}

    def memory_bytes(self, node: int) -> int:
        mine = [runs for place, runs in self.runs.items() if place.node == node]
        return sum({s.file: s.bytes for runs in mine for r in runs for s in r.memory}.values())

    def disk_bytes(self, node: int) -> int:
        """Bytes of what is spilled."""
        mine = [run for place, runs in self.disk.items() if place.node == node for run in runs]
        return sum(int(run.bytes_of(unpack_counts(run.counts).shape[1]).sum()) for run in mine)

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
        for runs in (*self.runs.values(), *self.disk.values()):
            yield from runs

    def by_group(self, operator: str, groups: int) -> tuple[Longs, Longs]:
        """Bytes in memory and bytes on disk of each group of an operator."""
        memory, disk = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
        for place, runs in self.runs.items():
            if place.operator == operator:
                for run in runs:
                    memory += run.bytes_of(groups)
        for place, runs in self.disk.items():
            if place.operator == operator:
                for run in runs:
                    disk += run.bytes_of(groups)
        return memory, disk

    def generations(self, operator: str, groups: int) -> Longs:
        """How often each group was spilled since it was last cleaned up."""
        out = np.zeros(groups, dtype=np.int64)
        found: dict[str, ranges.Bools] = {}
        for place, runs in self.disk.items():
            if place.operator == operator:
                for run in runs:
                    mine = ranges.mask(run.groups, groups)
                    found[run.generation] = found.get(run.generation, False) | mine
        for mine in found.values():
            out += mine
        return out

    def owing(self, operator: str, node: int) -> Ranges:
        """Groups on a node with anything on disk: they may owe results."""
        some = [
            run.groups
            for place, runs in self.disk.items()
            if (place.operator, place.node) == (operator, node)
            for run in runs
        ]
        return ranges.of(g for mine in some for g in ranges.members(mine))

    def pack(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "tick": self.tick,
            "runs": pack_runs(self.runs),
            "disk": pack_runs(self.disk),
            "holds": [hold.pack() for hold in self.holds],
            "placement": {operator: list(owner) for operator, owner in self.placement.items()},
            "nodes": self.nodes,
            "seen": dict(self.seen),
            "fronts": dict(self.fronts),
            "plan": self.plan.pack() if self.plan is not None else None,
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Manifest:
        holds = tuple(Hold.unpack(h) for h in raw["holds"])
        placement = {operator: tuple(owner) for operator, owner in raw["placement"].items()}
        return Manifest(
            raw["version"],
            raw["tick"],
            unpack_runs(raw["runs"]),
            holds,
            placement,
            raw["nodes"],
            raw["seen"],
            raw.get("fronts", {}),
            unpack_runs(raw["disk"]),
            Replan.unpack(raw.get("plan")),
        )


def _only(run: Run, wanted: Ranges) -> Run | None:
    """As Run.only, for sets that are part of what it has."""
    top = unpack_counts(run.counts).shape[1]
    return run.only(wanted, top) if wanted else None


def pack_runs(runs: Mapping[Place, Runs]) -> dict[str, Any]:
    return {str(place): [r.pack() for r in some] for place, some in runs.items()}


def unpack_runs(raw: Mapping[str, Any]) -> dict[Place, Runs]:
    return {Place.parse(p): tuple(Run.unpack(r) for r in rs) for p, rs in raw.items()}
