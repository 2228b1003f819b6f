"""Figures of a query and its nodes over time: which tier answers, and packing what has been written.

    ticks ──packed──▶ tiles of 5 min, raw ──means──▶ 1 min, tiles of 1 h ──means──▶ 15 min, tiles of 1 d

Ticks that are not packed yet are read beside the tiles, so that no reading waits for packing.
"""

from __future__ import annotations

import math

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select

from control.samples import NODE_FIGURES, QUERY_FIGURES, Series
from db.files import File
from db.metrics_schema import TICKS, TILES
from db.tiles import (
    MINUTE_S,
    QUARTER_S,
    RAW,
    SPANS,
    Tile,
    bucketed,
    decode,
    encode,
    joined,
    of_ticks,
)

# The longest range that a tier answers: about 3 600 points of it, an hour of ticks a second.
REACH_S = {RAW: 3_601.0, MINUTE_S: 216_000.0, QUARTER_S: math.inf}
TICKS_MOST = 4_000  # read at once; of more (nobody packed them), each n-th


def query_series(file: File, query: str, since_s: float, until_s: float, points: int) -> Series:
    found, step_s = _found(file, query, since_s, until_s, points, nodes=False)
    values = {name: found.figures[i] for i, name in enumerate(QUERY_FIGURES)}
    return Series(found.time_s, values, step_s)


def node_series(file: File, query: str, since_s: float, until_s: float, points: int) -> Series:
    found, step_s = _found(file, query, since_s, until_s, points, nodes=True)
    known = np.flatnonzero(~np.isnan(found.nodes).all(axis=(0, 2)))
    cube = found.nodes[
        :, : known.max(initial=-1) + 1
    ]  # no node that there was only before or after
    values = {n: cube[i].T.astype(np.float64) for i, n in enumerate(NODE_FIGURES)}
    return Series(found.time_s, values, step_s)


def _found(
    file: File, query: str, since_s: float, until_s: float, points: int, nodes: bool
) -> tuple[Tile, float]:
    """At most `points` points, and the step between them; 0 when they are single ticks."""
    if until_s < since_s or points < 1:
        return joined([]), 0.0
    until_s = math.nextafter(until_s, math.inf)  # the newest tick may be of this very time
    with file.read() as db:
        tier = _tier(db, query, since_s, until_s)
        if tier != RAW:  # packed or not, the first and the last step are whole ones
            since_s, until_s = _down(since_s, tier), math.ceil(until_s / tier) * tier
        bodies = _tile_rows(db, query, tier, since_s, until_s, nodes)
        ticks = _tick_rows(db, query, since_s, until_s, nodes)
    tiles = [decode(*body) for body in bodies] + [of_ticks(*ticks)]
    step_s = float(tier)
    if tier == RAW:
        whole = joined(tiles).between(since_s, until_s)
        if len(whole) <= points:
            return whole, 0.0
    else:
        whole = bucketed([t.between(since_s, until_s) for t in tiles], tier)
    if len(whole) > points or tier == RAW:
        step_s = _step(tier, (until_s - since_s) / max(1, points - 1))
        whole = bucketed([whole], step_s)
    return whole, step_s


def _step(tier: int, wanted_s: float) -> float:
    """A whole number of the tier's steps, or of seconds; at least what is wanted."""
    unit = tier or 1
    return float(unit * max(1, math.ceil(wanted_s / unit)))


def _down(time_s: float, step_s: float) -> float:
    return math.floor(time_s / step_s) * step_s


def _tier(db: Connection, query: str, since_s: float, until_s: float) -> int:
    """The finest that reaches so far, unless a coarser one goes further back: raw ticks go after a day."""
    reaching = [tier for tier in SPANS if until_s - since_s <= REACH_S[tier]]
    begins = {tier: _oldest(db, query, tier) for tier in reaching}
    for tier in reaching:
        further = [o for o in reaching if o > tier and begins[o] + o <= begins[tier]]
        if begins[tier] <= since_s or not any(begins[other] < math.inf for other in further):
            return tier
    return reaching[-1]


