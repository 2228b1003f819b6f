"""What nodes may decide by themselves: when they spill, and in which order their groups go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from control.policies import victims
from control.policies.local_spill import LocalSpill
from control.snapshot import ClusterSnapshot
from engine.brief import Overflow
from engine.errors import StateError
from engine.flow import Flow
from engine.state.model import Manifest

if TYPE_CHECKING:
    from engine.tick import Ticker

NOTHING: Mapping[int, int] = MappingProxyType({})
SPILLING_OFF = "Spilling is off (spill_percent = 0): raise memory_per_node, or let nodes spill."
QUIET = (
    "Nothing is spilled while a plan is changed: raise memory_per_node, or choose another order."
)
LISTED_FROM = 0.5  # of its limit: from then on a node is told which groups it may spill


def limits_of(local: LocalSpill, budgets: Mapping[int, int]) -> dict[int, Overflow]:
    """When each node that has a budget spills; nothing where spilling is off."""
    if not local.spill_percent:
        return {}
    share = local.spill_percent / 100
    most = {node: int(local.threshold * budget) for node, budget in budgets.items()}
    return {node: Overflow(size, size, share) for node, size in most.items()}


def listed(limits: Mapping[int, Overflow], manifest: Manifest) -> list[int]:
    """Nodes that may come over their limit before long."""
    return [n for n, o in limits.items() if manifest.memory_bytes(n) > LISTED_FROM * o.most]


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
    local: LocalSpill, now: ClusterSnapshot, nodes: Sequence[int], flow: Flow
) -> dict[tuple[str, int], tuple[int, ...]]:
    """For each operator and node, groups in the order in which they are to go."""
    out = {}
    for node in nodes:
        ordered = victims.in_order(
            now,
            victims.spillable(now, now.on(node)),
            local.victim,
            inactive_s=local.inactive_s,
            seed=local.seed,
        )
        for number, op in enumerate(flow.ops):
            mine = ordered[now.groups.operator[ordered] == number]
            out[op.id, node] = tuple(now.groups.group[mine].tolist())
    return out
