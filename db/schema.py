"""The tables of ledger.db as they are now. How they came to be is in migrations/ledger."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    event,
    text,
)

from control.ledger import CommandState, ProposalState, Wanted
from control.people import Role, Source
from db.kinds import JsonText, Strings, Word

VERSION = "ledger_0004"  # the newest file in migrations/ledger
LEDGER = MetaData()


def _text(name: str, default: str | None = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("0"))


def _number(name: str) -> Column[float]:
    return Column(name, Float, nullable=False)


USERS = Table(
    "users",
    LEDGER,
    Column("name", Text, primary_key=True),
    Column("role", Word(Role), nullable=False),
    _text("password_hash"),
    Column("disabled", Boolean, nullable=False),
    _number("created_s"),
    Column("seen_s", Float),
    _flag("must_change"),
)

LOCKOUTS = Table(
    "lockouts",
    LEDGER,
    Column("user", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("device", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    _number("last_s"),
    _number("until_s"),
)

SESSIONS = Table(
    "sessions",
    LEDGER,
    Column("id_hash", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False, index=True),
    _text("csrf"),
    _number("created_s"),
    _number("active_s"),
    _number("confirmed_s"),
    _text("address"),
    _text("agent"),
)

TOKENS = Table(
    "tokens",
    LEDGER,
    Column("id", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False, index=True),
    _text("name"),
    Column("sha256", Text, nullable=False, unique=True),
    Column("scope", Word(Role), nullable=False),
    _number("created_s"),
    Column("expires_s", Float),
    Column("used_s", Float),
    Column("revoked_s", Float),
    _flag("local"),
)

AUDIT = Table(
    "audit",
    LEDGER,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _number("time_s"),
    _text("user"),
    Column("source", Word(Source), nullable=False),
    _text("address"),
    _text("what"),
    _text("subject"),
    _text("outcome"),
    _text("detail"),
    _text("token"),
    Index("audit_user", "user", "id"),
    Index("audit_what", "what", "id"),
    Index("audit_subject", "subject", "id"),
    sqlite_autoincrement=True,
)
AUDIT_TRIGGERS = {
    "audit_no_update": "BEFORE UPDATE ON audit",
    "audit_no_delete": "BEFORE DELETE ON audit",
    # INSERT OR REPLACE deletes without telling the trigger above. A row that gets its number has none yet.
    "audit_no_replace": "BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)",
    "audit_in_order": "AFTER INSERT ON audit "
    "WHEN NEW.id < 1 OR EXISTS (SELECT 1 FROM audit WHERE id > NEW.id)",
}


def trigger_sql(name: str) -> str:
    """What makes one of the audit's triggers."""
    refused = "BEGIN SELECT RAISE(ABORT, 'audit lines are never changed'); END"
    return f"CREATE TRIGGER {name} {AUDIT_TRIGGERS[name]} {refused}"


for _name in AUDIT_TRIGGERS:
    _made = DDL(trigger_sql(_name))  # type: ignore[no-untyped-call]
    event.listen(AUDIT, "after_create", _made)

COMMANDS = Table(
    "commands",
    LEDGER,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    _text("kind"),
    _text("query"),
    Column("body", JsonText, nullable=False),
    _text("user"),
    Column("source", Word(Source), nullable=False),
    _text("rule"),
    _number("created_s"),
    _number("expires_s"),
    Column("state", Word(CommandState), nullable=False),
    Column("taken_s", Float),
    Column("ended_s", Float),
    Column("outcome", JsonText, nullable=False),
    _text("proposal"),
    Index("commands_query", "query", "seq"),
    Index("commands_state", "state", "seq"),
    sqlite_autoincrement=True,
)

