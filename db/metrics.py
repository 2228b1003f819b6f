"""Samples and heartbeats: written each tick, off the tick's path (recorder.py), and read as series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select, update

from control.codec import pack, unpack
from control.samples import (
    NODE_FIGURES,
    QUERY_FIGURES,
    GroupChange,
    Heartbeat,
    Sample,
    Series,
)
from control.snapshot import ClusterSnapshot, Doubles
from db import pictures, series
from db.blobs import from_blob, to_blob
from db.files import File
from db.kinds import made, values
from db.metrics_schema import BEATS, CHANGES, NEWEST, PICTURES, TICKS
from db.pages import bounded

MINUTE_S = 60


class Metrics:
    def __init__(self, file: File) -> None:
        self.file = file

    def write(self, samples: Sequence[Sample]) -> None:
        """Several at once, when the writer lags behind: of each query the last becomes the newest."""
        newest = {sample.query: _newest_row(sample) for sample in samples}
        shots = _shots(samples, {query: row["picture"] for query, row in newest.items()})
        ticks = [_tick_row(sample) for sample in samples]
        changes = [row for sample in samples for row in _change_rows(sample)]
        if not ticks:
            return
        with self.file.write() as db:
            db.execute(insert(TICKS), ticks)
            for row in shots:
                _add_picture(db, row)
            for row in newest.values():
                _put(db, NEWEST.c.query, row["query"], row)
            if changes:
                db.execute(insert(CHANGES), changes)

    def keep(self, sample: Sample) -> None:
        """Its picture, besides the one that its minute has: something was decided on it."""
        row = {
            "query": sample.query,
            "minute_s": int(sample.time_s),
            "time_s": sample.time_s,
            "picture": pack(sample.snapshot),
        }
        with self.file.write() as db:
            _add_picture(db, row)

    def beat(self, heartbeat: Heartbeat) -> None:
        with self.file.write() as db:
            _put(db, BEATS.c.process, heartbeat.process, values(heartbeat))

    def heartbeats(self) -> list[Heartbeat]:
        with self.file.read() as db:
            return made(Heartbeat, db.execute(select(BEATS).order_by(BEATS.c.process)))

    def newest(self, query: str) -> Sample | None:
        with self.file.read() as db:
            row = db.execute(select(NEWEST).where(NEWEST.c.query == query)).first()
        if row is None:
            return None
        told = row.told
        return Sample(
            query,
            row.time_s,
            row.version,
            told["figures"],
            from_blob(row.nodes)[1],
            unpack(row.picture),
            tuple(told["operators"]),
            tuple(GroupChange(*change) for change in told["changes"]),
        )

    def node_series(self, query: str, since_s: float, until_s: float, points: int = 600) -> Series:
        return series.node_series(self.file, query, since_s, until_s, points)

    def query_series(self, query: str, since_s: float, until_s: float, points: int = 600) -> Series:
        return series.query_series(self.file, query, since_s, until_s, points)

    def snapshots(
        self, query: str, since_s: float, until_s: float, most: int = 2_000
    ) -> list[ClusterSnapshot]:
        """As recorded, one per minute of the last day, then one per 15 minutes; oldest first."""
        return pictures.snapshots(self.file, query, since_s, until_s, most)

    def group_history(
        self, query: str, operator: str, group: int, since_s: float, until_s: float
    ) -> Series:
        """GROUP_FIGURES (control/samples.py) of one group, a point for each recorded snapshot."""
        return pictures.group_history(self.file, query, operator, group, since_s, until_s)

    def changes(
        self, query: str, *, since_s: float = 0.0, most: int = 1_000
    ) -> list[tuple[float, GroupChange]]:
        """The newest ones, newest first."""
        c = CHANGES.c
        chosen = select(CHANGES).where((c.query == query) & (c.time_s >= since_s))
        chosen = chosen.order_by(c.time_s.desc(), c.id.desc()).limit(bounded(most))
        with self.file.read() as db:
            rows = list(db.execute(chosen))
        return [
            (row.time_s, GroupChange(row.operator, row.group, row.owner, row.tier, row.action))
            for row in rows
        ]


def _put(db: Connection, key: Any, value: str, row: Mapping[str, Any]) -> None:
    """The one row of its key, new or not."""
    if not db.execute(update(key.table).where(key == value).values(row)).rowcount:
        db.execute(insert(key.table).values(row))


def _newest_row(sample: Sample) -> dict[str, Any]:
    told = {
        "figures": dict(sample.figures),
        "operators": [dict(one) for one in sample.operators],
        "changes": [[c.operator, c.group, c.owner, c.tier, c.action] for c in sample.changes],
    }
    return {
        "query": sample.query,
        "time_s": sample.time_s,
        "version": sample.version,
        "told": told,
        "nodes": to_blob({n: np.asarray(v, np.float64) for n, v in sample.nodes.items()}),
        "picture": pack(sample.snapshot),
    }


def _tick_row(sample: Sample) -> dict[str, Any]:
    figures = [float(sample.figures.get(name, np.nan)) for name in QUERY_FIGURES]
    count = max((len(column) for column in sample.nodes.values()), default=0)
    nodes = np.full((len(NODE_FIGURES), count), np.nan, np.float32)
    for row, name in enumerate(NODE_FIGURES):
        column: Doubles | tuple[()] = sample.nodes.get(name, ())
        nodes[row, : len(column)] = column
    return {
        "query": sample.query,
        "time_s": sample.time_s,
        "figures": np.array(figures).tobytes(),
        "nodes": nodes.tobytes(),
    }


def _shots(samples: Sequence[Sample], packed: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """A picture for each query and minute that is met here: the minute's first sample."""
    last = {sample.query: sample for sample in samples}
    firsts: dict[tuple[str, int], Sample] = {}
    for sample in samples:
        firsts.setdefault((sample.query, int(sample.time_s // MINUTE_S) * MINUTE_S), sample)
    return [
        {
            "query": query,
            "minute_s": minute_s,
            "time_s": sample.time_s,
            "picture": packed[query] if sample is last[query] else pack(sample.snapshot),
        }
        for (query, minute_s), sample in firsts.items()
    ]


def _add_picture(db: Connection, row: Mapping[str, Any]) -> None:
    """Unless the minute, or the second, has one."""
    c = PICTURES.c
    wanted = (c.query == row["query"]) & (c.minute_s == row["minute_s"])
    if db.execute(select(c.id).where(wanted)).first() is None:
        db.execute(insert(PICTURES).values(row))


def _change_rows(sample: Sample) -> list[dict[str, Any]]:
    return [
        {
            "query": sample.query,
            "time_s": sample.time_s,
            "operator": change.operator,
            "group": change.group,
            "owner": change.owner,
            "tier": change.tier,
            "action": change.action,
        }
        for change in sample.changes
    ]
