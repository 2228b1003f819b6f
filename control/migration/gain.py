"""What a migration is worth in row·s against nothing, by either strategy, and which one to take.

Gain = benefit − cost over the horizon. Benefit, once the new plan stands: shorter ticks (1.5 · ρ · τ, less work), and
what nodes no longer spill, as their state is smaller. Cost of moving state: ρ s² / 2 + π · CPU beside the ticks, or all of
it while ticks wait, whichever costs less until the new plan stands, where that is over within a tick's time. Of the
parallel track: longer ticks as long as it lasts. Of both: memory for what is there twice, and a clean-up of what has
been spilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf

import numpy as np

from control.cost.draws import DRAWS, Compared, Confidence, Spread, compare, confidence_of
from control.cost.outlook import Outlook
from control.migration.curve import Point, crossing, curve_of
from control.migration.model import Model
from control.migration.strategies import EVERY, Change, Estimate, Pace, Strategy
from control.migration.terms import Pricing
from control.migration.trees import Tree
from control.migration.words import reasons
from control.snapshot import Doubles

STRATA = (-1.53, -0.89, -0.49, -0.16, 0.16, 0.49, 0.89, 1.53)  # middles of eighths of a normal one
SLICES_DRAWN_MAX = 20_000  # draws × slices of one comparison
DRAWS_MIN = 5


@dataclass(frozen=True, slots=True)
class Offer:
    """One strategy priced. gain = nothing − (cost + after)."""

    estimate: Estimate
    cost_row_s: float
    gain_row_s: float
    nothing_row_s: float
    sure: Confidence
    hindrance: str = ""
    full_s: float = inf  # under the new plan a node is full by then

    @property
    def strategy(self) -> Strategy:
        return self.estimate.strategy

    @property
    def possible(self) -> bool:
        return not self.hindrance

    @property
    def pays(self) -> bool:
        """Worth doing without a person: likely, and twice what it costs."""
        worth = self.gain_row_s > 0 and self.gain_row_s >= 2 * self.cost_row_s
        return self.possible and worth and self.sure.chance >= 0.8


@dataclass(frozen=True)
class Advice:
    """Every strategy for one change, and the best one chosen (None: none can be). What is said of it besides is worked
    out where somebody asks: it takes longer than to choose."""

    outlook: Outlook = field(repr=False, compare=False)
    change: Change
    offers: tuple[Offer, ...]
    chosen: Offer | None
    pace: Pace

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        """What moving state and the parallel track cost at other windows; empty without windows."""
        return curve_of(self.outlook, self.change, self.pace)

    @cached_property
    def crossover(self) -> float:
        """At windows so many times today's both cost the same; 0 or infinite: never."""
        return crossing(self.outlook, self.change, self.pace, self.curve)

    @cached_property
    def why(self) -> str:
        """In words."""
        return reasons(self.change.model.span_s, self.offers, self.chosen, self.crossover)


def grown(change: Change, doubt: float = 0.0) -> float:
    """Bytes of state after the change as a multiple of those before."""
    before, new = change.old.state_bytes, change.new
    wide = sum(
        size
        for one in new.operators
        for mask, size in zip(one.parts, one.state_bytes, strict=True)
        if mask & (mask - 1)
    )
    return (new.state_bytes + (exp(doubt) - 1) * wide) / before if before > 0 else 1.0


def offer(outlook: Outlook, change: Change, strategy: Strategy, pace: Pace, seed: int = 0) -> Offer:
    """One strategy's figures, with how sure the gain is."""
    pricing = Pricing(outlook, pace, change)
    parts = pricing.parts(strategy)
    nothing = pricing.rolled(pricing.picture())
    ahead = pricing.ahead(pricing.picture(grown(change)))
    after = float(ahead.row_s.sum())
    twice = pricing.rolled(pricing.picture(1.0, parts.estimate.extra_bytes))
    crowded = (1 - parts.stands) * (twice - nothing)
    cost = parts.cost_row_s + crowded
    gain = parts.saved_row_s + parts.stands * (nothing - after) - cost
    horizon = outlook.horizon.seconds
    drawn = _draws(pricing, strategy, crowded, seed)
    return Offer(
        parts.estimate,
        cost,
        gain,
        nothing + pricing.late(0.0, horizon),
        confidence_of(drawn),
        pricing.hindrance(parts.estimate),
        float(ahead.full_s.min(initial=inf)),
    )


def _draws(pricing: Pricing, strategy: Strategy, crowded: float, seed: int) -> Doubles:
    """The gain under draws of rates, prices, pauses and of what is not known of the new tree's selectivities. What
    nodes spill is drawn for the tree as it is thought to be, and shifted by what a doubt changes."""
    outlook, change, spread = pricing.outlook, pricing.change, Spread()
    most = SLICES_DRAWN_MAX // max(len(outlook.slices), 1)
    each = max(DRAWS_MIN, min(DRAWS, most) // len(STRATA))
    expected = pricing.picture(grown(change))
    real = np.arange(len(outlook.snapshot.nodes))
    pair = Compared(pricing.picture(), expected, real, 0.0, 0.0)
    kept = compare(outlook, pair, seed, spread, each * len(STRATA)).reshape(len(STRATA), each)
    after = pricing.rolled(expected)
    found = []
    for number, z in enumerate(STRATA):
        doubt = z * change.new.spread
        parts = pricing.parts(strategy, doubt)
        random = np.random.default_rng((seed, number))
        rho, cpu, pause = (
            np.exp(random.normal(0.0, sigma, each))
            for sigma in (spread.rows_out, spread.cpu, spread.pause)
        )
        worse = pricing.rolled(pricing.picture(grown(change, doubt))) - after if doubt else 0.0
        direct = parts.stall_row_s * pause**2 + (parts.cpu_row_s + parts.load_row_s) * cpu
        saved = rho * (parts.saved_row_s * cpu - direct - crowded)
        found.append(parts.stands * (kept[number] - worse) + saved)
    return np.concatenate(found)


def advise(
    outlook: Outlook,
    model: Model,
    old: Tree,
    new: Tree,
    pace: Pace,
    seed: int = 0,
    able: Sequence[Strategy] = EVERY,
) -> Advice:
    """Every strategy for a change of trees, and which to take of those that the engine is able to do."""
    change = Change.of(model, old, new)
    priced = [offer(outlook, change, name, pace, seed) for name in EVERY]
    no = "the engine does not do it yet"
    offers = tuple(
        one if one.strategy in able else replace(one, hindrance=one.hindrance or no)
        for one in priced
    )
    possible = [one for one in offers if one.possible]
    chosen = max(possible, key=lambda one: one.gain_row_s, default=None)
    return Advice(outlook, change, offers, chosen, pace)
