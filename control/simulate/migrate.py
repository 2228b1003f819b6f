"""From one plan to another while rows arrive: both strategies of Zhu et al. 2004 on one simulated processor.

Rows are taken in the order in which they come; each pair tried and each row kept or purged takes its time, so that a
processor that is too slow falls behind, as the paper's does. All times are the simulation's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from control.migration.trees import Tree, below, single
from control.simulate.tracks import Arrivals, Box, Ids, Rows, Work, arrived

Strategy = Literal["moving", "parallel"]


@dataclass(frozen=True, slots=True)
class Pace:
    """T_j a pair tried, T_s a row kept or purged."""

    join_s: float
    insert_s: float

    def of(self, work: Work) -> float:
        return self.join_s * work.pairs + self.insert_s * (work.kept + work.purged)


FREE = Pace(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """How it stood at a time: results so far, rows of several inputs in state and rows waiting to be let in."""

    time_s: float
    results: int
    between_rows: int
    waiting_rows: int


@dataclass
class Ran:
    """A run, with the length of its migration: `clean_s` for what had waited before, `stage_s` from there on.
    `silence_s`: the longest time without a result from the start of the migration on."""

    results: Ids
    samples: list[Sample] = field(default_factory=list)
    clean_s: float = 0.0
    stage_s: float = 0.0
    recomputed_rows: int = 0
    end_s: float = 0.0
    silence_s: float = 0.0
    busy_s: float = 0.0


class _Run:
    """One simulated processor with its clock."""

    def __init__(
        self,
        arrivals: Arrivals,
        old: Tree,
        window_s: float,
        pace: Pace,
        *,
        sample_s: float,
        exact_purge: bool,
        hold: bool,
    ) -> None:
        self.arrivals, self.window_s, self.pace = arrivals, window_s, pace
        self.sample_s, self.exact_purge, self.hold = sample_s, exact_purge, hold
        self.boxes = [Box(old, arrivals, window_s, exact_purge=exact_purge)]
        self.events = list(arrivals.in_order())
        self.times = np.array([time for time, _, _ in self.events])
        self.at, self.clock, self.made = 0, 0.0, 0
        self.results: list[Ids] = []
        self.held: list[Ids] = []
        self.ran = Ran(np.zeros((0, len(arrivals)), np.int32))
        self.next_sample = sample_s
        self.out_s: list[float] = []

    def until(self, time_s: float) -> None:
        """Take in all rows that arrive up to a time."""
        while self.at < len(self.events) and self.events[self.at][0] <= time_s:
            self.one()

    def one(self) -> None:
        """The next row through every box."""
        time, input_, row = self.events[self.at]
        self.at += 1
        self.clock = max(self.clock, time)
        work = Work()
        for place, box in enumerate(self.boxes):
            made = box.enter(input_, arrived(self.arrivals, input_, row), time, work)
            self._out(made, place)
        self.spend(self.pace.of(work))

    def _out(self, made: Rows, place: int) -> None:
        if not len(made):
            return
        if place == 1 and self.hold:
            self.held.append(made.ids)
            return
        self.made += len(made)
        self.results.append(made.ids)
        self.out_s.append(self.clock)

    def release(self) -> None:
        """What was held comes out at once."""
        self.made += sum(map(len, self.held))
        if self.held:
            self.out_s.append(self.clock)
        self.results += self.held
        self.held = []

    def spend(self, seconds: float) -> None:
        self._sampled(self.clock + seconds)
        self.clock += seconds
        self.ran.busy_s += seconds

    def _sampled(self, until_s: float) -> None:
        while self.next_sample <= until_s:
            came = int(np.searchsorted(self.times, self.next_sample, "right"))
            between = sum(box.between_rows for box in self.boxes) + sum(map(len, self.held))
            waits = max(0, came - self.at)
            self.ran.samples.append(Sample(self.next_sample, self.made, between, waits))
            self.next_sample += self.sample_s

    def moving(self, new: Tree, at_s: float, clean_all: bool) -> None:
        """Share what matches, recompute the rest, go on with the new plan. By the paper's footnote 4 only rows older
        than the first one in some queue have to go through the old plan first; as rows are taken in order there are
        none. `clean_all`: everything that has accumulated goes through it, as its main text has it."""
        began = max(self.clock, at_s)
        while clean_all and self.at < len(self.events) and self.events[self.at][0] <= began:
            self.one()
        self.clock = max(self.clock, began)
        self.ran.clean_s = self.clock - began
        last = self.events[self.at - 1][0] if self.at else 0.0
        box, work = moved(self.boxes[0], new, last)
        self.ran.recomputed_rows = work.kept
        self.spend(self.pace.of(work))
        self.boxes = [box]
        self.ran.stage_s = self.clock - began - self.ran.clean_s

    def parallel(self, new: Tree, at_s: float) -> None:
        """Both plans, until nothing old is left in the old one."""
        self.clock = began = max(self.clock, at_s)
        old = self.boxes[0]
        old.all_old()
        old.skip_new = True
        self.boxes = [old, Box(new, self.arrivals, self.window_s, exact_purge=self.exact_purge)]
        while old.has_old and self.at < len(self.events):
            self.one()
        self.release()
        self.boxes = self.boxes[1:]
        self.ran.stage_s = self.clock - began

    def finish(self, at_s: float) -> Ran:
        self.until(np.inf)
        self._sampled(self.clock)
        self.ran.end_s = self.clock
        if self.results:
            self.ran.results = np.concatenate(self.results)
        after = np.array([at_s, *(t for t in self.out_s if t > at_s)])
        self.ran.silence_s = float(np.diff(after).max(initial=0.0))
        return self.ran


def moved(box: Box, new: Tree, now_s: float) -> tuple[Box, Work]:
    """The new plan with the old one's state: what matches as it is, the rest joined again, children first. Rows
    that the old plan has not purged yet, and that nothing to come can meet, are left behind."""
    fresh = Box(new, box.arrivals, box.window_s, exact_purge=box.exact_purge)
    had = {
        mask: rows for join in box.joins for mask, rows in zip(join.masks, join.sides, strict=True)
    }
    had = {mask: rows.take(now_s - rows.low_s <= box.window_s) for mask, rows in had.items()}
    work = Work()
    for join in fresh.joins:
        for side, mask in enumerate(join.masks):
            join.sides[side] = had[mask]
        whole = join.masks[0] | join.masks[1]
        if whole not in had and whole != below(new):
            had[whole] = join.matches(join.sides[0], 0, join.sides[1])
            work.pairs += len(join.sides[0]) * len(join.sides[1])
            work.kept += len(had[whole])
    assert all(single(mask) or mask in had for join in fresh.joins for mask in join.masks)
    return fresh, work


def run(
    arrivals: Arrivals,
    old: Tree,
    window_s: float,
    pace: Pace,
    *,
    new: Tree | None = None,
    strategy: Strategy | None = None,
    at_s: float = 0.0,
    sample_s: float = 0.5,
    exact_purge: bool = False,
    hold: bool = True,
    clean_all: bool = False,
    slow_from_start: bool = True,
) -> Ran:
    """Everything that arrives, under the old plan, and from `at_s` on on the way to a new one. Without
    `slow_from_start` work takes time only from there on, so that states are full and nothing has accumulated."""
    before = pace if slow_from_start else FREE
    going = _Run(
        arrivals, old, window_s, before, sample_s=sample_s, exact_purge=exact_purge, hold=hold
    )
    if new is not None and strategy is not None:
        while going.at < len(going.events) and going.events[going.at][0] <= at_s:
            if going.clock > at_s:
                break  # it has fallen behind: what waits is a matter of the migration
            going.one()
        going.pace = pace
        if strategy == "moving":
            going.moving(new, at_s, clean_all)
        else:
            going.parallel(new, at_s)
    return going.finish(at_s)
