"""What is asked for of a join order, made concrete: which order, by which strategy, or why none is better.

A plan has always both in it, so that what is previewed is what is done. Whether an order is one, and whether there is
room for it, is said by whoever judges the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from control.arbiter import Refusal, Why
from control.cost.coefficients import Coefficients, LocalRule
from control.errors import PlanError
from control.migration.gain import Offer
from control.migration.propose import summary, verdict
from control.orders import UNKNOWN, Priced, better, none_better, priced
from control.plans import AUTO, STRATEGIES, Migrate, Plan, Reason, Step, Topic
from control.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Settled:
    """A step with an order and a strategy, and why these, where they were chosen here."""

    step: Migrate
    text: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def reason(self) -> Reason:
        return Reason.of(Topic.CHOSEN, self.text, **self.figures)


def settled(
    step: Migrate,
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    rule: LocalRule | None = None,
) -> Settled | Refusal:
    """Without an order: the best there is. By `auto`: the strategy that is recommended. Moving state: while ticks wait,
    where that costs less."""
    if not step.order:
        return _best(step, snapshot, numbers, rule)
    if step.strategy not in (AUTO, "moving"):
        return Settled(step)
    try:
        found = priced(snapshot, numbers, step.order, step.strategy, rule=rule)
    except PlanError:
        found = None  # no order of this query's, which whoever judges it tells with the column
    if found is None or found.offer is None:
        return Settled(replace(step, strategy=STRATEGIES[0]))
    if step.strategy != AUTO:
        return Settled(replace(step, at_once=found.offer.estimate.at_once))
    return _chosen(step, found, found.offer)


def concrete(
    plan: Plan, snapshot: ClusterSnapshot, numbers: Coefficients, rule: LocalRule | None = None
) -> Plan | Refusal:
    """A plan with nothing left to be chosen, and why what was chosen."""
    steps, said = list[Step](), list[Reason]()
    for step in plan.steps:
        if not isinstance(step, Migrate) or (step.order and step.strategy != AUTO):
            steps.append(step)
            continue
        found = settled(step, snapshot, numbers, rule)
        if isinstance(found, Refusal):
            return found
        steps.append(found.step)
        said += [found.reason] if found.text else []
    return replace(plan, steps=tuple(steps), reasons=(*plan.reasons, *said))


def _best(
    step: Migrate, snapshot: ClusterSnapshot, numbers: Coefficients, rule: LocalRule | None
) -> Settled | Refusal:
    if snapshot.joins is None or not snapshot.joins.known:
        return Refusal(Why.NO_PICTURE, UNKNOWN)
    found = better(snapshot, numbers, rule=rule)
    offers = [(one, offer) for one in found if (offer := _offer(one, step.strategy)) is not None]
    if not offers:
        return Refusal(Why.NO_BETTER_ORDER, none_better(found))
    one, offer = max(offers, key=lambda pair: pair[1].gain_row_s)
    if offer.gain_row_s <= 0:
        gain = round(offer.gain_row_s, 1)
        return Refusal(Why.NO_BETTER_ORDER, none_better([Priced(one.proposal, offer)]), gain, 0)
    return _chosen(step, one, offer)


def _offer(one: Priced, strategy: str) -> Offer | None:
    """What an order gains by a strategy, where that is possible."""
    if strategy == AUTO:
        return one.offer
    offers = one.proposal.advice.offers
    return next((o for o in offers if o.strategy == strategy and o.possible), None)


def _chosen(step: Migrate, one: Priced, offer: Offer) -> Settled:
    sure = offer.sure
    figures = {
        "gain_row_s": offer.gain_row_s,
        "cost_row_s": offer.cost_row_s,
        "chance": sure.chance,
    }
    text = f"{summary(one.proposal)}; by {offer.strategy}; {verdict(offer)}"
    waits = offer.estimate.at_once
    made = replace(step, order=one.proposal.text, strategy=offer.strategy, at_once=waits)
    return Settled(made, text, {name: value for name, value in figures.items() if isfinite(value)})
