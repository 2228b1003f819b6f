"""The plan as plain JSON, for whoever draws it: operators with their inputs, down to the streams.

Only what a person asks of a plan is in it: who is joined with whom, on what, within which window. What state and
results depend on is fingerprint.py's; the same as text is show.py's.
"""

from __future__ import annotations

from typing import Any

from engine.plan.fingerprint import called, span
from engine.plan.show import key_name, on_keys, within
from engine.plan.tree import Exchange, GroupBy, Operator, Plan, Scan, Union


def outline(plan: Plan) -> dict[str, Any]:
    """`root`: the topmost operator. Its `children` are operators or streams, left to right. `beside`: the topmost join of
    another tree, while both run."""
    return {
        "root": _operator(plan, plan.root.child),
        "beside": _operator(plan, plan.beside) if plan.beside is not None else None,
        "outputs": [output.name for output in plan.root.outputs],
        "where": plan.root.where or "",
    }


def _operator(plan: Plan, node: Operator) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": node.id,
        "kind": "group_by" if isinstance(node, GroupBy) else node.kind,
        "inputs": [given.alias for given in node.inputs],
        "groups": node.groups,
        "children": [_child(plan, child) for child in node.children],
    }
    if isinstance(node, GroupBy):
        texts = {one.name: one.expr or "" for one in node.query.arguments}
        on = [key_name(plan, part.name) for part in node.key]
        computed = [called(one, texts) for one in node.query.aggregates]
        return {**found, "on": on, "within": [], "computes": computed}
    on = [on_keys(node, part) for part in node.key]
    return {
        **found,
        "on": on,
        "within": [line.removeprefix("within ") for line in within(plan, node.bounds)],
    }


def _child(plan: Plan, exchange: Exchange) -> dict[str, Any]:
    """What comes in through an exchange; `fused`: it is on the right node already."""
    below = exchange.child
    if isinstance(below, Scan | Union):
        return {**_source(below), "fused": False}
    return {**_operator(plan, below), "fused": exchange.fused}


def _source(below: Scan | Union) -> dict[str, Any]:
    scans = below.children if isinstance(below, Union) else (below,)
    given = below.input
    return {
        "id": below.id,
        "kind": "stream",
        "alias": given.alias,
        "streams": [scan.stream.name for scan in scans],
        "format": scans[0].stream.format,
        "filter": given.where or "",
        "watermark": span(round(scans[0].stream.watermark_s * 1e6)) if given.time else "",
    }
