"""Alerts and webhooks."""

from __future__ import annotations

from collections.abc import Mapping

from control.handling.base import Handler, Ports, missing
from control.kinds import Answer, Asked, Status
from control.ledger import Webhook

SILENCE_S = 7 * 86_400.0
EVENTS = frozenset({"alert.raised", "alert.ended", "action.ended", "proposal.made", "query.failed"})
URL_MAX = 500


def acknowledge(ports: Ports, asked: Asked) -> Answer:
    if not ports.store.alerts.acknowledge(asked.body["alert"], asked.actor.user):
        return missing("alert", str(asked.body["alert"]))
    return Answer(Status.ACCEPTED, "acknowledged", str(asked.body["alert"]))


def silence(ports: Ports, asked: Asked) -> Answer:
    seconds = asked.body["seconds"]
    if not 0 <= seconds <= SILENCE_S:
        return Answer(Status.INVALID, f"seconds must be from 0 to {SILENCE_S:.0f}")
    if not ports.store.alerts.silence(asked.body["alert"], asked.now_s + seconds):
        return missing("alert", str(asked.body["alert"]))
    return Answer(Status.ACCEPTED, "silenced", str(asked.body["alert"]))


def add_webhook(ports: Ports, asked: Asked) -> Answer:
    """Where it may lead is checked again each time that something is sent."""
    url, events = asked.body["url"], asked.body["events"]
    if not url.startswith(("https://", "http://127.0.0.1", "http://[::1]", "http://localhost")):
        return Answer(Status.INVALID, "a webhook's address is https, or http on this machine")
    if len(url) > URL_MAX or any(ord(c) <= 32 for c in url):
        return Answer(Status.INVALID, f"an address has at most {URL_MAX} letters and no spaces")
    if not events or (unknown := sorted(set(events) - EVENTS)):
        wrong = f"no event {unknown[0]!r}" if events else "no event is named"
        return Answer(Status.INVALID, f"{wrong}: some of {', '.join(sorted(EVENTS))}")
    id, secret = ports.id(asked.now_s), ports.random() + ports.random()
    ports.store.webhooks.add(
        Webhook(id, url, secret, tuple(sorted(set(events))), asked.actor.user, asked.now_s)
    )
    return Answer(Status.ACCEPTED, "added; the secret is shown only once", id, {"secret": secret})


def drop_webhook(ports: Ports, asked: Asked) -> Answer:
    if not ports.store.webhooks.drop(asked.body["webhook"]):
        return missing("webhook", asked.body["webhook"])
    return Answer(Status.ACCEPTED, "dropped", asked.body["webhook"])


HANDLERS: Mapping[str, Handler] = {
    "alert.acknowledge": acknowledge,
    "alert.silence": silence,
    "webhook.add": add_webhook,
    "webhook.drop": drop_webhook,
}
