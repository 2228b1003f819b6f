"""What a migration is worth in row·s against nothing, by either strategy, and which one to take.

Gain = benefit − cost over the horizon. Benefit, once the new plan stands: shorter ticks (1.5 · ρ · τ, less work), and
what nodes no longer spill, as their state is smaller. Cost of moving state: ρ s² / 2 + π · CPU beside the ticks, or all of
it while ticks wait, whichever costs less until the new plan stands, where that is over within a tick's time. Of the
parallel track: longer ticks as long as it lasts. Of both: memory for what is there twice, and a clean-up of what has
been spilled. A node's work is what is known of it (how busy it was, or work_s_per_row), and at least its joins; groups
shrink and grow alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, isfinite

import numpy as np

from control.cost.draws import DRAWS, Compared, Confidence, Spread, compare, confidence_of
from control.cost.options import cleanup_cpu_s
from control.cost.outlook import Outlook
from control.cost.price import load, tick_s, work_by_node
from control.cost.roll import Picture, Rolled, roll
from control.migration.lengths import scaled
from control.migration.model import Model, TreeLoad
from control.migration.strategies import (
    Change,
    Estimate,
    Pace,
    Strategy,
    delta,
    moving,
    parallel,
    ways,
)
from control.migration.trees import Tree
from control.migration.words import mb, reasons
from control.snapshot import NO_LIMIT, Doubles

STRATA = (-1.53, -0.89, -0.49, -0.16, 0.16, 0.49, 0.89, 1.53)  # middles of eighths of a normal one
SLICES_DRAWN_MAX = 20_000  # draws × slices of one comparison
DRAWS_MIN = 5
RANGE = 64.0  # how much longer or shorter windows the crossover is looked for at
POINTS = 25  # so many of them
ESTIMATES: dict[Strategy, Callable[[Change, Pace], Estimate]] = {
    "moving": moving,
    "parallel": parallel,
    "delta": delta,
}
EVERY: tuple[Strategy, ...] = tuple(ESTIMATES)


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
    def after_row_s(self) -> float:
        return self.nothing_row_s - self.cost_row_s - self.gain_row_s

    @property
    def pays(self) -> bool:
        """Worth doing without a person: likely, and twice what it costs."""
        worth = self.gain_row_s > 0 and self.gain_row_s >= 2 * self.cost_row_s
        return self.possible and worth and self.sure.chance >= 0.8


@dataclass(frozen=True, slots=True)
class Point:
    """What both strategies take at windows of another length. Cost: the direct one, and what is lost until the new
    plan stands."""

    factor: float
    moving_s: float
    moving_row_s: float
    parallel_s: float
    parallel_row_s: float


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


@dataclass(frozen=True, slots=True)
class _Parts:
    """The terms of one strategy: direct cost, load while it lasts and what is saved a second after it."""

    estimate: Estimate
    stall_row_s: float
    cpu_row_s: float
    load_row_s: float
    saved_row_s: float  # of load, until the horizon
    whole_row_s: float  # the same, did the new plan stand at once
    stands: float  # share of the horizon that the new plan stands

    @property
    def cost_row_s(self) -> float:
        return self.stall_row_s + self.cpu_row_s + self.load_row_s

    @property
    def until_stands_row_s(self) -> float:
        """The cost, and what is not saved yet."""
        return self.cost_row_s + self.whole_row_s - self.saved_row_s


class _Pricing:
    """One change on one cluster."""

    def __init__(self, outlook: Outlook, pace: Pace, change: Change) -> None:
        self.outlook, self.pace, self.change = outlook, pace, change
        self._estimates: dict[Strategy, Estimate] = {}
        nodes, numbers = outlook.snapshot.nodes, outlook.numbers
        self.alive = np.flatnonzero(nodes.alive)
        self.work = work_by_node(nodes, numbers)
        # Whatever nodes say, they do the joins of the tree that runs.
        joins_s = self._cpu(change.old, 1.0) * numbers.tick_s / max(len(self.alive), 1)
        self.work[self.alive] = np.maximum(self.work[self.alive], joins_s)
        # Nodes give rows in between too; it is the query's results that somebody waits for.
        every = outlook.rows_out_per_s
        self.rho = min(every, change.model.rate(change.model.everything))
        price = float(outlook.price[self.alive].mean()) if len(self.alive) else 0.0
        self.cpu_price = price * self.rho / every if every > 0 else 0.0
        groups = outlook.snapshot.groups
        self.spilled = np.flatnonzero(groups.spilled)
        self.clean_cpu_s = sum(cleanup_cpu_s(outlook, self.spilled))

    def late(self, cpu_more: float, seconds: float) -> float:
        """Row·s of waiting for ticks with so much more work a second, and of falling behind where that is more
        than there is time for."""
        numbers, work = self.outlook.numbers, self.work.copy()
        if not len(self.alive) or seconds <= 0:
            return 0.0
        work[self.alive] += cpu_more * numbers.tick_s / len(self.alive)
        busy, then = (
            tick_s(np.maximum(one, 0.0), numbers.cores, 0.0) / numbers.tick_s
            for one in (self.work, work)
        )
        cores = self.pace.cores
        length = self.pace.under(busy * cores, then * cores).tick_s
        over = max(0.0, 1 - 1 / then) if then > 0 else 0.0
        return load(self.rho, seconds, length) + self.rho * over * seconds**2 / 2

    def estimate(self, strategy: Strategy) -> Estimate:
        """Once: it does not depend on what is drawn."""
        if strategy not in self._estimates:
            change, pace = self.change, self.pace
            found = (
                ways(change, pace) if strategy == "moving" else [ESTIMATES[strategy](change, pace)]
            )
            cleaned = [self._cleaned(one) for one in found]
            costs = [self._of(one).until_stands_row_s for one in cleaned]
            self._estimates[strategy] = cleaned[costs.index(min(costs))]
        return self._estimates[strategy]

    def _cleaned(self, estimate: Estimate) -> Estimate:
        """With what comes first: spilled groups go back to memory, and what they owe comes out."""
        cpu_s = self.clean_cpu_s
        if not cpu_s:
            return estimate
        length_s = estimate.length_s + cpu_s / self.pace.side_cores
        return replace(estimate, length_s=length_s, cpu_s=estimate.cpu_s + cpu_s)

    def parts(self, strategy: Strategy, doubt: float = 0.0) -> _Parts:
        """`doubt`: ln of how many times more rows the new tree makes in between than is thought."""
        return self._of(self.estimate(strategy), doubt)

    def _of(self, estimate: Estimate, doubt: float = 0.0) -> _Parts:
        change = self.change
        horizon, factor = self.outlook.horizon.seconds, exp(doubt)
        lasts = min(estimate.length_s, horizon)
        more = self._cpu(change.new, factor) - self._cpu(change.old, 1.0)
        within = estimate.strategy == "parallel"  # both plans: its CPU is the ticks'
        ticks_s = min(estimate.ticks_s, horizon)
        during = (
            estimate.ticks_cpu_s / estimate.ticks_s
            if isfinite(estimate.ticks_cpu_s) and ticks_s
            else 0.0
        )
        during *= factor if within else 1.0
        beside_s = 0.0 if within else factor * (estimate.cpu_s - self.clean_cpu_s)
        saved = self.late(0.0, horizon - lasts) - self.late(more, horizon - lasts)
        longer = self.late(during, ticks_s) - self.late(0.0, ticks_s)
        return _Parts(
            estimate,
            self.rho * (estimate.stall_s**2 + estimate.again_s**2) / 2,
            self.cpu_price * (beside_s + self.clean_cpu_s),
            max(longer, 0.0),
            saved + max(-longer, 0.0),
            self.late(0.0, horizon) - self.late(more, horizon),
            1 - lasts / horizon,
        )

    def _cpu(self, told: TreeLoad, factor: float) -> float:
        """CPU a second, with `factor` times the rows in between: each is made once, probed once and kept."""
        join_s, insert_s = self.pace.join_s, self.pace.insert_s
        more = (factor - 1) * told.between_per_s * (2 * join_s + insert_s)
        return told.cpu(join_s, insert_s) + more

    def shares(self) -> Doubles:
        """How state is spread over nodes."""
        memory = self.outlook.snapshot.nodes.memory_bytes.astype(np.float64)
        total = memory.sum()
        return memory / total if total > 0 else np.full(len(memory), 1 / max(len(memory), 1))

    def picture(self, factor: float = 1.0, extra_bytes: float = 0.0) -> Picture:
        """All nodes with state of so many times the bytes, growing so many times as fast, and something beside it."""
        outlook = self.outlook
        slices = outlook.slices
        made = outlook.picture(
            replace(
                slices,
                bytes=slices.bytes * factor,
                bytes_per_s=slices.bytes_per_s * factor,
                net_bytes_per_s=slices.net_bytes_per_s * factor,
            ),
            list(range(len(outlook.snapshot.nodes))),
            [0.0] * len(outlook.snapshot.nodes),
        )
        limit = np.where(outlook.snapshot.nodes.alive, made.limit_bytes, np.inf)
        other = made.other_bytes + extra_bytes * self.shares()
        return replace(made, limit_bytes=limit, other_bytes=other)

    def rolled(self, picture: Picture) -> float:
        return float(self.ahead(picture).row_s.sum())

    def ahead(self, picture: Picture) -> Rolled:
        outlook = self.outlook
        return roll(picture, outlook.numbers, outlook.horizon, outlook.rule)

    def hindrance(self, estimate: Estimate) -> str:
        if estimate.hindrance:
            return estimate.hindrance
        nodes = self.outlook.snapshot.nodes
        groups = self.outlook.snapshot.groups
        needs = estimate.extra_bytes * self.shares()
        np.add.at(needs, groups.owner[self.spilled], groups.disk_bytes[self.spilled])
        limited = nodes.alive & (nodes.budget_bytes < NO_LIMIT)
        short = np.where(limited, needs - nodes.free_bytes, -np.inf)
        node = int(short.argmax()) if len(short) else 0
        if not len(short) or short[node] <= 0:
            return ""
        free = max(0, int(nodes.free_bytes[node]))
        return f"node {node} needs {mb(needs[node])} more and has {mb(free)} free"


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
    pricing = _Pricing(outlook, pace, change)
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


def _draws(pricing: _Pricing, strategy: Strategy, crowded: float, seed: int) -> Doubles:
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


def at_windows(outlook: Outlook, change: Change, pace: Pace, factor: float) -> Point:
    """Both strategies, were windows so many times as long; later benefit included, memory left out."""
    old, new = change.old.tree, change.new.tree
    there = _Pricing(outlook, pace, Change.of(scaled(change.model, factor), old, new))
    moved, beside = there.parts("moving"), there.parts("parallel")
    return Point(
        factor,
        moved.estimate.length_s,
        moved.until_stands_row_s,
        beside.estimate.length_s,
        beside.until_stands_row_s,
    )


def curve_of(outlook: Outlook, change: Change, pace: Pace) -> tuple[Point, ...]:
    """From windows far shorter than today's to far longer ones; empty where there are none."""
    if not isfinite(change.model.span_s):
        return ()
    factors = np.geomspace(1 / RANGE, RANGE, POINTS).tolist()
    return tuple(at_windows(outlook, change, pace, factor) for factor in factors)


def crossing(outlook: Outlook, change: Change, pace: Pace, curve: tuple[Point, ...]) -> float:
    """How many times as long windows would be where both cost the same; the nearest such point to today's. 0:
    moving state costs more at all of them; infinite: the parallel track does, or there are no windows."""
    if not curve:
        return inf
    points = [point.factor for point in curve]
    values = [_dearer(point) for point in curve]
    turns = [n for n in range(len(points) - 1) if (values[n] > 0) != (values[n + 1] > 0)]
    if not turns:
        return 0.0 if values[len(values) // 2] > 0 else inf
    at = min(turns, key=lambda n: abs(np.log(points[n] * points[n + 1])))
    low, high, up = points[at], points[at + 1], values[at] > 0
    for _ in range(30):
        middle = (low * high) ** 0.5
        over = _dearer(at_windows(outlook, change, pace, middle)) > 0
        low, high = (middle, high) if over == up else (low, middle)
    return float((low * high) ** 0.5)


def _dearer(point: Point) -> float:
    """How much more moving state costs."""
    return point.moving_row_s - point.parallel_row_s
