"""/queries: registered queries, what each is and should be, and what its demo's workload is."""

from __future__ import annotations

from typing import Any

from app.api.schema import BOOL, NUMBER_OR_NULL, by_name, number, obj, page, text, whole
from app.api.shapes import schema_of, shown
from app.api.table import DONE, Call, Route
from app.problems import Problem
from app.redacted import seen_by
from control.ledger import QueryRow
from control.people import Role

TEXT_MAX = 200_000
QUERY = schema_of(QueryRow, age_s=NUMBER_OR_NULL)
SHORT = schema_of(QueryRow, ("text", "about"), age_s=NUMBER_OR_NULL)


def query_of(call: Call) -> QueryRow:
    """The query that the path names."""
    row = call.store.queries.find(call.path["query"])
    if row is None:
        raise Problem("missing", f"There is no query {call.path['query']!r}.")
    return row


def _shown(call: Call, row: QueryRow, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Without the passwords in its file, but for admins."""
    age_s = round(max(0.0, call.now_s - row.told_s), 1) if row.told_s else None
    return {**shown(seen_by(row, call.actor.role), without), "age_s": age_s}


def listed(call: Call) -> dict[str, Any]:
    rows = call.store.queries.all()
    return {"items": [_shown(call, row, ("text", "about")) for row in rows], "next": None}


def one(call: Call) -> dict[str, Any]:
    return _shown(call, query_of(call))


def registered(call: Call) -> dict[str, Any]:
    return call.do("query.register", call.body)


def _to(kind: str) -> Any:
    def tell(call: Call) -> dict[str, Any]:
        return call.do(kind, call.body, call.path["query"])

    return tell


def _lifecycle(verb: str, help: str) -> Route:
    path = f"/queries/{{query}}/{verb}"
    return Route(
        "POST", path, f"query_{verb}", Role.OPERATOR, help, _to(f"query.{verb}"), DONE, status=202
    )


REGISTER = obj(
    {"text": text(TEXT_MAX, 1, help="the query file (TOML)")},
    {"nodes": whole(1, 1_000, "instead of the file's"), "start": BOOL},
)
OPTIONS = by_name({"type": ["number", "string", "boolean", "array", "object", "null"]})
WORKLOAD = obj(
    {},
    {
        "stream": text(64, 1, help="of the demo's generated streams; all without"),
        "options": {**OPTIONS, "description": "options of the generator, as in its query file"},
        "slow": {**by_name(number(0, 10)), "description": "node → seconds more for each row"},
    },
)


ROUTES = (
    Route("GET", "/queries", "queries", Role.VIEWER, "registered queries", listed, page(SHORT)),
    Route(
        "POST", "/queries", "query_register", Role.ADMIN,
        "take in a query file; unless start is false it runs at once", registered, DONE,
        body=REGISTER, status=202, confirm=True,
    ),
    Route("GET", "/queries/{query}", "query", Role.VIEWER, "one query with its file", one, QUERY),
    Route(
        "DELETE", "/queries/{query}", "query_unregister", Role.ADMIN,
        "forget a stopped query; its state stays", _to("query.unregister"), DONE, confirm=True,
    ),
    _lifecycle("start", "start it"),
    _lifecycle("stop", "end it after the running tick"),
    _lifecycle("pause", "halt it; its state stays in memory"),
    _lifecycle("resume", "go on after a pause"),
    Route(
        "POST", "/queries/{query}/nodes", "query_nodes", Role.ADMIN,
        "another number of nodes; the query starts again", _to("nodes"), DONE,
        body=obj({"nodes": whole(1, 1_000)}), status=202, confirm=True,
    ),
    Route(
        "POST", "/queries/{query}/workload", "query_workload", Role.OPERATOR,
        "change a demo query's generated streams, or make a node slow", _to("workload"), DONE,
        body=WORKLOAD, status=202,
    ),
)  # fmt: skip
