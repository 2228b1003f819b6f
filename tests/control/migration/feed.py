"""Ticks as an engine would tell them, from the simulator: what statistics are tested with."""

from __future__ import annotations

from collections.abc import Iterator

from control.migration.statistics import OperatorTold, SideTold, TickTold
from control.migration.trees import Tree, members
from control.simulate.tracks import Arrivals, Box, Work, arrived

TICK_S = 0.5
JOIN_S, INSERT_S, TASK_S = 3e-5, 2e-5, 2e-3


def ticks(
    arrivals: Arrivals, tree: Tree, window_s: float, *, since_s: float = 0.0, split: bool = False
) -> Iterator[TickTold]:
    """Tick by tick, and once more before the first row."""
    box = Box(tree, arrivals, window_s, exact_purge=True)
    before = [([0, 0], 0)] * len(box.joins)
    end = TICK_S
    yield _told(box, before, since_s, split)
    for time, input_, row in arrivals.in_order():
        while time > end:
            yield _told(box, before, since_s + end, split)
            before = [(list(join.rows_in), join.rows_out) for join in box.joins]
            end += TICK_S
        box.enter(input_, arrived(arrivals, input_, row), time, Work())


def _told(box: Box, before: list[tuple[list[int], int]], time_s: float, split: bool) -> TickTold:
    found = []
    for number, (join, (rows_in, rows_out)) in enumerate(zip(box.joins, before, strict=True)):
        new = [now - then for now, then in zip(join.rows_in, rows_in, strict=True)]
        made = join.rows_out - rows_out
        sides = tuple(
            SideTold(members(mask), n, len(rows), len(rows) * 24 * mask.bit_count())
            for mask, n, rows in zip(join.masks, new, join.sides, strict=True)
        )
        join_cpu, insert_cpu = JOIN_S * (sum(new) + made), INSERT_S * sum(new)
        cpu = join_cpu + insert_cpu + TASK_S
        told = (join_cpu, insert_cpu) if split else (None, None)
        found.append(OperatorTold(f"join-{number + 1}", sides, made, cpu, *told))
    return TickTold(time_s, tuple(found))
