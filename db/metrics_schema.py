"""The tables of metrics.db as they are now; it may be deleted at any time. Most of it is blobs.

`ticks` holds what is not packed yet, one row per tick; `tiles` hold spans of it (tiles.py). `pictures` are
whole snapshots (control/codec.py); `group_tiles` the same by range of groups, for one group's history.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

from db.kinds import JsonText

VERSION = "metrics_0001"  # the newest file in migrations/metrics
METRICS = MetaData()

BEATS = Table(
    "beats",
    METRICS,
    Column("process", Text, primary_key=True),
    Column("pid", Integer, nullable=False),
    Column("started_s", Float, nullable=False),
    Column("beat_s", Float, nullable=False),
    Column("state", Text, nullable=False),
    Column("about", JsonText, nullable=False),
)

NEWEST = Table(
    "newest",
    METRICS,
    Column("query", Text, primary_key=True),
    Column("time_s", Float, nullable=False),
    Column("version", Integer, nullable=False),
    Column("told", JsonText, nullable=False),  # figures, operators, changes
    Column("nodes", LargeBinary, nullable=False),
    Column("picture", LargeBinary, nullable=False),
)

TICKS = Table(
    "ticks",
    METRICS,
    Column("id", Integer, primary_key=True),
    Column("query", Text, nullable=False),
    Column("time_s", Float, nullable=False),
    Column("figures", LargeBinary, nullable=False),  # float64, in the order of QUERY_FIGURES
    Column("nodes", LargeBinary, nullable=False),  # float32, NODE_FIGURES × nodes
    Index("ticks_time", "query", "time_s"),
)

TILES = Table(
    "tiles",
    METRICS,
    Column("id", Integer, primary_key=True),
    Column("query", Text, nullable=False),
    Column("step_s", Integer, nullable=False),  # 0: raw
    Column("start_s", Integer, nullable=False),
    Column("first_s", Float, nullable=False),  # of its first point
    Column("points", Integer, nullable=False),
    Column("figures", LargeBinary, nullable=False),
    Column("nodes", LargeBinary, nullable=False),
    Index("tiles_start", "query", "step_s", "start_s", unique=True),
)

PICTURES = Table(
    "pictures",
    METRICS,
    Column("id", Integer, primary_key=True),
    Column("query", Text, nullable=False),
    Column("minute_s", Integer, nullable=False),  # the minute that it stands for
    Column("time_s", Float, nullable=False),
    Column("picture", LargeBinary, nullable=False),
    Index("pictures_minute", "query", "minute_s", unique=True),
)

GROUP_TILES = Table(
    "group_tiles",
    METRICS,
    Column("id", Integer, primary_key=True),
    Column("query", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("first", Integer, nullable=False),  # its groups are first, first + 1, …
    Column("start_s", Integer, nullable=False),  # the hour
    Column("points", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("group_tiles_start", "query", "operator", "first", "start_s", unique=True),
    Index("group_tiles_hour", "query", "start_s"),
)

CHANGES = Table(
    "changes",
    METRICS,
    Column("id", Integer, primary_key=True),
    Column("query", Text, nullable=False),
    Column("time_s", Float, nullable=False),
    Column("operator", Text, nullable=False),
    Column("group", Integer, nullable=False),
    Column("owner", Integer, nullable=False),
    Column("tier", Text, nullable=False),
    Column("action", Text, nullable=False),
    Index("changes_time", "query", "time_s"),
)
