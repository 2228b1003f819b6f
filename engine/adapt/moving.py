"""Moving groups from node to node: copy first while they are active, hold them for the last bit, switch, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.plans import Move
from engine.adapt import edits
from engine.adapt.edits import Edit
from engine.adapt.picture import together
from engine.adapt.progress import TICK, Course, Log, lighten, names
from engine.adapt.side import TICK_BYTES, Found, Job
from engine.adapt.tasks import Copy
from engine.flow import Op
from engine.state import ranges
from engine.state.model import Place, Run
from engine.state.ranges import Ranges

if TYPE_CHECKING:
    from engine.adapt.desk import Desk

CATCH_UPS = 3  # copies of what has come since, before groups are held for the last one


def move(desk: Desk, log: Log, step: Move) -> Course:
    """Node → node. Copy first while the groups are active; hold them for the last bit; switch; drop."""
    hold_first = log.action.course == "move_hold"
    with log.step("ComputePartitionsToMove"):
        moving = _moving(desk, step)
        log.note(step.bytes)
    with log.step("PartitionsToMove"):
        pairs = [(op.id, g) for op, some in moving for g in ranges.members(some)]
    with desk.flying(pairs):
        transfer = _Transfer(desk, step, moving)
        log.pressed = "gives way"  # a node's own spill is for when nothing moves
        try:
            yield from (_hold_course if hold_first else _copy_course)(desk, log, transfer)
            with log.step("ReactivatePartitions"):
                transfer.switch(log.action.id)
        finally:
            log.pressed = ""
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
            if transfer.missing <= TICK_BYTES:
                break
    with log.step("Received"):
        pass
    with log.step("DeactivatePartitions"):
        if jobs is not None:
            transfer.hold()
            log.holds()
            jobs = transfer.jobs()
    with log.step("Deactivated"):
        if jobs is not None:
            log.note(transfer.take((yield jobs)))


def _hold_course(desk: Desk, log: Log, transfer: _Transfer) -> Course:
    with log.step("DeactivatePartitions"):
        transfer.hold()
        log.holds()
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
        self._asked: list[Copy] = []
        self._size = 0
        self._holds = False

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
        self._asked = orders
        work = {self.step.target: tuple(orders)}
        return Job(work, names(work), self.missing) if orders else None

    @property
    def missing(self) -> int:
        """Bytes that were last found to be missing at the receiver."""
        groups = {op.number: op.groups for op, _ in self.moving}
        return sum(
            int(run.bytes_of(groups[order.op]).sum())
            for order in self._asked
            if (run := order.run.only(order.groups, groups[order.op])) is not None
        )

    def take(self, found: Found) -> int:
        """Note what the receiver made; how many bytes."""
        size = 0
        for order, raw in zip(self._asked, found[self.step.target], strict=True):
            if raw is not None:
                run = Run.unpack(raw)
                self.copies[order.op, order.side][order.run.id] = run
                size += run.bytes
        copied = self.desk.copied_bytes
        copied[self.step.target] = copied.get(self.step.target, 0) + size
        self._size += size
        return size

    def hold(self) -> None:
        self._holds = True
        for (
            op,
            some,
        ) in self.moving:  # other groups of the operator may be on their way between other nodes
            held = self.desk.hold.get(op.id, frozenset())
            self.desk.hold[op.id] = held | frozenset(ranges.members(some))

    def switch(self, action: str) -> None:
        """The commit: one version in which the groups have their new node, for all their operators."""
        manifest, placements = self.desk.ticker.manifest, self.desk.ticker.placements
        whole = Edit()
        for op, some in self.moving:
            copies = {side: self.copies.get((op.number, side), {}) for side in range(len(op.sides))}
            step = self.step
            whole = whole.beside(
                edits.switch(
                    manifest, op, some, step.source, step.target, copies, placements[op.id]
                )
            )
        self.desk.amend(whole, action=action)

    def over(self) -> None:
        """Nothing is asked of the ticks any longer; what was held is let in."""
        if self._size:
            self.desk.copied_bytes[self.step.target] -= self._size
        for op, some in self.moving:
            if self._holds:
                held = frozenset(ranges.members(some))
                if rest := self.desk.hold.pop(op.id, frozenset()) - held:
                    self.desk.hold[op.id] = rest
                self.desk.let_in[op.id] = self.desk.let_in.get(op.id, frozenset()) | held
            for side in range(len(op.sides)):
                self.desk.frozen.pop(Place(op.id, self.step.source, side), None)
