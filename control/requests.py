"""What a person or a script asks for, made into a plan: groups or percent of a node, an amount of bytes.

A request that cannot be made into a plan is refused with a value; what it asks for is then the arbiter's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from control.arbiter import Refusal, Why, judge_percent
from control.cost.coefficients import Coefficients, LocalRule
from control.errors import PlanError
from control.plans import (
    KINDS,
    STRATEGIES,
    Cleanup,
    Move,
    Part,
    Plan,
    Reason,
    SetBudget,
    Spill,
    Step,
    Topic,
    cleanup_of,
    migrate_to,
    move_of,
    spill_of,
)
from control.policies import victims
from control.settle import settled
from control.snapshot import ClusterSnapshot, Longs


@dataclass(frozen=True, slots=True)
class Request:
    """`do` = move | spill | cleanup | budget, on `node` (a move's sender), with what else applies; or migrate to
    the join order `order` (none: the best there is), by `strategy` (`auto`: the one that is recommended)."""

    do: str
    node: int
    to: int | None = None
    operator: str | None = None
    groups: tuple[int, ...] | None = None
    percent: float | None = None
    bytes: int | None = None
    order: str | None = None
    strategy: str = STRATEGIES[0]


BASE = Coefficients()


def plan_for(
    request: Request,
    snapshot: ClusterSnapshot,
    by: str = victims.LEAST_DECAYED,
    seed: int = 0,
    *,
    numbers: Coefficients = BASE,
    rule: LocalRule | None = None,
) -> Plan | Refusal:
    """The plan that a request asks for. Percent and bytes take groups least productive first for a
    spill (`by`), most productive first for a move, largest first for a cleanup. `numbers` and the nodes' own `rule`
    are what join orders are compared by."""
    if refusal := _refused(request, snapshot):
        return refusal
    if request.do == "budget":
        return _said(SetBudget(request.node, request.bytes or 0), request)
    if request.do == "migrate":
        return _order(request, snapshot, numbers, rule)
    if request.groups is not None:
        return _named(request, snapshot)
    rows = _chosen(request, snapshot, by, seed)
    if not len(rows):
        why = Why.NOTHING_ON_DISK if request.do == "cleanup" else Why.NOTHING_IN_MEMORY
        return Refusal(why, f"node {request.node} has no group that can be taken: {request.do}")
    return _said(_step(request, snapshot, rows), request)


def _refused(request: Request, snapshot: ClusterSnapshot) -> Refusal | None:
    if request.do not in KINDS:
        raise PlanError(f"no such request: {request.do!r}", hint=f"one of {', '.join(KINDS)}")
    count = len(snapshot.nodes)
    for node in (request.node, request.to if request.to is not None else request.node):
        if not 0 <= node < count:
            return Refusal(Why.UNKNOWN_NODE, f"no node {node}", node, count - 1)
    if request.do == "move" and request.to is None:
        return Refusal(Why.UNKNOWN_NODE, "a move needs the node to move to")
    if request.operator is not None and request.operator not in snapshot.operator_index:
        return Refusal(Why.UNKNOWN_OPERATOR, f"no operator {request.operator!r}")
    return judge_percent(request.percent) if request.percent is not None else None


def _named(request: Request, snapshot: ClusterSnapshot) -> Plan | Refusal:
    """Groups by number; the operator may be left out when the query has only one."""
    if request.operator is None and len(snapshot.operators) > 1:
        return Refusal(Why.UNKNOWN_OPERATOR, "the query has several operators: name one")
    operator = request.operator or snapshot.operators[0].name
    part = (Part(operator, tuple(request.groups or ())),)
    found = [snapshot.row(operator, group) for group in part[0].groups]
    missing = [g for g, row in zip(part[0].groups, found, strict=True) if row is None]
    if missing:
        last = snapshot.operators[snapshot.operator_index[operator]].groups - 1
        return Refusal(Why.UNKNOWN_GROUP, f"no group {missing[0]} in {operator}", missing[0], last)
    rows = np.array([row for row in found if row is not None], dtype=np.int64)
    return _said(_step(request, snapshot, rows), request)


def _chosen(request: Request, snapshot: ClusterSnapshot, by: str, seed: int) -> Longs:
    groups = snapshot.groups
    rows = snapshot.on(request.node)
    if request.operator is not None:
        rows = rows[groups.operator[rows] == snapshot.operator_index[request.operator]]
    if request.do == "cleanup":
        rows, sizes = rows[groups.spilled[rows] & ~groups.in_flight[rows]], groups.disk_bytes
        ordered = rows[np.lexsort((rows, -sizes[rows]))]
    else:
        able = victims.movable if request.do == "move" else victims.spillable
        order = victims.MOST_DECAYED if request.do == "move" else by
        sizes = groups.memory_bytes
        ordered = victims.in_order(snapshot, able(snapshot, rows), order, seed=seed)
    if request.bytes is not None:
        return victims.within(ordered, sizes, request.bytes)
    return victims.covering(
        ordered, sizes, float(sizes[rows].sum()) * (request.percent or 100) / 100
    )


def _step(request: Request, snapshot: ClusterSnapshot, rows: Longs) -> Step:
    if request.do == "move":
        assert request.to is not None
        step: Move | Spill | Cleanup = move_of(snapshot, rows, request.node, request.to)
    elif request.do == "spill":
        step = spill_of(snapshot, rows, request.node)
    else:
        step = cleanup_of(snapshot, rows, request.node)
    return step


def _order(
    request: Request, snapshot: ClusterSnapshot, numbers: Coefficients, rule: LocalRule | None
) -> Plan | Refusal:
    asked = migrate_to(request.order or "", request.strategy, snapshot)
    found = settled(asked, snapshot, numbers, rule)
    if isinstance(found, Refusal):
        return found
    made = _said(found.step, request)
    return replace(made, reasons=(*made.reasons, found.reason)) if found.text else made


def _said(step: Step, request: Request) -> Plan:
    asked = {
        name: float(value)
        for name in ("percent", "bytes")
        if (value := getattr(request, name)) is not None
    }
    return Plan((step,), (Reason.of(Topic.CHOSEN, f"asked for: {request.do}", **asked),))
