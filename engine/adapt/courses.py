"""The courses of actions: each a generator that goes from one boundary between ticks to the next.

Here: spill and clean-up, and what is owed; moves are in moving.py, what they share in progress.py.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from control.plans import Cleanup, Part, Spill
from control.snapshot import NO_LIMIT
from engine.adapt import edits
from engine.adapt.edits import Edit
from engine.adapt.progress import TICK, Course, Log, lighten, names
from engine.adapt.side import Found, Job
from engine.adapt.tasks import Copy, Merge, Merged
from engine.brief import Settle
from engine.flow import Flow, Op
from engine.state import ranges
from engine.state.model import Manifest, Run, Runs
from engine.state.ranges import Ranges

if TYPE_CHECKING:
    from engine.adapt.desk import Desk

# Of state on disk that one cleanup job takes on; progress is kept in between.
JOB_BYTES = 256_000_000


def spill(desk: Desk, log: Log, step: Spill) -> Course:
    """Memory → disk. The rows are durable already: they stop counting as memory, then memory is given back."""
    with log.step("ChooseGroups"):
        wanted = {part.operator: ranges.of(part.groups) for part in step.parts}
        ops = [op for op in desk.flow.ops if op.id in wanted]
    with log.step("WriteDisk"):
        pass  # every segment was written when its tick committed
    with log.step("Commit"):
        before = desk.ticker.manifest
        seal(desk, [(op, wanted[op.id]) for op in ops], step.node, log.action.id)
        log.note(_grown(before, desk.ticker.manifest, step.node))
    with log.step("DropMemory"):
        had = desk.ticker.manifest.memory_bytes(step.node)
        yield from lighten(desk, [step.node])
        log.note(max(0, had - desk.ticker.manifest.memory_bytes(step.node)))


def seal(desk: Desk, what: Sequence[tuple[Op, Ranges]], node: int, action: str) -> bool:
    """What groups have in memory becomes a generation on disk: one commit, whatever operators there are. False
    where they have nothing."""
    whole = Edit()
    for op, some in what:
        whole = whole.beside(
            edits.seal(desk.ticker.manifest, op, node, some, desk.generation(node))
        )
    return desk.amend(whole, action=action)


def _grown(before: Manifest, after: Manifest, node: int) -> int:
    return after.disk_bytes(node) - before.disk_bytes(node)


def cleanup(desk: Desk, log: Log, step: Cleanup) -> Course:
    """Generations become one, and the results that they owe come out; then back to memory, if there is room."""
    wanted = {part.operator: ranges.of(part.groups) for part in step.parts}
    ops = [op for op in desk.flow.ops if op.id in wanted]
    node = step.node
    with log.step("ChooseGroups"):
        # What has come since is one more generation: it owes too. Window functions' input waits instead.
        joins = [op for op in ops if op.grouping is None]
        due = [(op, owing(desk.ticker.manifest, op, node, wanted[op.id])) for op in joins]
        if seal(desk, due, node, log.action.id):
            log.kept = "what had come since is on disk too; nothing was merged"
        yield from lighten(desk, [node])
    with log.step("ReadDisk"):
        batches = [
            (op, some)
            for op in ops
            for some in portions(desk.ticker.manifest, op, node, wanted[op.id])
        ]
        log.note(desk.ticker.manifest.disk_bytes(node))
    with log.step("JoinOwed"):
        for number, (op, some) in enumerate(batches):
            log.note((yield from merge(desk, op, node, some, log.action.id)))
            log.kept = f"{number + 1} of {len(batches)} portions are merged, their results are out"
            desk.progress(log.action, (number + 1) / len(batches))
    with log.step("Commit"):
        for op in ops:
            yield from back(desk, op, node, wanted[op.id], log.action.id)
    with log.step("DropDisk"):
        yield TICK


def unspill(desk: Desk, op: Op, node: int) -> Course:
    """All that a join has on disk on a node is cleaned up, on the way to something else."""
    everything: Ranges = ((0, op.groups),)
    if not owing(desk.ticker.manifest, op, node, everything):
        return
    seal(desk, [(op, owing(desk.ticker.manifest, op, node, everything))], node, "")
    yield from lighten(desk, [node])
    for some in portions(desk.ticker.manifest, op, node, everything):
        yield from merge(desk, op, node, some, "")
    yield from back(desk, op, node, everything, "")


def cleanup_step(operator: str, groups: Sequence[int], node: int) -> Cleanup:
    return Cleanup((Part(operator, tuple(groups)),), node, 0)


def all_owed(flow: Flow, manifest: Manifest, nodes: int) -> list[Cleanup]:
    """Clean-ups of the lowest operator that owes anything, one for each node; empty when nothing is owed."""
    for op in flow.ops:
        generations = manifest.generations(op.id, op.groups)
        if op.grouping is not None:
            generations = 2 * generations  # whatever is on disk is waited for
        steps = []
        for node in range(nodes):
            memory = np.zeros(op.groups, dtype=np.int64)
            for runs in manifest.at(op.id, node, len(op.sides)):
                for run in runs:
                    memory += run.rows_of(op.groups)
            mine = ranges.mask(manifest.owing(op.id, node), op.groups)
            due = np.flatnonzero(mine & ((generations > 1) | (memory > 0)))
            if len(due):
                steps.append(cleanup_step(op.id, due.tolist(), node))
        if steps:
            return steps
    return []


def owing(manifest: Manifest, op: Op, node: int, wanted: Ranges) -> Ranges:
    return ranges.both(wanted, manifest.owing(op.id, node)) or ()


def portions(manifest: Manifest, op: Op, node: int, wanted: Ranges) -> list[Ranges]:
    """Groups in portions that one job takes on."""
    sizes = np.zeros(op.groups, dtype=np.int64)
    for _, run in _on_disk(manifest, op, node):
        sizes += run.bytes_of(op.groups)
    chosen = np.flatnonzero(ranges.mask(wanted, op.groups) & (sizes > 0))
    portion = np.cumsum(sizes[chosen]) // JOB_BYTES
    return [ranges.of(chosen[portion == n].tolist()) for n in np.unique(portion)]


def merge(desk: Desk, op: Op, node: int, some: Ranges, action: str) -> Generator[Job, Any, int]:
    """One portion: a side job, then one commit with its results. The bytes that were read."""
    manifest = desk.ticker.manifest
    found: dict[str, list[list[Run]]] = {}
    for side, run in _on_disk(manifest, op, node):
        mine = run.only(some, op.groups)
        if mine is not None:
            found.setdefault(run.generation, [[] for _ in op.sides])[side].append(mine)
    if len(found) < 2:
        return 0
    generations = tuple(tuple(tuple(runs) for runs in sides) for sides in found.values())
    orders = (Merge(op.number, some, generations),)
    got = yield Job({node: orders}, names({node: orders}))
    made = Merged.unpack(got[node][0])
    before = {
        side: frozenset(run.id for sides in generations for run in sides[side])
        for side in range(len(op.sides))
    }
    after: dict[int, Runs] = dict(enumerate(made.runs))
    edit = edits.merged(desk.ticker.manifest, op, node, some, before, after, desk.generation(node))
    desk.amend(edit, merged={op.id: made}, action=action)
    return made.bytes


def back(desk: Desk, op: Op, node: int, wanted: Ranges, action: str) -> Course:
    """Groups of one generation come back to memory, as far as there is room."""
    if desk.ending and op.grouping is None:
        return
    ends = {run.until for _, run in _on_disk(desk.ticker.manifest, op, node)}
    for until in sorted(ends, key=lambda at: at or 0):
        yield from _back(desk, op, node, wanted, until, action)


def _on_disk(manifest: Manifest, op: Op, node: int) -> list[tuple[int, Run]]:
    """What is spilled of an operator on a node, with its side."""
    spilled = manifest.disk_at(op.id, node, len(op.sides))
    return [(side, run) for side, runs in enumerate(spilled) for run in runs]


def _back(desk: Desk, op: Op, node: int, wanted: Ranges, until: int | None, action: str) -> Course:
    """Those groups whose results are out until the same time (joins know no such time)."""
    manifest = desk.ticker.manifest
    sizes = np.zeros(op.groups, dtype=np.int64)
    for _, run in _on_disk(manifest, op, node):
        if run.until == until:
            sizes += run.bytes_of(op.groups)
    once = manifest.generations(op.id, op.groups) == 1
    able = np.flatnonzero(ranges.mask(wanted, op.groups) & once & (sizes > 0))
    room = NO_LIMIT if desk.ending else desk.room(node)
    some = ranges.of(able[np.cumsum(sizes[able]) <= room].tolist())
    if not some:
        return
    orders = [
        Copy(op.number, side, run, some)
        for side, run in _on_disk(manifest, op, node)
        if run.only(some, op.groups) is not None
    ]
    work = {node: tuple(orders)}
    with desk.flying([(op.id, g) for g in ranges.members(some)]):
        found: Found = yield Job(work, names(work), int(sizes[list(ranges.members(some))].sum()))
        runs: list[list[Run]] = [[] for _ in op.sides]
        for order, raw in zip(orders, found[node], strict=True):
            if raw is not None:
                runs[order.side].append(Run.unpack(raw))
        back = tuple(tuple(mine) for mine in runs)
        desk.settle[op.id, node] = Settle(some, back, action, until)
        try:
            yield TICK
        finally:
            desk.settle.pop((op.id, node), None)
