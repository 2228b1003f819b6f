"""The picture that decisions are made from, taken from a query's manifest and statistics."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from control.plans import Move, Step, move_of
from control.snapshot import NO_LIMIT, Bools, ClusterSnapshot, Groups, History, Nodes, Operator
from engine.adapt.rounds import Figures, busy

if TYPE_CHECKING:
    from control.cost.coefficients import LocalRule
    from control.migration.joins import Joins
    from engine.flow import Flow
    from engine.reports import Longs
    from engine.tick import Ticker


def windows_s(flow: Flow) -> dict[str, float | None]:
    """Each operator's longest window; None where state is kept for ever."""
    return {
        op.id: max((abs(limit.us) for limit in op.limits), default=0) / 1e6 or None
        for op in flow.ops
    }


def snapshot(
    ticker: Ticker,
    budgets: Mapping[int, int],
    figures: Figures,
    history: History,
    in_flight: Iterable[tuple[str, int]],
    now_s: float,
    version_s: float,
    joins: Joins | None,
    alive: Bools,
    spill_rule: LocalRule,
) -> ClusterSnapshot:
    """One query now. `figures`: of its last round; `alive` by node."""
    flow, manifest, count = ticker.setup.flow, ticker.manifest, ticker.setup.plan.nodes
    parts = [_groups(ticker, number, figures, now_s, version_s) for number in range(len(flow.ops))]
    names = list(parts[0])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    starts = np.cumsum([0, *(op.groups for op in flow.ops)]).tolist()
    first = {op.id: start for op, start in zip(flow.ops, starts, strict=False)}
    columns["in_flight"] = np.zeros(len(columns["group"]), dtype=bool)
    columns["in_flight"][[first[op] + group for op, group in in_flight]] = True
    groups = Groups.of(columns.pop("owner"), columns.pop("memory_bytes"), **columns)
    free = shutil.disk_usage(ticker.setup.folders.durable).free
    by_node: dict[str, Longs] = {
        name: np.bincount(groups.owner, weights=getattr(groups, name), minlength=count)
        for name in ("rows_in_per_s", "rows_out_per_s")
    }
    nodes = Nodes.of(
        [budgets.get(n, NO_LIMIT) for n in range(count)],
        [manifest.memory_bytes(n) for n in range(count)],
        disk_bytes=[manifest.disk_bytes(n) for n in range(count)],
        disk_free_bytes=free,
        alive=alive,
        busy=busy(figures, count),
        **by_node,
    )
    windows = windows_s(flow)
    operators = tuple(Operator(op.id, len(op.sides), op.groups, windows[op.id]) for op in flow.ops)
    name = ticker.setup.plan.name
    return ClusterSnapshot(
        name, manifest.version, now_s, nodes, operators, groups, history, joins, spill_rule
    )


def _groups(
    ticker: Ticker, number: int, figures: Figures, now_s: float, version_s: float
) -> dict[str, Longs]:
    """One operator's columns."""
    op = ticker.setup.flow.ops[number]
    stats, manifest = ticker.stats[op.id], ticker.manifest
    memory, disk = manifest.by_group(op.id, op.groups)
    none = np.zeros(op.groups, dtype=np.int64)
    rows_in, rows_out = figures.counts.get(op.id, (none, none))
    row_bytes = stats.bytes / np.maximum(stats.rows_in, 1)
    # Statistics know versions, decisions ask for seconds: take the versions as evenly spread.
    age = (manifest.version - stats.last_insert) * version_s
    return {
        "operator": np.full(op.groups, number, dtype=np.int64),
        "group": np.arange(op.groups),
        "owner": np.array(ticker.placements[op.id], dtype=np.int64),
        "memory_bytes": memory,
        "disk_bytes": disk,
        "generations": manifest.generations(op.id, op.groups),
        "rows_in": stats.rows_in,
        "rows_out": stats.rows_out,
        "rows_in_per_s": stats.rows_in_per_s,
        "rows_out_per_s": stats.rows_out_per_s,
        "rows_in_round": rows_in,
        "rows_out_round": rows_out,
        "bytes_per_s": stats.rows_in_per_s * row_bytes,
        "last_insert_s": np.where(stats.last_insert < 0, -1e18, now_s - age),
    }


def together(flow: Flow, operators: Sequence[str]) -> tuple[int, ...]:
    """Operators that share a task with any of these, and so their groups' nodes: they move as one."""
    number = {op.id: op.number for op in flow.ops}
    found = {number[name] for name in operators}
    links = [
        (op.number, side.fused) for op in flow.ops for side in op.sides if side.fused is not None
    ]
    grew = True
    while grew:
        more = {n for pair in links if found.intersection(pair) for n in pair}
        grew = not more <= found
        found |= more
    return tuple(sorted(found))


def whole(flow: Flow, step: Step, now: ClusterSnapshot) -> Step:
    """A move with the groups that it takes along, which are to be judged like those that were named."""
    if not isinstance(step, Move) or len(flow.ops) == 1:
        return step
    groups, known = now.groups, {op.id: op.groups for op in flow.ops}
    rows: set[int] = set()
    for part in step.parts:
        if not all(0 <= g < known.get(part.operator, 0) for g in part.groups):
            return step  # as it is, it will be refused
        mine = np.isin(groups.operator, together(flow, [part.operator]))
        rows.update(np.flatnonzero(mine & np.isin(groups.group, part.groups)).tolist())
    if len(rows) == sum(len(set(part.groups)) for part in step.parts):
        return step
    return move_of(now, np.array(sorted(rows), dtype=np.int64), step.source, step.target)
