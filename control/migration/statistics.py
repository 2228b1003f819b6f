"""The model from what ticks tell: rates, selectivities, and the cost of a row, all decayed alike.

What is measured is never more than the running tree shows: the selectivity of the sets of inputs that its operators
join. Everything else follows from key classes by least squares in logs, with how unsure that is; sets seen under an
earlier tree are remembered as long as their rows weigh anything. Time is an input; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log, prod
from typing import Any

import numpy as np

from control.migration.fit import Evidence, fit
from control.migration.model import Model
from control.migration.prices import RowPrices, RowWork
from control.migration.trees import Mask, mask_of, members, single
from control.migration.volumes import closed, longest, rate_volume
from control.snapshot import HALF_LIFE_S

REMEMBERED = 60.0  # half-lives are so many times as long for what only another tree shows
FORGOTTEN = 1e-6  # evidence of fewer rows than this is dropped


@dataclass(frozen=True, slots=True)
class SideTold:
    """One side of an operator in one tick, over all nodes. `state_rows`: those that can still meet a row to come."""

    inputs: tuple[int, ...]
    rows_in: int
    state_rows: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorTold:
    """One operator in one tick, over all nodes. `cpu_s` is all of it; `join_cpu_s` and `insert_cpu_s` where a task
    tells them apart. `met`: the share of the tick's combinations that were tried in it, as the others are put off; 0
    where its results say nothing of that, being of other ticks too."""

    operator: str
    sides: tuple[SideTold, ...]
    rows_out: int
    cpu_s: float
    join_cpu_s: float | None = None
    insert_cpu_s: float | None = None
    met: float = 1.0


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of some inputs joined on purpose, to know a selectivity that the running tree does not show."""

    inputs: tuple[int, ...]
    combinations: float  # that were tried
    rows: float  # that agreed on all keys


@dataclass(frozen=True, slots=True)
class TickTold:
    """One tick. `time_s` is any clock that goes on evenly."""

    time_s: float
    operators: tuple[OperatorTold, ...]
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryShape:
    """What does not change while a query runs: `bounds` as (early, late, seconds), closed."""

    names: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    bounds: tuple[tuple[int, int, float], ...] = ()


@dataclass
class _Input:
    """One stream: decayed rows, and its state when last told."""

    rows: float = 0.0
    state_rows: float = 0.0
    state_bytes: float = 0.0


@dataclass
class Statistics:
    """Running statistics of one query, across its trees."""

    shape: QueryShape
    time_s: float | None = None
    weight_s: float = 0.0  # decayed seconds: what decayed rows are divided by
    inputs: list[_Input] = field(default_factory=list)
    evidence: dict[Mask, Evidence] = field(default_factory=dict)
    prices: RowPrices = field(default_factory=RowPrices)

    def __post_init__(self) -> None:
        self.inputs = self.inputs or [_Input() for _ in self.shape.names]

    def add(self, told: TickTold) -> None:
        """Take in one tick. The first one only says when the clock began and what state there is."""
        elapsed = 0.0 if self.time_s is None else max(0.0, told.time_s - self.time_s)
        first = self.time_s is None
        self.time_s = told.time_s if first else max(told.time_s, self.time_s or 0.0)
        self._decay(0.5 ** (elapsed / HALF_LIFE_S), {_mask(one) for one in told.operators})
        self.weight_s += elapsed
        for operator in told.operators:
            for side in operator.sides:
                if len(side.inputs) == 1:
                    self._stream(side, first)
            if not first:
                self.prices.add(_work(operator))
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
        longer = keep ** (1 / REMEMBERED)
        faded = {
            mask: seen.faded(keep if mask in running else longer)
            for mask, seen in self.evidence.items()
        }
        self.evidence = {
            mask: seen for mask, seen in faded.items() if seen.combinations > FORGOTTEN
        }

    def _stream(self, side: SideTold, first: bool) -> None:
        given = self.inputs[side.inputs[0]]
        given.rows += 0 if first else side.rows_in
        given.state_rows, given.state_bytes = float(side.state_rows), float(side.state_bytes)

    def _results(self, operators: Sequence[OperatorTold], elapsed: float) -> None:
        """What each operator made, against how many combinations of rows met in time."""
        rates, reach = self.rates(), self._reach()
        for operator in operators:
            mask = _mask(operator)
            some = members(mask)
            volume = rate_volume(reach, some)
            tried = elapsed * volume * prod(rates[n] for n in some)
            if np.isfinite(tried) and tried > 0 and operator.met > 0:
                self._observe(mask, tried * operator.met, operator.rows_out)

    def _observe(self, mask: Mask, combinations: float, rows: float) -> None:
        if not single(mask) and combinations > 0:
            known = self.evidence.get(mask, Evidence())
            self.evidence[mask] = Evidence(known.combinations + combinations, known.rows + rows)

    def rates(self) -> tuple[float, ...]:
        """Rows a second of each input."""
        if self.weight_s <= 0:
            return (0.0,) * len(self.inputs)
        return tuple(given.rows / self.weight_s for given in self.inputs)

    def _reach(self) -> Any:
        """Windows, and no longer than there is state for: a query that began just now, or one without windows."""
        ages = [
            given.state_rows / rate if rate > 0 else np.inf
            for given, rate in zip(self.inputs, self.rates(), strict=True)
        ]
        return closed(len(self.inputs), self.shape.bounds, ages)

    def model(self) -> Model:
        """The query as it is now."""
        classes = tuple(mask_of(span) for span in self.shape.classes)
        sizes = [max(given.state_rows, 1.0) for given in self.inputs]
        usual = [-log(max(sizes[n] for n in span)) for span in self.shape.classes]
        factors, seen = fit(classes, usual, self.evidence)
        widths = (
            given.state_bytes / given.state_rows if given.state_rows else 24.0
            for given in self.inputs
        )
        span_s = longest(len(self.inputs), self.shape.bounds)
        about = self.shape.names, self.rates(), tuple(widths), classes, factors
        return Model(*about, self._reach(), span_s, seen)

    def pack(self) -> dict[str, Any]:
        """As JSON, for a restart."""
        return {
            "time_s": self.time_s,
            "weight_s": self.weight_s,
            "inputs": [asdict(given) for given in self.inputs],
            "evidence": [[m, e.combinations, e.rows] for m, e in sorted(self.evidence.items())],
            "prices": self.prices.pack(),
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
        )


def _mask(operator: OperatorTold) -> Mask:
    """The inputs whose rows its results are made of."""
    return mask_of([n for side in operator.sides for n in side.inputs])


def _work(operator: OperatorTold) -> RowWork:
    rows_in = sum(side.rows_in for side in operator.sides)
    split = operator.join_cpu_s, operator.insert_cpu_s
    return RowWork(rows_in + operator.rows_out, rows_in, operator.cpu_s, *split)
