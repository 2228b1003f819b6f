"""What may be asked of the dispatcher, and what it answers: kinds with their roles and bodies, as one table.

Here: the table and its checks. What each kind does is in handling/; who calls it is dispatch.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from control.people import Actor, Role

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
    """One kind of command: the least role, and what it needs in its body."""

    role: Role
    help: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    query: bool = False  # it is about a registered query
    automatic: bool = False  # rules may do it


V, O, A = Role.VIEWER, Role.OPERATOR, Role.ADMIN  # noqa: E741
KINDS: Mapping[str, Kind] = {
    "propose": Kind(O, "a spill, clean-up, move, budget or another join order, with its preview", ("do",),
                    ("node", "to", "operator", "groups", "percent", "bytes", "order", "strategy"), query=True,
                    automatic=True),
    "propose.steps": Kind(O, "several steps as one proposal", ("steps",), (), query=True, automatic=True),
    "apply": Kind(O, "carry out a proposal exactly as previewed", ("proposal",), ("override",), automatic=True),
    "dismiss": Kind(O, "drop a proposal", ("proposal",)),
    "cancel": Kind(O, "end an action before its commit", ("action",)),
    "undo": Kind(O, "a proposal that takes an action back", ("action",)),
    "hold": Kind(O, "no new automatic actions, for two hours", (), ("seconds",)),
    "release": Kind(O, "end the hold"),
    "drain": Kind(O, "a proposal that moves everything off a node", ("node",), (), query=True),
    "nodes": Kind(A, "another number of nodes; the query starts again", ("nodes",), (), query=True),
    "query.register": Kind(A, "take in a query file", ("text",), ("nodes", "start")),
    "query.unregister": Kind(A, "forget a stopped query; its state stays", query=True),
    "query.start": Kind(O, "start it", query=True),
    "query.stop": Kind(O, "end it after the running tick", query=True),
    "query.pause": Kind(O, "halt it, state stays in memory", query=True),
    "query.resume": Kind(O, "go on after a pause", query=True),
    "workload": Kind(O, "change a generated stream of a demo query", (), ("stream", "options", "slow"), query=True),
    "budget.daily": Kind(A, "bytes and pause that 24 hours may take", (), ("bytes", "pause_s")),
    "rule.save": Kind(O, "add or change a rule (TOML)", ("text",)),
    "rule.mode": Kind(O, "off, propose or auto (auto: admins)", ("rule", "mode")),
    "rule.drop": Kind(O, "remove a rule", ("rule",)),
    "alert.acknowledge": Kind(O, "note that somebody looks after it", ("alert",)),
    "alert.silence": Kind(O, "not heard of for a time", ("alert", "seconds")),
    "user.add": Kind(A, "a new user", ("name", "role", "password_hash")),
    "user.role": Kind(A, "another role", ("name", "role")),
    "user.disable": Kind(A, "end sessions, refuse sign-in", ("name",)),
    "user.enable": Kind(A, "let sign in again", ("name",)),
    "user.password": Kind(A, "a new password; ends sessions", ("name", "password_hash")),
    "password": Kind(V, "another password of one's own; ends sessions", ("password_hash",)),
    "user.unlock": Kind(A, "forget wrong passwords", ("name",)),
    "token.add": Kind(V, "an API token of one's own", ("name", "sha256", "scope"), ("expires_s",)),
    "token.revoke": Kind(V, "end a token of one's own", ("token",)),
    "webhook.add": Kind(A, "events to an address", ("url", "events")),
    "webhook.drop": Kind(A, "no more events", ("webhook",)),
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
         "password_hash", "sha256", "scope", "token", "url", "webhook"),
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
