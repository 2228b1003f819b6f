"""Best gain: spill, clean up, move, another join order or nothing, whichever the cost model says gains most; amounts
searched.

Only what is likely to gain (P ≥ chance) and gains at least twice its cost is done. Local spill stays the
nodes' own: early spills rarely pay, which the ranking shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.draws import Confidence, confidence
from control.cost.options import Option, Priced, cleanup_rows
from control.cost.outlook import Outlook, look
from control.cost.search import ranked
from control.limits import Limits
from control.parameters import choice, number, whole
from control.plans import Plan, Reason, Step, Topic, cleanup_of, migrate_to, move_of, spill_of
from control.policies import victims
from control.policies.orders import SETTLE_S, Choice, choices, seen
from control.snapshot import ClusterSnapshot, Longs

SHOWN = 6
ANY = "any"
TIMES = 2.0  # its cost an order must gain, as Priced.pays has it


@dataclass(frozen=True, slots=True)
class BestGain:
    """The cost model as a policy."""

    name: ClassVar[str] = "best_gain"
    help: ClassVar[str] = (
        "does what gains most result·seconds over the horizon, if it is sure enough"
    )

    horizon_s: float = number(300.0, 10.0, 86_400.0, "how far ahead options are compared", "s")
    span_s: float = number(15.0, 0.0, 86_400.0, "least time between two adaptations (τ)", "s")
    chance: float = number(0.8, 0.0, 1.0, "how likely a gain must be")
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
    least_gain_row_s: float = number(
        1.0, 0.0, 1e15, "gains below this are not worth an action", "row·s"
    )
    settle_s: float = number(
        SETTLE_S, 0.0, 86_400.0, "how long a join order must have run before it is left", "s"
    )
    only: str = choice(
        ANY, (ANY, "move", "spill", "cleanup", "migrate"), "which kind of option is done at all"
    )
    seed: int = whole(0, 0, 2**31, "of the draws")
    numbers: Coefficients = field(default_factory=Coefficients)

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        since = snapshot.time_s - snapshot.history.last_adaptation_s
        rest = Reason.of(
            Topic.INPUT,
            "time since the last adaptation (τ)",
            since_s=since,
            threshold_s=self.span_s,
        )
        if since < self.span_s:
            return Plan.nothing("the last adaptation is too recent", rest)
        outlook = self.look(snapshot)
        menu: list[Priced | Choice] = [*self._orders(outlook, limits)]
        menu += [p for p in ranked(outlook, limits) if self._wanted(p.option.kind)]
        menu.sort(key=lambda one: -one.gain_row_s)
        inputs = (rest, _nothing_said(outlook), *_menu_said(menu, self.chance))
        return self._best(outlook, menu, inputs)

    def _wanted(self, kind: str) -> bool:
        return self.only == ANY or kind in (self.only, "nothing")

    def _orders(self, outlook: Outlook, limits: Limits) -> list[Choice]:
        """Other join orders, once the running one has been seen for long enough."""
        snapshot = outlook.snapshot
        if not self._wanted("migrate") or seen(snapshot, self.settle_s):
            return []
        if migrate_to("", "", snapshot).bytes > limits.action_bytes_max:
            return []
        return choices(snapshot, self.numbers, outlook.rule, outlook.horizon, self.seed)

    def look(self, snapshot: ClusterSnapshot) -> Outlook:
        rule = snapshot.spill_rule or LocalRule(self.threshold, self.spill_percent)
        return look(snapshot, self.numbers, Horizon(self.horizon_s), rule)

    def _best(
        self, outlook: Outlook, menu: list[Priced | Choice], said: tuple[Reason, ...]
    ) -> Plan:
        skipped: list[Reason] = []
        for priced in menu[:SHOWN]:
            if priced.gain_row_s < self.least_gain_row_s:
                break
            if isinstance(priced, Choice):
                if doubt := priced.doubt(self.chance, TIMES):
                    skipped.append(priced.said(Topic.SKIPPED, doubt, self.chance))
                    continue
                chosen = priced.said(Topic.CHOSEN, "gains most", self.chance)
                return Plan((priced.step(outlook.snapshot),), (*said, *skipped, chosen))
            if priced.option.kind == "nothing":
                break
            if not priced.pays:
                skipped.append(_reason(Topic.SKIPPED, "gains less than twice its cost", priced))
                continue
            sure = confidence(outlook, priced.option, self.seed)
            if sure.chance < self.chance:
                skipped.append(_reason(Topic.SKIPPED, "too unsure", priced, sure, self.chance))
                continue
            rows = rows_of(outlook, priced.option)
            if not len(rows):
                skipped.append(_reason(Topic.SKIPPED, "no whole group fits", priced))
                continue
            chosen = _reason(Topic.CHOSEN, "gains most", priced, sure, self.chance)
            step = step_of(outlook.snapshot, priced.option, rows)
            return Plan((step,), (*said, *skipped, chosen))
        return Plan.nothing("nothing gains enough", *said, *skipped)


def rows_of(outlook: Outlook, option: Option) -> Longs:
    """The whole groups that an option's amount stands for."""
    snapshot = outlook.snapshot
    if option.kind == "cleanup":
        return cleanup_rows(outlook, option.node, option.bytes)
    mine = snapshot.on(option.node)
    moving = option.kind == "move"
    able = victims.movable(snapshot, mine) if moving else victims.spillable(snapshot, mine)
    order = victims.MOST_DECAYED if moving else victims.LEAST_DECAYED
    ordered = victims.in_order(snapshot, able, order)
    return victims.within(ordered, snapshot.groups.memory_bytes, option.bytes)


def step_of(snapshot: ClusterSnapshot, option: Option, rows: Longs) -> Step:
    if option.kind == "move":
        return move_of(snapshot, rows, option.node, option.target)
    if option.kind == "spill":
        return spill_of(snapshot, rows, option.node)
    return cleanup_of(snapshot, rows, option.node)


def _nothing_said(outlook: Outlook) -> Reason:
    nothing = outlook.nothing
    return Reason.of(
        Topic.INPUT,
        "nothing done until the horizon",
        row_s=nothing.row_s.sum(),
        nodes_full=np.isfinite(nothing.full_s).sum(),
        first_full_s=nothing.full_s.min(initial=np.inf),
        horizon_s=outlook.horizon.seconds,
    )


def _menu_said(menu: list[Priced | Choice], chance: float) -> list[Reason]:
    return [
        one.said(Topic.CANDIDATES, f"rank {rank}", chance)
        if isinstance(one, Choice)
        else _reason(Topic.CANDIDATES, f"rank {rank}", one)
        for rank, one in enumerate(menu[:SHOWN], start=1)
    ]


def _reason(
    topic: Topic,
    text: str,
    priced: Priced,
    sure: Confidence | None = None,
    chance: float = 0.0,
) -> Reason:
    option = priced.option
    where = f" {option.node}" if option.node >= 0 else ""
    where += f" → {option.target}" if option.target >= 0 else ""
    figures = {
        "bytes": option.bytes,
        "gain_row_s": priced.gain_row_s,
        "cost_row_s": priced.cost_row_s,
    }
    if sure:
        figures |= {"p10_row_s": sure.p10, "p50_row_s": sure.p50, "p90_row_s": sure.p90}
        figures |= {"chance": sure.chance, "threshold": chance}
    return Reason.of(topic, f"{option.kind}{where}: {text}", **figures)
