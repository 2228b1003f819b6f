"""The model from what ticks tell: rates, selectivities, and the cost of a row, all decayed alike.

What is measured is never more than the running tree shows: the selectivity of the sets of inputs that its operators
join. Everything else follows from key classes by least squares in logs, with how unsure that is; sets seen under an
earlier tree are remembered as long as their rows weigh anything. Time is an input; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, log, prod
from statistics import median_high
from typing import Any

import numpy as np

from control.migration.fit import Evidence, fit
from control.migration.model import Model
from control.migration.prices import RowPrices, RowWork
from control.migration.trees import Mask, mask_of, members, single
from control.migration.volumes import closed, longest, rate_volume
from control.snapshot import HALF_LIFE_S, Doubles

REMEMBERED = 60.0  # half-lives are so many times as long for what only another tree shows
FORGOTTEN = 1e-6  # evidence of fewer rows than this is dropped
TICKS_KEPT = 0.6  # of the ticks before, in how far apart ticks are: those of a busy query grow fast
IDLE_S = 1.0  # who waits for a tick gets one after so long, whether input comes or not
LIVE_S = 3.0  # event time is taken to go as fast as the clock for so long
LEAP = 1e4  # times the clock: an input that goes faster has a gap in its times
SATED = (
    0.8  # of what an operator keeps of an input: with so much there, it is the window that ends it
)


@dataclass(frozen=True, slots=True)
class SideTold:
    """One side of an operator in one tick, over all nodes. `state_rows`: those that can still meet a row to come.
    `met`: what the rows that came met, as a share of the rows that the other sides should have had."""

    inputs: tuple[int, ...]
    rows_in: int
    state_rows: int
    state_bytes: int
    met: float = 1.0


@dataclass(frozen=True, slots=True)
class OperatorTold:
    """One operator in one tick, over all nodes. `cpu_s` is all of it (None: not a join's work); `join_cpu_s` and
    `insert_cpu_s` where a task tells them apart. `teaches`: its results are those of the rows that came, and say how
    selective its keys are."""

    operator: str
    sides: tuple[SideTold, ...]
    rows_out: int
    cpu_s: float | None
    join_cpu_s: float | None = None
    insert_cpu_s: float | None = None
    teaches: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of some inputs joined on purpose, to know a selectivity that the running tree does not show."""

    inputs: tuple[int, ...]
    combinations: float  # that were tried
    rows: float  # that agreed on all keys


@dataclass(frozen=True, slots=True)
class TickTold:
    """One tick. `time_s` is any clock that goes on evenly, at its end; `newest_s`: the greatest event time of each input,
    where windows ask for it."""

    time_s: float
    operators: tuple[OperatorTold, ...]
    counted: tuple[Counted, ...] = ()
    newest_s: Mapping[int, float] = field(default_factory=dict)
    wall_s: float = inf  # of its longest task


@dataclass(frozen=True, slots=True)
class QueryShape:
    """What does not change while a query runs: `bounds` as (early, late, seconds), closed."""

    names: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    bounds: tuple[tuple[int, int, float], ...] = ()


@dataclass
class _Input:
    """One stream: decayed rows, and its state when last told, which is kept for these other sides. `newest_s`, and by
    how much it went on, decayed: its event time."""

    rows: float = 0.0
    state_rows: float = 0.0
    state_bytes: float = 0.0
    others: list[Mask] = field(default_factory=list)
    newest_s: float | None = None
    went_s: float = 0.0


@dataclass
class Statistics:
    """Running statistics of one query, across its trees."""

    shape: QueryShape
    time_s: float | None = None
    weight_s: float = 0.0  # decayed seconds: what decayed rows are divided by
    inputs: list[_Input] = field(default_factory=list)
    evidence: dict[Mask, Evidence] = field(default_factory=dict)
    prices: RowPrices = field(default_factory=RowPrices)
    widths: dict[Mask, float] = field(default_factory=dict)  # bytes of joined rows, as last told
    lived_s: float = 0.0  # of which ticks have told
    ticks: float = 0.0  # decayed tick by tick
    ticking_s: float = 0.0  # from one to the next, decayed so too

    def __post_init__(self) -> None:
        self.inputs = self.inputs or [_Input() for _ in self.shape.names]

    def add(self, told: TickTold) -> None:
        """Take in one tick. The first one only says when the clock began and what state there is."""
        elapsed = 0.0 if self.time_s is None else max(0.0, told.time_s - self.time_s)
        first = self.time_s is None
        self.time_s = told.time_s if first else max(told.time_s, self.time_s or 0.0)
        self._decay(
            0.5 ** (elapsed / HALF_LIFE_S), {_mask(one) for one in told.operators if one.teaches}
        )
        self.weight_s += elapsed
        self.lived_s += elapsed
        if not first:
            self.ticks = TICKS_KEPT * self.ticks + 1
            self.ticking_s = TICKS_KEPT * self.ticking_s + min(elapsed, IDLE_S + told.wall_s)
        self._event_time(told.newest_s, elapsed)
        for operator in told.operators:
            for side in operator.sides:
                if len(side.inputs) == 1:
                    self._stream(side, operator, first)
                elif side.state_rows:
                    width = side.state_bytes / side.state_rows
                    self.widths[mask_of(side.inputs)] = round(width, 1)
            if not first and operator.cpu_s is not None:
                self.prices.add(_work(operator, operator.cpu_s))
        if elapsed > 0:
            self._results(told.operators, elapsed)
        for counted in told.counted:
            self._observe(mask_of(counted.inputs), counted.combinations, counted.rows)

    def _decay(self, keep: float, running: set[Mask]) -> None:
        """What the running tree does not show cannot be seen again, and is remembered longer."""
        self.weight_s *= keep
        self.prices.decay(keep)
        for given in self.inputs:
            given.rows *= keep
            given.went_s *= keep
        longer = keep ** (1 / REMEMBERED)
        faded = {
            mask: seen.faded(keep if mask in running else longer)
            for mask, seen in self.evidence.items()
        }
        self.evidence = {
            mask: seen for mask, seen in faded.items() if seen.combinations > FORGOTTEN
        }

    def _event_time(self, newest_s: Mapping[int, float], elapsed: float) -> None:
        for number, newest in newest_s.items():
            given = self.inputs[number]
            before, given.newest_s = given.newest_s, newest
            if before is not None and elapsed > 0:
                given.went_s += min(max(0.0, newest - before), LEAP * elapsed)

    def _stream(self, side: SideTold, operator: OperatorTold, first: bool) -> None:
        given = self.inputs[side.inputs[0]]
        given.rows += 0 if first else side.rows_in
        given.state_rows, given.state_bytes = float(side.state_rows), float(side.state_bytes)
        given.others = [mask_of(other.inputs) for other in operator.sides if other is not side]

    def _results(self, operators: Sequence[OperatorTold], elapsed: float) -> None:
        """What each operator made, against how many combinations of rows met in time: had each side's rows come as
        fast as they do on the whole, those of `elapsed` seconds."""
        reach = self._reach()
        for operator in operators:
            mask = _mask(operator)
            made = self._product(mask, reach) if operator.teaches else 0.0
            if made > 0 and np.isfinite(made):
                seconds = [self._seconds(side, reach, elapsed) for side in operator.sides]
                self._observe(mask, made * sum(seconds) / len(seconds), operator.rows_out)

    def _product(self, mask: Mask, reach: Doubles) -> float:
        """Combinations of rows of these inputs in a second."""
        rates, some = self.rates(), members(mask)
        product = prod(rates[n] for n in some)
        return product * rate_volume(reach, some) if product > 0 else 0.0

    def _seconds(self, side: SideTold, reach: Doubles, elapsed: float) -> float:
        """In how many seconds so many rows of a side come and find whole state: more, where some had waited."""
        mask = mask_of(side.inputs)
        rate = self._product(mask, reach)
        if not single(mask):
            known = self.evidence.get(mask)
            rate *= known.rows / known.combinations if known is not None else 0.0
        return side.met * (side.rows_in / rate if rate > 0 and np.isfinite(rate) else elapsed)

    def _observe(self, mask: Mask, combinations: float, rows: float) -> None:
        if not single(mask) and combinations > 0:
            known = self.evidence.get(mask, Evidence())
            self.evidence[mask] = Evidence(known.combinations + combinations, known.rows + rows)

    def rates(self) -> tuple[float, ...]:
        """Rows a second of each input."""
        if self.weight_s <= 0:
            return (0.0,) * len(self.inputs)
        return tuple(given.rows / self.weight_s for given in self.inputs)

    @property
    def tick_s(self) -> float:
        """From one tick to the next; 0 where that is not known yet."""
        return self.ticking_s / self.ticks if self.ticks > 0 else 0.0

    @property
    def speed(self) -> float:
        """Seconds of event time in one of the clock: 1 where input comes as it arises, more where it is caught up on."""
        went = [given.went_s for given in self.inputs if given.newest_s is not None]
        if not went or not self.shape.bounds or self.weight_s < LIVE_S:
            return 1.0
        return max(median_high(went), 1e-9) / self.weight_s

    @property
    def _bounds(self) -> list[tuple[int, int, float]]:
        """Windows in seconds of the clock."""
        speed = self.speed
        return [(early, late, seconds / speed) for early, late, seconds in self.shape.bounds]

    def _reach(self) -> Doubles:
        """Windows, and no longer than there is state for: a query that began just now, or one without windows."""
        ages = [age for age, _ in self._ages(self._windows())]
        return closed(len(self.inputs), self._bounds, ages)

    def _windows(self) -> Doubles:
        """The reach that windows alone give."""
        count = len(self.inputs)
        return closed(count, self._bounds, (inf,) * count)

    def _ages(self, windows: Doubles) -> list[tuple[float, bool]]:
        """Of each input, how long ago its oldest row came, and whether a window has let go of older ones: then no longer
        than it has been told of."""
        every = zip(self.inputs, self.rates(), windows, strict=True)
        return [self._age(given, rate, reach) for given, rate, reach in every]

    def _age(self, given: _Input, rate: float, reach: Doubles) -> tuple[float, bool]:
        age = given.state_rows / rate if rate > 0 else 0.0
        kept = max((float(reach[list(members(side))].min()) for side in given.others), default=inf)
        sated = age >= SATED * kept
        return max(age, self.lived_s) if sated or rate <= 0 else age, sated

    def model(self, delay_s: float = 0.0) -> Model:
        """The query as it is now. `delay_s`: how late rows may be; state that windows end stays so much longer."""
        classes = tuple(mask_of(span) for span in self.shape.classes)
        sizes = [max(given.state_rows, 1.0) for given in self.inputs]
        usual = [-log(max(sizes[n] for n in span)) for span in self.shape.classes]
        factors, seen = fit(classes, usual, self.evidence)
        widths = (
            given.state_bytes / given.state_rows if given.state_rows else 24.0
            for given in self.inputs
        )
        windows = self._windows()
        ended = bool(np.isfinite(windows).all()) and all(sated for _, sated in self._ages(windows))
        about = self.shape.names, self.rates(), tuple(widths), classes, factors
        return Model(
            *about,
            self._reach(),
            longest(len(self.inputs), self._bounds),
            seen,
            tick_s=self.tick_s if ended else 0.0,
            delay_s=delay_s / self.speed,
            widths=dict(self.widths),
        )

    def pack(self) -> dict[str, Any]:
        """As JSON, for a restart."""
        return {
            "time_s": self.time_s,
            "weight_s": self.weight_s,
            "ticks": [self.ticks, self.ticking_s],
            "lived_s": self.lived_s,
            "inputs": [asdict(given) for given in self.inputs],
            "evidence": [[m, e.combinations, e.rows] for m, e in sorted(self.evidence.items())],
            "prices": self.prices.pack(),
            "widths": [[mask, size] for mask, size in sorted(self.widths.items())],
        }

    @staticmethod
    def unpack(shape: QueryShape, raw: Mapping[str, Any]) -> Statistics:
        return Statistics(
            shape,
            raw["time_s"],
            raw["weight_s"],
            [_Input(**given) for given in raw["inputs"]],
            {m: Evidence(tried, rows) for m, tried, rows in raw["evidence"]},
            RowPrices.unpack(raw["prices"]),
            dict(raw.get("widths", ())),
            raw.get("lived_s", raw["weight_s"]),
            *raw.get("ticks", (0.0, 0.0)),
        )


def _mask(operator: OperatorTold) -> Mask:
    """The inputs whose rows its results are made of."""
    return mask_of([n for side in operator.sides for n in side.inputs])


def _work(operator: OperatorTold, cpu_s: float) -> RowWork:
    rows_in = sum(side.rows_in for side in operator.sides)
    split = operator.join_cpu_s, operator.insert_cpu_s
    return RowWork(rows_in + operator.rows_out, rows_in, cpu_s, *split)
