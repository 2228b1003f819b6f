"""A plan of window joins row by row: purge, join, insert, as Zhu et al. 2004 have it, counted in pairs and rows.

Rows are numbers of arrivals, so results can be compared with what a batch join gives. A *box* is one plan; two boxes
and what goes on between them are in migrate.py. Nothing is timed here: who runs a box charges for what it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from control.migration.trees import Mask, Tree, below, joins, key, members
from control.snapshot import Bools, Doubles, Longs

Ids = npt.NDArray[np.int32]
ABSENT = -1


@dataclass(frozen=True)
class Arrivals:
    """What arrives: by input, ascending times, and a value for each key class."""

    classes: tuple[Mask, ...]
    times: tuple[Doubles, ...]
    keys: tuple[Longs, ...]  # by input: rows × classes

    def __len__(self) -> int:
        return len(self.times)

    def in_order(self) -> Iterator[tuple[float, int, int]]:
        """(time, input, row) of all."""
        which = np.concatenate([np.full(len(t), n) for n, t in enumerate(self.times)])
        rows = np.concatenate([np.arange(len(t)) for t in self.times])
        when = np.concatenate(self.times)
        for at in np.argsort(when, kind="stable").tolist():
            yield float(when[at]), int(which[at]), int(rows[at])


def poisson(
    rates: Sequence[float],
    classes: Sequence[Mask],
    selectivity: Sequence[float],
    until_s: float,
    seed: int,
) -> Arrivals:
    """Rows at random times; a class's values are even over 1 / selectivity."""
    random = np.random.default_rng(seed)
    times = []
    for rate in rates:
        count = random.poisson(rate * until_s)
        times.append(np.sort(random.uniform(0.0, until_s, count)))
    spread = np.array([max(1, round(1 / s)) for s in selectivity])
    keys = [random.integers(0, spread, (len(t), len(spread))) for t in times]
    return Arrivals(tuple(classes), tuple(times), tuple(keys))


@dataclass(frozen=True)
class Rows:
    """Rows of some inputs: who they are made of, their oldest and youngest part, whether any part is old."""

    ids: Ids
    low_s: Doubles
    high_s: Doubles
    old: Bools

    def __len__(self) -> int:
        return len(self.low_s)

    def take(self, some: Bools | Longs) -> Rows:
        return Rows(self.ids[some], self.low_s[some], self.high_s[some], self.old[some])

    @staticmethod
    def joined(many: Sequence[Rows]) -> Rows:
        if len(many) == 1:
            return many[0]
        return Rows(
            np.concatenate([rows.ids for rows in many]),
            np.concatenate([rows.low_s for rows in many]),
            np.concatenate([rows.high_s for rows in many]),
            np.concatenate([rows.old for rows in many]),
        )

    @staticmethod
    def none(inputs: int) -> Rows:
        empty = np.zeros(0)
        return Rows(np.zeros((0, inputs), np.int32), empty, empty, np.zeros(0, dtype=np.bool_))


def arrived(arrivals: Arrivals, input_: int, row: int) -> Rows:
    """One row as it comes."""
    ids = np.full((1, len(arrivals)), ABSENT, np.int32)
    ids[0, input_] = row
    time = arrivals.times[input_][row : row + 1]
    return Rows(ids, time, time, np.zeros(1, dtype=np.bool_))


@dataclass
class Work:
    """What was done: pairs tried, rows kept, rows purged."""

    pairs: int = 0
    kept: int = 0
    purged: int = 0

    def add(self, other: Work) -> None:
        self.pairs += other.pairs
        self.kept += other.kept
        self.purged += other.purged


