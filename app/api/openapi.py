"""The OpenAPI 3.1 document, made from the same table that serves the routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.schema import Schema, array, obj, text, whole
from app.api.table import JSON, PREFIX, WHERE, Route
from app.problems import JSON_PROBLEM, KINDS
from app.sessions import CSRF_HEADER

VERSION = "1"
PROBLEM: Schema = {
    **obj(
        {"type": text(), "title": text(), "status": whole(400, 599), "detail": text(10_000)},
        {
            "refusals": array({"type": "object"}),
            "faults": array(obj({"where": text(1_000), "text": text(1_000)})),
        },
    ),
    "additionalProperties": True,
}
ABOUT = (
    "Everything the console can do. Sign in with a bearer token, or with a session's cookie and the "
    f"header {CSRF_HEADER}. Times are seconds since 1970 (`*_s`), sizes are bytes (`*_bytes`). "
    "Lists are paged: `next` is the `cursor` of the next page."
)


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """All of it, as plain JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spillway", "version": VERSION, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "tags": [{"name": noun} for noun in dict.fromkeys(route.noun for route in routes)],
    }


def _operation(route: Route) -> dict[str, Any]:
    needs = f"Needs the role {route.role}."
    again = " From a browser, the password must have been given lately." if route.confirm else ""
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.help,
        "description": needs + again,
        "tags": [route.noun],
        "x-role": route.role.value,
        "parameters": _parameters(route),
        "responses": {str(route.status): _good(route), **_bad(route)},
        "security": [{"token": []}] if route.tokens else [],
    }
    if route.body is not None:
        needed = bool(route.body.get("required"))
        found["requestBody"] = {"required": needed, "content": {JSON: {"schema": route.body}}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    places = [
        {"name": place, "in": "path", "required": True, "schema": WHERE[place]}
        for place in route.places
    ]
    return places + [_param(name, schema) for name, schema in route.params.items()]


def _param(name: str, schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "in": "query", "required": False, "schema": schema}
    if schema.get("type") == "array":
        found |= {"style": "form", "explode": False}
    return found


def _good(route: Route) -> dict[str, Any]:
    return {"description": route.help, "content": {route.produces: {"schema": route.answer}}}


def _bad(route: Route) -> dict[str, Any]:
    """Every status that an error of this route may have."""
    statuses = {401, 403, 422, 429, 503, 400}
    statuses |= {404} if route.places or route.changes else set()
    statuses |= {409, 413, 415} if route.changes else set()
    content: Mapping[str, Any] = {
        JSON_PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}
    }
    return {
        str(status): {"description": _said(status), "content": content}
        for status in sorted(statuses)
    }


def _said(status: int) -> str:
    return "; ".join(f"{title}: {text}" for code, title, text in KINDS.values() if code == status)
