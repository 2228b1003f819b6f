"""What migrations really took, learned as every other action's figures are: a filter for each number of the pace.

A figure is compared as it would be predicted now, for the rows that there really were. Lengths are learned by the speed of
side jobs: what is predicted next is then right, whatever else the machine has to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from control.cost.recalibrate import Estimate
from control.migration.strategies import Pace

LEARNED = ("recompute_s", "sort_s", "side_cores", "swap_s")


@dataclass(frozen=True, slots=True)
class Moved:
    """One migration by moving state, as it was: rows computed anew and put under another key with the CPU that each
    took, how long these jobs took together, and the time from the last tick of the old plan to the first of the new
    one with what it took to catch up in it."""

    recomputed_rows: float
    recompute_cpu_s: float
    sorted_rows: float
    sort_cpu_s: float
    side_s: float
    stall_s: float
    stall_cpu_s: float


def estimates_of(pace: Pace) -> dict[str, Estimate]:
    """Nothing learned yet."""
    return {name: Estimate.of(getattr(pace, name)) for name in LEARNED}


def pace_of(base: Pace, estimates: Mapping[str, Estimate]) -> Pace:
    """The pace with what was learned."""
    known: dict[str, Any] = {name: one.value for name, one in estimates.items() if one.count}
    return replace(base, **known)


def learned(estimates: Mapping[str, Estimate], pace: Pace, one: Moved) -> dict[str, Estimate]:
    """All estimates after one more migration. `pace`: with what was learned before."""
    cpu = one.recompute_cpu_s + one.sort_cpu_s
    swap = one.stall_s - one.stall_cpu_s / pace.cores
    pairs = {
        "recompute_s": (one.recompute_cpu_s, pace.recompute_s * one.recomputed_rows),
        "sort_s": (one.sort_cpu_s, pace.sort_s * one.sorted_rows),
        "side_cores": (cpu, pace.side_cores * one.side_s),
        "swap_s": (swap, pace.swap_s),
    }
    return {name: estimates[name].learn(*pairs[name]) for name in LEARNED}
