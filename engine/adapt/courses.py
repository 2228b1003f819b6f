"""The courses of actions: each a generator that goes from one boundary between ticks to the next.

A course yields what it waits for: a side job, or the end of a tick. It runs only between ticks, so what it
commits is never in a tick's way. Until its commit it may be thrown out: then its `finally` takes back what it
asked of the ticks, and state is as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from control.actions import Action
from control.plans import Cleanup, Move, Part, Spill
from engine.adapt import edits
from engine.adapt.edits import Edit
from engine.adapt.picture import together
from engine.adapt.side import Found, Job
from engine.adapt.tasks import Copy, Lighten, Merge, Merged, Order
from engine.brief import Settle
from engine.flow import Flow, Op
from engine.state import ranges
from engine.state.model import Manifest, Place, Run, Runs
from engine.state.ranges import Ranges

if TYPE_CHECKING:
    from engine.adapt.desk import Desk

JOB_BYTES = (
    256_000_000  # of state on disk that one cleanup job takes on; progress is kept in between
)
CATCH_UPS = 3  # copies of what has come since, before groups are held for the last one


@dataclass(frozen=True, slots=True)
class Tick:
    """The end of a tick that began after now, or of none where no input comes."""


TICK = Tick()
Course = Generator[Job | Tick, Any, None]


class Log:
    """An action that is being carried out, with its steps."""

    def __init__(self, desk: Desk, action: Action) -> None:
        self.desk, self.action = desk, action

    @contextmanager
    def step(self, name: str) -> Iterator[Log]:
        """One named step; `note` says its bytes."""
        self.action = self.action.begin(self.desk.wall_s(), name)
        self.desk.keep(self.action)
        self._bytes = 0
        yield self
        self.action = self.action.end(self.desk.wall_s(), self._bytes)
        self.desk.keep(self.action)

    def note(self, size: int) -> None:
        self._bytes += size


def course(desk: Desk, log: Log, step: Move | Spill | Cleanup) -> Course:
    """The course that an action takes."""
    if isinstance(step, Move):
        return move(desk, log, step)
    return spill(desk, log, step) if isinstance(step, Spill) else cleanup(desk, log, step)


def spill(desk: Desk, log: Log, step: Spill) -> Course:
    """Memory → disk. The rows are durable already: they stop counting as memory, then memory is given back."""
    with log.step("ChooseGroups"):
        wanted = {part.operator: ranges.of(part.groups) for part in step.parts}
        ops = [op for op in desk.flow.ops if op.id in wanted]
    with log.step("WriteDisk"):
        pass  # every segment was written when its tick committed
    with log.step("Commit"):
        before = desk.ticker.manifest
        for op in ops:
            edit = edits.seal(
                desk.ticker.manifest, op, step.node, wanted[op.id], desk.generation(step.node)
            )
            desk.amend(edit, action=log.action.id)
        log.note(_grown(before, desk.ticker.manifest, step.node))
    with log.step("DropMemory"):
        had = desk.ticker.manifest.memory_bytes(step.node)
        yield from lighten(desk, [step.node])
        log.note(max(0, had - desk.ticker.manifest.memory_bytes(step.node)))


def _grown(before: Manifest, after: Manifest, node: int) -> int:
    return after.disk_bytes(node) - before.disk_bytes(node)


def lighten(desk: Desk, nodes: Sequence[int]) -> Course:
    """Give back the memory of rows that do not count any more."""
    manifest = desk.ticker.manifest
    number = {op.id: op.number for op in desk.flow.ops}
    work: dict[int, list[Lighten]] = {}
    for place, runs in manifest.runs.items():
        for run in runs:
            if place.node in nodes and not run.trimmed:
                work.setdefault(place.node, []).append(
                    Lighten(number[place.operator], place.input, run)
                )
    if not work:
        return
    found: Found = yield Job({n: tuple(orders) for n, orders in work.items()}, names(work))
    lighter: dict[Place, list[Run]] = {}
    for node, orders in work.items():
        for order, raw in zip(orders, found[node], strict=True):
            place = Place(desk.flow.ops[order.op].id, node, order.side)
            lighter.setdefault(place, []).append(Run.unpack(raw))
    desk.amend(edits.trimmed(desk.ticker.manifest, lighter))


def names(work: Mapping[int, Sequence[Order]]) -> frozenset[str]:
    """The files that orders read."""
    runs: list[Run] = []
    for orders in work.values():
        for order in orders:
            if isinstance(order, Merge):
                runs += [run for g in order.generations for side in g for run in side]
            else:
                runs.append(order.run)
    return frozenset(s.file for run in runs for s in (*run.memory, *run.durable))


def cleanup(desk: Desk, log: Log, step: Cleanup) -> Course:
    """Generations become one, and the results that they owe come out; then back to memory, if there is room."""
    wanted = {part.operator: ranges.of(part.groups) for part in step.parts}
    ops = [op for op in desk.flow.ops if op.id in wanted]
    node = step.node
    with log.step("ChooseGroups"):
        for op in ops:  # what has come since is one more generation: it owes too
            mine = owing(desk.ticker.manifest, op, node, wanted[op.id])
            desk.amend(
                edits.seal(desk.ticker.manifest, op, node, mine, desk.generation(node)),
                action=log.action.id,
            )
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
            desk.progress(log.action, (number + 1) / len(batches))
    with log.step("Commit"):
        for op in ops:
            yield from back(desk, op, node, wanted[op.id], log.action.id)
    with log.step("DropDisk"):
        yield TICK


def cleanup_step(operator: str, groups: Sequence[int], node: int) -> Cleanup:
    return Cleanup((Part(operator, tuple(groups)),), node, 0)


def all_owed(flow: Flow, manifest: Manifest, nodes: int) -> list[Cleanup]:
    """Clean-ups of the lowest operator that owes anything, one for each node; empty when nothing is owed."""
    for op in flow.ops:
        generations = manifest.generations(op.id, op.groups)
        steps = []
        for node in range(nodes):
            memory = np.zeros(op.groups, dtype=np.int64)
            for side in range(len(op.sides)):
                for run in manifest.runs.get(Place(op.id, node, side), ()):
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
    for side in range(len(op.sides)):
        for run in manifest.disk.get(Place(op.id, node, side), ()):
            sizes += run.bytes_of(op.groups)
    chosen = np.flatnonzero(ranges.mask(wanted, op.groups) & (sizes > 0))
    portion = np.cumsum(sizes[chosen]) // JOB_BYTES
    return [ranges.of(chosen[portion == n].tolist()) for n in np.unique(portion)]


def merge(desk: Desk, op: Op, node: int, some: Ranges, action: str) -> Generator[Job, Any, int]:
    """One portion: a side job, then one commit with its results. The bytes that were read."""
    manifest = desk.ticker.manifest
    found: dict[str, list[list[Run]]] = {}
    for side in range(len(op.sides)):
        for run in manifest.disk.get(Place(op.id, node, side), ()):
            mine = run.only(some, op.groups)
            if mine is not None:
                found.setdefault(run.generation, [[] for _ in op.sides])[side].append(mine)
    if not found:
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
    manifest = desk.ticker.manifest
    generations = manifest.generations(op.id, op.groups)
    sizes = np.zeros(op.groups, dtype=np.int64)
    for side in range(len(op.sides)):
        for run in manifest.disk.get(Place(op.id, node, side), ()):
            sizes += run.bytes_of(op.groups)
    able = np.flatnonzero(ranges.mask(wanted, op.groups) & (generations == 1) & (sizes > 0))
    room = desk.room(node)
    some = ranges.of(able[np.cumsum(sizes[able]) <= room].tolist())
    if not some or desk.ending:
        return
    orders = [
        Copy(op.number, side, run, some)
        for side in range(len(op.sides))
        for run in manifest.disk.get(Place(op.id, node, side), ())
        if run.only(some, op.groups) is not None
    ]
    work = {node: tuple(orders)}
    with desk.flying([(op.id, g) for low, high in some for g in range(low, high)]):
        found: Found = yield Job(work, names(work))
        runs: list[list[Run]] = [[] for _ in op.sides]
        for order, raw in zip(orders, found[node], strict=True):
            if raw is not None:
                runs[order.side].append(Run.unpack(raw))
        desk.settle[op.id, node] = Settle(some, tuple(tuple(r) for r in runs), action)
        try:
            yield TICK
        finally:
            desk.settle.pop((op.id, node), None)


def move(desk: Desk, log: Log, step: Move) -> Course:
    """Node → node. Copy first while the groups are active; hold them for the last bit; switch; drop."""
    hold_first = log.action.course == "move_hold"
    with log.step("ComputePartitionsToMove"):
        moving = _moving(desk, step)
        log.note(step.bytes)
    with log.step("PartitionsToMove"):
        pairs = [(op.id, g) for op, some in moving for low, high in some for g in range(low, high)]
    with desk.flying(pairs):
        transfer = _Transfer(desk, step, moving)
        try:
            yield from (_hold_course if hold_first else _copy_course)(desk, log, transfer)
            with log.step("ReactivatePartitions"):
                transfer.switch(log.action.id)
        finally:
            transfer.over()
    yield from lighten(desk, [step.source])


def _moving(desk: Desk, step: Move) -> list[tuple[Op, Ranges]]:
    """Operators that share a task have each group on one node, so it moves in all of them."""
    wanted: dict[int, set[int]] = {}
    for part in step.parts:
        for number in together(desk.flow, [part.operator]):
            wanted.setdefault(number, set()).update(part.groups)
    return [(desk.flow.ops[n], ranges.of(groups)) for n, groups in sorted(wanted.items())]


def _copy_course(desk: Desk, log: Log, transfer: _Transfer) -> Course:
    with log.step("SendPartitions"):
        jobs = transfer.jobs()
    with log.step("ReceivePartitions"):
        for _ in range(CATCH_UPS):
            if jobs is None:
                break
            log.note(transfer.take((yield jobs)))
            jobs = transfer.jobs()
    with log.step("Received"):
        pass
    with log.step("DeactivatePartitions"):
        if jobs is not None:
            transfer.hold()
            jobs = transfer.jobs()
    with log.step("Deactivated"):
        if jobs is not None:
            log.note(transfer.take((yield jobs)))


def _hold_course(desk: Desk, log: Log, transfer: _Transfer) -> Course:
    with log.step("DeactivatePartitions"):
        transfer.hold()
    with log.step("Deactivated"):
        yield TICK
    with log.step("SendPartitions"):
        jobs = transfer.jobs()
    with log.step("ReceivePartitions"):
        if jobs is not None:
            log.note(transfer.take((yield jobs)))
    with log.step("Received"):
        pass


class _Transfer:
    """The state of one move: what the receiver has got so far."""

    def __init__(self, desk: Desk, step: Move, moving: list[tuple[Op, Ranges]]) -> None:
        self.desk, self.step, self.moving = desk, step, moving
        self.copies: dict[tuple[int, int], dict[str, Run]] = {}
        self._asked: list[tuple[Copy, str]] = []

    def jobs(self) -> Job | None:
        """Copies of what the receiver has not got yet; those runs stay as they are from now on."""
        orders: list[Copy] = []
        for op, some in self.moving:
            for side in range(len(op.sides)):
                place = Place(op.id, self.step.source, side)
                have = self.copies.setdefault((op.number, side), {})
                orders += [
                    Copy(op.number, side, run, some)
                    for run in self.desk.ticker.manifest.runs.get(place, ())
                    if run.id not in have and run.only(some, op.groups) is not None
                ]
                self.desk.frozen[place] = frozenset(have) | {
                    o.run.id for o in orders if (o.op, o.side) == (op.number, side)
                }
        self._asked = [(order, order.run.id) for order in orders]
        work = {self.step.target: tuple(orders)}
        return Job(work, names(work)) if orders else None

    def take(self, found: Found) -> int:
        """Note what the receiver made; how many bytes."""
        size = 0
        for (order, id_), raw in zip(self._asked, found[self.step.target], strict=True):
            if raw is not None:
                run = Run.unpack(raw)
                self.copies[order.op, order.side][id_] = run
                size += run.bytes
        return size

    def hold(self) -> None:
        for op, some in self.moving:
            self.desk.hold[op.id] = frozenset(g for low, high in some for g in range(low, high))

    def switch(self, action: str) -> None:
        """The commit: one version in which the groups have their new node, for all their operators."""
        manifest, placements = self.desk.ticker.manifest, self.desk.ticker.placements
        whole = Edit()
        for op, some in self.moving:
            copies = {side: self.copies.get((op.number, side), {}) for side in range(len(op.sides))}
            step = self.step
            one = edits.switch(
                manifest, op, some, step.source, step.target, copies, placements[op.id]
            )
            whole = Edit({**whole.changes, **one.changes}, {}, {**whole.placement, **one.placement})
        self.desk.amend(whole, action=action)

    def over(self) -> None:
        """Nothing is asked of the ticks any longer; what was held is let in."""
        for op, _ in self.moving:
            held = self.desk.hold.pop(op.id, frozenset())
            self.desk.let_in[op.id] = self.desk.let_in.get(op.id, frozenset()) | held
            for side in range(len(op.sides)):
                self.desk.frozen.pop(Place(op.id, self.step.source, side), None)
