"""What is packed, thinned and forgotten as time goes by. `tidy` does some of it at each call.

Each piece is a short transaction of its own, and what is to be done follows from what is there: `tidy` may be
ended anywhere, called by anybody and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Integer, Table, cast, delete, func, select, tuple_

from db.files import File
from db.metrics_schema import CHANGES, GROUP_TILES, NEWEST, PICTURES, TICKS, TILES
from db.open import Store
from db.pictures import HOUR_S, hours_to_tile, tile_hour
from db.schema import ALERTS, COMMANDS, DELIVERIES, EVALUATIONS, LOCKOUTS, PROPOSALS
from db.series import pack_span
from db.tiles import MINUTE_S, QUARTER_S, RAW, SPANS

DAY_S = 86_400.0
ROWS_AT_ONCE = 2_000
SETTLED_S = 5.0  # a span is packed so long after its end; what comes later is put into it


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each thing is kept, in seconds."""

    raw_s: float = DAY_S
    minutes_s: float = 14 * DAY_S
    quarters_s: float = 90 * DAY_S
    pictures_minutely_s: float = DAY_S
    pictures_s: float = 14 * DAY_S
    changes_s: float = 14 * DAY_S
    evaluations_s: float = 90 * DAY_S
    deliveries_s: float = 7 * DAY_S
    alerts_s: float = 365 * DAY_S
    commands_s: float = 365 * DAY_S
    lockouts_s: float = DAY_S


@dataclass(frozen=True, slots=True)
class Tidied:
    """Pieces done. `left`: there is more; call again soon."""

    packed: int = 0  # spans
    tiled: int = 0  # hours
    thinned: int = 0  # pictures
    forgotten: int = 0  # rows
    left: bool = False


def tidy(store: Store, now_s: float, keep: Retention | None = None, most: int = 24) -> Tidied:
    """At most `most` spans packed and hours laid out, of each query; and a bounded number of rows."""
    keep = keep or Retention()
    file = store.metrics_file
    done = Tidied()
    for query in _queries(file):
        packed = [pack_span(file, query, start_s) for start_s in _spans(file, query, now_s, most)]
        thinned = _thin(file, query, now_s - keep.pictures_minutely_s, most)
        done = _plus(done, packed=len(packed), thinned=thinned, left=len(packed) == most)
    for which, wanted in _old(now_s, keep):
        count = _forget(file, which, wanted)
        done = _plus(done, forgotten=count, left=count == ROWS_AT_ONCE)
    for query in _queries(file):  # last: tiles follow the pictures that are left
        hours = hours_to_tile(file, query, now_s - SETTLED_S, most)
        for hour_s in hours:
            tile_hour(file, query, hour_s)
        done = _plus(done, tiled=len(hours), left=len(hours) == most)
    for which, wanted in _old_lines(now_s, keep):
        count = _forget(store.ledger_file, which, wanted)
        done = _plus(done, forgotten=count, left=count == ROWS_AT_ONCE)
    return done


def _plus(
    done: Tidied,
    packed: int = 0,
    tiled: int = 0,
    thinned: int = 0,
    forgotten: int = 0,
    left: bool = False,
) -> Tidied:
    return replace(
        done,
        packed=done.packed + packed,
        tiled=done.tiled + tiled,
        thinned=done.thinned + thinned,
        forgotten=done.forgotten + forgotten,
        left=done.left or left,
    )


def _queries(file: File) -> list[str]:
    """All that anything is kept of."""
    names: set[str] = set()
    with file.read() as db:
        for table in (NEWEST, TICKS, PICTURES, GROUP_TILES):
            names.update(db.execute(select(table.c.query).distinct()).scalars())
    return sorted(names)


def _spans(file: File, query: str, now_s: float, most: int) -> list[int]:
    """Starts of the spans that are over and have ticks, oldest first."""
    length = SPANS[RAW]
    start = cast(TICKS.c.time_s / length, Integer) * length
    over = (TICKS.c.query == query) & (TICKS.c.time_s < (now_s - SETTLED_S) // length * length)
    chosen = select(start.label("start")).where(over).distinct().order_by("start").limit(most)
    with file.read() as db:
        return [int(found) for found in db.execute(chosen).scalars()]


def _thin(file: File, query: str, before_s: float, most: int) -> int:
    """Of each quarter of an hour that is older, the first picture stays."""
    c = PICTURES.c
    quarter = c.minute_s // QUARTER_S
    old = (c.query == query) & (c.minute_s < before_s // HOUR_S * HOUR_S)
    several = select(quarter.label("quarter"), func.min(c.minute_s)).where(old)
    several = several.group_by("quarter").having(func.count() > 1).order_by("quarter")
    with file.read() as db:
        found = [(int(q), int(first)) for q, first in db.execute(several.limit(4 * most))]
    thinned = 0
    for number, first in found:
        inside = (c.minute_s > first) & (c.minute_s < (number + 1) * QUARTER_S)
        with file.write() as db:
            thinned += db.execute(delete(PICTURES).where((c.query == query) & inside)).rowcount
    return thinned


def _old(now_s: float, keep: Retention) -> Iterable[tuple[Table, ColumnElement[bool]]]:
    t = TILES.c
    for tier, kept_s in (
        (RAW, keep.raw_s),
        (MINUTE_S, keep.minutes_s),
        (QUARTER_S, keep.quarters_s),
    ):
        yield TILES, (t.step_s == tier) & (t.start_s < now_s - kept_s - SPANS[tier])
    yield PICTURES, PICTURES.c.minute_s < (now_s - keep.pictures_s) // HOUR_S * HOUR_S
    yield CHANGES, CHANGES.c.time_s < now_s - keep.changes_s


def _old_lines(now_s: float, keep: Retention) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Of the ledger. Actions, audit and what was learned stay for good."""
    yield EVALUATIONS, EVALUATIONS.c.until_s < now_s - keep.evaluations_s
    over = DELIVERIES.c.state != "waiting"
    yield DELIVERIES, over & (DELIVERIES.c.created_s < now_s - keep.deliveries_s)
    yield ALERTS, ALERTS.c.until_s < now_s - keep.alerts_s
    yield COMMANDS, COMMANDS.c.ended_s < now_s - keep.commands_s
    yield LOCKOUTS, LOCKOUTS.c.last_s < now_s - keep.lockouts_s
    settled = PROPOSALS.c.state != "open"
    yield PROPOSALS, settled & (PROPOSALS.c.expires_s < now_s - keep.commands_s)


def _forget(file: File, table: Table, wanted: ColumnElement[bool]) -> int:
    columns = list(table.primary_key.columns)
    some = select(*columns).where(wanted).limit(ROWS_AT_ONCE)
    with file.read() as db:
        keys = [tuple(row) for row in db.execute(some)]
    if not keys:
        return 0
    with file.write() as db:
        return db.execute(delete(table).where(wanted, tuple_(*columns).in_(keys))).rowcount
