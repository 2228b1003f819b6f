"""Better order: another join order when the one that runs makes so many rows in between that the change is worth it.

Only what is likely to gain (P ≥ chance), and several times what it costs, is done; and not before the running order has
been seen for a while: what another one gains is known from what this one shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.limits import Limits
from control.parameters import choice, number, whole
from control.plans import AUTO, STRATEGIES, Plan, Reason, Topic, migrate_to
from control.policies.orders import SETTLE_S, Choice, choices, seen
from control.snapshot import ClusterSnapshot

SHOWN = 4


@dataclass(frozen=True, slots=True)
class BetterOrder:
    """The optimiser as a policy."""

    name: ClassVar[str] = "better_order"
    help: ClassVar[str] = (
        "another join order, when it is likely to gain several times what the change costs"
    )

    horizon_s: float = number(300.0, 10.0, 86_400.0, "how far ahead orders are compared", "s")
    settle_s: float = number(
        SETTLE_S, 0.0, 86_400.0, "how long an order must have run before it is left", "s"
    )
    span_s: float = number(15.0, 0.0, 86_400.0, "least time between two adaptations (τ)", "s")
    chance: float = number(0.8, 0.0, 1.0, "how likely a gain must be")
    times: float = number(2.0, 0.0, 1e6, "how many times its cost a change must gain")
    least_gain_row_s: float = number(
        1.0, 0.0, 1e15, "gains below this are not worth an action", "row·s"
    )
    strategy: str = choice(AUTO, (AUTO, *STRATEGIES), "by which way (auto: the recommended one)")
    threshold: float = number(
        0.9,
        0.05,
        1.0,
        "share of its budget at which a node spills (θm), where the query does not tell",
    )
    spill_percent: float = number(
        30.0,
        0.0,
        100.0,
        "share of a node's state that its own spill takes, where the query does not tell",
        "%",
    )
    seed: int = whole(0, 0, 2**31, "of the draws")
    numbers: Coefficients = field(default_factory=Coefficients)

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        since = snapshot.time_s - snapshot.history.last_adaptation_s
        if since < self.span_s:
            text = "time since the last adaptation (τ)"
            rest = Reason.of(Topic.INPUT, text, since_s=since, threshold_s=self.span_s)
            return Plan.nothing("the last adaptation is too recent", rest)
        if early := seen(snapshot, self.settle_s):
            return Plan.nothing("the order has not been seen for long enough", early)
        size = migrate_to("", "", snapshot).bytes
        if size > limits.action_bytes_max:
            most = Reason.of(
                Topic.INPUT, "the query's state", bytes=size, limit_bytes=limits.action_bytes_max
            )
            return Plan.nothing("one action may not touch so much state", most)
        return self._best(snapshot, self.choices(snapshot))

    def choices(self, snapshot: ClusterSnapshot) -> list[Choice]:
        rule = snapshot.spill_rule or LocalRule(self.threshold, self.spill_percent)
        horizon = Horizon(self.horizon_s)
        return choices(snapshot, self.numbers, rule, horizon, self.seed, self.strategy)

    def _best(self, snapshot: ClusterSnapshot, found: list[Choice]) -> Plan:
        said: list[Reason] = []
        for rank, one in enumerate(found[:SHOWN], start=1):
            doubt = one.doubt(self.chance, self.times)
            if one.gain_row_s >= self.least_gain_row_s and not doubt:
                chosen = one.said(Topic.CHOSEN, "gains most", self.chance)
                return Plan((one.step(snapshot),), (*said, chosen))
            text = doubt if one.gain_row_s > 0 else "loses against this one"
            said.append(one.said(Topic.SKIPPED, f"rank {rank}, {text}", self.chance))
        why = "no other order gains enough" if found else "no other order is better"
        return Plan.nothing(why, *said)
