"""All policies by name, and making one from a TOML table: `policy = "lazy_disk"` and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol

from control.cost.coefficients import Coefficients
from control.errors import PolicyError
from control.limits import Limits
from control.parameters import Parameter, describe, parse
from control.plans import Plan
from control.policies.active_disk import ActiveDisk
from control.policies.best_gain import BestGain
from control.policies.better_order import BetterOrder
from control.policies.flux_hybrid import FluxHybrid
from control.policies.flux_load import FluxLoad
from control.policies.flux_memory import FluxMemory
from control.policies.lazy_disk import LazyDisk
from control.policies.local_spill import LocalSpill
from control.policies.none import Nothing
from control.policies.relocate import Relocate
from control.snapshot import ClusterSnapshot


class Policy(Protocol):
    """What the engine, the simulator, the backtest and the tests call."""

    name: ClassVar[str]
    help: ClassVar[str]

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan: ...


KINDS: Mapping[str, type[Any]] = {
    kind.name: kind
    for kind in (
        Nothing,
        LocalSpill,
        Relocate,
        LazyDisk,
        ActiveDisk,
        FluxLoad,
        FluxMemory,
        FluxHybrid,
        BestGain,
        BetterOrder,
    )
}


def policy_from(table: Mapping[str, Any], where: str = "policy file") -> Policy:
    """The policy that a TOML table names, with its parameters."""
    rest = dict(table)
    name = rest.pop("policy", None)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        close = get_close_matches(str(name), KINDS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise PolicyError(
            f"`policy` is {name!r}, which is none",
            where=where,
            hint=f"{hint}one of {', '.join(KINDS)}",
        )
    policy: Policy = parse(kind, rest, f"{where}, policy {name}")
    return policy


def with_numbers(policy: Policy, numbers: Coefficients) -> Policy:
    """A policy that uses the cost model, with what was learned; others as they are."""
    if "numbers" not in getattr(type(policy), "__dataclass_fields__", {}):
        return policy
    made: Policy = replace(policy, numbers=numbers)  # type: ignore[type-var]
    return made


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """What the console renders."""
    return describe(KINDS[name])