class Join:
    """One operator of two sides."""

    def __init__(self, parts: tuple[Tree, ...], arrivals: Arrivals, window_s: float) -> None:
        assert len(parts) == 2, "the paper's operators have two sides"
        self.arrivals, self.window_s = arrivals, window_s
        self.masks = tuple(below(part) for part in parts)
        self.key = key(arrivals.classes, self.masks)
        self.sides = [Rows.none(len(arrivals)) for _ in parts]
        self.rows_in, self.rows_out = [0, 0], 0

    def values(self, rows: Rows, side: int) -> Longs:
        """Each row's keys."""
        columns = []
        for number in self.key:
            member = members(self.masks[side] & self.arrivals.classes[number])[0]
            columns.append(self.arrivals.keys[member][rows.ids[:, member], number])
        return np.stack(columns, axis=1)

    def matches(self, some: Rows, side: int, others: Rows) -> Rows:
        """Rows of one side with rows of the other: same keys, and all parts within the window."""
        if not len(some) or not len(others):
            return Rows.none(len(self.arrivals))
        mine, theirs = self.values(some, side), self.values(others, 1 - side)
        low = np.minimum(some.low_s[:, None], others.low_s[None])
        high = np.maximum(some.high_s[:, None], others.high_s[None])
        fit = high - low <= self.window_s
        for column in range(mine.shape[1]):
            fit &= mine[:, column, None] == theirs[None, :, column]
        a, b = np.nonzero(fit)
        ids = np.maximum(some.ids[a], others.ids[b])
        return Rows(ids, low[a, b], high[a, b], some.old[a] | others.old[b])


class Box:
    """A plan. `exact_purge`: a row goes once its *oldest* part is too old for anything to come; otherwise by the
    paper's lemma 2.2, once its *youngest* is too old for the oldest part of what probes."""

    def __init__(
        self, tree: Tree, arrivals: Arrivals, window_s: float, *, exact_purge: bool = False
    ) -> None:
        self.tree, self.arrivals, self.window_s = tree, arrivals, window_s
        self.exact_purge = exact_purge
        self.joins = [Join(parts, arrivals, window_s) for parts in joins(tree)]
        self.skip_new = False  # the root leaves out pairs of two new rows

    def enter(self, input_: int, rows: Rows, now_s: float, work: Work) -> Rows:
        """Rows of one input, through the whole plan; the results."""
        mask = 1 << input_
        for place, join in enumerate(self.joins):
            if mask in join.masks:
                side = join.masks.index(mask)
                rows = self._step(join, side, rows, now_s, work, root=place == len(self.joins) - 1)
                mask = join.masks[0] | join.masks[1]
                if not len(rows):
                    break
        return rows

    def _step(
        self, join: Join, side: int, rows: Rows, now_s: float, work: Work, *, root: bool
    ) -> Rows:
        self._purge(join, 1 - side, rows, now_s, work)
        others = join.sides[1 - side]
        skip = root and self.skip_new
        if skip:
            new, old = rows.take(~rows.old), rows.take(rows.old)
            older = others.take(others.old)
            work.pairs += len(new) * len(older) + len(old) * len(others)
            made = Rows.joined([join.matches(new, side, older), join.matches(old, side, others)])
        else:
            work.pairs += len(rows) * len(others)
            made = join.matches(rows, side, others)
        join.sides[side] = Rows.joined([join.sides[side], rows])
        work.kept += len(rows)
        join.rows_in[side] += len(rows)
        join.rows_out += len(made)
        return made

    def _purge(self, join: Join, side: int, probes: Rows, now_s: float, work: Work) -> None:
        kept = join.sides[side]
        if not len(kept):
            return
        if self.exact_purge:
            dead = now_s - kept.low_s > self.window_s
        else:
            dead = float(probes.low_s.max()) - kept.high_s > self.window_s
        if dead.any():
            join.sides[side] = kept.take(~dead)
            work.purged += int(dead.sum())

    @property
    def has_old(self) -> bool:
        return any(bool(side.old.any()) for join in self.joins for side in join.sides)

    def all_old(self) -> None:
        """Everything that is here is old from now on."""
        for join in self.joins:
            join.sides = [
                replace(rows, old=np.ones(len(rows), dtype=np.bool_)) for rows in join.sides
            ]

    @property
    def between_rows(self) -> int:
        """Rows of two or more inputs that are kept."""
        return sum(
            len(rows)
            for join in self.joins
            for mask, rows in zip(join.masks, join.sides, strict=True)
            if mask & (mask - 1)
        )
