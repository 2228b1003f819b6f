"""Passwords that must be changed, names of browsers, this machine's own tokens, tokens in the audit; wrong passwords
counted by known browser and by address too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "ledger_0002"
down_revision = "ledger_0001"
KEPT = "user, address, failures, last_s, until_s"


def upgrade() -> None:
    op.add_column("users", _flag("must_change"))
    op.add_column("sessions", _text("agent"))
    op.add_column("audit", _text("token"))
    op.add_column("tokens", _flag("local"))
    op.execute("UPDATE tokens SET local = 1 WHERE id LIKE 'local-%'")
    _lockouts()


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.text("0"))


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False, server_default="")


def _lockouts() -> None:
    """SQLite cannot add to a primary key. Nothing refers to this table."""
    op.rename_table("lockouts", "lockouts_before")
    op.create_table(
        "lockouts",
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("address", sa.Text(), primary_key=True),
        sa.Column("device", sa.Text(), primary_key=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
    )
    op.execute(f"INSERT INTO lockouts ({KEPT}, device) SELECT {KEPT}, '' FROM lockouts_before")
    op.drop_table("lockouts_before")
