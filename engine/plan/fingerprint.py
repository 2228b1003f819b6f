"""What must not change across restarts: a plan's description, its hash, and what differs.

Not in it, since state survives them: placement, number of nodes, sources' paths and options,
the sink.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from engine.plan.tree import Plan
from engine.query.model import Field, JoinInput, StreamSpec

FORMAT = 1


def describe(plan: Plan) -> dict[str, str]:
    """What state and results depend on, item by item, in plain words."""
    join = plan.join
    found = {"groups": str(join.groups), "join": " ⋈ ".join(i.alias for i in join.inputs)}
    for exchange in join.children:
        scan = exchange.child
        found |= _stream(scan.stream) | _input(scan.input)
    for number, output in enumerate(plan.root.outputs):
        found[f"output {number}"] = \
            f"{output.name} {output.type} = {output.expr or output.source}"
    found["outputs"] = str(len(plan.root.outputs))
    found["where"] = plan.root.where or "none"
    return found


def fingerprint(plan: Plan) -> str:
    """A stable hash of `describe`."""
    text = json.dumps([FORMAT, describe(plan)], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What changed from one description to another, one line each; empty if nothing did."""
    lines = [_difference(key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    return [line for line in lines if line]


def _difference(key: str, before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    if before is None:
        return f"{key}: new ({after})"
    if after is None:
        return f"{key}: gone (was {before})"
    return f"{key} changed: {before} → {after}"


def _stream(stream: StreamSpec) -> dict[str, str]:
    name = f"stream {stream.name}"
    return {f"{name}: schema": columns(stream.fields), f"{name}: format": stream.format,
            f"{name}: time": stream.time or "none"}


def _input(given: JoinInput) -> dict[str, str]:
    name = f"input {given.alias}"
    return {f"{name}: stream": given.stream,
            f"{name}: key": ", ".join(f"{key.expr} {key.type}" for key in given.keys),
            f"{name}: columns": columns(given.payload) or "none",
            f"{name}: filter": given.where or "none"}


def columns(fields: tuple[Field, ...]) -> str:
    """Columns as DDL."""
    return ", ".join(f"{field.name} {field.type}" for field in fields)
