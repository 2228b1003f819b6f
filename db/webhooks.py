"""Webhooks, and the events that are on their way to them."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from control.ledger import Delivery, Json, Webhook
from db.files import File
from db.kinds import made, values
from db.pages import bounded
from db.schema import DELIVERIES, WEBHOOKS

WAITING = "waiting"


class Webhooks:
    def __init__(self, file: File) -> None:
        self.file = file

    def all(self) -> list[Webhook]:
        chosen = select(WEBHOOKS).order_by(WEBHOOKS.c.created_s, WEBHOOKS.c.id)
        with self.file.read() as db:
            return made(Webhook, db.execute(chosen))

    def add(self, webhook: Webhook) -> None:
        with self.file.write() as db:
            db.execute(insert(WEBHOOKS).values(values(webhook)))

    def drop(self, id: str) -> bool:
        """What was on its way to it is dropped too."""
        with self.file.write() as db:
            return bool(db.execute(delete(WEBHOOKS).where(WEBHOOKS.c.id == id)).rowcount)

    def post(self, event: str, body: Json, now_s: float) -> int:
        """A delivery for each hook that wants the event; how many."""
        wanting = [hook.id for hook in self.all() if not hook.disabled and wants(hook, event)]
        if not wanting:
            return 0
        common = {"event": event, "body": body, "created_s": now_s, "next_s": now_s}
        rows = [{**common, "webhook": id, "tries": 0, "state": WAITING} for id in wanting]
        with self.file.write() as db:
            db.execute(insert(DELIVERIES), rows)
        return len(rows)

    def due(self, now_s: float, most: int = 20) -> list[tuple[Webhook, Delivery]]:
        d = DELIVERIES.c
        wanted = (d.state == WAITING) & (d.next_s <= now_s)
        chosen = select(DELIVERIES).where(wanted).order_by(d.next_s, d.id).limit(bounded(most))
        hooks = {hook.id: hook for hook in self.all()}
        with self.file.read() as db:
            found = made(Delivery, db.execute(chosen))
        return [(hooks[one.webhook], one) for one in found if one.webhook in hooks]

    def tried(self, id: int, *, state: str, next_s: float, note: str) -> None:
        d = DELIVERIES.c
        changed = {"tries": d.tries + 1, "state": state, "next_s": next_s, "note": note}
        with self.file.write() as db:
            db.execute(update(DELIVERIES).where(d.id == id).values(changed))


def wants(hook: Webhook, event: str) -> bool:
    """Its list names the event, its family (`action.*`), or everything (`*`)."""
    family = event.split(".", 1)[0] + ".*"
    return not {event, family, "*"}.isdisjoint(hook.events)