PROPOSALS = Table(
    "proposals",
    LEDGER,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    _text("query"),
    Column("plan", JsonText, nullable=False),
    Column("fingerprint", JsonText, nullable=False),
    Column("preview", JsonText, nullable=False),
    _text("user"),
    Column("source", Word(Source), nullable=False),
    _text("rule"),
    _number("created_s"),
    _number("expires_s"),
    Column("state", Word(ProposalState), nullable=False),
    _text("command"),
    _text("undo_of"),
    _text("note"),
    Index("proposals_query", "query", "seq"),
    Index("proposals_state", "state", "seq"),
)

ACTIONS = Table(
    "actions",
    LEDGER,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    _text("query"),
    Column("body", JsonText, nullable=False),
    _text("by"),
    _text("state"),
    _number("started_s"),
    Column("ended_s", Float),
    Column("bytes", Integer, nullable=False),
    Column("progress", Float),
    _text("command"),
    _text("rule"),
    Column("predicted", JsonText, nullable=False),
    Column("actual", JsonText, nullable=False),
    Column("receipt", JsonText, nullable=False),
    Column("learned", Boolean, nullable=False, server_default=text("0")),
    Index("actions_started", "started_s", "seq"),
    Index("actions_query", "query", "started_s", "seq"),
    Index("actions_state", "state", "started_s", "seq"),
    Index("actions_ended", "ended_s"),
)

RULES = Table(
    "rules",
    LEDGER,
    Column("name", Text, primary_key=True),
    _text("text"),
    _text("mode"),
    _text("editor"),
    _number("changed_s"),
    Column("last_fired_s", Float),
    Column("last_acted_s", Float),
    _number("anchor_s"),
)

EVALUATIONS = Table(
    "evaluations",
    LEDGER,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _text("rule"),
    _text("query"),
    _number("first_s"),
    _number("until_s"),
    Column("times", Integer, nullable=False),
    _text("outcome"),
    Column("said", JsonText, nullable=False),
    Index("evaluations_rule", "rule", "query", "id"),
    Index("evaluations_until", "until_s"),
)

QUERIES = Table(
    "queries",
    LEDGER,
    Column("name", Text, primary_key=True),
    _text("text"),
    _text("folder"),
    Column("nodes", Integer),
    Column("wanted", Word(Wanted), nullable=False),
    Column("demo", Boolean, nullable=False),
    _number("created_s"),
    _text("state"),
    _text("error"),
    _number("told_s"),
    Column("about", JsonText, nullable=False),
)

ALERTS = Table(
    "alerts",
    LEDGER,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _text("kind"),
    _text("subject"),
    _text("text"),
    _number("since_s"),
    _number("last_s"),
    Column("until_s", Float),
    _text("acknowledged_by"),
    _number("silenced_until_s"),
    Index("alerts_open", "kind", "subject", unique=True, sqlite_where=text("until_s IS NULL")),
    Index("alerts_until", "until_s"),
)

WEBHOOKS = Table(
    "webhooks",
    LEDGER,
    Column("id", Text, primary_key=True),
    _text("url"),
    _text("secret"),
    Column("events", Strings, nullable=False),
    _text("user"),
    _number("created_s"),
    Column("disabled", Boolean, nullable=False),
    _flag("exempt"),
)

DELIVERIES = Table(
    "deliveries",
    LEDGER,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("webhook", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    _text("event"),
    Column("body", JsonText, nullable=False),
    _number("created_s"),
    Column("tries", Integer, nullable=False),
    _number("next_s"),
    _text("state"),
    _text("note"),
    Index("deliveries_due", "state", "next_s"),
    Index("deliveries_webhook", "webhook"),
)

LEARNED = Table(
    "learned",
    LEDGER,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _number("time_s"),
    _text("action"),
    _text("figure"),
    _number("predicted"),
    _number("actual"),
    _text("coefficient"),
    _number("before"),
    _number("after"),
    Index("learned_action", "action", "id"),
)

ESTIMATES = Table(
    "estimates",
    LEDGER,
    Column("coefficient", Text, primary_key=True),
    Column("body", JsonText, nullable=False),
)

KEPT = Table(
    "kept",
    LEDGER,
    Column("name", Text, primary_key=True),
    Column("value", JsonText, nullable=False),
)
