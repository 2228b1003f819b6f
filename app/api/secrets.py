"""/secrets: the names of named secrets. Values come in here and never go out."""

from __future__ import annotations

from typing import Any

from app.api.schema import array, number, obj, page, text
from app.api.table import DONE, Call, Route
from control.handling.secrets import BYTES_MAX, users_of
from control.people import Role


def listed(call: Call) -> dict[str, Any]:
    """Every name, since when its value holds, and the queries that refer to it."""
    keeper, queries = call.parts.secrets, call.store.queries.all()
    items = [
        {
            "name": secret.name,
            "changed_s": secret.changed_s,
            "queries": users_of(secret.name, queries),
        }
        for secret in (keeper.names() if keeper is not None else [])
    ]
    return {"items": items, "next": None}


def kept(call: Call) -> dict[str, Any]:
    return call.do("secret.set", call.body)


def dropped(call: Call) -> dict[str, Any]:
    return call.do("secret.drop", {"name": call.path["name"]})


SECRET = obj({"name": text(64), "changed_s": number(), "queries": array(text(64))})
ROUTES = (
    Route("GET", "/secrets", "secrets", Role.ADMIN, "named secrets, without their values", listed,
          page(SECRET)),
    Route(
        "POST", "/secrets", "secret_set", Role.ADMIN,
        "keep a value that query files refer to as {secret:NAME}, or replace it", kept, DONE,
        body=obj({"name": text(64, 1), "value": {**text(BYTES_MAX, 1), "format": "password"}}),
        confirm=True,
    ),
    Route(
        "DELETE", "/secrets/{name}", "secret_drop", Role.ADMIN,
        "forget a secret that no registered query refers to", dropped, DONE, confirm=True,
    ),
)  # fmt: skip