def _oldest(db: Connection, query: str, tier: int) -> float:
    """What is not packed belongs to every tier."""
    c = TILES.c
    of_tier = (c.query == query) & (c.step_s == tier)
    packed = db.execute(select(c.first_s).where(of_tier).order_by(c.start_s).limit(1)).scalar()
    fresh = db.execute(select(func.min(TICKS.c.time_s)).where(TICKS.c.query == query)).scalar()
    return min((time_s for time_s in (packed, fresh) if time_s is not None), default=math.inf)


def _tile_rows(
    db: Connection, query: str, tier: int, since_s: float, until_s: float, nodes: bool
) -> list[tuple[bytes, bytes | None]]:
    c = TILES.c
    columns = (c.figures, c.nodes) if nodes else (c.figures,)
    inside = (c.start_s > since_s - SPANS[tier]) & (c.start_s < until_s)
    wanted = (c.query == query) & (c.step_s == tier) & inside
    rows = db.execute(select(*columns).where(wanted).order_by(c.start_s))
    return [(row[0], row[1] if nodes else None) for row in rows]


def _tick_rows(
    db: Connection, query: str, since_s: float, until_s: float, nodes: bool
) -> tuple[list[float], list[bytes], list[bytes]]:
    c = TICKS.c
    wanted = (c.query == query) & (c.time_s >= since_s) & (c.time_s < until_s)
    count = db.execute(select(func.count()).select_from(TICKS).where(wanted)).scalar_one()
    if count > TICKS_MOST:
        wanted &= c.id % math.ceil(count / TICKS_MOST) == 0
    columns = (c.time_s, c.figures, c.nodes) if nodes else (c.time_s, c.figures)
    rows = list(db.execute(select(*columns).where(wanted).order_by(c.time_s)))
    none = [b""] * len(rows)
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows] if nodes else none


def pack_span(file: File, query: str, start_s: int) -> int:
    """Ticks of one raw span become a tile, and the means that they are part of are made anew.

    Ticks that come late find a tile there and are put into it; how many ticks were packed."""
    end_s = start_s + SPANS[RAW]
    c = TICKS.c
    wanted = (c.query == query) & (c.time_s >= start_s) & (c.time_s < end_s)
    with file.write() as db:
        rows = list(
            db.execute(select(c.time_s, c.figures, c.nodes, c.id).where(wanted).order_by(c.id))
        )
        if not rows:
            return 0
        late = of_ticks([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
        raw = joined([read_tile(db, query, RAW, start_s), late])
        write_tile(db, query, RAW, start_s, raw)
        db.execute(delete(TICKS).where(wanted))
        minutes = _replace(db, query, MINUTE_S, bucketed([raw], MINUTE_S))
        quarter_s = start_s // QUARTER_S * QUARTER_S
        part = minutes.between(quarter_s, quarter_s + QUARTER_S)
        _replace(db, query, QUARTER_S, bucketed([part], QUARTER_S))
        return len(rows)


def _replace(db: Connection, query: str, tier: int, points: Tile) -> Tile:
    """Points of one span put into their tile; the tile as it is then."""
    start_s = int(points.time_s[0]) // SPANS[tier] * SPANS[tier]
    whole = joined([read_tile(db, query, tier, start_s), points])
    write_tile(db, query, tier, start_s, whole)
    return whole


def read_tile(db: Connection, query: str, tier: int, start_s: int) -> Tile:
    c = TILES.c
    wanted = (c.query == query) & (c.step_s == tier) & (c.start_s == start_s)
    row = db.execute(select(c.figures, c.nodes).where(wanted)).first()
    return joined([]) if row is None else decode(row[0], row[1])


def write_tile(db: Connection, query: str, tier: int, start_s: int, tile: Tile) -> None:
    c = TILES.c
    wanted = (c.query == query) & (c.step_s == tier) & (c.start_s == start_s)
    figures, nodes = encode(tile)
    db.execute(delete(TILES).where(wanted))
    db.execute(
        insert(TILES).values(
            query=query,
            step_s=tier,
            start_s=start_s,
            first_s=float(tile.time_s[0]),
            points=len(tile),
            figures=figures,
            nodes=nodes,
        )
    )
