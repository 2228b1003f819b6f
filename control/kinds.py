"""What may be asked of the dispatcher, and what it answers: kinds with their roles and bodies, as one table.

Here: the table and its checks. What each kind does is in handling/; who calls it is dispatch.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from control.errors import ControlError
from control.people import Actor, Role
from control.rules import Mode, rule_from

Json = Mapping[str, Any]


class Status(StrEnum):
    """What became of a command at the dispatcher; the engine's own verdict comes later, in the row."""

    ACCEPTED = "accepted"
    INVALID = "invalid"  # the body is not as it should be
    MISSING = "missing"  # no such query, proposal, action, rule, …
    FORBIDDEN = "forbidden"  # the role does not cover it
    REFUSED = "refused"  # stale, over budget, on hold, refused by the arbiter: `refusals` say why
    CONFLICT = "conflict"  # the name is taken, somebody was faster


@dataclass(frozen=True, slots=True)
class Answer:
    """To whoever asked. `id`: of the command row, proposal, rule, token … that came of it."""

    status: Status
    text: str = ""
    id: str = ""
    body: Json = field(default_factory=dict)
    refusals: tuple[Json, ...] = ()  # {"why", "text", "found", "limit"}

    @property
    def accepted(self) -> bool:
        return self.status is Status.ACCEPTED


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of command: the least role, and what it needs in its body. `person`: not with an API token, because
    what comes of it is a way in that outlives the token. `confirm`: a browser gives its password again before it;
    always, or by what the body says. Whoever takes commands from browsers asks `wants_password`."""

    role: Role
    help: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    query: bool = False  # it is about a registered query
    automatic: bool = False  # rules may do it
    person: bool = False
    confirm: bool | Callable[[Json], bool] = False


def _to_auto(body: Json) -> bool:
    return body.get("mode") == Mode.AUTO


def _auto_text(body: Json) -> bool:
    """A rule's text that acts by itself. What cannot be read is not saved, and so needs no password."""
    try:
        return rule_from(str(body.get("text", ""))).mode is Mode.AUTO
    except ControlError:
        return False


def _overrides(body: Json) -> bool:
    return bool(body.get("override"))


V, O, A = Role.VIEWER, Role.OPERATOR, Role.ADMIN  # noqa: E741
KINDS: Mapping[str, Kind] = {
    "propose": Kind(O, "a spill, clean-up, move, budget or another join order, with its preview", ("do",),
                    ("node", "to", "operator", "groups", "percent", "bytes", "order", "strategy"), query=True,
                    automatic=True),
    "propose.steps": Kind(O, "several steps as one proposal", ("steps",), (), query=True, automatic=True),
    "apply": Kind(O, "carry out a proposal exactly as previewed", ("proposal",), ("override",), automatic=True, confirm=_overrides),
    "dismiss": Kind(O, "drop a proposal", ("proposal",)),
    "cancel": Kind(O, "end an action before its commit", ("action",)),
    "undo": Kind(O, "a proposal that takes an action back", ("action",)),
    "hold": Kind(O, "no new automatic actions, for two hours", (), ("seconds",)),
    "release": Kind(O, "end the hold"),
    "drain": Kind(O, "a proposal that moves everything off a node", ("node",), (), query=True),
    "nodes": Kind(A, "another number of nodes; the query starts again", ("nodes",), (), query=True, confirm=True),
    "query.register": Kind(A, "take in a query file", ("text",), ("nodes", "start"), confirm=True),
    "query.unregister": Kind(A, "forget a stopped query; its state stays", query=True, confirm=True),
    "query.start": Kind(O, "start it", query=True),
    "query.stop": Kind(O, "end it after the running tick", query=True),
    "query.pause": Kind(O, "halt it, state stays in memory", query=True),
    "query.resume": Kind(O, "go on after a pause", query=True),
    "workload": Kind(O, "change a generated stream of a demo query", (), ("stream", "options", "slow"), query=True),
    "budget.daily": Kind(A, "bytes and pause that 24 hours may take", (), ("bytes", "pause_s"), confirm=True),
    "rule.save": Kind(O, "add or change a rule (TOML)", ("text",), confirm=_auto_text),
    "rule.mode": Kind(O, "off, propose or auto (auto: admins)", ("rule", "mode"), confirm=_to_auto),
    "rule.drop": Kind(O, "remove a rule", ("rule",)),
    "alert.acknowledge": Kind(O, "note that somebody looks after it", ("alert",)),
    "alert.silence": Kind(O, "not heard of for a time", ("alert", "seconds")),
    "user.add": Kind(A, "a new user", ("name", "role", "password_hash"), person=True, confirm=True),
    "user.role": Kind(A, "another role", ("name", "role"), confirm=True),
    "user.disable": Kind(A, "end sessions, refuse sign-in", ("name",), confirm=True),
    "user.enable": Kind(A, "let sign in again", ("name",), confirm=True),
    "user.password": Kind(A, "a new password; ends sessions and tokens", ("name", "password_hash"), person=True,
                          confirm=True),
    "password": Kind(V, "another password of one's own; ends sessions and tokens", ("password_hash",), person=True),
    "user.token": Kind(A, "an API token for a user, made on the machine itself",
                       ("name", "label", "sha256", "scope"), ("expires_s",), person=True),
    "user.unlock": Kind(A, "forget wrong passwords", ("name",), confirm=True),
    "token.add": Kind(V, "an API token of one's own", ("name", "sha256", "scope"), ("expires_s",), person=True, confirm=True),
    "token.revoke": Kind(V, "end a token of one's own; admins: anybody's", ("token",)),
    "session.end": Kind(V, "end a session of one's own", ("session",)),
    "session.others": Kind(V, "end all one's sessions but this one", (), ("session",)),
    "secret.set": Kind(A, "keep a value that query files refer to by its name", ("name", "value"), confirm=True),
    "secret.drop": Kind(A, "forget a named secret", ("name",), confirm=True),
    "webhook.add": Kind(A, "events to an address", ("url", "events"), confirm=True),
    "webhook.drop": Kind(A, "no more events", ("webhook",), confirm=True),
}  # fmt: skip


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _table(value: Any) -> bool:
    return isinstance(value, dict)


