"""The first tables of ledger.db."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "ledger_0001"
down_revision = None


def upgrade() -> None:
    _actions()
    _alerts()
    _audit()
    _commands()
    _estimates()
    _evaluations()
    _kept()
    _learned()
    _lockouts()
    _proposals()
    _queries()
    _rules()
    _users()
    _webhooks()
    _deliveries()
    _sessions()
    _tokens()


def _actions() -> None:
    op.create_table(
        "actions",
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("id", sa.Text(), nullable=False, unique=True),
        sa.Column("query", sa.Text(), nullable=False, server_default=""),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False, server_default=""),
        sa.Column("state", sa.Text(), nullable=False, server_default=""),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("ended_s", sa.Float()),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("progress", sa.Float()),
        sa.Column("command", sa.Text(), nullable=False, server_default=""),
        sa.Column("rule", sa.Text(), nullable=False, server_default=""),
        sa.Column("predicted", sa.Text(), nullable=False),
        sa.Column("actual", sa.Text(), nullable=False),
        sa.Column("receipt", sa.Text(), nullable=False),
        sa.Column("learned", sa.Boolean(), nullable=False, server_default=sa.text("0")),
    )
    op.create_index("actions_ended", "actions", ["ended_s"])
    op.create_index("actions_query", "actions", ["query", "started_s", "seq"])
    op.create_index("actions_started", "actions", ["started_s", "seq"])
    op.create_index("actions_state", "actions", ["state", "started_s", "seq"])


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False, server_default=""),
        sa.Column("subject", sa.Text(), nullable=False, server_default=""),
        sa.Column("text", sa.Text(), nullable=False, server_default=""),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("last_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float()),
        sa.Column("acknowledged_by", sa.Text(), nullable=False, server_default=""),
        sa.Column("silenced_until_s", sa.Float(), nullable=False),
    )
    op.create_index(
        "alerts_open",
        "alerts",
        ["kind", "subject"],
        unique=True,
        sqlite_where=sa.text("until_s IS NULL"),
    )
    op.create_index("alerts_until", "alerts", ["until_s"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False, server_default=""),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False, server_default=""),
        sa.Column("what", sa.Text(), nullable=False, server_default=""),
        sa.Column("subject", sa.Text(), nullable=False, server_default=""),
        sa.Column("outcome", sa.Text(), nullable=False, server_default=""),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_subject", "audit", ["subject", "id"])
    op.create_index("audit_user", "audit", ["user", "id"])
    op.create_index("audit_what", "audit", ["what", "id"])
    for verb in ("update", "delete"):
        op.execute(
            f"CREATE TRIGGER audit_no_{verb} BEFORE {verb.upper()} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit lines are never changed'); END"
        )


def _commands() -> None:
    op.create_table(
        "commands",
        sa.Column("seq", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text(), nullable=False, unique=True),
        sa.Column("kind", sa.Text(), nullable=False, server_default=""),
        sa.Column("query", sa.Text(), nullable=False, server_default=""),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False, server_default=""),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False, server_default=""),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("taken_s", sa.Float()),
        sa.Column("ended_s", sa.Float()),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("proposal", sa.Text(), nullable=False, server_default=""),
        sqlite_autoincrement=True,
    )
    op.create_index("commands_query", "commands", ["query", "seq"])
    op.create_index("commands_state", "commands", ["state", "seq"])


def _estimates() -> None:
    op.create_table(
        "estimates",
        sa.Column("coefficient", sa.Text(), primary_key=True),
        sa.Column("body", sa.Text(), nullable=False),
    )


def _evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("rule", sa.Text(), nullable=False, server_default=""),
        sa.Column("query", sa.Text(), nullable=False, server_default=""),
        sa.Column("first_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False, server_default=""),
        sa.Column("said", sa.Text(), nullable=False),
    )
    op.create_index("evaluations_rule", "evaluations", ["rule", "query", "id"])
    op.create_index("evaluations_until", "evaluations", ["until_s"])


def _kept() -> None:
    op.create_table(
        "kept",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )


def _learned() -> None:
    op.create_table(
        "learned",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False, server_default=""),
        sa.Column("figure", sa.Text(), nullable=False, server_default=""),
        sa.Column("predicted", sa.Float(), nullable=False),
        sa.Column("actual", sa.Float(), nullable=False),
        sa.Column("coefficient", sa.Text(), nullable=False, server_default=""),
        sa.Column("before", sa.Float(), nullable=False),
        sa.Column("after", sa.Float(), nullable=False),
    )
    op.create_index("learned_action", "learned", ["action", "id"])


def _lockouts() -> None:
    op.create_table(
        "lockouts",
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("address", sa.Text(), primary_key=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
    )


def _proposals() -> None:
    op.create_table(
        "proposals",
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("id", sa.Text(), nullable=False, unique=True),
        sa.Column("query", sa.Text(), nullable=False, server_default=""),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False, server_default=""),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False, server_default=""),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False, server_default=""),
        sa.Column("undo_of", sa.Text(), nullable=False, server_default=""),
        sa.Column("note", sa.Text(), nullable=False, server_default=""),
    )
    op.create_index("proposals_query", "proposals", ["query", "seq"])
    op.create_index("proposals_state", "proposals", ["state", "seq"])


def _queries() -> None:
    op.create_table(
        "queries",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False, server_default=""),
        sa.Column("folder", sa.Text(), nullable=False, server_default=""),
        sa.Column("nodes", sa.Integer()),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("demo", sa.Boolean(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default=""),
        sa.Column("error", sa.Text(), nullable=False, server_default=""),
        sa.Column("told_s", sa.Float(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
    )


def _rules() -> None:
    op.create_table(
        "rules",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False, server_default=""),
        sa.Column("mode", sa.Text(), nullable=False, server_default=""),
        sa.Column("editor", sa.Text(), nullable=False, server_default=""),
        sa.Column("changed_s", sa.Float(), nullable=False),
        sa.Column("last_fired_s", sa.Float()),
        sa.Column("last_acted_s", sa.Float()),
        sa.Column("anchor_s", sa.Float(), nullable=False),
    )


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False, server_default=""),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float()),
    )


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("url", sa.Text(), nullable=False, server_default=""),
        sa.Column("secret", sa.Text(), nullable=False, server_default=""),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False, server_default=""),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "webhook", sa.Text(), sa.ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("event", sa.Text(), nullable=False, server_default=""),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default=""),
        sa.Column("note", sa.Text(), nullable=False, server_default=""),
    )
    op.create_index("deliveries_due", "deliveries", ["state", "next_s"])
    op.create_index("deliveries_webhook", "deliveries", ["webhook"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id_hash", sa.Text(), primary_key=True),
        sa.Column("user", sa.Text(), sa.ForeignKey("users.name"), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False, server_default=""),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("active_s", sa.Float(), nullable=False),
        sa.Column("confirmed_s", sa.Float(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False, server_default=""),
    )
    op.create_index("ix_sessions_user", "sessions", ["user"])


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("user", sa.Text(), sa.ForeignKey("users.name"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, server_default=""),
        sa.Column("sha256", sa.Text(), nullable=False, unique=True),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float()),
        sa.Column("used_s", sa.Float()),
        sa.Column("revoked_s", sa.Float()),
    )
    op.create_index("ix_tokens_user", "tokens", ["user"])
