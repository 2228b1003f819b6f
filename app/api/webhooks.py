"""/webhooks: where events are sent. Their secrets are shown once, when made."""

from __future__ import annotations

from typing import Any

from app.api.schema import array, obj, page, text
from app.api.shapes import schema_of, shown
from app.api.table import DONE, Call, Route
from app.errors import AddressError
from app.problems import Problem
from app.webhooks import check_port, target_of
from control.ledger import Webhook
from control.people import Role

HIDDEN = ("secret",)


def listed(call: Call) -> dict[str, Any]:
    return {"items": [shown(hook, HIDDEN) for hook in call.store.webhooks.all()], "next": None}


def added(call: Call) -> dict[str, Any]:
    try:
        check_port(target_of(call.body["url"]), call.parts.settings.webhook_ports)
    except AddressError as error:
        raise Problem("invalid", f"body.url: {error}") from None
    return call.do("webhook.add", call.body)


def dropped(call: Call) -> dict[str, Any]:
    return call.do("webhook.drop", {"webhook": call.path["id"]})


ROUTES = (
    Route(
        "GET", "/webhooks", "webhooks", Role.ADMIN, "where events are sent", listed,
        page(schema_of(Webhook, HIDDEN)),
    ),
    Route(
        "POST", "/webhooks", "webhook_add", Role.ADMIN,
        "events to an address: https, or http to an allowed port of this machine", added, DONE, confirm=True,
        body=obj({"url": text(500, 1), "events": array(text(64, 1), 20, 1)}),
    ),
    Route(
        "DELETE", "/webhooks/{id}", "webhook_drop", Role.ADMIN, "no more events", dropped, DONE,
        confirm=True,
    ),
)  # fmt: skip
