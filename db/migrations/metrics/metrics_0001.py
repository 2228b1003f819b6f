"""The first tables of metrics.db."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "metrics_0001"
down_revision = None


def upgrade() -> None:
    _beats()
    _changes()
    _group_tiles()
    _newest()
    _pictures()
    _ticks()
    _tiles()


def _beats() -> None:
    op.create_table(
        "beats",
        sa.Column("process", sa.Text(), primary_key=True),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("beat_s", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
    )


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("group", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
    )
    op.create_index("changes_time", "changes", ["query", "time_s"])


def _group_tiles() -> None:
    op.create_table(
        "group_tiles",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.Integer(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_index("group_tiles_hour", "group_tiles", ["query", "start_s"])
    op.create_index(
        "group_tiles_start", "group_tiles", ["query", "operator", "first", "start_s"], unique=True
    )


def _newest() -> None:
    op.create_table(
        "newest",
        sa.Column("query", sa.Text(), primary_key=True),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("nodes", sa.LargeBinary(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
    )


def _pictures() -> None:
    op.create_table(
        "pictures",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("minute_s", sa.Integer(), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
    )
    op.create_index("pictures_minute", "pictures", ["query", "minute_s"], unique=True)


def _ticks() -> None:
    op.create_table(
        "ticks",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("figures", sa.LargeBinary(), nullable=False),
        sa.Column("nodes", sa.LargeBinary(), nullable=False),
    )
    op.create_index("ticks_time", "ticks", ["query", "time_s"])


def _tiles() -> None:
    op.create_table(
        "tiles",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("step_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.Integer(), nullable=False),
        sa.Column("first_s", sa.Float(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("figures", sa.LargeBinary(), nullable=False),
        sa.Column("nodes", sa.LargeBinary(), nullable=False),
    )
    op.create_index("tiles_start", "tiles", ["query", "step_s", "start_s"], unique=True)
