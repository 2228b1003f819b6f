"""What a plan would do, before anybody does it: figures of each step and of the whole, nodes before and after.

Plain JSON, for the preview of a proposal. What can be measured afterwards stands under `figures`, by the
names that learn.py compares with an action's actual ones. A gain cannot be measured: it is labelled "model".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.draws import DRAWS, Confidence, Spread, compare, confidence_of
from control.cost.exact import Direct, Exact, exact
from control.cost.outlook import Outlook, look
from control.migration.calibrate import figures as migration_figures
from control.orders import entry
from control.plans import (
    Cleanup,
    Migrate,
    Move,
    Plan,
    SetBudget,
    Spill,
    Step,
    name_of,
    nodes_of,
    pairs_of,
)
from control.snapshot import NO_LIMIT, ClusterSnapshot, Longs

HORIZON = Horizon()
SLICES_DRAWN_MAX = 20_000  # draws × slices of one comparison
DRAWS_MIN = 40
STEPS_DRAWN_MAX = 12  # beyond these a step's gain has no quantiles of its own


def preview(
    plan: Plan,
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    seed: int = 0,
    *,
    rule: LocalRule | None = None,
    horizon: Horizon = HORIZON,
) -> dict[str, Any]:
    """A plan's predicted figures. PlanError when it names a group that does not exist."""
    outlook = look(snapshot, numbers, horizon, rule)
    return preview_at(outlook, plan.steps, seed)


def preview_at(outlook: Outlook, steps: tuple[Step, ...], seed: int = 0) -> dict[str, Any]:
    """The same, where the outlook is there already."""
    whole = exact(outlook, steps)
    alone = [whole] if len(steps) == 1 else [exact(outlook, (step,)) for step in steps]
    drawn = len(steps) <= STEPS_DRAWN_MAX
    snapshot = outlook.snapshot
    return {
        "query": snapshot.query,
        "version": snapshot.version,
        "time_s": snapshot.time_s,
        "horizon_s": outlook.horizon.seconds,
        "gain": "model",
        "steps": [
            _step(outlook, step, one, seed, drawn) for step, one in zip(steps, alone, strict=True)
        ],
        "whole": {**_sums(steps, whole.steps), **gains(outlook, whole, seed)},
        "nodes": _nodes(outlook, steps, whole),
    }


def _step(outlook: Outlook, step: Step, one: Exact, seed: int, drawn: bool) -> dict[str, Any]:
    direct = one.steps[0]
    told = gains(outlook, one, seed) if drawn else bare_gains(one)
    return {
        "do": name_of(step),
        "nodes": list(nodes_of(step)),
        "groups": len(pairs_of(step)),
        **_sums((step,), (direct,)),
        **told,
        **_migration(outlook, step, direct),
        "figures": figures(outlook.numbers, step, direct),
        "coefficients": asdict(outlook.numbers),
    }


def _migration(outlook: Outlook, step: Step, direct: Direct) -> dict[str, Any]:
    """Of a migration: both plans, what becomes of state, every strategy. None where nothing is known yet."""
    if not isinstance(step, Migrate):
        return {}
    known = direct.order
    return {"migration": entry(outlook.snapshot, known) if known is not None else None}


def gains(outlook: Outlook, priced: Exact, seed: int) -> dict[str, Any]:
    """Cost and gain in row·s, and how sure the gain is."""
    sure = _sure(outlook, priced, seed)
    return {
        **bare_gains(priced),
        "p10_row_s": sure.p10,
        "p50_row_s": sure.p50,
        "p90_row_s": sure.p90,
        "chance": sure.chance,
    }


def _sure(outlook: Outlook, priced: Exact, seed: int) -> Confidence:
    """From draws; of another join order alone they were drawn with what is not known of its selectivities."""
    order = priced.steps[0].order if len(priced.steps) == 1 else None
    if order is not None and order.offer is not None:
        return order.offer.sure
    most = SLICES_DRAWN_MAX // max(len(priced.pair.after.slices), 1)
    draws = min(DRAWS, max(most, DRAWS_MIN))
    return confidence_of(compare(outlook, priced.pair, seed, Spread(), draws))


def bare_gains(priced: Exact) -> dict[str, Any]:
    cost, gain = priced.cost_row_s, priced.gain_row_s
    return {"cost_row_s": cost, "gain_row_s": gain, "pays": bool(gain > 0 and gain >= 2 * cost)}


