"""A node's own spill, at the end of its part of a tick: when its memory is over the limit, groups go to disk.

Nobody is asked: the brief names the limit and one order of the groups of all operators, the node knows its bytes. What it
spills is durable already; memory is written anew without it. Groups in flight are not in the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.adapt import pieces
from engine.reports import Longs
from engine.state import ranges
from engine.state.files import Fresh, Tiers
from engine.state.model import Change, Run, Runs
from engine.state.ranges import Ranges

if TYPE_CHECKING:
    from engine.node_step import NodeStep

Disk = dict[int, Runs]


def relieve(step: NodeStep, changes: Mapping[int, Change]) -> tuple[dict[int, Change], Disk]:
    """The step's changes and, if the node is over its limit, what goes to disk of each side."""
    tick, op, node = step.tick, step.op, step.node
    limit, order = tick.limits.get(node), tick.victims.get(node, ())
    if limit is None or not order:
        return dict(changes), {}
    sides = tuple(
        changes[i].apply(mine) if i in changes else mine for i, mine in enumerate(step.runs)
    )
    used = sum(run.bytes for runs in sides for run in runs)
    other = sum(
        run.bytes
        for (name, at), mine in tick.runs.items()
        if at == node and name != op.id
        for runs in mine
        for run in runs
    )
    if used + other <= limit.most:
        return dict(changes), {}
    need = max(used + other - limit.target, int(limit.share * (used + other)))
    victims = _choose(step, sides, order, need)
    if not victims:
        return dict(changes), {}
    name = f"{step.fresh.name()[:-6]}"
    until = tick.fronts[op.id][1] if op.grouping is not None else None
    parted = [part(runs, victims, name, op.groups, until) for runs in sides]
    kept = [tuple(lighten(run, step.tiers, step.fresh) for run in mine) for mine, _ in parted]
    return (
        {i: Change(0, mine) for i, mine in enumerate(kept)},
        {i: gone for i, (_, gone) in enumerate(parted) if gone},
    )


def _choose(step: NodeStep, sides: tuple[Runs, ...], order: tuple[int, ...], need: int) -> Ranges:
    """This operator's groups among those that go: of all operators' groups on the node that have anything in memory, as
    many as are needed, in the order given. What came to the others in this tick is not known here; all operators go by
    the same order, so that together they shed what is needed, and not each of them all of it."""
    parts: list[Longs] = []
    first = 0
    for op in step.plan.flow.ops:
        if op.number == step.op.number:
            mine, first = sides, sum(len(part) for part in parts)
        else:
            mine = step.tick.runs.get((op.id, step.node), ())
        sizes = np.zeros(op.groups, dtype=np.int64)
        for runs in mine:
            for run in runs:
                sizes += run.bytes_of(op.groups)
        parts.append(sizes)
    every, rows = np.concatenate(parts), np.array(order, dtype=np.int64)
    rows = rows[every[rows] > 0]
    gone = rows[: int(np.searchsorted(np.cumsum(every[rows]), need)) + 1] - first
    return ranges.of(gone[(gone >= 0) & (gone < step.op.groups)].tolist())


def part(
    runs: Runs, victims: Ranges, generation: str, groups: int, until: int | None = None
) -> tuple[Runs, Runs]:
    """Runs without some groups, and these groups' rows as a generation on disk. No file is touched. `until`: of
    window functions, the time before which these groups' results are out."""
    kept, gone = [], []
    everything: Ranges = ((0, groups),)
    for run in runs:
        mine = run.only(victims, groups)
        if mine is None:
            kept.append(run)
            continue
        gone.append(
            replace(
                mine,
                id=f"{run.id}-{generation}",
                memory=(),
                stored=None,
                generation=generation,
                until=until,
            )
        )
        if rest := run.only(ranges.minus(everything, victims, groups), groups):
            kept.append(rest)
    return tuple(kept), tuple(gone)


def lighten(run: Run, tiers: Tiers, fresh: Fresh) -> Run:
    """The run without rows in memory that do not count."""
    return run if run.trimmed else pieces.shrink(run, tiers, fresh)
