"""How a backtest went over time: the fullest node and the balance, with the rule and without it, and when the rule was
held by its interlock. Thinned to what a chart can show, without losing the worst.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from control.simulate.replay import Replay
from control.snapshot import Doubles

POINTS_MAX = 600
NEAR = 0.85  # of the budget: from here on a node is near its limit
HELD_MAX = 500
GAP = float("nan")


@dataclass
class Course:
    """A line for each moment of the replay."""

    lines: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    near_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    held: list[tuple[float, float]] = field(default_factory=list)
    last_s: float | None = None

    def broken(self) -> None:
        """A new stretch of the recording begins: no line goes across."""
        if self.lines:
            self.lines.append((self.lines[-1][0], GAP, GAP, GAP, GAP))
        self.last_s = None

    def note(self, with_: Replay, without: Replay) -> None:
        now_s, both = with_.now_s, (with_, without)
        peaks = [float(one.seen.max(initial=0.0)) for one in both]
        elapsed = now_s - self.last_s if self.last_s is not None else 0.0
        for at, peak in enumerate(peaks):
            self.near_s[at] += elapsed if peak > NEAR else 0.0
        self.last_s = now_s
        even = [balance(one.seen) for one in both]
        self.lines.append((now_s, peaks[0], peaks[1], even[0], even[1]))

    def was_held(self, now_s: float, for_s: float) -> None:
        """The rule was due and could not; spans that touch are one."""
        if self.held and now_s - self.held[-1][1] <= 1.5 * for_s:
            self.held[-1] = (self.held[-1][0], now_s)
        else:
            self.held.append((now_s, now_s))

    def told(self) -> dict[str, Any]:
        """Columns; of several moments in one point the fullest and the least balanced."""
        table = np.array(self.lines, dtype=np.float64).reshape(-1, 5)
        groups = np.array_split(table, min(POINTS_MAX, len(table))) if len(table) else []
        return {
            "time_s": [float(some[0, 0]) for some in groups],
            "with_peak": [_worst(some[:, 1], np.max) for some in groups],
            "without_peak": [_worst(some[:, 2], np.max) for some in groups],
            "with_balance": [_worst(some[:, 3], np.min) for some in groups],
            "without_balance": [_worst(some[:, 4], np.min) for some in groups],
            "with_near_s": self.near_s[0],
            "without_near_s": self.near_s[1],
            "held": [list(span) for span in self.held[:HELD_MAX]],
        }


def balance(shares: Doubles) -> float:
    """Least over most memory, as shares of the budgets: 1 is even."""
    most = float(shares.max(initial=0.0))
    return float(shares.min()) / most if most > 0 else 1.0


def _worst(column: Doubles, pick: Any) -> float | None:
    """None where the recording has a gap."""
    return float(pick(column)) if np.isfinite(column).all() else None
