"""/queries/{query}/nodes, /groups, /operators: what is where now, from the newest sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.api.queries import query_of
from app.api.schema import (
    ANY_OBJECT,
    BOOL,
    NUMBER_OR_NULL,
    array,
    by_name,
    number,
    obj,
    one_of,
    or_null,
    page,
    text,
    whole,
)
from app.api.shapes import plain
from app.api.table import LIMIT, PAGED, Call, Route, whole_cursor
from app.problems import Problem
from control.people import Role
from control.samples import Sample
from control.snapshot import NO_LIMIT, ClusterSnapshot, Longs

COUNT = whole()
ANY_NUMBER = {"type": ["number", "null"]}
SORTS = ("group", "memory_bytes", "disk_bytes", "rows_in_per_s", "rows_out_per_s", "productivity")
TIERS = ("memory", "disk", "both", "none")
NODE = obj(
    {
        "node": COUNT,
        "alive": BOOL,
        "budget_bytes": or_null(COUNT),
        "memory_bytes": COUNT,
        "held_bytes": COUNT,
        "disk_bytes": COUNT,
        "disk_free_bytes": or_null(COUNT),
        "rows_in_per_s": ANY_NUMBER,
        "rows_out_per_s": ANY_NUMBER,
        "busy": ANY_NUMBER,
        "groups": COUNT,
        "groups_on_disk": COUNT,
        "full_in_s": NUMBER_OR_NULL,
    }
)
GROUP = obj(
    {
        "operator": text(),
        "group": COUNT,
        "node": COUNT,
        "tier": one_of(TIERS),
        "in_flight": BOOL,
        "memory_bytes": COUNT,
        "disk_bytes": COUNT,
        "generations": COUNT,
        "rows_in": COUNT,
        "rows_out": COUNT,
        "rows_in_per_s": ANY_NUMBER,
        "rows_out_per_s": ANY_NUMBER,
        "bytes_per_s": ANY_NUMBER,
        "productivity": ANY_NUMBER,
        "owed_rows": ANY_NUMBER,
    }
)


def sample_of(call: Call) -> Sample:
    """The newest sample of the query in the path."""
    sample = newest(call, call.path["query"])
    if sample is None:
        raise Problem("missing", f"Nothing is recorded of query {call.path['query']!r} yet.")
    return sample


def newest(call: Call, query: str) -> Sample | None:
    query_of(call)
    return call.store.metrics.newest(query)


def told(call: Call, sample: Sample) -> dict[str, Any]:
    age_s = round(max(0.0, call.now_s - sample.time_s), 3)
    return {
        "query": sample.query,
        "time_s": sample.time_s,
        "age_s": age_s,
        "version": sample.version,
    }


TOLD = {"query": text(), "time_s": number(), "age_s": number(), "version": whole(-1)}


def now(call: Call) -> dict[str, Any]:
    sample = sample_of(call)
    return {**told(call, sample), "figures": plain(sample.figures)}


def nodes(call: Call) -> dict[str, Any]:
    sample = sample_of(call)
    full = call.parts.advice.forecast(sample)
    items = [_node(sample, node, full) for node in range(len(sample.snapshot.nodes))]
    return {**told(call, sample), "items": items}


def node(call: Call) -> dict[str, Any]:
    sample, number = sample_of(call), call.path["node"]
    if number >= len(sample.snapshot.nodes):
        raise Problem("missing", f"There is no node {number}.")
    full = call.parts.advice.forecast(sample)
    return {
        **told(call, sample),
        **_node(sample, number, full),
        "operators": _by_operator(sample.snapshot, number),
    }


def _node(sample: Sample, node: int, full: Sequence[float | None]) -> dict[str, Any]:
    columns, snapshot = sample.snapshot.nodes, sample.snapshot
    mine = snapshot.on(node)
    held = sample.nodes.get("held_bytes")
    return {
        "node": node,
        "alive": bool(columns.alive[node]),
        "budget_bytes": limited(int(columns.budget_bytes[node])),
        "memory_bytes": int(columns.memory_bytes[node]),
        "held_bytes": int(held[node]) if held is not None and len(held) > node else 0,
        "disk_bytes": int(columns.disk_bytes[node]),
        "disk_free_bytes": limited(int(columns.disk_free_bytes[node])),
        "rows_in_per_s": plain(float(columns.rows_in_per_s[node])),
        "rows_out_per_s": plain(float(columns.rows_out_per_s[node])),
        "busy": plain(float(columns.busy[node])),
        "groups": len(mine),
        "groups_on_disk": int(snapshot.groups.spilled[mine].sum()),
        "full_in_s": plain(full[node]),
    }


def limited(value: int) -> int | None:
    """No limit is null."""
    return None if value >= NO_LIMIT else value


def _by_operator(snapshot: ClusterSnapshot, node: int) -> list[dict[str, Any]]:
    mine = snapshot.on(node)
    found = []
    for index, operator in enumerate(snapshot.operators):
        rows = mine[snapshot.groups.operator[mine] == index]
        found.append(
            {
                "operator": operator.name,
                "groups": len(rows),
                "memory_bytes": int(snapshot.groups.memory_bytes[rows].sum()),
                "disk_bytes": int(snapshot.groups.disk_bytes[rows].sum()),
            }
        )
    return found


OF_OPERATOR = {"operator": text(), "groups": COUNT, "memory_bytes": COUNT, "disk_bytes": COUNT}


def groups(call: Call) -> dict[str, Any]:
    """Sorted and cut here: the columns are in memory anyway. The cursor is how many went before."""
    sample = sample_of(call)
    rows = _wanted(sample.snapshot, call.params)
    begin = whole_cursor(call) or 0
    limit = int(call.params.get("limit", LIMIT))
    end = begin + limit
    items = [_group(sample.snapshot, int(row)) for row in rows[begin:end]]
    following = str(end) if end < len(rows) else None
    return {**told(call, sample), "groups": len(rows), "items": items, "next": following}


def _wanted(snapshot: ClusterSnapshot, params: Any) -> Longs:
    columns = snapshot.groups
    keep = np.ones(len(columns), dtype=bool)
    if "operator" in params:
        index = snapshot.operator_index.get(params["operator"])
        if index is None:
            raise Problem("missing", f"There is no operator {params['operator']!r}.")
        keep &= columns.operator == index
    if "node" in params:
        keep &= columns.owner == params["node"]
    if "tier" in params:
        keep &= _tiers(snapshot) == TIERS.index(params["tier"])
    rows = np.flatnonzero(keep)
    sort = params.get("sort", "group")
    if sort == "group":
        return rows[np.lexsort((columns.group[rows], columns.operator[rows]))]
    values = productivity(snapshot) if sort == "productivity" else getattr(columns, sort)
    ordered = rows[np.lexsort((rows, -values[rows].astype(np.float64)))]
    return ordered[::-1] if params.get("ascending") else ordered


def _tiers(snapshot: ClusterSnapshot) -> Longs:
    memory = snapshot.groups.memory_bytes > 0
    disk = snapshot.groups.spilled
    return np.select([memory & ~disk, disk & ~memory, memory & disk], [0, 1, 2], 3)


def productivity(snapshot: ClusterSnapshot) -> Any:
    """Results each second for each byte in memory."""
    columns = snapshot.groups
    return columns.rows_out_per_s / np.maximum(columns.memory_bytes, 1)


def _group(snapshot: ClusterSnapshot, row: int) -> dict[str, Any]:
    columns = snapshot.groups
    memory, disk = int(columns.memory_bytes[row]), bool(columns.spilled[row])
    tier = TIERS[(2 if disk else 0) if memory else (1 if disk else 3)]
    whole_fields = ("memory_bytes", "disk_bytes", "generations", "rows_in", "rows_out")
    rates = ("rows_in_per_s", "rows_out_per_s", "bytes_per_s", "owed_rows")
    return {
        "operator": snapshot.operators[int(columns.operator[row])].name,
        "group": int(columns.group[row]),
        "node": int(columns.owner[row]),
        "tier": tier,
        "in_flight": bool(columns.in_flight[row]),
        **{name: int(getattr(columns, name)[row]) for name in whole_fields},
        **{name: plain(float(getattr(columns, name)[row])) for name in rates},
        "productivity": plain(float(columns.rows_out_per_s[row]) / max(memory, 1)),
    }


def operators(call: Call) -> dict[str, Any]:
    sample = sample_of(call)
    totals = [
        {
            "operator": operator.name,
            "streams": operator.streams,
            "groups": operator.groups,
            "window_s": operator.window_s,
        }
        for operator in sample.snapshot.operators
    ]
    return {
        **told(call, sample),
        "items": totals,
        "by_node": [plain(dict(line)) for line in sample.operators],
    }


OPERATOR = obj({"operator": text(), "streams": COUNT, "groups": COUNT, "window_s": NUMBER_OR_NULL})
FILTERS = {
    "operator": text(200, 1),
    "node": whole(0, 1_000_000),
    "tier": one_of(TIERS),
    "sort": one_of(SORTS, "largest first, but by group in order"),
    "ascending": BOOL,
    **PAGED,
}
GROUPS = page(GROUP)
GROUPS = obj({**TOLD, "groups": COUNT, **GROUPS["properties"]})
ROUTES = (
    Route(
        "GET", "/queries/{query}/now", "query_now", Role.VIEWER, "the newest figures", now,
        obj({**TOLD, "figures": by_name(ANY_NUMBER)}),
    ),
    Route(
        "GET", "/queries/{query}/nodes", "nodes", Role.VIEWER,
        "each node: memory, budget, disk, rates, when it is full", nodes,
        obj({**TOLD, "items": array(NODE)}),
    ),
    Route(
        "GET", "/queries/{query}/nodes/{node}", "node", Role.VIEWER, "one node, by operator", node,
        obj({**TOLD, **NODE["properties"], "operators": array(obj(OF_OPERATOR))}),
    ),
    Route(
        "GET", "/queries/{query}/groups", "groups", Role.VIEWER,
        "partition groups: owner, tier, size, rates", groups, GROUPS, params=FILTERS,
    ),
    Route(
        "GET", "/queries/{query}/operators", "operators", Role.VIEWER,
        "operators, and what each did on each node in the last tick", operators,
        obj({**TOLD, "items": array(OPERATOR), "by_node": array(ANY_OBJECT)}),
    ),
)  # fmt: skip
