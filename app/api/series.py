"""Over time: series of a query and of its nodes, one group's history, and which groups changed place."""

from __future__ import annotations

from typing import Any

from app.api.queries import query_of
from app.api.schema import NUMBER_OR_NULL, array, by_name, number, obj, one_of, text, whole
from app.api.shapes import numbers, shown
from app.api.table import LIMIT_MAX, Call, Route
from app.problems import Problem
from control.people import Role
from control.samples import NODE_FIGURES, QUERY_FIGURES, Series

HOUR_S = 3_600.0
POINTS, POINTS_MAX = 300, 2_000
VALUES_MAX = 400_000  # of one answer
GROUP_S = 86_400.0


def span(call: Call, back_s: float = HOUR_S) -> tuple[float, float]:
    """From when until when: the last hour when nothing is said."""
    until_s = float(call.params.get("until_s", call.now_s))
    since_s = float(call.params.get("since_s", until_s - back_s))
    if since_s > until_s:
        raise Problem("invalid", "parameter since_s: is after until_s")
    return since_s, until_s


def told(series: Series, figures: list[str] | None = None) -> dict[str, Any]:
    """Times, and for each figure its values: for nodes one list for each time."""
    wanted = [name for name in figures or series.values if name in series.values]
    return {
        "step_s": series.step_s,
        "time_s": numbers(series.time_s),
        "values": {name: numbers(series.values[name]) for name in wanted},
    }


def of_query(call: Call) -> dict[str, Any]:
    query_of(call)
    since_s, until_s = span(call)
    points = int(call.params.get("points", POINTS))
    series = call.store.metrics.query_series(call.path["query"], since_s, until_s, points)
    return told(series, call.params.get("figures"))


def of_nodes(call: Call) -> dict[str, Any]:
    query_of(call)
    since_s, until_s = span(call)
    points = int(call.params.get("points", POINTS))
    series = call.store.metrics.node_series(call.path["query"], since_s, until_s, points)
    figures = call.params.get("figures") or ["memory_bytes", "budget_bytes"]
    values = sum(series.values[name].size for name in figures if name in series.values)
    if values > VALUES_MAX:
        raise Problem(
            "invalid",
            f"That would be {values:,} values; ask for fewer points or figures.",
            found=values,
            limit=VALUES_MAX,
        )
    return told(series, figures)


def of_group(call: Call) -> dict[str, Any]:
    query_of(call)
    since_s, until_s = span(call, GROUP_S)
    path = call.path
    series = call.store.metrics.group_history(
        path["query"], path["operator"], path["group"], since_s, until_s
    )
    return told(series)


def changes(call: Call) -> dict[str, Any]:
    query_of(call)
    since_s = float(call.params.get("since_s", call.now_s - GROUP_S))
    most = int(call.params.get("limit", LIMIT_MAX))
    found = call.store.metrics.changes(call.path["query"], since_s=since_s, most=most)
    return {"items": [{"time_s": time_s, **shown(change)} for time_s, change in found]}


TIMES = {
    "since_s": number(0, 1e11, "seconds since 1970"),
    "until_s": number(0, 1e11, "seconds since 1970; now without"),
}
SERIES = obj(
    {
        "step_s": number(),
        "time_s": array(NUMBER_OR_NULL),
        "values": by_name(array({"type": ["number", "null", "array"]})),
    }
)
CHANGE = obj(
    {
        "time_s": number(),
        "operator": text(),
        "group": whole(),
        "owner": whole(),
        "tier": text(),
        "action": text(),
    }
)


def _figures(names: tuple[str, ...]) -> dict[str, Any]:
    return {**array(one_of(names), len(names), 1), "description": "comma-separated; some without"}


def _sampled(names: tuple[str, ...]) -> dict[str, Any]:
    return {**TIMES, "points": whole(1, POINTS_MAX, "at most"), "figures": _figures(names)}


ROUTES = (
    Route(
        "GET", "/queries/{query}/series", "query_series", Role.VIEWER,
        "the query's figures over time", of_query, SERIES, params=_sampled(QUERY_FIGURES),
    ),
    Route(
        "GET", "/queries/{query}/series/nodes", "node_series", Role.VIEWER,
        "the nodes' figures over time: for each time one value for each node", of_nodes, SERIES,
        params=_sampled(NODE_FIGURES),
    ),
    Route(
        "GET", "/queries/{query}/operators/{operator}/groups/{group}/series", "group_series",
        Role.VIEWER, "one group over time", of_group, SERIES, params=TIMES,
    ),
    Route(
        "GET", "/queries/{query}/changes", "changes", Role.VIEWER,
        "groups that got another owner or tier", changes, obj({"items": array(CHANGE)}),
        params={"since_s": TIMES["since_s"], "limit": whole(1, LIMIT_MAX)},
    ),
)  # fmt: skip
