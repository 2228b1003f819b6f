"""Receipts: that an action lost nothing, counted from manifests before and after.

For every group and stream that it was about: rows before, plus what came in and less what expired until the
action's last commit, are the rows after. What came in is known twice: from the state that is there, and from the
tasks that took it. Where state only changed its place, the checkpoint's segments are compared by name and
checksum; where it was written anew (clean-up), sums of its rows' key hashes. Pure: no file is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.flow import Op
from engine.outcome import Outcome
from engine.state import ranges
from engine.state.commits import Commit
from engine.state.model import Longs, Manifest, Place, Runs

GROUPS_MAX = 200  # listed one by one; sums are of all
PROBLEMS_MAX = 10
MEMORY, DISK = 0, 1
TIERS = ("memory", "disk")


@dataclass(frozen=True)
class Count:
    """Rows and bytes of some groups of an operator: [node, tier, side, group]."""

    rows: Longs
    bytes: Longs

    @staticmethod
    def of(manifest: Manifest, op: Op, nodes: Sequence[int], groups: Longs) -> Count:
        found = np.zeros((2, len(nodes), 2, len(op.sides), len(groups)), dtype=np.int64)
        for at, node in enumerate(nodes):
            for tier, where in enumerate((manifest.runs, manifest.disk)):
                for side in range(len(op.sides)):
                    for run in where.get(Place(op.id, node, side), ()):
                        found[0, at, tier, side] += run.rows_of(op.groups)[groups]
                        found[1, at, tier, side] += run.bytes_of(op.groups)[groups]
        return Count(found[0], found[1])

    @property
    def streams(self) -> Longs:
        """Rows wherever they are: [side, group]."""
        found: Longs = self.rows.sum(axis=(0, 1))
        return found


@dataclass
class Part:
    """Some groups of one operator on the nodes that an action is about, from its beginning on."""

    op: Op
    groups: Longs
    nodes: tuple[int, ...]
    begun: Manifest
    before: Count
    came: Longs  # [group] rows that tasks took in since
    gone: Longs  # [side, group] rows that expired since

    @staticmethod
    def of(manifest: Manifest, op: Op, groups: Sequence[int], nodes: tuple[int, ...]) -> Part:
        chosen = np.array(groups, dtype=np.int64)
        none = np.zeros((len(op.sides), len(chosen)), dtype=np.int64)
        count = Count.of(manifest, op, nodes, chosen)
        return Part(op, chosen, nodes, manifest, count, none[0].copy(), none)

    def took(self, outcome: Outcome, commit: Commit, before: Manifest) -> None:
        """What a tick brought, and what expired with it."""
        if (delta := outcome.deltas.get(self.op.id)) is not None:
            dense = np.zeros(self.op.groups, dtype=np.int64)
            dense[delta.groups] = delta.rows_in
            self.came += dense[self.groups]
        for place, kept in commit.expired.items():
            if place.operator == self.op.id and place.node in self.nodes:
                for run in before.runs.get(place, ()):
                    if run.id in kept:
                        stays = ranges.mask(kept[run.id], self.op.groups)
                        rows = np.where(stays, 0, run.rows_of(self.op.groups))
                        self.gone[place.input] += rows[self.groups]

    def at(self, before: Manifest, after: Manifest) -> Switch:
        return Switch(before, after, self.came.copy(), self.gone.copy())


@dataclass(frozen=True)
class Switch:
    """How things stood just before and just after a commit, and what had come and gone by then."""

    before: Manifest
    after: Manifest
    came: Longs
    gone: Longs


@dataclass(frozen=True)
class Line:
    """A part, counted: each [side, group]."""

    part: Part
    after: Count
    came: Longs
    gone: Longs
    wrong: Longs  # [group] rows too many or too few

    @staticmethod
    def of(part: Part, switch: Switch) -> Line:
        """State says what each stream brought; tasks say what all of them brought together."""
        after = Count.of(switch.after, part.op, part.nodes, part.groups)
        came = after.streams - part.before.streams + switch.gone
        if part.op.grouping is None:
            wrong = came.sum(axis=0) - switch.came
        else:  # window functions also drop rows that no result needs any more
            dropped = np.maximum(switch.came - came.sum(axis=0), 0)
            came, gone = came + dropped, switch.gone + dropped
            return Line(part, after, came, gone, came.sum(axis=0) - switch.came)
        wrong = np.where((came < 0).any(axis=0), np.minimum(came.min(axis=0), wrong), wrong)
        return Line(part, after, came, switch.gone, wrong)


def receipt(
    kind: str, parts: Sequence[Part], switches: Sequence[Switch], merged: bool | None = None
) -> dict[str, Any]:
    """As JSON. `kind`: spill, move, cleanup, local (a node's own spill, within a tick), or nothing where nothing was
    committed. `merged`: whether what a clean-up read is what it wrote."""
    lines = [Line.of(part, switch) for part, switch in zip(parts, switches, strict=True)]
    problems = [text for line in lines for text in _problems(line)]
    problems += [text for line in lines for text in _misplaced(kind, line)]
    sums: dict[str, Any] = {"kind": "none", "agree": True}
    if kind in ("spill", "move"):
        pairs = [_shared(kind, p, s) for p, s in zip(parts, switches, strict=True)]
        agree, count = all(ok for ok, _ in pairs), sum(n for _, n in pairs)
        sums = {"kind": "shared segments", "agree": agree, "segments": count}
    elif merged is not None:
        sums = {"kind": "sums of key hashes", "agree": merged}
    if not sums["agree"]:
        problems.append(f"checksums differ ({sums['kind']})")
    return {
        "ok": not problems,
        "problems": problems[:PROBLEMS_MAX],
        "checksums": sums,
        "streams": [row for line in lines for row in _streams(line)],
        "places": _places(lines),
        **_groups(lines),
    }


def _problems(line: Line) -> list[str]:
    bad = np.flatnonzero(line.wrong)[:PROBLEMS_MAX]
    return [
        f"{line.part.op.id}, group {line.part.groups[n]}: {int(line.wrong[n]):+} rows against what came"
        for n in bad
    ]


def _misplaced(kind: str, line: Line) -> list[str]:
    """Groups with rows where the action took them away."""
    if kind not in ("spill", "local", "move"):
        return []
    rows = line.after.rows[0] if kind == "move" else line.after.rows[0, MEMORY]
    left = int(rows.sum())
    where = f"on node {line.part.nodes[0]}" if kind == "move" else "in memory"
    return [f"{line.part.op.id}: {left} rows are still {where}"] if left else []


def _shared(kind: str, part: Part, switch: Switch) -> tuple[bool, int]:
    """Does the new place name the checkpoint's segments that the old one named, for every stream?"""
    wanted = ranges.of(part.groups.tolist())
    agree, count = True, 0
    for side in range(len(part.op.sides)):
        here = Place(part.op.id, part.nodes[0], side)
        there = Place(part.op.id, part.nodes[-1], side)
        old = _segments(switch.before.runs.get(here, ()), part, wanted)
        after = switch.after.disk if kind == "spill" else switch.after.runs
        new = _segments(after.get(there, ()), part, wanted)
        agree, count = agree and (old <= new if kind == "spill" else old == new), count + len(old)
    return agree, count


def _segments(runs: Runs, part: Part, wanted: ranges.Ranges) -> set[tuple[str, str]]:
    mine = [run for run in runs if run.only(wanted, part.op.groups) is not None]
    return {(segment.file, segment.checksum) for run in mine for segment in run.durable}


def _streams(line: Line) -> list[dict[str, Any]]:
    part, before, after = line.part, line.part.before, line.after
    return [
        {
            "operator": part.op.id,
            "stream": "+".join(side.aliases),
            "rows_before": int(before.streams[at].sum()),
            "rows_in": int(line.came[at].sum()),
            "rows_expired": int(line.gone[at].sum()),
            "rows_after": int(after.streams[at].sum()),
            "bytes_before": int(before.bytes[:, :, at].sum()),
            "bytes_after": int(after.bytes[:, :, at].sum()),
        }
        for at, side in enumerate(part.op.sides)
    ]


def _places(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Memory and disk of each node, of these groups only."""
    out = []
    for at, node in enumerate(lines[0].part.nodes if lines else ()):
        for tier, name in enumerate(TIERS):
            figures = {
                f"{what}_{when}": sum(int(getattr(c, what)[at, tier].sum()) for c in counts)
                for when, counts in (
                    ("before", [line.part.before for line in lines]),
                    ("after", [line.after for line in lines]),
                )
                for what in ("rows", "bytes")
            }
            if any(figures.values()):
                out.append({"node": node, "tier": name, **figures})
    return out


def _groups(lines: Sequence[Line]) -> dict[str, Any]:
    """The largest groups one by one: of each stream rows before, in, expired, after."""
    sizes = [
        (int(size), number, at)
        for number, line in enumerate(lines)
        for at, size in enumerate(line.part.before.bytes.sum(axis=(0, 1, 2)).tolist())
    ]
    listed = []
    for _, number, at in sorted(sizes, key=lambda one: (-one[0], *one[1:]))[:GROUPS_MAX]:
        line = lines[number]
        four = (line.part.before.streams, line.came, line.gone, line.after.streams)
        rows = [[int(one[side, at]) for one in four] for side in range(len(line.part.op.sides))]
        listed.append([line.part.op.id, int(line.part.groups[at]), rows])
    return {"groups": listed, "groups_total": len(sizes)}
