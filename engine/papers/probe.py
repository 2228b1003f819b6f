"""What a row in between costs on this machine, so that experiments can be *low* or *high* on any."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.papers.live import LiveLine, LiveRun
from engine.papers.live_figure import Runner
from engine.papers.paced import Chain

ORDER = "(((a b) c) d)"
RATE, WINDOW_S = 2000.0, 2.0
PROBE = Chain((RATE,) * 4, (100, 16_000, 400_000), WINDOW_S, WINDOW_S, 5.0)


def cores() -> int:
    """That ticks may use."""
    return os.cpu_count() or 1


def row_cpu_s(run: Runner) -> float:
    """CPU seconds of tasks for each row that one join makes for another, all that becomes of it included."""
    found = run(PROBE, LiveLine("what a row in between costs", ORDER))
    return cost_of(found)


def cost_of(found: LiveRun) -> float:
    some = found.live[1:]
    return sum(tick.cpu_s for tick in some) / sum(tick.between_rows for tick in some)


def between_per_s(rate: float, partners: Sequence[float]) -> float:
    """Rows in between that (((a b) c) d) makes a second, where a row has so many partners within one window, hop by
    hop: m inputs joined give m · W^(m−1) times the product of rates and chances."""
    first, second = partners[0], partners[0] * partners[1]
    return rate * (2 * first + 3 * second)


def partners_for(load: float, row_s: float, rate: float, others: tuple[float, float]) -> float:
    """Partners on the first hop, so that rows in between take such a share of all cores."""
    wanted = load * cores() / row_s
    return wanted / between_per_s(rate, (1.0, *others))
