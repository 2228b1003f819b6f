"""A query's rounds: statistics are collected for δ, then whoever balances load may move groups, then the next begins.

Here: the count of rounds, what each node and group did in the last one, and how long the next collects. What comes in
are the times of boundaries and the reports of ticks; what goes out are figures for snapshots, which stay as they are
until the next round has ended. Deciding is not here: it is the policies' (control/policies/flux.py).

    collecting ──δ is over──▶ moving ──its moves have ended, or none began within 3 s──▶ collecting
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from control.policies.flux import next_round_s
from control.snapshot import History
from engine.reports import Doubles, Longs
from engine.state.stats import GroupStats

WAIT_S = 3.0  # so long a round's moves may take to begin: a rule decides in another process


class Phase(StrEnum):
    """What a round is at."""

    COLLECTING = "collecting"
    MOVING = "moving"


Counts = dict[str, tuple[Longs, Longs]]  # operator → rows in and out, by group


@dataclass(frozen=True)
class Figures:
    """What was collected: rows by group, and seconds that each node worked, in `seconds` since `start_s`."""

    start_s: float
    seconds: float
    counts: Counts = field(default_factory=dict)
    worked_s: Mapping[int, float] = field(default_factory=dict)


class Rounds:
    """One query's. `boundary` is called between ticks, `ticked` after each tick, by the thread that ticks."""

    def __init__(self, stats: Mapping[str, GroupStats], now_s: float, delta_min_s: float) -> None:
        self.number = 0  # of rounds that have ended
        self.phase = Phase.COLLECTING
        self.delta_s = delta_min_s  # of the round that goes on
        self._ended_s = 0.0
        self._move_phase_s = 0.0
        self._last: Figures | None = None
        self._last_delta_s = 0.0
        self._moved = False
        self._begin(stats, now_s)

    def _begin(self, stats: Mapping[str, GroupStats], now_s: float) -> None:
        self.phase, self._start_s = Phase.COLLECTING, now_s
        self._moved = False
        self._worked_s: dict[int, float] = {}
        self._before = _counts(stats)

    def ticked(self, worked_s: Mapping[int, float]) -> None:
        """A tick has been, in which each node's steps took so long."""
        for node, seconds in worked_s.items():
            self._worked_s[node] = self._worked_s.get(node, 0.0) + seconds

    def moves(self) -> None:
        """A move has begun."""
        self._moved = True

    def boundary(
        self, stats: Mapping[str, GroupStats], now_s: float, delta_min_s: float, *, moving: bool
    ) -> None:
        """Between two ticks: go on to where the round is by now. `moving`: a move is on its way."""
        if now_s < max(self._start_s, self._ended_s):  # the clock was set back
            self._begin(stats, now_s)
            self._ended_s = now_s
        elif self.phase is Phase.COLLECTING:
            self.delta_s = max(self.delta_s, delta_min_s)
            if now_s > self._start_s and now_s - self._start_s >= self.delta_s:
                self._end(stats, now_s)
        elif moving:
            self.moves()
        elif self._moved or now_s - self._ended_s >= WAIT_S:
            self.next(stats, now_s, delta_min_s)

    def _end(self, stats: Mapping[str, GroupStats], now_s: float) -> None:
        self._last, self._last_delta_s = self._collected(stats, now_s), self.delta_s
        self.number += 1
        self.phase, self._ended_s, self._moved = Phase.MOVING, now_s, False

    def next(self, stats: Mapping[str, GroupStats], now_s: float, delta_min_s: float) -> None:
        """The next round begins: its moves have ended, or it is known that there are none."""
        self._move_phase_s = now_s - self._ended_s if self._moved else 0.0
        self.delta_s = next_round_s(self.delta_s, self._move_phase_s, delta_min_s)
        self._begin(stats, now_s)

    def rest(self, stats: Mapping[str, GroupStats], now_s: float, delta_min_s: float) -> None:
        """It is known that nothing moves in this round."""
        if self.phase is Phase.MOVING and not self._moved:
            self.next(stats, now_s, delta_min_s)

    def replanned(self, stats: Mapping[str, GroupStats], now_s: float) -> None:
        """The query has other operators: what was collected of those from before says nothing of these."""
        if self.phase is Phase.COLLECTING:
            self._begin(stats, now_s)

    def _collected(self, stats: Mapping[str, GroupStats], now_s: float) -> Figures:
        counts = {}
        for op, (rows_in, rows_out) in _counts(stats).items():
            before = self._before.get(op)
            if before is None or len(before[0]) != len(rows_in):
                before = (np.zeros_like(rows_in), np.zeros_like(rows_out))
            counts[op] = (rows_in - before[0], rows_out - before[1])
        return Figures(self._start_s, now_s - self._start_s, counts, dict(self._worked_s))

    def figures(self, stats: Mapping[str, GroupStats], now_s: float) -> Figures:
        """Those of the last round that has ended; before any has, those of the first so far."""
        return self._last if self._last is not None else self._collected(stats, now_s)

    def history(self, history: History) -> History:
        """The same, with where rounds are: of the round that the figures are of."""
        last = self._last
        return History(
            last_adaptation_s=history.last_adaptation_s,
            round_start_s=last.start_s if last is not None else self._start_s,
            round_s=self._last_delta_s if last is not None else self.delta_s,
            move_phase_s=self._move_phase_s,
            forced_spill_bytes=history.forced_spill_bytes,
            round_number=self.number,
        )


def busy(figures: Figures, nodes: int) -> Doubles:
    """The share of a round that each node worked, 0..1."""
    out = np.zeros(nodes)
    if figures.seconds > 0:
        for node, seconds in figures.worked_s.items():
            if node < nodes:
                out[node] = min(1.0, seconds / figures.seconds)
    return out


def _counts(stats: Mapping[str, GroupStats]) -> Counts:
    return {op: (one.rows_in.copy(), one.rows_out.copy()) for op, one in stats.items()}