# What each field of a body must be: the check, and its words.
FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("node", "to", "nodes", "alert", "bytes"), (_whole, "a whole number")),
    **dict.fromkeys(("percent", "seconds", "pause_s", "expires_s"), (_number, "a number")),
    **dict.fromkeys(
        ("do", "operator", "order", "strategy", "proposal", "action", "text", "stream", "rule", "mode", "name", "role",
         "password_hash", "sha256", "scope", "token", "url", "value", "webhook", "label", "session"),
        (_text, "a text"),
    ),
    "groups": (_list_of(_whole), "a list of group numbers"),
    "steps": (_list_of(_table), "a list of steps"),
    "events": (_list_of(_text), "a list of texts"),
    "options": (_table, "a table of options"),
    "slow": (_table, "a table of node and seconds per row"),
    "override": (lambda value: isinstance(value, bool), "true or false"),
    "start": (lambda value: isinstance(value, bool), "true or false"),
}  # fmt: skip
TEXT_MAX = 200_000
LIST_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A command on its way through the dispatcher."""

    kind: str
    body: Json
    actor: Actor
    query: str
    now_s: float


def wants_password(kind: str, body: Json) -> bool:
    """Whether a browser must have given its user's password lately before it does this."""
    known = KINDS.get(kind)
    if known is None:
        return False
    return known.confirm if isinstance(known.confirm, bool) else known.confirm(body)


def wrong(kind: str, body: Json, query: str) -> str:
    """What is wrong with a command's form; empty when nothing is."""
    known = KINDS.get(kind)
    if known is None:
        close = get_close_matches(kind, KINDS, 1)
        return f"no command {kind!r}" + (f"; did you mean {close[0]!r}?" if close else "")
    if missing := [name for name in known.needs if body.get(name) is None]:
        return f"{kind} needs {', '.join(missing)}"
    if unknown := sorted(set(body) - {*known.needs, *known.may}):
        return f"{kind} does not take {', '.join(unknown)}"
    if known.query and not query:
        return f"{kind} needs a query"
    for name, value in body.items():
        check, words = FIELDS[name]
        if value is not None and not check(value):
            return f"{name} must be {words}"
        if isinstance(value, str | list) and len(value) > (TEXT_MAX if _text(value) else LIST_MAX):
            return f"{name} is too long"
    return ""


assert {n for k in KINDS.values() for n in (*k.needs, *k.may)} <= set(FIELDS)
