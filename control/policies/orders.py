"""Other join orders as policies weigh them: what each gains, whether that is sure enough, and whether the running one has
been seen for long enough. What is done about it is better_order.py's and best_gain.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.migration.gain import Offer
from control.orders import Priced, better, step_of
from control.plans import AUTO, Migrate, Reason, Topic
from control.snapshot import ClusterSnapshot

SETTLE_S = 180.0  # three half-lives of what ticks tell
SEEN_S = 60.0  # enough for a query that has just begun


@dataclass(frozen=True, slots=True)
class Choice:
    """Another order by one strategy."""

    priced: Priced
    offer: Offer

    @property
    def gain_row_s(self) -> float:
        return self.offer.gain_row_s

    def step(self, snapshot: ClusterSnapshot) -> Migrate:
        return step_of(snapshot, replace(self.priced, offer=self.offer))

    def doubt(self, chance: float, times: float) -> str:
        """Why it is not worth doing without a person; empty where it is."""
        if self.offer.gain_row_s < times * self.offer.cost_row_s:
            return f"gains less than {times:g} times its cost"
        return "too unsure" if self.offer.sure.chance < chance else ""

    def said(self, topic: Topic, text: str, chance: float) -> Reason:
        """Figures apart from words: whoever compares two evaluations compares words."""
        proposal, offer, sure = self.priced.proposal, self.offer, self.offer.sure
        now, then = proposal.advice.change.old, proposal.advice.change.new
        return Reason.of(
            topic,
            f"migrate: {text}: {proposal.text} by {offer.strategy}",
            between_now_per_s=now.between_per_s,
            between_per_s=then.between_per_s,
            state_now_bytes=now.state_bytes,
            state_bytes=then.state_bytes,
            gain_row_s=offer.gain_row_s,
            cost_row_s=offer.cost_row_s,
            p10_row_s=sure.p10,
            p50_row_s=sure.p50,
            p90_row_s=sure.p90,
            chance=sure.chance,
            threshold=chance,
        )


def seen(snapshot: ClusterSnapshot, settle_s: float) -> Reason | None:
    """For how long the running order has been seen, if that is not long enough; None where it is."""
    joins = snapshot.joins
    if joins is None or not joins.known:
        return Reason.of(Topic.INPUT, "rates and selectivities are not known yet")
    if joins.since_s is not None:
        since, wanted = snapshot.time_s - joins.since_s, settle_s
    else:
        since, wanted = joins.statistics.lived_s, min(settle_s, SEEN_S)
    if since >= wanted:
        return None
    text = "selectivities have been seen under this order for"
    return Reason.of(Topic.INPUT, text, since_s=since, threshold_s=wanted)


def choices(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    rule: LocalRule | None,
    horizon: Horizon,
    seed: int,
    strategy: str = AUTO,
) -> list[Choice]:
    """Those that are possible, best gain first."""
    found = [
        Choice(one, offer)
        for one in better(snapshot, numbers, rule=rule, horizon=horizon, seed=seed)
        for offer in one.proposal.advice.offers
        if offer.possible
        and (offer is one.offer if strategy == AUTO else offer.strategy == strategy)
    ]
    return sorted(found, key=lambda one: -one.gain_row_s)
