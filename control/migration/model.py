"""How many rows a join tree makes and keeps: the exact expectation for windowed equi-joins at steady rates.

Results of inputs S a second: (∏ rates) · rate volume of S · selectivity of S. Rows that one side of an operator keeps:
(∏ rates) · state volume of S against the other side · selectivity of S. Both follow from rows being Poisson in time and
keys not depending on time; neither depends on the shape of the tree below, so any trees of the same inputs agree on
what they have in common. An n-way operator keeps its inputs and makes nothing in between.

The papers let go of a row as soon as none to come can meet it. The engine lets go of whole runs once a tick knows that
they are over (`tick_s`): so what is made of old rows and a new one stays as long as the new one, and some time more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, prod

import numpy as np

from control.migration.trees import Mask, Tree, below, joins, members, single
from control.migration.volumes import closed, even, longest, rate_volume, state_volume
from control.snapshot import Doubles

RUN_SHARE = 1 / 8  # of the time that rows are kept: runs are merged until they reach over so much


@dataclass(frozen=True, slots=True)
class Known:
    """A selectivity in logs, and how sure it is (standard deviation in logs)."""

    log_value: float
    spread: float = 0.0

    @property
    def value(self) -> float:
        return exp(self.log_value)


@dataclass(frozen=True)
class Model:
    """One query's inputs as the optimiser sees them.

    `classes`: key classes as masks; `class_factor`: ln of how likely one more member of a class agrees with those
    that agree already; `seen`: sets of inputs whose selectivity was measured itself.
    """

    names: tuple[str, ...]
    rates: tuple[float, ...]  # rows a second
    row_bytes: tuple[float, ...]
    classes: tuple[Mask, ...]
    class_factor: tuple[Known, ...]
    reach: Doubles
    span_s: (
        float  # the longest window: how long a row may have to wait for a partner; infinite without
    )
    seen: Mapping[Mask, Known] = field(default_factory=dict)
    tick_s: float = 0.0  # state goes by ticks so far apart, run by run; 0: row by row
    delay_s: float = 0.0
    widths: Mapping[Mask, float] = field(default_factory=dict)  # bytes of joined rows, where known
    longer_s: Mapping[Mask, float] = field(default_factory=dict)  # some inputs' rows stay on
    _kept: dict[object, float] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(
        rates: Sequence[float],
        classes: Sequence[Sequence[int]],
        selectivity: Sequence[float],
        window_s: float | None = None,
        *,
        names: Sequence[str] = (),
        row_bytes: Sequence[float] = (),
        bounds: Sequence[tuple[int, int, float]] = (),
        ages_s: Sequence[float] = (),
    ) -> Model:
        """From plain figures. `window_s` between all inputs, or `bounds`, or neither and `ages_s`."""
        count = len(rates)
        every = [(i, j, window_s) for i in range(count) for j in range(count) if i != j]
        given = bounds if window_s is None else [(i, j, s) for i, j, s in every if s is not None]
        return Model(
            tuple(names) or tuple("abcdefgh"[:count]),
            tuple(rates),
            tuple(row_bytes) or (24.0,) * count,
            tuple(sum(1 << n for n in span) for span in classes),
            tuple(Known(float(np.log(s))) for s in selectivity),
            closed(count, given, tuple(ages_s) or (np.inf,) * count),
            longest(count, given),
        )

    @property
    def everything(self) -> Mask:
        return (1 << len(self.rates)) - 1

    @cached_property
    def alike(self) -> bool:
        """Whether each input reaches equally far to all others: its state is then the same against any."""
        return even(self.reach) is not None

    def selectivity(self, mask: Mask) -> Known:
        """How likely rows of these inputs agree on all keys: as measured, or by what the classes say."""
        if single(mask):
            return Known(0.0)
        if mask in self.seen:
            return self.seen[mask]
        total, variance = 0.0, 0.0
        for span, factor in zip(self.classes, self.class_factor, strict=True):
            more = max(0, (span & mask).bit_count() - 1)
            total += more * factor.log_value
            variance += (more * factor.spread) ** 2
        return Known(total, variance**0.5)

    def rate(self, mask: Mask) -> float:
        """Rows a second of these inputs joined (of an input: as they come)."""
        if mask not in self._kept:
            some = members(mask)
            volume = rate_volume(self.reach, some)
            self._kept[mask] = self._product(mask) * volume
        return self._kept[mask]

    def state_rows(self, mask: Mask, others: Mask) -> float:
        """Rows of these inputs that are kept, to meet rows of the others."""
        if not self.tick_s:
            return self.live_rows(mask, others)
        return self.rate(mask) * self._stay_s(mask, self._reach(mask, others))

    def made_rows(self, mask: Mask, others: Mask) -> float:
        """Those that are computed of what is kept, where nobody has them: also such as are over, of rows that are still
        there."""
        live = self.live_rows(mask, others)
        if not self.tick_s:
            return live
        reach = self._reach(mask, others)
        return live + self.rate(mask) * (self._stay_s(mask, reach) - reach)

    def _stay_s(self, mask: Mask, reach_s: float) -> float:
        """How long a row stays that waits so long for others. What is over is known by the tick before, and half of a run
        is older than its newest row says: a run is of a tick at least, and merged up to a share of its time."""
        over_s = reach_s + self.delay_s
        longer = [self.longer_s.get(1 << number, 0.0) for number in members(mask)]
        wait_s = self.tick_s + sum(longer) / len(longer)
        return over_s + wait_s + max(self.tick_s, over_s * RUN_SHARE) / 2

    def _reach(self, mask: Mask, others: Mask) -> float:
        """How long a row of these inputs may have to wait for one of the others that is the last to come."""
        waits = self.reach[np.ix_(members(mask), members(others))].min(axis=0).max()
        return max(0.0, float(waits))

    def live_rows(self, mask: Mask, others: Mask) -> float:
        """Those that can still meet a row to come."""
        at = (mask, 0 if self.alike else others)
        if at not in self._kept:
            volume = state_volume(self.reach, members(mask), members(others))
            self._kept[at] = self._product(mask) * volume if volume else 0.0
        return self._kept[at]

    def width(self, mask: Mask) -> float:
        """Bytes of a joined row: one hash instead of several, and no key that is met no more."""
        if mask in self.widths:
            return self.widths[mask]
        return self._bare(mask) * (1.0 if single(mask) else self._narrower)

    def _bare(self, mask: Mask) -> float:
        return sum(self.row_bytes[n] for n in members(mask))

    @cached_property
    def _narrower(self) -> float:
        """How wide joined rows are against their parts, as far as any are known."""
        known = [size / self._bare(mask) for mask, size in self.widths.items() if self._bare(mask)]
        return sum(known) / len(known) if known else 1.0

    def state_bytes(self, mask: Mask, others: Mask) -> float:
        return self.state_rows(mask, others) * self.width(mask)

    def _product(self, mask: Mask) -> float:
        return prod(self.rates[n] for n in members(mask)) * self.selectivity(mask).value


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """What one operator of a tree takes and makes."""

    parts: tuple[Mask, ...]
    rows_in_per_s: tuple[float, ...]
    rows_out_per_s: float
    state_rows: tuple[float, ...]
    state_bytes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TreeLoad:
    """What a tree takes. `between`: rows a second from one operator to the next; `spread`: how unsure that is,
    a standard deviation in logs."""

    tree: Tree
    operators: tuple[OperatorLoad, ...]
    spread: float

    @property
    def between_per_s(self) -> float:
        return sum(one.rows_out_per_s for one in self.operators[:-1])

    @property
    def rows_in_per_s(self) -> float:
        """Of all operators: each row is probed and kept once in each."""
        return sum(sum(one.rows_in_per_s) for one in self.operators)

    @property
    def rows_out_per_s(self) -> float:
        return sum(one.rows_out_per_s for one in self.operators)

    @property
    def state_rows(self) -> float:
        return sum(sum(one.state_rows) for one in self.operators)

    @property
    def state_bytes(self) -> float:
        return sum(sum(one.state_bytes) for one in self.operators)

    def cpu(self, join_s: float, insert_s: float) -> float:
        """CPU seconds a second, T_j per row probed or made and T_s per row kept."""
        return join_s * (self.rows_in_per_s + self.rows_out_per_s) + insert_s * self.rows_in_per_s


def load_of(model: Model, tree: Tree) -> TreeLoad:
    """A tree's operators, children before parents."""
    found = []
    weighed, total = 0.0, 0.0
    for parts in joins(tree):
        masks = tuple(below(part) for part in parts)
        whole = sum(masks)
        rest = [whole ^ mask for mask in masks]
        out = model.rate(whole)
        pairs = list(zip(masks, rest, strict=True))
        found.append(
            OperatorLoad(
                masks,
                tuple(model.rate(mask) for mask in masks),
                out,
                tuple(model.state_rows(*pair) for pair in pairs),
                tuple(model.state_bytes(*pair) for pair in pairs),
            )
        )
        if whole != below(tree):
            weighed += out * model.selectivity(whole).spread
            total += out
    return TreeLoad(tree, tuple(found), weighed / total if total > 0 else 0.0)
