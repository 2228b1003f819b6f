"""/alerts: what is not as it should be; /audit: who did or was refused what."""

from __future__ import annotations

from typing import Any

from app.api.schema import BOOL, number, obj, page, text
from app.api.shapes import schema_of, shown
from app.api.table import DONE, PAGED, Call, Route, paged, whole_cursor
from control.ledger import Alert
from control.people import AuditLine, Role

WEEK_S = 7 * 86_400.0


def listed(call: Call) -> dict[str, Any]:
    if call.params.get("open"):
        return {"items": [shown(alert) for alert in call.store.alerts.open()], "next": None}
    rows = call.store.alerts.page(before=whole_cursor(call), most=call.limit + 1)
    return paged(rows, call.limit, "id", shown)


def acknowledged(call: Call) -> dict[str, Any]:
    return call.do("alert.acknowledge", {"alert": call.path["number"]})


def silenced(call: Call) -> dict[str, Any]:
    return call.do("alert.silence", {"alert": call.path["number"], **call.body})


def audit(call: Call) -> dict[str, Any]:
    names = ("user", "what", "subject")
    rows = call.store.audit.page(
        before=whole_cursor(call),
        most=call.limit + 1,
        **{name: call.params.get(name, "") for name in names},
    )
    return paged(rows, call.limit, "id", shown)


ROUTES = (
    Route(
        "GET", "/alerts", "alerts", Role.VIEWER, "alerts, newest first; with open those that last",
        listed, page(schema_of(Alert)), params={"open": BOOL, **PAGED},
    ),
    Route(
        "POST", "/alerts/{number}/acknowledge", "alert_acknowledge", Role.OPERATOR,
        "note that somebody looks after it", acknowledged, DONE,
    ),
    Route(
        "POST", "/alerts/{number}/silence", "alert_silence", Role.OPERATOR,
        "not heard of for a time", silenced, DONE, body=obj({"seconds": number(0, WEEK_S)}),
    ),
    Route(
        "GET", "/audit", "audit", Role.OPERATOR, "who did or was refused what, newest first",
        audit, page(schema_of(AuditLine)),
        params={"user": text(64, 1), "what": text(64, 1), "subject": text(200, 1), **PAGED},
    ),
)  # fmt: skip
