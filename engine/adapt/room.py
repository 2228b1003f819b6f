"""What nodes may decide by themselves: when they spill, and in which order their groups go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from control.policies import victims
from control.policies.local_spill import LocalSpill
from control.snapshot import ClusterSnapshot, Longs
from engine.brief import Overflow
from engine.errors import StateError
from engine.state.model import Manifest

if TYPE_CHECKING:
    from engine.outcome import Outcome
    from engine.tick import Ticker

NOTHING: Mapping[int, int] = MappingProxyType({})
SPILLING_OFF = "Spilling is off (spill_percent = 0): raise memory_per_node, or let nodes spill."
QUIET = (
    "Nothing is spilled while a plan is changed: raise memory_per_node, or choose another order."
)
LISTED_FROM = 0.5  # of its limit: from then on a node is told which groups it may spill


def limits_of(
    local: LocalSpill, budgets: Mapping[int, int], *, moving: bool = False
) -> dict[int, Overflow]:
    """When each node that has a budget spills; nothing where spilling is off. `moving`: a move is on its way, and nodes
    spill only at all of their budget meanwhile."""
    if not local.spill_percent:
        return {}
    share, threshold = local.spill_percent / 100, 1.0 if moving else local.threshold
    most = {node: int(threshold * budget) for node, budget in budgets.items()}
    return {node: Overflow(size, size, share) for node, size in most.items()}


def listed(limits: Mapping[int, Overflow], manifest: Manifest) -> list[int]:
    """Nodes that may come over their limit before long."""
    return [n for n, o in limits.items() if manifest.memory_bytes(n) > LISTED_FROM * o.most]


def pressing(
    ticker: Ticker, budgets: Mapping[int, int], copied: Mapping[int, int], came: Longs
) -> StateError | None:
    """Why a move must give way: a node, with the copies on it and as many more rows as came last, would be over its budget
    after the next tick, and what it moves must not be what it spills for. `came`: bytes of the last tick's, by node."""
    for node, most in budgets.items():
        if node >= len(came):
            continue
        need = ticker.manifest.memory_bytes(node) + copied.get(node, 0) + int(came[node])
        if need > most:
            text = f"the move gives way to node {node}'s own spill: it needs {need:,} bytes after the next tick, its budget is {most:,}"
            hint = "Ask again once it has spilled, or raise memory_per_node."
            return StateError(text, where=ticker.setup.plan.name, hint=hint)
    return None


def came(outcome: Outcome, placements: Mapping[str, Sequence[int]], nodes: int) -> Longs:
    """Bytes of the rows that a tick kept, by node."""
    out = np.zeros(nodes)
    for op, delta in outcome.deltas.items():
        owner = np.asarray(placements[op], dtype=np.int64)[delta.groups]
        out += np.bincount(owner, weights=delta.bytes_in, minlength=nodes)
    return out.astype(np.int64)


def over_budget(
    ticker: Ticker, budgets: Mapping[int, int], hint: str, copied: Mapping[int, int] = NOTHING
) -> StateError | None:
    """What is wrong where a node is over its budget and cannot spill. `copied`: by node, what counts besides."""
    for node, most in budgets.items():
        have = ticker.manifest.memory_bytes(node) + copied.get(node, 0)
        if have > most:
            text = f"node {node} needs {have:,} bytes of memory, its budget is {most:,}"
            return StateError(text, where=ticker.setup.plan.name, hint=hint)
    return None


def victims_of(
    local: LocalSpill, now: ClusterSnapshot, nodes: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """For each node, its groups in the order in which they are to go, whatever their operators: as rows of the snapshot,
    in which operators follow each other as in the flow."""
    return {
        node: tuple(
            victims.in_order(
                now,
                victims.spillable(now, now.on(node)),
                local.victim,
                inactive_s=local.inactive_s,
                seed=local.seed,
            ).tolist()
        )
        for node in nodes
    }
