"""What a proposal was made on, and whether that still holds: fingerprints and drift. Undoing; draining.

A fingerprint names the plan, the nodes, the budgets, and owner, tier and generations of each group that is
touched - not the tick, or every proposal would be stale at once. Bytes may drift by a quarter or 16 MB.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from control.actions import Action, State
from control.arbiter import Refusal, Why
from control.plans import (
    AUTO,
    Cleanup,
    Migrate,
    Plan,
    Reason,
    SetBudget,
    Spill,
    Step,
    Topic,
    cleanup_of,
    migrate_to,
    move_of,
    pairs_of,
)
from control.snapshot import ClusterSnapshot, Longs

DRIFT_SHARE = 0.25
DRIFTS_TOLD = 8
DRIFT_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Touched:
    """One group as it was."""

    operator: str
    group: int
    owner: int
    on_disk: bool
    generations: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What must still hold when a proposal is applied."""

    plan: str
    alive: tuple[bool, ...]
    budgets: tuple[int, ...]
    touched: tuple[Touched, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that is no longer as it was."""

    what: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.what} was {self.was}, is {self.now}"


def plan_id(snapshot: ClusterSnapshot) -> str:
    """Of the query's operators: another plan has another id."""
    text = repr((snapshot.query, snapshot.operators))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fingerprint(snapshot: ClusterSnapshot, steps: Sequence[Step]) -> Fingerprint:
    touched = tuple(
        _touched(snapshot, row, operator, group)
        for step in steps
        for operator, group in pairs_of(step)
        if (row := snapshot.row(operator, group)) is not None
    )
    return Fingerprint(
        plan_id(snapshot),
        tuple(snapshot.nodes.alive.tolist()),
        tuple(snapshot.nodes.budget_bytes.tolist()),
        touched,
        _bytes(snapshot, touched),
    )


def drift(was: Fingerprint, snapshot: ClusterSnapshot) -> list[Drift]:
    """Why a proposal is stale; empty while it is not."""
    if plan_id(snapshot) != was.plan:
        return [Drift("the query's plan", was.plan, plan_id(snapshot))]
    found = _of_nodes(was, snapshot)
    for one in was.touched:
        row = snapshot.row(one.operator, one.group)
        assert row is not None  # the plan is the same
        now = _touched(snapshot, row, one.operator, one.group)
        found += _of_group(one, now)
    size = _bytes(snapshot, was.touched)
    if abs(size - was.bytes) > max(DRIFT_SHARE * was.bytes, DRIFT_BYTES):
        found.append(Drift("bytes of the groups", f"{was.bytes:,}", f"{size:,}"))
    return found


def told(changed: Sequence[Drift]) -> str:
    """For whoever asks why."""
    return "; ".join(map(str, changed[:DRIFTS_TOLD]))


def _of_nodes(was: Fingerprint, snapshot: ClusterSnapshot) -> list[Drift]:
    alive, budgets = snapshot.nodes.alive.tolist(), snapshot.nodes.budget_bytes.tolist()
    if len(alive) != len(was.alive):
        return [Drift("the number of nodes", str(len(was.alive)), str(len(alive)))]
    named = {True: "alive", False: "not alive"}
    found = [
        Drift(f"node {n}", named[before], named[now])
        for n, (before, now) in enumerate(zip(was.alive, alive, strict=True))
        if before != now
    ]
    return found + [
        Drift(f"node {n}'s budget", f"{before:,}", f"{now:,}")
        for n, (before, now) in enumerate(zip(was.budgets, budgets, strict=True))
        if before != now
    ]


def _of_group(was: Touched, now: Touched) -> list[Drift]:
    where = f"group {was.group} of {was.operator}"
    tier = {True: "on disk", False: "in memory"}
    found = []
    if was.owner != now.owner:
        found.append(Drift(f"{where}: node", str(was.owner), str(now.owner)))
    if was.on_disk != now.on_disk:
        found.append(Drift(f"{where}: state", tier[was.on_disk], tier[now.on_disk]))
    elif was.generations != now.generations:
        found.append(Drift(f"{where}: generations", str(was.generations), str(now.generations)))
    return found


def _touched(snapshot: ClusterSnapshot, row: int, operator: str, group: int) -> Touched:
    groups = snapshot.groups
    return Touched(
        operator,
        group,
        int(groups.owner[row]),
        bool(groups.spilled[row]),
        int(groups.generations[row]),
    )


def _bytes(snapshot: ClusterSnapshot, touched: Sequence[Touched]) -> int:
    rows = [row for t in touched if (row := snapshot.row(t.operator, t.group)) is not None]
    groups = snapshot.groups
    return int(groups.memory_bytes[rows].sum() + groups.disk_bytes[rows].sum())


def to_json(was: Fingerprint) -> dict[str, Any]:
    return {
        "plan": was.plan,
        "alive": list(was.alive),
        "budgets": list(was.budgets),
        "touched": [[t.operator, t.group, t.owner, t.on_disk, t.generations] for t in was.touched],
        "bytes": was.bytes,
    }


def from_json(raw: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(
        raw["plan"],
        tuple(raw["alive"]),
        tuple(raw["budgets"]),
        tuple(Touched(*one) for one in raw["touched"]),
        raw["bytes"],
    )


def short(was: Fingerprint) -> str:
    """For people and logs."""
    return hashlib.sha256(json.dumps(to_json(was)).encode()).hexdigest()[:12]


# -- undoing, draining ---------------------------------------------------------------------------------


def undone(action: Action, snapshot: ClusterSnapshot, order_before: str = "") -> Plan | Refusal:
    """The plan that takes an action back: move → back, spill → clean up, migrate → the order from before by whatever
    way is best now, budget and clean-up: none."""
    step = action.step
    if action.state is not State.DONE:
        return Refusal(Why.NOTHING_TO_UNDO, f"action {action.id} is {action.state}, not done")
    if isinstance(step, Migrate):
        if not order_before:
            return Refusal(Why.NOTHING_TO_UNDO, "the order from before is not known")
        said = Reason.of(Topic.CHOSEN, f"takes back action {action.id}: {order_before}")
        return Plan((migrate_to(order_before, AUTO, snapshot),), (said,))
    if isinstance(step, Cleanup | SetBudget):
        kind = "clean-up" if isinstance(step, Cleanup) else "budget"
        return Refusal(Why.NOTHING_TO_UNDO, f"a {kind} cannot be taken back")
    rows = np.array(
        [row for o, g in pairs_of(step) if (row := snapshot.row(o, g)) is not None], dtype=np.int64
    )
    if isinstance(step, Spill):
        there = rows[snapshot.groups.spilled[rows] & (snapshot.groups.owner[rows] == step.node)]
        back: Step = cleanup_of(snapshot, there, step.node)
    else:
        there = rows[snapshot.groups.owner[rows] == step.target]
        back = move_of(snapshot, there, step.target, step.source)
    if not len(there):
        return Refusal(Why.NOTHING_TO_UNDO, f"no group is where action {action.id} brought it")
    why = Reason.of(Topic.CHOSEN, f"takes back action {action.id}", groups=len(there))
    return Plan((back,), (why,))


def drained(snapshot: ClusterSnapshot, node: int, not_to: Sequence[int] = ()) -> Plan | Refusal:
    """Everything off a node: largest groups first, each to the node with most room left."""
    groups, nodes = snapshot.groups, snapshot.nodes
    if not 0 <= node < len(nodes):
        return Refusal(Why.UNKNOWN_NODE, f"no node {node}", node, len(nodes) - 1)
    mine = snapshot.on(node)
    spilled = mine[groups.spilled[mine]]
    if len(spilled):
        text = f"{len(spilled)} groups of node {node} have state on disk: clean them up first"
        return Refusal(Why.SPILLED_GROUP_MOVED, text, len(spilled), 0)
    targets = [n for n in range(len(nodes)) if n != node and nodes.alive[n] and n not in not_to]
    if not targets or not len(mine):
        why = "there is no other node" if not targets else f"node {node} has no groups"
        return Refusal(Why.NO_GROUPS, why)
    going = spread(snapshot, mine, targets)
    steps = tuple(move_of(snapshot, rows, node, target) for target, rows in going)
    size = sum(step.bytes for step in steps)
    said = Reason.of(Topic.CHOSEN, f"everything off node {node}", groups=len(mine), bytes=size)
    return Plan(steps, (said,))


def spread(
    snapshot: ClusterSnapshot, rows: Longs, targets: Sequence[int]
) -> list[tuple[int, Longs]]:
    """Groups over nodes: largest first, each to the node with most room left."""
    free = snapshot.nodes.free_bytes[list(targets)].astype(np.float64)
    sizes = snapshot.groups.memory_bytes
    chosen: dict[int, list[int]] = {target: [] for target in targets}
    for row in rows[np.lexsort((rows, -sizes[rows]))].tolist():
        at = int(free.argmax())
        free[at] -= max(int(sizes[row]), 1)
        chosen[targets[at]].append(row)
    return [(t, np.array(sorted(some), dtype=np.int64)) for t, some in chosen.items() if some]
