"""What CPU and load cost in row·s."""

from __future__ import annotations

import numpy as np

from control.cost.coefficients import Coefficients
from control.snapshot import Doubles, Nodes

BUSY_MAX = 0.95
LOAD_FACTOR = 1.5  # a row waits half a tick for its tick and one for the results


def cpu_price(nodes: Nodes, numbers: Coefficients) -> Doubles:
    """π: row·s per CPU·s spent on a node, ρq / 2(1 − min(U, 0.95))."""
    free = 1 - np.minimum(nodes.busy, BUSY_MAX)
    return np.asarray(nodes.rows_out_per_s * numbers.side_slice / (2 * free), dtype=np.float64)


def tick_s(work_s: Doubles, cores: float, overhead_s: float) -> float:
    """τ = τ0 + max(longest node, all work / cores). On one machine the second rules."""
    shared = float(work_s.sum()) / cores if cores > 0 else 0.0
    return overhead_s + max(float(work_s.max(initial=0.0)), shared)


def load(rows_out_per_s: float, horizon_s: float, tick_time_s: float) -> float:
    """1.5 · ρ · H · τ: what all results wait for ticks within the horizon."""
    return LOAD_FACTOR * rows_out_per_s * horizon_s * tick_time_s


def work_by_node(nodes: Nodes, numbers: Coefficients) -> Doubles:
    """Seconds of work per tick of each node."""
    if numbers.work_s_per_row > 0:
        return np.asarray(nodes.rows_in_per_s * numbers.tick_s * numbers.work_s_per_row)
    return np.asarray(nodes.busy * numbers.tick_s, dtype=np.float64)


def load_change(
    nodes: Nodes,
    numbers: Coefficients,
    horizon_s: float,
    source: int,
    target: int,
    work_share: float,
) -> float:
    """Load after minus before when a share of the sender's work moves; 0 where cores are not known."""
    if numbers.cores <= 0:
        return 0.0
    work = work_by_node(nodes, numbers)
    moved = work.copy()
    moved[source] -= work[source] * work_share
    moved[target] += work[source] * work_share
    rho = float(nodes.rows_out_per_s.sum())
    before = load(rho, horizon_s, tick_s(work, numbers.cores, 0.0))
    return load(rho, horizon_s, tick_s(moved, numbers.cores, 0.0)) - before
