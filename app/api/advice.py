"""What would help now, when nodes are full, and how well predictions did: the menu, /learning, /coefficients."""

from __future__ import annotations

from typing import Any

from app.api.nodes import TOLD, sample_of, told
from app.api.schema import (
    ANY_OBJECT,
    NUMBER_OR_NULL,
    array,
    by_name,
    obj,
    page,
    text,
    whole,
)
from app.api.shapes import plain, schema_of, shown
from app.api.table import PAGED, Call, Route, paged, whole_cursor
from control.ledger import Learned
from control.people import Role

MENU, MENU_MAX = 8, 20


def menu(call: Call) -> dict[str, Any]:
    sample = sample_of(call)
    found = call.parts.advice.menu(sample, call.now_s, int(call.params.get("limit", MENU)))
    return {**told(call, sample), "items": plain(found)}


def forecast(call: Call) -> dict[str, Any]:
    sample = sample_of(call)
    return {**told(call, sample), "full_in_s": plain(call.parts.advice.forecast(sample))}


def learning(call: Call) -> dict[str, Any]:
    rows = call.store.learning.page(
        before=whole_cursor(call), most=call.limit + 1, action=call.params.get("action", "")
    )
    return paged(rows, call.limit, "id", shown)


def coefficients(call: Call) -> dict[str, Any]:
    return {"estimates": plain(call.store.learning.estimates())}


ROUTES = (
    Route(
        "GET", "/queries/{query}/menu", "menu", Role.VIEWER,
        "what would help now: options by gain, nothing among them", menu,
        obj({**TOLD, "items": array(ANY_OBJECT)}), params={"limit": whole(1, MENU_MAX)},
    ),
    Route(
        "GET", "/queries/{query}/forecast", "forecast", Role.VIEWER,
        "by node: seconds until it is full; null: not within a day", forecast,
        obj({**TOLD, "full_in_s": array(NUMBER_OR_NULL)}),
    ),
    Route(
        "GET", "/learning", "learning", Role.VIEWER,
        "predicted against actual, and what the model made of it", learning,
        page(schema_of(Learned)), params={"action": text(200, 1), **PAGED},
    ),
    Route(
        "GET", "/coefficients", "coefficients", Role.VIEWER, "the cost model's numbers",
        coefficients, obj({"estimates": by_name(ANY_OBJECT)}),
    ),
)  # fmt: skip
