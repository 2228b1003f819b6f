"""Which options to price, and how much: amounts are searched on a grid, then finer around the best.

Senders are the nodes that nothing costs most, receivers those with most room left at the horizon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from control.cost.options import NOTHING, Kind, Option, Priced, price
from control.cost.outlook import Outlook
from control.limits import Limits

GRID = 8
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Breadth:
    """How many nodes are looked at."""

    senders: int = 6
    receivers: int = 4
    spills: int = 6
    cleanups: int = 6


def ranked(
    outlook: Outlook, limits: Limits, breadth: Breadth | None = None, *, hold: bool = False
) -> list[Priced]:
    """One priced option per kind and nodes, each at its best amount; best first, nothing among them."""
    found = _ranges(outlook, limits, breadth or Breadth())
    ranges = [(key, most) for key, most in found if most > 0]
    best: dict[tuple[Kind, int, int], Priced] = {}
    spans = {key: (0.0, most) for key, most in ranges}
    for turn in range(ROUNDS):
        points = GRID if turn == 0 else 4
        tries = [
            Option(key[0], key[1], key[2], amount, hold)
            for key, (low, high) in spans.items()
            for amount in np.linspace(low, high, points + 1)[1:].tolist()
            if amount > 0
        ]
        for priced in price(outlook, tries):
            key = (priced.option.kind, priced.option.node, priced.option.target)
            if key not in best or priced.gain_row_s > best[key].gain_row_s:
                best[key] = priced
        spans = {
            key: _around(best[key].option.bytes, (high - low) / points, most)
            for (key, most), (low, high) in zip(ranges, spans.values(), strict=True)
            if key in best
        }
    soonest = float(outlook.nothing.full_s.min(initial=np.inf))
    options = [*best.values(), Priced(NOTHING, 0.0, 0.0, soonest)]
    return sorted(options, key=lambda p: (-p.gain_row_s, p.option.kind, p.option.node))


def _around(amount: float, step: float, most: float) -> tuple[float, float]:
    return max(amount - step, 0.0), min(amount + step, most)


def _ranges(
    outlook: Outlook, limits: Limits, breadth: Breadth
) -> Iterable[tuple[tuple[Kind, int, int], float]]:
    """Kind and nodes, and the most bytes that could be taken."""
    snapshot, nothing = outlook.snapshot, outlook.nothing.row_s
    nodes = snapshot.nodes
    cap = float(min(limits.action_bytes_max, limits.daily_bytes_left))
    free = limits.receiver_fill_max * nodes.budget_bytes.astype(np.float64) - nodes.memory_bytes
    troubled = [n for n in np.argsort(-nothing, kind="stable").tolist() if nothing[n] > 0]
    troubled = [n for n in troubled if nodes.alive[n]]
    for node in troubled[: breadth.senders]:
        able = float(outlook.of(node)[0].bytes[outlook.of(node)[1]].sum())
        for target in _receivers(outlook, free, node, breadth.receivers):
            yield ("move", node, target), min(able, float(free[target]), cap)
    for node in troubled[: breadth.spills]:
        held = min(float(outlook.of(node)[0].bytes.sum()), float(nodes.disk_free_bytes[node]))
        yield ("spill", node, -1), min(held, cap)
    groups = snapshot.groups
    owed = snapshot.by_node(np.where(groups.spilled & ~groups.in_flight, groups.owed_rows + 1, 0.0))
    for node in np.argsort(-owed, kind="stable")[: breadth.cleanups].tolist():
        disk = float(groups.disk_bytes[snapshot.on(node)].sum())
        if owed[node] > 0 and nodes.alive[node]:
            yield ("cleanup", node, -1), min(disk, float(free[node]), cap)


def _receivers(outlook: Outlook, free: np.ndarray, sender: int, count: int) -> list[int]:
    """Nodes with room, most room left at the horizon first."""
    snapshot = outlook.snapshot
    growth = np.bincount(
        outlook.slices.node, weights=outlook.slices.net_bytes_per_s, minlength=len(snapshot.nodes)
    )
    left = free - growth * outlook.horizon.seconds
    able = snapshot.nodes.alive & (free > 0)
    able[sender] = False
    order = np.argsort(-np.where(able, left, -np.inf), kind="stable")
    return [node for node in order[:count].tolist() if able[node]]
