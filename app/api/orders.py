"""/queries/{query}/orders: better join orders than the one that runs, and any other one priced."""

from __future__ import annotations

from typing import Any

from app.api.nodes import TOLD, sample_of, told
from app.api.schema import ANY_OBJECT, array, obj, one_of, or_null, text
from app.api.shapes import plain
from app.api.table import Call, Route
from control.orders import why_none
from control.people import Role
from control.plans import AUTO, STRATEGIES


def orders(call: Call) -> dict[str, Any]:
    sample, params = sample_of(call), call.params
    joins, advice = sample.snapshot.joins, call.parts.advice
    if (order := params.get("order")) is not None:
        found, why = [advice.order(sample, order, params.get("strategy", AUTO))], ""
    else:
        found = advice.orders(sample)
        why = why_none(sample.snapshot, found)
    running = joins.order if joins is not None else None
    return {**told(call, sample), "running": running, "items": plain(found), "text": why}


ROUTES = (
    Route(
        "GET", "/queries/{query}/orders", "orders", Role.VIEWER,
        "better join orders, best gain first; with `order`: that one, by every strategy", orders,
        obj({
            **TOLD,
            "running": or_null(text(help="the order that runs; null: nothing is joined")),
            "items": array(ANY_OBJECT),
            "text": text(help="why none is better; empty where one is"),
        }),
        params={"order": text(2_000, 1), "strategy": one_of([AUTO, *STRATEGIES])},
    ),
)  # fmt: skip
