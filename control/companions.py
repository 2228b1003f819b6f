"""What a move takes along: operators that share a task have each group on one node, so it moves in all of them.

The engine sees to that itself (engine/adapt/picture.py). Here it is said before, so that a proposal's preview, its
fingerprint and the arbiter's verdict are about everything that will move. Which operators share a task is in the
plan that the engine told of (`QueryRow.about`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from control.plans import Move, Part, Plan, Reason, Topic, move_of
from control.snapshot import ClusterSnapshot

TAKES = "takes along "  # what the reason begins with


def sharing(about: Mapping[str, Any]) -> list[frozenset[str]]:
    """Names of operators by task; those with a task of their own are left out."""
    plan = about.get("plan")
    root = plan.get("root") if isinstance(plan, Mapping) else None
    found: list[frozenset[str]] = []
    for one, other in _fused(root) if isinstance(root, Mapping) else ():
        touched = [names for names in found if names & {one, other}]
        found = [names for names in found if names not in touched]
        found.append(frozenset({one, other}).union(*touched))
    return found


def _fused(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each operator with a child whose rows are on the right node already."""
    for child in node.get("children", ()):
        if child.get("fused"):
            yield str(node["id"]), str(child["id"])
        yield from _fused(child)


def taken_along(plan: Plan, snapshot: ClusterSnapshot, tasks: list[frozenset[str]]) -> Plan:
    """The plan with every group that its moves will move, and a reason that says which were not asked for."""
    steps, reasons = list(plan.steps), list(plan.reasons)
    for at, step in enumerate(steps):
        if not isinstance(step, Move) or not tasks:
            continue
        whole = _whole(step, snapshot, tasks)
        asked = {part.operator: set(part.groups) for part in step.parts}
        more = [
            Part(
                part.operator,
                tuple(g for g in part.groups if g not in asked.get(part.operator, ())),
            )
            for part in whole.parts
        ]
        if any(part.groups for part in more):
            steps[at] = whole
            reasons.append(_said(more, whole.bytes - step.bytes))
    return replace(plan, steps=tuple(steps), reasons=tuple(reasons))


def _whole(step: Move, snapshot: ClusterSnapshot, tasks: list[frozenset[str]]) -> Move:
    groups, names = snapshot.groups, [one.name for one in snapshot.operators]
    chosen = np.zeros(len(groups.group), dtype=np.bool_)
    for part in step.parts:
        mates = next((names_ for names_ in tasks if part.operator in names_), {part.operator})
        numbers = [n for n, name in enumerate(names) if name in mates]
        chosen |= np.isin(groups.operator, numbers) & np.isin(groups.group, part.groups)
    return move_of(snapshot, np.flatnonzero(chosen), step.source, step.target)


def _said(more: list[Part], size: int) -> Reason:
    what = " and ".join(
        f"{len(part.groups)} group{'' if len(part.groups) == 1 else 's'} of {part.operator}"
        for part in more
        if part.groups
    )
    return Reason.of(Topic.CHOSEN, f"{TAKES}{what}: they share a task", size_bytes=float(size))
