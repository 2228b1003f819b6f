"""How a query's nodes conduct themselves between decisions: their own spill rule, and how long rounds collect at least.

A policy carries these among its parameters. One that is in charge of a query, as a rule in mode auto or by `--adapt`,
brings its own to the engine; else they are the defaults. Values only; which rule is in charge is charge.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from control.cost.coefficients import LocalRule
from control.ledger import QueryRow
from control.policies.flux import DELTA_MIN_S
from control.policies.local_spill import LocalSpill


@dataclass(frozen=True, slots=True)
class Conduct:
    """`rule`: the name of the rule that brought it; empty where none did."""

    local: LocalSpill = field(default_factory=LocalSpill)
    delta_min_s: float = DELTA_MIN_S
    rule: str = ""

    @property
    def priced(self) -> LocalRule:
        """The nodes' own spill rule as the cost model has it."""
        return LocalRule(self.local.threshold, self.local.spill_percent)


def conduct_of(policy: object, rule: str = "") -> Conduct | None:
    """What a policy's own parameters ask of nodes; None for one that asks nothing of them."""
    local = policy if isinstance(policy, LocalSpill) else getattr(policy, "local", None)
    delta_min_s = getattr(policy, "delta_min_s", None)
    if not isinstance(local, LocalSpill) and delta_min_s is None:
        return None
    return Conduct(
        local if isinstance(local, LocalSpill) else LocalSpill(),
        DELTA_MIN_S if delta_min_s is None else float(delta_min_s),
        rule,
    )


def to_json(conduct: Conduct) -> dict[str, Any]:
    return asdict(conduct)


def from_json(raw: Mapping[str, Any]) -> Conduct:
    """As `to_json` made it. What is missing is as if nobody had said it."""
    return Conduct(
        LocalSpill(**raw.get("local", {})),
        float(raw.get("delta_min_s", DELTA_MIN_S)),
        str(raw.get("rule", "")),
    )


def told_conduct(row: QueryRow) -> Conduct:
    """What the engine last told of a query's nodes."""
    return from_json(row.about.get("conduct") or {})


def conduct_name(query: str) -> str:
    """The name under which is kept what a query's nodes are to go by."""
    return f"conduct:{query}"
