"""What if: a selection and what is to be done with it made into steps, the state afterwards, targets compared.

Pure. Whether it may be done is the dispatcher's to say; here is what would come of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from control.arbiter import Refusal, Running, judge
from control.errors import PlanError
from control.limits import ON_REQUEST
from control.plans import (
    Cleanup,
    Move,
    Plan,
    Reason,
    SetBudget,
    Spill,
    Step,
    Topic,
    cleanup_of,
    move_of,
    nodes_of,
    pairs_of,
    spill_of,
    step_from_json,
)
from control.policies import victims
from control.proposals import spread
from control.snapshot import NO_LIMIT, ClusterSnapshot, Doubles, Longs

DOES = ("move", "spill", "cleanup")
SPREAD = -1  # as a target: over all nodes
DRAFT_MAX = 40
OTHERS_MAX = 4


@dataclass(frozen=True, slots=True)
class Made:
    """Steps for a selection; `left_out`: groups that cannot be taken, by reason."""

    steps: tuple[Step, ...]
    left_out: tuple[tuple[str, int], ...] = ()


def selected_rows(snapshot: ClusterSnapshot, raw: Any) -> tuple[str, Longs]:
    """A selection as a browser sends it; what does not exist is left out."""
    told = raw if isinstance(raw, dict) else {}
    name = told.get("operator")
    numbers = told.get("groups")
    index = snapshot.operator_index.get(name) if isinstance(name, str) else None
    if index is None or not isinstance(numbers, list):
        return "", np.zeros(0, dtype=np.int64)
    wanted = np.array([n for n in numbers if type(n) is int and 0 <= n < 1 << 40], dtype=np.int64)
    groups = snapshot.groups
    rows = np.flatnonzero((groups.operator == index) & np.isin(groups.group, wanted))
    return str(name), rows


def possible(snapshot: ClusterSnapshot, rows: Longs, do: str) -> Longs:
    """Of these, what the step could take now."""
    if do == "move":
        return victims.movable(snapshot, rows)
    if do == "spill":
        return victims.spillable(snapshot, rows)
    groups = snapshot.groups
    return rows[groups.spilled[rows] & ~groups.in_flight[rows]]


def steps_of(snapshot: ClusterSnapshot, rows: Longs, do: str, to: int | None) -> Made:
    """One step for each node that the groups are on, and for a move each node that they go to."""
    able = possible(snapshot, rows, do)
    why = {
        "move": "on disk or in flight",
        "spill": "nothing in memory",
        "cleanup": "nothing on disk",
    }
    out = [(why[do], len(rows) - len(able))] if len(able) < len(rows) else []
    if do != "move":
        make = spill_of if do == "spill" else cleanup_of
        return Made(
            tuple(make(snapshot, some, n) for n, some in _by_owner(snapshot, able)), tuple(out)
        )
    if to is None:
        return Made((), tuple(out))
    stays = snapshot.groups.owner[able] == to
    if stays.any():
        out.append(("there already", int(stays.sum())))
    able = able[~stays]
    goes = [(to, able)] if to != SPREAD else _over(snapshot, able)
    steps = tuple(
        move_of(snapshot, some, source, target)
        for target, mine in goes
        for source, some in _by_owner(snapshot, mine)
        if source != target
    )
    return Made(steps, tuple(out))


def _over(snapshot: ClusterSnapshot, rows: Longs) -> list[tuple[int, Longs]]:
    sources = set(snapshot.groups.owner[rows].tolist())
    nodes = [n for n in np.flatnonzero(snapshot.nodes.alive).tolist() if n not in sources]
    return spread(snapshot, rows, nodes) if nodes and len(rows) else []


def _by_owner(snapshot: ClusterSnapshot, rows: Longs) -> list[tuple[int, Longs]]:
    owner = snapshot.groups.owner[rows]
    return [(int(node), rows[owner == node]) for node in np.unique(owner)]


# -- drafts --------------------------------------------------------------------------------------------


def draft_of(snapshot: ClusterSnapshot, raw: Any) -> tuple[Step, ...]:
    """A draft as a browser sends it; a step that is not one, or names what is not there, is left out."""
    found = []
    for one in raw if isinstance(raw, list) else []:
        try:
            step = step_from_json(one)
            if exists(snapshot, step):
                found.append(step)
        except (PlanError, KeyError, TypeError, ValueError, AttributeError):
            continue
    return tuple(found[:DRAFT_MAX])


def exists(snapshot: ClusterSnapshot, step: Step) -> bool:
    nodes = all(type(n) is int and 0 <= n < len(snapshot.nodes) for n in nodes_of(step))
    pairs = pairs_of(step)
    known = all(type(g) is int and snapshot.row(o, g) is not None for o, g in pairs)
    return (
        nodes and known and type(step.bytes) is int and bool(pairs or isinstance(step, SetBudget))
    )


def plan_of(steps: Sequence[Step]) -> Plan:
    return Plan(tuple(steps), (Reason.of(Topic.CHOSEN, "what if"),))


def against(
    snapshot: ClusterSnapshot, steps: Sequence[Step], running: Sequence[Running]
) -> list[Refusal]:
    """What the arbiter would say now, each step by itself, as the dispatcher asks it."""
    found: dict[str, Refusal] = {}
    for step in steps:
        for refusal in judge(plan_of([step]), snapshot, running, ON_REQUEST).refusals:
            found.setdefault(str(refusal), refusal)
    return list(found.values())


# -- the state afterwards ------------------------------------------------------------------------------


def after(snapshot: ClusterSnapshot, steps: Iterable[Step]) -> ClusterSnapshot:
    """As if the steps were done: owners, tiers and nodes' sums. Rates go with their groups; what is spilled
    makes no results until it is joined again, which a clean-up does."""
    groups, nodes = snapshot.groups, snapshot.nodes
    owner, memory, disk = groups.owner.copy(), groups.memory_bytes.copy(), groups.disk_bytes.copy()
    generations, out = groups.generations.copy(), groups.rows_out_per_s.copy()
    owed, late = groups.owed_rows.copy(), groups.owed_rows_per_s.copy()
    budget = nodes.budget_bytes.copy()
    for step in steps:
        if isinstance(step, SetBudget):
            budget[step.node] = step.bytes
            continue
        rows = np.array([snapshot.row(*pair) for pair in pairs_of(step)], dtype=np.int64)
        if isinstance(step, Move):
            owner[rows] = step.target
        elif isinstance(step, Spill):
            disk[rows] += memory[rows]
            memory[rows] = 0
            generations[rows] += 1
            out[rows] = 0.0
        elif isinstance(step, Cleanup):
            memory[rows] += disk[rows]
            disk[rows] = 0
            generations[rows] = 0
            out[rows] += late[rows]
            owed[rows] = late[rows] = 0.0
    count = len(nodes)
    moved = replace(
        groups, owner=owner, memory_bytes=memory, disk_bytes=disk, generations=generations,
        rows_out_per_s=out, owed_rows=owed, owed_rows_per_s=late,
    )  # fmt: skip
    shift = np.bincount(owner, memory, count) - np.bincount(
        groups.owner, groups.memory_bytes, count
    )
    lower = np.bincount(owner, disk, count) - np.bincount(groups.owner, groups.disk_bytes, count)
    told = replace(
        nodes,
        budget_bytes=budget,
        memory_bytes=nodes.memory_bytes + shift.astype(np.int64),
        disk_bytes=nodes.disk_bytes + lower.astype(np.int64),
        busy=_busy(snapshot, owner),
    )
    return replace(snapshot, nodes=told, groups=moved)


def _busy(snapshot: ClusterSnapshot, owner: Longs) -> Doubles:
    """A node's work goes with the rows of its groups, in and out: an estimate."""
    groups, busy = snapshot.groups, snapshot.nodes.busy
    rows = groups.rows_in_per_s + groups.rows_out_per_s
    total = np.bincount(groups.owner, rows, len(busy))
    each = np.divide(busy, total, out=np.zeros_like(busy), where=total > 0)
    work = rows * each[groups.owner]
    moved = np.bincount(owner, work, len(busy)) - np.bincount(groups.owner, work, len(busy))
    return np.asarray(np.clip(busy + moved, 0.0, 1.0), dtype=np.float64)


