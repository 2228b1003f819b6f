"""What must not change across restarts: a plan's description, its hash, and what differs.

Not in it, since state survives them: placement, number of nodes, sources' paths and options,
`idle_after`, the sink. Watermarks are in it where windows need them: rows that a longer delay would
still let in may belong with state that has expired.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from engine.plan.tree import Exchange, GroupBy, Join, Operator, Plan, Scan, Union
from engine.query.model import Aggregate, Field, Frame, JoinInput, StreamSpec, key_id

FORMAT = 2


def describe(plan: Plan) -> dict[str, str]:
    """What state and results depend on, item by item, in plain words."""
    found = {"join": _tree(plan.root.child)}
    for operator in plan.operators:
        found |= _operator(plan, operator)
        if isinstance(operator, GroupBy):
            found |= _windows(operator)
    for scan in scans(plan.root.child):
        found |= _stream(scan) | _input(scan)
    for number, output in enumerate(plan.root.outputs):
        found[f"output {number}"] = f"{output.name} {output.type} = {output.expr or output.source}"
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


def scans(node: Operator | Union | Scan) -> Iterator[Scan]:
    """All sources below, left to right."""
    if isinstance(node, Scan):
        yield node
        return
    for child in node.children:
        yield from scans(child.child if isinstance(child, Exchange) else child)


def _tree(node: Operator | Union | Scan) -> str:
    if isinstance(node, GroupBy):
        return f"γ {_tree(node.child.child)}"
    if not isinstance(node, Join):
        return node.input.alias
    return "(" + " ⋈ ".join(_tree(child.child) for child in node.children) + ")"


def _windows(group: GroupBy) -> dict[str, str]:
    """What window functions keep in state, and what they give."""
    texts = {argument.name: argument.expr or "" for argument in group.query.arguments}
    found = {f"{group.id}: order": ", ".join((group.query.time, *group.query.order))}
    for one in group.query.aggregates:
        found[f"{group.id}: {one.id}"] = f"{called(one, texts)} {one.type}"
    return found


def called(one: Aggregate, texts: Mapping[str, str]) -> str:
    """A window function as it is written; `texts` gives what its argument is."""
    argument = "*" if one.argument is None else texts.get(one.argument, one.argument)
    return f"{one.function}({argument}) over {_frame(one.frame)}"


def _frame(frame: Frame) -> str:
    if frame.rows is not None:
        return f"{frame.rows} rows before and the row"
    return f"{span(frame.us or 0)} before and all of its time"


def _operator(plan: Plan, join: Operator) -> dict[str, str]:
    names = [given.alias for given in plan.inputs]
    windows = [f"{names[b.late]} − {names[b.early]} ≤ {span(b.us)}" for b in join.bounds]
    key = ", ".join(f"{part.name} {part.type}" for part in join.key)
    return {
        f"{join.id}: groups": str(join.groups),
        f"{join.id}: key": key,
        f"{join.id}: windows": ", ".join(windows) or "none",
    }


def _stream(scan: Scan) -> dict[str, str]:
    stream: StreamSpec = scan.stream
    name = f"stream {stream.name}"
    return {
        f"{name}: schema": columns(stream.fields),
        f"{name}: format": stream.format,
        f"{name}: time": stream.time or "none",
    }


def _input(scan: Scan) -> dict[str, str]:
    given: JoinInput = scan.input
    name = f"input {scan.id.removeprefix('scan-')}"
    keys = ", ".join(f"{key_id(key.number)} = {key.expr} {key.type}" for key in given.keys)
    found = {
        f"{name}: stream": given.stream,
        f"{name}: key": keys,
        f"{name}: columns": columns(given.payload) or "none",
        f"{name}: filter": given.where or "none",
    }
    if given.exprs:
        found[f"{name}: columns are"] = ", ".join(given.exprs)
    if given.time:
        found[f"{name}: watermark"] = f"{given.time} − {scan.stream.watermark_s:g} s"
    return found


def columns(fields: tuple[Field, ...]) -> str:
    """Columns as DDL."""
    return ", ".join(f"{field.name} {field.type}" for field in fields)


def span(us: int) -> str:
    """A length of time in seconds, exactly."""
    sign, rest = ("−", -us) if us < 0 else ("", us)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{sign}{seconds}{f'.{fraction:06}'.rstrip('0') if fraction else ''} s"
