"""What the ledger keeps of commands, proposals, actions, rules, queries, alerts: frozen values.

Bodies are plain JSON, as made by plans.py, actions.py and rules; who reads them knows their kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from control.people import Source

Json = Mapping[str, Any]
SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class CommandState(StrEnum):
    """queued ─▶ taken ─▶ done | refused | failed. A command that nobody takes in time: expired."""

    QUEUED = "queued"
    TAKEN = "taken"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"

    @property
    def over(self) -> bool:
        return self not in (CommandState.QUEUED, CommandState.TAKEN)


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody told the engine to do; the row is the message. `id` sorts by time."""

    id: str
    kind: str  # see dispatch.KINDS
    query: str
    body: Json
    user: str
    source: Source
    rule: str
    created_s: float
    expires_s: float
    state: CommandState = CommandState.QUEUED
    taken_s: float | None = None
    ended_s: float | None = None
    outcome: Json = field(default_factory=dict)  # {"text", "actions": [ids], "refusals": [...]}
    proposal: str = ""


class ProposalState(StrEnum):
    OPEN = "open"
    APPLIED = "applied"
    DISMISSED = "dismissed"
    STALE = "stale"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan with its preview, to be applied exactly as it is or not at all."""

    id: str
    query: str
    plan: Json  # plans.plan_to_json
    fingerprint: Json  # proposals.fingerprint_to_json
    preview: Json  # predicted figures, before and after by node, confidence
    user: str
    source: Source
    rule: str
    created_s: float
    expires_s: float
    state: ProposalState = ProposalState.OPEN
    command: str = ""  # that applied it
    undo_of: str = ""  # the action that it takes back
    note: str = ""  # why stale, by whom dismissed


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action as the engine last told it."""

    id: str
    query: str
    body: Json  # actions.to_json
    by: str
    state: str
    started_s: float
    ended_s: float | None
    bytes: int
    progress: float | None = None
    command: str = ""
    rule: str = ""
    predicted: Json = field(default_factory=dict)
    actual: Json = field(default_factory=dict)
    receipt: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule as written, and what is kept between its evaluations."""

    name: str
    text: str  # TOML
    mode: str  # off, propose, auto
    editor: str  # in whose name it acts
    changed_s: float
    last_fired_s: float | None = None  # of its schedule
    last_acted_s: float | None = None
    anchor_s: float = 0.0  # its interval counts from here


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a rule came to, the same again and again counted: first time, until, how often."""

    rule: str
    query: str
    first_s: float
    until_s: float
    times: int
    outcome: str  # acted, proposed, nothing, blocked, error
    said: Json  # reasons, interlock, ids
    id: int = 0


class Wanted(StrEnum):
    """What a query should be, whatever happens to the engine."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A registered query: its file's text, what it should be, and what the engine last said of it."""

    name: str
    text: str  # the query file (TOML)
    folder: str  # against which its relative paths are taken
    nodes: int | None  # instead of the file's
    wanted: Wanted
    demo: bool
    created_s: float
    state: str = "registered"
    error: str = ""
    told_s: float = 0.0
    about: Json = field(default_factory=dict)  # tree, streams, budgets, sink, drained nodes


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition on one subject, while it lasts."""

    kind: str
    subject: str
    text: str
    since_s: float
    last_s: float
    until_s: float | None = None  # when it ended
    acknowledged_by: str = ""
    silenced_until_s: float = 0.0
    id: int = 0


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A secret that query files refer to by its name; its value is in a file of its own, never in the store."""

    name: str
    changed_s: float


@dataclass(frozen=True, slots=True)
class Webhook:
    id: str
    url: str
    secret: str
    events: Sequence[str]
    user: str
    created_s: float
    disabled: bool = False
    exempt: bool = False  # it goes to a port of this machine from before ports had to be allowed


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to a webhook."""

    id: int
    webhook: str
    event: str
    body: Json
    created_s: float
    tries: int = 0
    next_s: float = 0.0
    state: str = "waiting"  # waiting, delivered, given_up
    note: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """One figure of one action: what was predicted, what it was, and what the model made of it."""

    time_s: float
    action: str
    figure: str
    predicted: float
    actual: float
    coefficient: str
    before: float
    after: float
    id: int = 0


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes moved, spilled and cleaned up, and seconds of pause, by people and by rules."""

    bytes: int = 0
    pause_s: float = 0.0
    automatic_bytes: int = 0  # of these, by rules
    automatic_pause_s: float = 0.0
