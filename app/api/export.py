"""…/export/*.csv: statistics per operator, query, node and group, and the ledger of actions, for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.api.actions import short
from app.api.nodes import sample_of
from app.api.queries import query_of
from app.api.schema import Schema, number, text, whole
from app.api.series import POINTS_MAX, TIMES, span
from app.api.table import CSV, Call, Reply, Route
from app.export import csv_text, of_mappings
from control.people import Role
from control.samples import NODE_FIGURES, QUERY_FIGURES, Series

ACTIONS_MAX = 5_000
PAGE = 500
NODE_VALUES_MAX = 1_000_000
ACTION_COLUMNS = (
    "id", "query", "do", "nodes", "state", "by", "rule", "started_s", "ended_s", "bytes", "groups",
    "note",
)  # fmt: skip


def _file(name: str, body: str) -> Reply:
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return Reply(
        body, headers={"Content-Disposition": f'attachment; filename="{kept}"'}, content_type=CSV
    )


def of_query(call: Call) -> Reply:
    query_of(call)
    name = call.path["query"]
    since_s, until_s = span(call)
    series = call.store.metrics.query_series(name, since_s, until_s, _points(call))
    columns = [figure for figure in QUERY_FIGURES if figure in series.values]
    rows = (
        [time_s, *(series.values[figure][at] for figure in columns)]
        for at, time_s in enumerate(series.time_s)
    )
    return _file(f"{name}-query.csv", csv_text(["time_s", *columns], rows))


def of_nodes(call: Call) -> Reply:
    query_of(call)
    name = call.path["query"]
    since_s, until_s = span(call)
    series = call.store.metrics.node_series(name, since_s, until_s, _points(call))
    columns = [figure for figure in NODE_FIGURES if figure in series.values]
    return _file(
        f"{name}-nodes.csv", csv_text(["time_s", "node", *columns], _by_node(series, columns))
    )


def _by_node(series: Series, columns: list[str]) -> Iterator[list[Any]]:
    """A line for each time and node, at most so many."""
    nodes = series.values[columns[0]].shape[1] if columns and len(series.time_s) else 0
    every = max(1, -(-len(series.time_s) * nodes * max(len(columns), 1) // NODE_VALUES_MAX))
    for at in range(0, len(series.time_s), every):
        for node in range(nodes):
            yield [series.time_s[at], node, *(series.values[name][at][node] for name in columns)]


def of_operators(call: Call) -> Reply:
    sample = sample_of(call)
    lines = [{"time_s": sample.time_s, **dict(line)} for line in sample.operators]
    return _file(
        f"{sample.query}-operators.csv", of_mappings(lines, ("time_s", "operator", "node"))
    )


def of_actions(call: Call) -> Reply:
    """Newest first, as the ledger shows them."""
    lines: list[dict[str, Any]] = []
    before: str | None = None
    while len(lines) < ACTIONS_MAX:
        rows = call.store.actions.page(
            before=before,
            most=PAGE,
            query=call.params.get("query", ""),
            since_s=float(call.params.get("since_s", 0.0)),
        )
        lines += [short(row) for row in rows]
        if len(rows) < PAGE:
            break
        before = rows[-1].id
    body = csv_text(ACTION_COLUMNS, ([line[name] for name in ACTION_COLUMNS] for line in lines))
    return _file("actions.csv", body)


def _points(call: Call) -> int:
    return int(call.params.get("points", POINTS_MAX))


TEXT: Schema = {"type": "string"}
SPAN = {**TIMES, "points": whole(1, POINTS_MAX, "at most")}


def _route(path: str, name: str, help: str, handle: Any, params: dict[str, Schema]) -> Route:
    return Route("GET", path, name, Role.VIEWER, help, handle, TEXT, params=params, produces=CSV)


ROUTES = (
    _route("/queries/{query}/export/query.csv", "export_query", "the query over time", of_query, SPAN),
    _route("/queries/{query}/export/nodes.csv", "export_nodes", "each node over time", of_nodes, SPAN),
    _route(
        "/queries/{query}/export/operators.csv", "export_operators",
        "each operator on each node in the last tick", of_operators, {},
    ),
    _route(
        "/export/actions.csv", "export_actions", "the ledger of actions", of_actions,
        {"query": text(64, 1), "since_s": number(0, 1e11)},
    ),
)  # fmt: skip