def evenness(memory: Longs, alive: Any) -> float | None:
    """Least over most memory of the nodes that are alive: the figure that rebalancing goes by."""
    some = memory[alive]
    return float(some.min() / some.max()) if len(some) and some.max() > 0 else None


# -- targets -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """Where a move could go, and what would come of it. `node` SPREAD: over all of them."""

    node: int
    ends_at: int
    share: float | None  # of its budget
    even: float | None
    fits: bool


def targets(snapshot: ClusterSnapshot, rows: Longs) -> list[Target]:
    """Every node that the groups could go to, best first: it has room, and leaves memory most even."""
    able = victims.movable(snapshot, rows)
    if not len(able):
        return []
    nodes, groups = snapshot.nodes, snapshot.groups
    sizes, owner = groups.memory_bytes[able], groups.owner[able]
    leaving = np.bincount(owner, sizes, len(nodes)).astype(np.int64)
    sources = set(owner.tolist())
    found = []
    for node in np.flatnonzero(nodes.alive).tolist():
        if sources == {node}:
            continue
        arriving = int(sizes.sum()) - int(leaving[node])
        memory = nodes.memory_bytes - leaving
        memory[node] += int(sizes.sum())
        found.append(_target(snapshot, node, memory, arriving))
    found.sort(key=lambda t: (not t.fits, -(t.even or 0.0), t.share or 0.0, t.node))
    return found


def _target(snapshot: ClusterSnapshot, node: int, memory: Longs, arriving: int) -> Target:
    nodes = snapshot.nodes
    budget, ends = int(nodes.budget_bytes[node]), int(memory[node])
    room = int(ON_REQUEST.receiver_fill_max * budget) - int(nodes.memory_bytes[node])
    share = ends / budget if 0 < budget < NO_LIMIT else None
    return Target(node, ends, share, evenness(memory, nodes.alive), arriving <= room)


def spread_target(snapshot: ClusterSnapshot, rows: Longs) -> Target | None:
    """The same groups over several nodes; None where that is one node."""
    steps = steps_of(snapshot, rows, "move", SPREAD).steps
    there = {step.target for step in steps if isinstance(step, Move)}
    if len(there) < 2:
        return None
    then = after(snapshot, steps)
    memory = then.nodes.memory_bytes
    top = max(there, key=lambda n: int(memory[n]))
    limit = ON_REQUEST.receiver_fill_max * then.nodes.budget_bytes
    fits = all(memory[n] <= limit[n] for n in there)
    budget = int(then.nodes.budget_bytes[top])
    share = int(memory[top]) / budget if 0 < budget < NO_LIMIT else None
    return Target(SPREAD, int(memory[top]), share, evenness(memory, then.nodes.alive), fits)
