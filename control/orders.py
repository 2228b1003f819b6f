"""Better join orders for a running query, and any order priced: from a snapshot alone.

What comes out is JSON, the same for the menu, previews, the API and the console (docs/migration.md tells its form). The
optimiser and its prices are in migration/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.outlook import Outlook, look
from control.errors import PlanError
from control.join_order import BadOrder, read_order
from control.limits import OPEN, Limits
from control.migration.gain import Offer
from control.migration.joins import Joins
from control.migration.propose import Proposal, price, proposals, summary, told, verdict
from control.migration.strategies import Pace, Strategy
from control.migration.trees import Tree
from control.plans import (
    AUTO,
    STRATEGIES,
    Migrate,
    Plan,
    Reason,
    Topic,
    migrate_to,
    plan_to_json,
    step_to_json,
)
from control.snapshot import ClusterSnapshot

UNKNOWN = (
    "rates and selectivities of the query's joins are not known yet: it has to run for some seconds"
)
NONE = "no other order makes fewer rows in between or keeps less state"
HORIZON = Horizon()
SLICES = 6  # of a node and operator: all groups alike are in another order's hands, so few will do


@dataclass(frozen=True)
class Priced:
    """An order with what is advised for it, and the strategy that is asked for or recommended."""

    proposal: Proposal
    offer: Offer | None  # None: no strategy is possible, and none was named

    @property
    def strategy(self) -> str:
        return self.offer.strategy if self.offer is not None else STRATEGIES[0]

    @property
    def gain_row_s(self) -> float:
        return self.offer.gain_row_s if self.offer is not None else float("-inf")


def better_orders(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    limits: Limits = OPEN,
    *,
    rule: LocalRule | None = None,
    horizon: Horizon = HORIZON,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Orders other than the running one, best gain first, whether they gain or not. Empty where nothing is known yet
    or one action may not touch so much state."""
    if not _known(snapshot) or migrate_to("", "", snapshot).bytes > limits.action_bytes_max:
        return []
    found = better(snapshot, numbers, rule=rule, horizon=horizon, seed=seed)
    return [entry(snapshot, one) for one in found]


def better(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    *,
    rule: LocalRule | None = None,
    horizon: Horizon = HORIZON,
    seed: int = 0,
) -> list[Priced]:
    """The same as values."""
    joins = snapshot.joins
    if joins is None or not joins.known:
        return []
    outlook, pace = _outlook(snapshot, joins, numbers, rule, horizon)
    found = proposals(outlook, joins.model, joins.running, pace, seed, _able())
    return [Priced(one, one.advice.chosen) for one in found]


def priced_order(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    order: str,
    strategy: str = AUTO,
    *,
    rule: LocalRule | None = None,
    horizon: Horizon = HORIZON,
    seed: int = 0,
) -> dict[str, Any]:
    """Any order that somebody types. PlanError where it is none, or nothing is known of the query's joins yet."""
    found = priced(snapshot, numbers, order, strategy, rule=rule, horizon=horizon, seed=seed)
    if found is None:
        raise PlanError(
            "rates and selectivities are not known yet",
            where="join order",
            hint="The query has to run for some seconds.",
        )
    return entry(snapshot, found)


def priced(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    order: str,
    strategy: str = AUTO,
    *,
    rule: LocalRule | None = None,
    horizon: Horizon = HORIZON,
    seed: int = 0,
    waits: bool | None = None,
) -> Priced | None:
    """The same as a value; None where nothing is known yet. `waits`: as in Pace."""
    joins = snapshot.joins
    if joins is None or not joins.known:
        return None
    tree = tree_of(joins, order)
    outlook, pace = _outlook(snapshot, joins, numbers, rule, horizon)
    pace = replace(pace, waits=waits)
    made = price(outlook, joins.model, joins.running, tree, pace, seed, _able())
    if strategy == AUTO:
        return Priced(made, made.advice.chosen)
    offer = next((one for one in made.advice.offers if one.strategy == strategy), None)
    if offer is None:
        raise PlanError(
            f"no strategy {strategy!r}", where="strategy", hint=f"one of {', '.join(STRATEGIES)}"
        )
    return Priced(made, offer)


def _outlook(
    snapshot: ClusterSnapshot,
    joins: Joins,
    numbers: Coefficients,
    rule: LocalRule | None,
    horizon: Horizon,
) -> tuple[Outlook, Pace]:
    """What orders are compared against; ticks have the cores that the query tells of."""
    told = replace(numbers, cores=numbers.cores or joins.cores)
    return look(snapshot, told, horizon, rule, SLICES), joins.pace(told, len(snapshot.nodes))


def tree_of(joins: Joins, order: str) -> Tree:
    """An order's tree; PlanError says what is wrong with it, and where."""
    names = joins.shape.names
    try:
        tree = read_order(order, names, joins.spans)
    except BadOrder as bad:
        raise PlanError(bad.told, where="join order") from None
    return tree if tree is not None else tuple(range(len(names)))


def entry(snapshot: ClusterSnapshot, one: Priced) -> dict[str, Any]:
    """As JSON, with the plan that can be proposed as it stands."""
    advised, step = told(one.proposal), step_of(snapshot, one)
    text = summary(one.proposal)
    recommended, mine = advised["strategy"], {}
    if one.offer is not None:
        mine = {**advised["strategies"][one.offer.strategy], "strategy": one.offer.strategy}
        mine["verdict"] = verdict(one.offer if one.offer.possible else None)
    made = {**advised, **mine}
    names = ("gain_row_s", "cost_row_s", "p10_row_s", "p50_row_s", "p90_row_s", "chance")
    figures = {name: made[name] for name in names if name in made}
    said = f"{text}; {made['verdict']}"
    plan = Plan((step,), (Reason.of(Topic.CHOSEN, said, **figures),))
    return {
        **made,
        "recommended": recommended,
        "summary": text,
        "step": step_to_json(step),
        "plan": plan_to_json(plan),
    }


def step_of(snapshot: ClusterSnapshot, one: Priced) -> Migrate:
    waits = one.offer is not None and one.offer.estimate.at_once
    return migrate_to(one.proposal.text, one.strategy, snapshot, at_once=waits)


def why_none(snapshot: ClusterSnapshot, found: Sequence[Mapping[str, Any]]) -> str:
    """Why none of these entries, best first, is better than the order that runs; empty where one is."""
    if not _known(snapshot):
        return UNKNOWN
    if not found:
        return NONE
    best = found[0]
    if best.get("gain_row_s", 0.0) > 0 and not best.get("hindrance"):
        return ""
    return f"the best other order is {best['summary']}: {best['verdict']}"


def none_better(found: Sequence[Priced]) -> str:
    """Why no other order is proposed."""
    if not found:
        return NONE
    best = found[0]
    return f"the best other order is {summary(best.proposal)}: {verdict(best.offer)}"


def _known(snapshot: ClusterSnapshot) -> bool:
    return snapshot.joins is not None and snapshot.joins.known


def _able() -> tuple[Strategy, ...]:
    """What the engine can do."""
    return cast(tuple[Strategy, ...], STRATEGIES)
