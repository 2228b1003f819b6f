"""The one dispatcher: buttons, API, CLI and rules build the same command; it validates, authorises, acts and
audits. What is the engine's to do becomes a durable command row; the rest is done in the store at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from control.errors import ControlError, StoreConflict, StoreError
from control.handling import people, plans, queries, rules, secrets, upkeep
from control.handling.base import TOKEN_S, Handler, Ports
from control.kinds import KINDS, Answer, Asked, Json, Kind, Status, wrong
from control.people import Actor, AuditLine
from control.plans import Plan
from control.ports import Secrets, Store

HANDLERS: Mapping[str, Handler] = {
    **plans.HANDLERS,
    **queries.HANDLERS,
    **rules.HANDLERS,
    **people.HANDLERS,
    **secrets.HANDLERS,
    **upkeep.HANDLERS,
}
assert set(HANDLERS) == set(KINDS)
DETAIL_MAX = 500
# Not repeated in the audit: hashes, values of secrets, long texts.
HIDDEN = frozenset({"password_hash", "sha256", "text", "value"})


class Dispatcher:
    """Stateless but for its store; both control and console have one."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        *,
        check: Callable[[str], tuple[str, Json]] | None = None,
        keeper: Secrets | None = None,
        random: Callable[[], str] = lambda: uuid.uuid4().hex,
        token_s: float = TOKEN_S,
    ) -> None:
        """`token_s`: the longest that an API token may live."""
        self.store, self.clock = store, clock
        self._ports = Ports(store, random, check, token_s, keeper)

    def new_id(self, now_s: float) -> str:
        """Of a command that begins at that time."""
        return self._ports.id(now_s)

    def dispatch(self, kind: str, body: Json, actor: Actor, query: str = "") -> Answer:
        """Everything that changes anything goes through here."""
        body = {name: value for name, value in body.items() if value is not None}
        asked = Asked(kind, body, actor, query, self.clock())
        if text := wrong(kind, body, query):
            return Answer(Status.INVALID, text)
        return self._acted(asked, lambda: HANDLERS[kind](self._ports, asked))

    def propose(
        self, plan: Plan, actor: Actor, query: str, *, undo_of: str = "", note: str = ""
    ) -> Answer:
        """A plan that a policy made, as a proposal with preview and fingerprint."""
        asked = Asked("propose", {"note": note}, actor, query, self.clock())
        return self._acted(
            asked, lambda: plans.proposed(self._ports, asked, plan, undo_of=undo_of, note=note)
        )

    def _acted(self, asked: Asked, act: Callable[[], Answer]) -> Answer:
        """Authorised, done, and noted: in one transaction, so that nothing is done that is not noted."""
        kind = KINDS[asked.kind]
        if refusal := _not_allowed(kind, asked.actor):
            answer = Answer(Status.FORBIDDEN, refusal)
            self._note(asked, answer)
            return answer
        try:
            with self.store.together():
                answer = act()
                self._note(asked, answer)
        except StoreConflict as error:
            answer = Answer(Status.CONFLICT, str(error))
            self._note(asked, answer)
        except StoreError:
            raise
        except ControlError as error:
            answer = Answer(Status.INVALID, str(error))
            self._note(asked, answer)
        return answer

    def _note(self, asked: Asked, answer: Answer) -> None:
        actor = asked.actor
        outcome = {Status.ACCEPTED: "accepted", Status.INVALID: "invalid"}.get(
            answer.status, "refused"
        )
        override = " (override)" if asked.body.get("override") else ""
        line = AuditLine(
            asked.now_s,
            str(actor),
            actor.source,
            actor.address,
            asked.kind + override,
            _subject(asked, answer),
            outcome,
            answer.text[:DETAIL_MAX] or _said(asked.body),
            token=actor.token,
        )
        self.store.audit.add(line)


def _not_allowed(kind: Kind, actor: Actor) -> str:
    if actor.automatic and not kind.automatic:
        return "rules may not do this"
    if kind.person and actor.token:
        return "an API token may not do this: sign in and do it in the console, or use run.py user"
    if not actor.role.covers(kind.role):
        return f"this needs the role {kind.role}; {actor.user} is {actor.role}"
    return ""


def _subject(asked: Asked, answer: Answer) -> str:
    named = (asked.body.get(n) for n in ("proposal", "action", "rule", "name", "alert", "webhook"))
    return asked.query or next((str(n) for n in named if n), "") or answer.id


def _said(body: Json) -> str:
    shown = {name: value for name, value in body.items() if name not in HIDDEN and value}
    return ", ".join(f"{name} {value}" for name, value in shown.items())[:DETAIL_MAX]


__all__ = ["HANDLERS", "KINDS", "Answer", "Dispatcher", "Kind", "Status"]
