"""What handlers share: their ports, the newest picture of a query, a command for the engine, answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from control.arbiter import Refusal, Running, Verdict, Why
from control.ids import new_id
from control.kinds import Answer, Asked, Json, Status
from control.ledger import Command, QueryRow
from control.plans import step_from_json
from control.ports import Secrets, Store
from control.samples import Sample

COMMAND_LIFE_S = 60.0  # a command that no engine takes for so long is not carried out
TOKEN_S = 90 * 86_400.0  # the longest that an API token lives, where nothing else is said
FRESH_S = 15.0  # a picture older than this is not acted upon


@dataclass(frozen=True, slots=True)
class Ports:
    """`check` reads a query file's text: its name, and what is to be known about it. `token_s`: the longest that an
    API token may live. `secrets` keeps named ones."""

    store: Store
    random: Callable[[], str]
    check: Callable[[str], tuple[str, Json]] | None = None
    token_s: float = TOKEN_S
    secrets: Secrets | None = None

    def id(self, now_s: float) -> str:
        return new_id(now_s, self.random())


Handler = Callable[[Ports, Asked], Answer]


def refused(*refusals: Refusal, text: str = "") -> Answer:
    said = [
        {"why": r.why.value, "text": r.text, "found": r.found, "limit": r.limit} for r in refusals
    ]
    return Answer(Status.REFUSED, text or "; ".join(str(r) for r in refusals), refusals=tuple(said))


def refused_by(verdict: Verdict) -> Answer:
    return refused(*verdict.refusals)


def missing(what: str, name: str) -> Answer:
    return Answer(Status.MISSING, f"there is no {what} {name!r}")


def query_of(ports: Ports, asked: Asked) -> QueryRow | Answer:
    return ports.store.queries.find(asked.query) or missing("query", asked.query)


def picture_of(ports: Ports, asked: Asked) -> Sample | Answer:
    """The newest picture of the query, if it is new enough to act upon."""
    if ports.store.queries.find(asked.query) is None:
        return missing("query", asked.query)
    found = ports.store.metrics.newest(asked.query)
    if found is None:
        return refused(Refusal(Why.NO_PICTURE, "nothing is known of the query yet: is it running?"))
    age = asked.now_s - found.time_s
    if age > FRESH_S:
        text = "what is known of the query is too old to act upon, in seconds"
        return refused(Refusal(Why.NO_PICTURE, text, round(age, 1), FRESH_S))
    return found


def running(ports: Ports) -> list[Running]:
    """Every query's actions that are on their way."""
    return [
        Running(row.id, row.query, step_from_json(row.body["step"]))
        for row in ports.store.actions.running()
    ]


def told(
    ports: Ports, asked: Asked, kind: str, body: Json, query: str = "", *, proposal: str = ""
) -> str:
    """A command for the engine; its id."""
    id = ports.id(asked.now_s)
    actor = asked.actor
    ports.store.commands.add(
        Command(
            id,
            kind,
            query or asked.query,
            body,
            actor.user,
            actor.source,
            actor.rule,
            asked.now_s,
            asked.now_s + COMMAND_LIFE_S,
            proposal=proposal,
        )
    )
    return id
