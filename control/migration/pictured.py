"""Both trees of a change as plain JSON, for whoever draws them: operators with what they take, make and keep, and what
becomes of each state. The nodes have the names that a query's outline has (`id`, `kind`, `alias`, `children`).
"""

from __future__ import annotations

from typing import Any

from control.migration.model import Model, OperatorLoad, TreeLoad
from control.migration.strategies import Change, Pace
from control.migration.trees import Mask, below, joins, key, members, show

SHARED, SORTED, RECOMPUTED, DROPPED = "shared", "sorted_anew", "recomputed", "dropped"


def trees(change: Change, pace: Pace) -> dict[str, Any]:
    """`before` and `after`: every operator with its rates, CPU and sides; a side's `fate` is what becomes of its state."""
    return {
        "before": _drawn(change, change.old, pace),
        "after": _drawn(change, change.new, pace),
    }


def fates(change: Change) -> dict[tuple[Mask, tuple[int, ...]], str]:
    """What becomes of each state, by its inputs and its key."""
    matched = change.matched
    kinds = (
        (matched.shared, SHARED),
        (matched.sorted_anew, SORTED),
        (matched.recomputed, RECOMPUTED),
        (matched.dropped, DROPPED),
    )
    return {(state.inputs, state.key): kind for states, kind in kinds for state in states}


def _drawn(change: Change, load: TreeLoad, pace: Pace) -> dict[str, Any]:
    become = fates(change)
    found: dict[Mask, dict[str, Any]] = {}
    for parts, one in zip(joins(load.tree), load.operators, strict=True):
        masks = [below(part) for part in parts]
        shared = key(change.model.classes, masks)
        sides = [
            {
                "of": show(part, change.model.names),
                "rows": one.state_rows[n],
                "bytes": one.state_bytes[n],
                "fate": become[masks[n], shared],
            }
            for n, part in enumerate(parts)
        ]
        children = [found.get(mask) or _stream(change.model, mask) for mask in masks]
        found[sum(masks)] = _operator(one, show(parts, change.model.names), sides, children, pace)
    return found[below(load.tree)]


def _operator(
    one: OperatorLoad, name: str, sides: list[Any], children: list[Any], pace: Pace
) -> dict[str, Any]:
    taken = sum(one.rows_in_per_s)
    return {
        "id": name,
        "kind": "join",
        "children": children,
        "sides": sides,
        "rows_in_per_s": taken,
        "rows_out_per_s": one.rows_out_per_s,
        "state_rows": sum(one.state_rows),
        "state_bytes": sum(one.state_bytes),
        "cpu_s": pace.join_s * (taken + one.rows_out_per_s) + pace.insert_s * taken,
    }


def _stream(model: Model, mask: Mask) -> dict[str, Any]:
    (number,) = members(mask)
    name = model.names[number]
    return {
        "id": name,
        "kind": "stream",
        "alias": name,
        "streams": [name],
        "rows_out_per_s": model.rates[number],
    }
