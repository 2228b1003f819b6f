"""Plans are data: steps to take and the reasons for them. Console, audit, engine and tests read the same.

A step names groups by operator and number and carries the bytes it was decided on. A plan without steps
says why nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from control.errors import PlanError
from control.snapshot import ClusterSnapshot, Longs


@dataclass(frozen=True, slots=True)
class Part:
    """Some groups of one operator."""

    operator: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Groups' state in memory, node → node."""

    parts: tuple[Part, ...]
    source: int
    target: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Spill:
    """Groups' state, memory → disk, same node."""

    parts: tuple[Part, ...]
    node: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Merge what was spilled of these groups and emit the results still owed."""

    parts: tuple[Part, ...]
    node: int
    bytes: int  # on disk


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Another memory budget for a node."""

    node: int
    bytes: int


STRATEGIES = ("moving", "parallel", "delta")
AUTO = "auto"  # the recommended one, once a plan is made


@dataclass(frozen=True, slots=True)
class Migrate:
    """Another join order. `bytes`: of the state that the query has. `at_once`: ticks wait for all of moving state, which
    pays where it is over within a tick's time."""

    order: str
    strategy: str
    bytes: int
    at_once: bool = False


Step = Move | Spill | Cleanup | SetBudget | Migrate
KINDS: Mapping[str, type[Any]] = {
    "move": Move,
    "spill": Spill,
    "cleanup": Cleanup,
    "budget": SetBudget,
    "migrate": Migrate,
}
FORMS = {
    "bytes": "whole number",
    "at_once": "yes or no",
}  # of a migration's fields; others are texts
_NAMES = {kind: name for name, kind in KINDS.items()}


class Topic(StrEnum):
    """What a reason is about."""

    INPUT = "input"  # a figure against its threshold
    CANDIDATES = "candidates"
    CHOSEN = "chosen"
    SKIPPED = "skipped"
    NOTHING = "nothing"  # why nothing, or nothing more, is done


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence of an explanation, and the figures in it; units are last in their names."""

    topic: Topic
    text: str
    numbers: tuple[tuple[str, float], ...] = ()

    @staticmethod
    def of(topic: Topic, text: str, **numbers: float) -> Reason:
        return Reason(topic, text, tuple((name, float(n)) for name, n in numbers.items()))

    @property
    def figures(self) -> dict[str, float]:
        return dict(self.numbers)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps and reasons. `local`: a node's own spill on overflow, not the coordinator's decision."""

    steps: tuple[Step, ...]
    reasons: tuple[Reason, ...]
    local: bool = False

    def __post_init__(self) -> None:
        topics = {reason.topic for reason in self.reasons}
        if self.steps and Topic.CHOSEN not in topics:
            raise PlanError("a plan with steps says what was chosen", where="Plan")
        if not self.steps and Topic.NOTHING not in topics:
            raise PlanError("a plan without steps says why nothing is done", where="Plan")

    @staticmethod
    def nothing(why: str, *before: Reason, **numbers: float) -> Plan:
        return Plan((), (*before, Reason.of(Topic.NOTHING, why, **numbers)))

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)


def name_of(step: Step) -> str:
    """`move`, `spill`, `cleanup`, `budget` or `migrate`."""
    return _NAMES[type(step)]


def parts_of(step: Step) -> tuple[Part, ...]:
    return () if isinstance(step, SetBudget | Migrate) else step.parts


def nodes_of(step: Step) -> tuple[int, ...]:
    """The nodes that a step works on; none where it is all of them."""
    if isinstance(step, Migrate):
        return ()
    return (step.source, step.target) if isinstance(step, Move) else (step.node,)


def pairs_of(step: Step) -> list[tuple[str, int]]:
    """(operator, group) of everything a step touches."""
    return [(part.operator, group) for part in parts_of(step) for group in part.groups]


def parts_at(snapshot: ClusterSnapshot, rows: Longs) -> tuple[Part, ...]:
    """The groups at some rows of a snapshot, by operator."""
    operators, numbers = snapshot.groups.operator[rows], snapshot.groups.group[rows]
    pairs = sorted(zip(operators.tolist(), numbers.tolist(), strict=True))
    return tuple(
        Part(snapshot.operators[index].name, tuple(group for _, group in some))
        for index, some in groupby(pairs, key=lambda pair: pair[0])
    )


def move_of(snapshot: ClusterSnapshot, rows: Longs, source: int, target: int) -> Move:
    size = int(snapshot.groups.memory_bytes[rows].sum())
    return Move(parts_at(snapshot, rows), source, target, size)


def spill_of(snapshot: ClusterSnapshot, rows: Longs, node: int) -> Spill:
    return Spill(parts_at(snapshot, rows), node, int(snapshot.groups.memory_bytes[rows].sum()))


def migrate_to(
    order: str, strategy: str, snapshot: ClusterSnapshot, *, at_once: bool = False
) -> Migrate:
    groups = snapshot.groups
    size = int(groups.memory_bytes.sum() + groups.disk_bytes.sum())
    return Migrate(order, strategy, size, at_once)


def cleanup_of(snapshot: ClusterSnapshot, rows: Longs, node: int) -> Cleanup:
    return Cleanup(parts_at(snapshot, rows), node, int(snapshot.groups.disk_bytes[rows].sum()))


def step_to_json(step: Step) -> dict[str, Any]:
    body = {name: getattr(step, name) for name in type(step).__slots__ if name != "parts"}
    parts = [[part.operator, list(part.groups)] for part in parts_of(step)]
    return {"do": name_of(step), **body, **({"parts": parts} if parts else {})}


def step_from_json(raw: Mapping[str, Any]) -> Step:
    body = dict(raw)
    kind = KINDS.get(body.pop("do", ""))
    if kind is None:
        raise PlanError(f"no such step: {raw.get('do')!r}", hint=f"one of {', '.join(KINDS)}")
    where = f"step {raw['do']}"
    try:
        if kind not in (SetBudget, Migrate):
            body["parts"] = tuple(_part(*part) for part in body.get("parts", ()))
        step: Step = kind(**body)
    except (TypeError, ValueError) as error:
        raise PlanError(str(error), where=where) from None
    for name, value in body.items():
        form = "whole number" if kind is not Migrate else FORMS.get(name, "text")
        if name != "parts" and not _is(form, value):
            raise PlanError(f"{name} must be a {form}, not {value!r}", where=where)
    return step


def _is(form: str, value: Any) -> bool:
    if form == "whole number":
        return _whole(value)
    return isinstance(value, bool if form == "yes or no" else str)


def _part(operator: Any, groups: Any) -> Part:
    if not isinstance(operator, str) or not all(_whole(group) for group in groups):
        raise TypeError("a part is an operator's name and a list of group numbers")
    return Part(operator, tuple(groups))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def plan_to_json(plan: Plan) -> dict[str, Any]:
    return {
        "steps": [step_to_json(step) for step in plan.steps],
        "reasons": [[r.topic.value, r.text, [list(n) for n in r.numbers]] for r in plan.reasons],
        "local": plan.local,
    }


def plan_from_json(raw: Mapping[str, Any]) -> Plan:
    return Plan(
        tuple(step_from_json(step) for step in raw["steps"]),
        tuple(_reason(item) for item in raw["reasons"]),
        bool(raw["local"]),
    )


def _reason(raw: Iterable[Any]) -> Reason:
    topic, text, numbers = raw
    return Reason(Topic(topic), text, tuple((name, float(value)) for name, value in numbers))