def figures(numbers: Coefficients, step: Step, direct: Direct) -> dict[str, float]:
    """What an action of this step will be found to have taken, as far as the model knows."""
    common = {"bytes": float(direct.bytes), "seconds": direct.seconds, "pause_s": direct.pause_s}
    common["tick_s"] = numbers.tick_s
    if isinstance(step, Move):
        speed = {"move_bandwidth": numbers.bandwidth_bytes_per_s}
        return {**common, "move_cpu_s": direct.cpu_s, **speed}
    if isinstance(step, Spill):
        return {**common, "spill_cpu_s": direct.cpu_s}
    if isinstance(step, Cleanup):
        join = direct.cpu_s - direct.read_cpu_s
        rows = {"cleanup_rows": -direct.owed_rows}
        return {
            **common,
            "cleanup_read_cpu_s": direct.read_cpu_s,
            "cleanup_join_cpu_s": join,
            **rows,
        }
    if direct.order is not None and direct.order.offer is not None:
        return {**common, **migration_figures(numbers, direct.order.offer.estimate)}
    return common


def _sums(steps: Iterable[Step], direct: tuple[Direct, ...]) -> dict[str, Any]:
    """Steps are carried out one after another: times add up. What moves frees its sender's memory only."""
    freed = disk = 0
    for step, one in zip(steps, direct, strict=True):
        if isinstance(step, Spill | Cleanup):
            freed += one.bytes if isinstance(step, Spill) else -one.bytes
            disk += one.bytes if isinstance(step, Spill) else -one.bytes
    return {
        "bytes": sum(one.bytes for one in direct),
        "memory_freed_bytes": freed,
        "disk_added_bytes": disk,
        "owed_rows": sum(one.owed_rows for one in direct),
        "owed_row_s": sum(one.owed_row_s for one in direct),
        "pause_s": sum(one.pause_s for one in direct),
        "duration_s": sum(one.seconds for one in direct),
        "cpu_s": sum(one.cpu_s for one in direct),
    }


def _nodes(outlook: Outlook, steps: tuple[Step, ...], whole: Exact) -> list[dict[str, Any]]:
    """The nodes that the plan touches, before and after; the others stay as they are."""
    nodes, real = outlook.snapshot.nodes, whole.pair.real
    memory, disk = nodes.memory_bytes[real].copy(), nodes.disk_bytes[real].copy()
    budget = nodes.budget_bytes[real].copy()
    was = _told(memory, disk, budget, whole, after=False)
    for step, one in zip(steps, whole.steps, strict=True):
        _apply(step, one.bytes, real, memory, disk, budget)
    now = _told(memory, disk, budget, whole, after=True)
    return [
        {"node": node, "before": a, "after": b}
        for node, a, b in zip(real.tolist(), was, now, strict=True)
    ]


def _apply(step: Step, size: int, real: Longs, memory: Longs, disk: Longs, budget: Longs) -> None:
    """What a step does to the columns of the nodes `real`."""
    if isinstance(step, Move):
        memory[np.searchsorted(real, step.source)] -= size
        memory[np.searchsorted(real, step.target)] += size
        return
    if isinstance(step, Migrate):
        return
    at = np.searchsorted(real, step.node)
    if isinstance(step, SetBudget):
        budget[at] = step.bytes
        return
    sign = 1 if isinstance(step, Cleanup) else -1
    memory[at] += sign * size
    disk[at] -= sign * size


def _told(
    memory: Longs, disk: Longs, budget: Longs, whole: Exact, *, after: bool
) -> list[dict[str, Any]]:
    rolled = whole.after if after else whole.before
    first = whole.pair.after.spill_first_bytes if after else 0.0
    columns = (memory, disk, budget, rolled.full_s, np.maximum(rolled.spilled_bytes - first, 0.0))
    return [
        {
            "memory_bytes": m,
            "disk_bytes": d,
            "budget_bytes": b if b < NO_LIMIT else None,
            "share": m / b if 0 < b < NO_LIMIT else None,
            "full_s": full if isfinite(full) else None,  # None: not within the horizon
            "overflow_bytes": over,  # what its own rule will spill within the horizon
        }
        for m, d, b, full, over in zip(*(c.tolist() for c in columns), strict=True)
    ]
