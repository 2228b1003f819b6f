"""What a row in between takes on this machine as it is now, so that experiments can be *low* or *high* on any."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from engine.papers.live import LiveLine, LiveRun
from engine.papers.live_figure import Runner
from engine.papers.paced import Chain

ORDER = "(((a b) c) d)"
# Windows fill while it runs, so that ticks have few rows in between at first and many in the end.
PROBE = Chain((2000.0,) * 4, (20, 16_000, 400_000), 3.0, 0.5, 6.0)


def row_s(run: Runner) -> float:
    """How much longer a tick takes for each row that one join makes for another, all that becomes of it included."""
    return cost_of(run(PROBE, LiveLine("what a row in between takes", ORDER)))


def cost_of(found: LiveRun) -> float:
    """The slope of ticks' time over their rows in between; not less than their tasks' CPU on all cores."""
    some = found.live
    rows = np.array([tick.between_rows for tick in some], dtype=np.float64)
    slope = np.polyfit(rows, [tick.seconds for tick in some], 1)[0]
    least = sum(tick.cpu_s for tick in some) / float(rows.sum()) / (os.cpu_count() or 1)
    return max(float(slope), least)


def between_per_s(rate: float, partners: Sequence[float]) -> float:
    """Rows in between that (((a b) c) d) makes a second, where a row has so many partners within one window, hop by
    hop: m inputs joined give m · W^(m−1) times the product of rates and chances."""
    first, second = partners[0], partners[0] * partners[1]
    return rate * (2 * first + 3 * second)


def partners_for(load: float, row_s: float, rate: float, others: tuple[float, float]) -> float:
    """Partners on the first hop, so that rows in between take such a share of the time that there is."""
    return load / row_s / between_per_s(rate, (1.0, *others))
