"""What courses have in common: what they wait for, their log of steps, giving memory back.

A course yields what it waits for: a side job, or the end of a tick. It runs only between ticks, so what it
commits is never in a tick's way. Until its commit it may be thrown out: then its `finally` takes back what it
asked of the ticks, and state is as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from control.actions import Action
from control.plans import Migrate
from engine.adapt import edits
from engine.adapt.derive import Derive, Resort, runs_of
from engine.adapt.side import Found, Job
from engine.adapt.tasks import Lighten, Merge, Order
from engine.adapt.toll import Toll
from engine.state.model import Place, Run

if TYPE_CHECKING:
    from engine.adapt.desk import Desk


# From memory to memory and never synced: so much more may go along with a tick (20 ms or so).
LIGHT_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Tick:
    """The end of a tick that began after now; `any`: also of one without input, where none comes."""

    any: bool = True


TICK, LATER = Tick(), Tick(any=False)
Course = Generator[Job | Tick, Any, None]


class Log:
    """An action that is being carried out, with its steps."""

    def __init__(self, desk: Desk, action: Action) -> None:
        self.desk, self.action = desk, action
        self.cpu_s = self.wall_s = 0.0  # of the tasks that worked for it
        self.held_s: float | None = None  # since when its groups' input waits
        self.about: dict[str, Any] = {}  # what its receipt says besides
        self.figures: dict[str, float] = {}
        self.toll, self.costs = Toll(), dict[int, list[tuple[float, float]]]()  # of its last job
        self.kept = ""  # what stays if it ends before its last commit
        self.lasting = False  # when the query stops it does not end: the next start goes on with it
        self.onward = ""  # why it cannot be cancelled, though its last commit is still to come
        # Nothing may be spilled for its sake: what it does when a node is over its budget.
        self.pressed: Literal["", "gives way", "hurries"] = ""

    @contextmanager
    def step(self, name: str) -> Iterator[Log]:
        """One named step; `note` says its bytes. An earlier life may have begun it, or ended it."""
        self._bytes = 0
        if self._is_over(name):
            yield self
            return
        if self.action.current != name:
            self.action = self.action.begin(self.desk.wall_s(), name)
        self.desk.keep(self.action)
        yield self
        self.action = self.action.end(self.desk.wall_s(), self._bytes)
        self.desk.keep(self.action)

    def reach(self, name: str) -> None:
        """Steps before this one are over: an earlier life has done them."""
        while self.action.current != name and not self._is_over(name):
            if self.action.current is not None:
                self.action = self.action.end(self.desk.wall_s())
            self.action = self.action.begin(self.desk.wall_s())

    def _is_over(self, name: str) -> bool:
        return any(r.name == name and r.end_s is not None for r in self.action.records)

    def note(self, size: int) -> None:
        self._bytes += size

    def took(self, found: Found) -> Found:
        """What a job came to, after noting what it took."""
        self.costs = {node: [some[1:] for some in orders] for node, orders in found.items()}
        for orders in found.values():
            self.cpu_s += sum(cpu for _, cpu, _ in orders)
            self.wall_s += sum(wall for _, _, wall in orders)
        return {node: [made for made, _, _ in orders] for node, orders in found.items()}

    def holds(self) -> None:
        """The input of its groups waits from now on."""
        self.held_s = self.desk.wall_s()


def resume(desk: Desk, step: Migrate, name: str) -> None:
    """Go on with an action of an earlier life, or of one that has ended half way; where there is none of that name, begin
    it again."""
    action = desk.records.actions.get(name)
    if action is None or action.over:
        desk.start(step, "restart", name if action is None else "")
        return
    log = Log(desk, action)
    desk.accounts.begin(log)
    desk.go_on(log, step)


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
    orders_of = {node: tuple(orders) for node, orders in work.items()}
    size = sum(order.run.bytes for orders in work.values() for order in orders)
    found: Found = yield Job(orders_of, names(work), size, limit=LIGHT_BYTES)
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
            if isinstance(order, Resort | Derive):
                runs += runs_of(order)
            elif isinstance(order, Merge):
                runs += [run for g in order.generations for side in g for run in side]
            else:
                runs.append(order.run)
    return frozenset(s.file for run in runs for s in (*run.memory, *run.durable))
