"""Changes of a manifest that adaptation makes: pure, from one manifest to parts of the next commit.

Spilling, moving and dropping change which rows of which files count, for whom. Files are written by tasks before,
and deleted by the driver after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.adapt.orders import Orders
from engine.adapt.overflow import part
from engine.flow import Flow, Op
from engine.outcome import Outcome
from engine.sinks.staged import final_name
from engine.state import ranges
from engine.state.files import in_order
from engine.state.model import Change, Manifest, Place, Run, Runs
from engine.state.ranges import Ranges
from engine.watermarks import NEVER

if TYPE_CHECKING:
    from engine.adapt.tasks import Merged


@dataclass(frozen=True, slots=True)
class Edit:
    """What a commit without input changes: runs in memory and on disk, and owners."""

    changes: Mapping[Place, Change] = field(default_factory=dict)
    disk: Mapping[Place, Runs] = field(default_factory=dict)
    placement: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def beside(self, other: Edit) -> Edit:
        """Both in one commit; they are about different operators."""
        return Edit(
            {**self.changes, **other.changes},
            {**self.disk, **other.disk},
            {**self.placement, **other.placement},
        )


def amended(edit: Edit, merged: Mapping[str, Merged], version: int, nodes: int) -> Outcome:
    """What a commit without a tick comes to; `merged`: of clean-ups, by operator. Files of results are named after those
    of the nodes."""
    staged = [file for one in merged.values() for file in one.staged]
    named = [
        [tmp, final_name(version, nodes + n), *rest] for n, (tmp, _, *rest) in enumerate(staged)
    ]
    return Outcome(
        {},
        dict(edit.changes),
        [hold for one in merged.values() for hold in one.holds],
        {"results": named} if named else {},
        {op: one.delta for op, one in merged.items() if one.delta is not None},
        {},
        {},
    )


def after_tick(
    flow: Flow, manifest: Manifest, outcome: Outcome, orders: Orders
) -> dict[Place, Runs]:
    """What is on disk after a tick, where that changes: less what settled, more what nodes spilled."""
    out: dict[Place, Runs] = {}
    sides = {op.id: len(op.sides) for op in flow.ops}
    for (op, node), settle in orders.settle.items():
        for side in range(sides[op]):
            place = Place(op, node, side)
            groups = next(o.groups for o in flow.ops if o.id == op)
            out[place] = without(manifest.disk.get(place, ()), settle.groups, groups)
    for place, runs in outcome.disk.items():
        out[place] = (*out.get(place, manifest.disk.get(place, ())), *runs)
    return out


def without(runs: Runs, gone: Ranges, groups: int) -> Runs:
    """Runs without some groups' rows."""
    rest = ranges.minus(None, gone, groups)
    return tuple(left for run in runs if (left := run.only(rest, groups)) is not None)


def seal(manifest: Manifest, op: Op, node: int, victims: Ranges, generation: str) -> Edit:
    """What some groups have in memory becomes a generation on disk. Their memory is not given back yet."""
    changes, disk = {}, {}
    for side in range(len(op.sides)):
        place = Place(op.id, node, side)
        until = manifest.fronts.get(op.id, NEVER) if op.grouping is not None else None
        kept, gone = part(manifest.runs.get(place, ()), victims, generation, op.groups, until)
        if gone:
            changes[place] = Change(0, kept)
            disk[place] = (*manifest.disk.get(place, ()), *gone)
    return Edit(changes, disk)


def trimmed(manifest: Manifest, lighter: Mapping[Place, Iterable[Run]]) -> Edit:
    """Runs are replaced by what tasks made of them, where they are still as they were."""
    changes = {}
    for place, some in lighter.items():
        runs = manifest.runs.get(place, ())
        made = {run.id: run for run in some}
        after = tuple(
            made[run.id] if run.id in made and run.groups == made[run.id].groups else run
            for run in runs
        )
        if after != runs:
            changes[place] = Change(0, after)
    return Edit(changes)


def switch(
    manifest: Manifest,
    op: Op,
    moving: Ranges,
    source: int,
    target: int,
    copies: Mapping[int, Mapping[str, Run]],
    owner: tuple[int, ...],
) -> Edit:
    """Groups change their node. `copies`: of each side, by the id of the sender's run, the receiver's. What
    the sender has let go of meanwhile, the receiver does not take."""
    changes = {}
    for side in range(len(op.sides)):
        here, there = Place(op.id, source, side), Place(op.id, target, side)
        runs = manifest.runs.get(here, ())
        have = {run.id for run in runs}
        came = tuple(copy for id_, copy in copies.get(side, {}).items() if id_ in have)
        rest = [
            r if r.only(moving, op.groups) is None else _left(r, moving, op.groups) for r in runs
        ]
        changes[here] = Change(0, tuple(run for run in rest if run is not None))
        changes[there] = Change(
            0, in_order((*came, *manifest.runs.get(there, ())), op.sides[side].span_us)
        )
    wanted = ranges.mask(moving, op.groups)
    placed = tuple(target if wanted[g] else node for g, node in enumerate(owner))
    return Edit(changes, {}, {op.id: placed})


def _left(run: Run, gone: Ranges, groups: int) -> Run | None:
    return run.only(ranges.minus(None, gone, groups), groups)


def merged(
    manifest: Manifest,
    op: Op,
    node: int,
    groups: Ranges,
    before: Mapping[int, frozenset[str]],
    after: Mapping[int, Runs],
    generation: str,
) -> Edit:
    """Generations become one. `before`: of each side, the runs on disk that went into it, which may since have
    been joined by younger ones."""
    disk = {}
    for side in range(len(op.sides)):
        place = Place(op.id, node, side)
        rest: list[Run] = []
        for run in manifest.disk.get(place, ()):
            if run.id in before.get(side, ()):
                left = _left(run, groups, op.groups)
                rest += [left] if left is not None else []
            else:
                rest.append(run)
        whole = tuple(
            replace(some, generation=generation)
            for run in after.get(side, ())
            if (some := run.only(groups, op.groups)) is not None
        )
        disk[place] = (*whole, *rest)
    return Edit({}, disk)
