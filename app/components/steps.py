"""A plan's steps in a few words: Move 12 groups n0 → n2; as text for charts and lists, or with the verb strong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.components.kit import s
from app.components.units import counted, node_name, said_size

VERBS = {
    "move": "Move",
    "spill": "Spill",
    "cleanup": "Clean up",
    "budget": "Set budget",
    "migrate": "Change order",
}
STRATEGIES = {  # how a join order is changed
    "moving": "moving state",
    "parallel": "parallel track",
    "delta": "delta plan",
}


def groups_in(step: Mapping[str, Any]) -> int:
    return sum(len(part[1]) for part in step.get("parts", ()))


def said_step(step: Mapping[str, Any]) -> str:
    verb, rest = words(step)
    return f"{verb} {rest}"


def words(step: Mapping[str, Any]) -> tuple[str, str]:
    """The verb, and what comes after it."""
    do = str(step.get("do", ""))
    verb, groups = VERBS.get(do, do), counted(groups_in(step), "group")
    if do == "move":
        return verb, f"{groups} {node_name(step['source'])} → {node_name(step['target'])}"
    if do == "migrate":
        return verb, f"to {step['order']}"
    if do == "budget":
        return verb, f"of {node_name(step['node'])} to {said_size(step['bytes'])}"
    return verb, f"{groups} of {node_name(step.get('node'))}"


def said_plan(plan: Mapping[str, Any]) -> Any:
    """The first step, and how many more."""
    steps = plan.get("steps", ())
    if not steps:
        return "Nothing"
    verb, rest = words(steps[0])
    if steps[0].get("do") == "migrate":  # its bytes are all that the query has
        return [s(verb, c="b"), f" {rest}"]
    size = said_size(sum(step.get("bytes", 0) for step in steps))
    more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
    return [s(verb, c="b"), f" {rest}{more}, {size}"]
