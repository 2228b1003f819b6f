"""Recorded snapshots, and one group's figures out of them.

A picture is kept for each minute, later for each 15 minutes (retention.py). For each hour that is over, the
groups' figures are also laid out by range of groups, so that one group's history reads a few kilobytes of it
and not every picture. An hour's tiles follow from its pictures alone: whenever there are more or fewer
pictures than points, they are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sqlalchemy import delete, func, insert, select

from control.codec import unpack, unpack_columns
from control.samples import GROUP_FIGURES, Series
from control.snapshot import ClusterSnapshot, Doubles
from db.blobs import from_blob, to_blob
from db.files import File
from db.metrics_schema import GROUP_TILES, PICTURES

HOUR_S = 3600
GROUPS_A_TILE = 256
AT_ONCE = 64  # pictures in one read
UNTILED_MOST_S = 4 * HOUR_S  # of pictures read one by one, when nobody laid them out
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GroupTile:
    """`values`: GROUP_FIGURES × groups × points."""

    time_s: Doubles
    values: Floats


def snapshots(
    file: File, query: str, since_s: float, until_s: float, most: int
) -> list[ClusterSnapshot]:
    return [unpack(body) for _, body in _bodies(file, query, since_s, until_s, most)]


def _bodies(
    file: File, query: str, since_s: float, until_s: float, most: int
) -> Iterator[tuple[float, bytes]]:
    """Oldest first, in several short reads."""
    c = PICTURES.c
    after = -1
    while most > 0:
        wanted = (c.query == query) & (c.time_s >= since_s) & (c.time_s <= until_s)
        wanted &= (c.minute_s >= since_s - 60) & (c.minute_s <= until_s) & (c.minute_s > after)
        chosen = select(c.minute_s, c.time_s, c.picture).where(wanted).order_by(c.minute_s)
        with file.read() as db:
            rows = list(db.execute(chosen.limit(min(most, AT_ONCE))))
        if not rows:
            return
        yield from ((row.time_s, row.picture) for row in rows)
        after, most = rows[-1].minute_s, most - len(rows)


def group_history(
    file: File, query: str, operator: str, group: int, since_s: float, until_s: float
) -> Series:
    """GROUP_FIGURES of one group; where it did not exist there is no point."""
    c = GROUP_TILES.c
    place = group % GROUPS_A_TILE
    wanted = (c.query == query) & (c.operator == operator) & (c.first == group - place)
    inside = (c.start_s > since_s - HOUR_S) & (c.start_s <= until_s)
    with file.read() as db:
        rows = list(
            db.execute(select(c.start_s, c.body).where(wanted & inside).order_by(c.start_s))
        )
        tiled = db.execute(select(func.max(c.start_s)).where(c.query == query)).scalar()
        last = select(func.max(PICTURES.c.minute_s)).where(PICTURES.c.query == query)
        until_s = min(until_s, (db.execute(last).scalar() or 0) + 60.0)
    parts = []
    for row in rows:
        tile = _decode(row.body)
        if place < tile.values.shape[1]:
            parts.append(GroupTile(tile.time_s, tile.values[:, place : place + 1]))
    fresh_s = max(since_s, until_s - UNTILED_MOST_S, 0.0 if tiled is None else tiled + HOUR_S)
    bodies = _bodies(file, query, fresh_s, until_s, UNTILED_MOST_S // 60)
    parts += [_one(time_s, body, operator, group) for time_s, body in bodies]
    return _series(parts, since_s, until_s)


def _series(parts: Sequence[GroupTile], since_s: float, until_s: float) -> Series:
    if not parts:
        return Series(np.empty(0), {name: np.empty(0) for name in GROUP_FIGURES})
    times = np.concatenate([part.time_s for part in parts])
    values = np.concatenate([part.values[:, 0] for part in parts], axis=1).astype(np.float64)
    there = (times >= since_s) & (times <= until_s) & ~np.isnan(values[0])
    return Series(times[there], {name: values[i][there] for i, name in enumerate(GROUP_FIGURES)})


def _one(time_s: float, body: bytes, operator: str, group: int) -> GroupTile:
    """One group out of one picture."""
    operators, columns = unpack_columns(body, ("operator", "group", *GROUP_FIGURES))
    names = [one.name for one in operators]
    values = np.full((len(GROUP_FIGURES), 1, 1), np.nan, np.float32)
    if operator in names:
        mine = (columns["operator"] == names.index(operator)) & (columns["group"] == group)
        for row in np.flatnonzero(mine)[:1]:
            values[:, 0, 0] = [columns[name][row] for name in GROUP_FIGURES]
    return GroupTile(np.array([time_s]), values)


def hours_to_tile(file: File, query: str, before_s: float, most: int) -> list[int]:
    """Hours over by then whose tiles have another number of points than there are pictures."""
    hour = PICTURES.c.minute_s // HOUR_S * HOUR_S
    end_s = before_s // HOUR_S * HOUR_S
    over = (PICTURES.c.query == query) & (PICTURES.c.minute_s < end_s)
    pictures = select(hour.label("hour"), func.count()).where(over).group_by("hour")
    g = GROUP_TILES.c
    laid_out = (g.query == query) & (g.start_s < end_s)
    tiles = select(g.start_s, func.max(g.points)).where(laid_out).group_by(g.start_s)
    with file.read() as db:
        wanted = {int(row[0]): int(row[1]) for row in db.execute(pictures)}
        there = {int(row[0]): int(row[1]) for row in db.execute(tiles)}
    stale = {hour for hour in wanted.keys() | there.keys() if wanted.get(hour) != there.get(hour)}
    return sorted(stale)[:most]


def tile_hour(file: File, query: str, hour_s: int) -> None:
    """Lay an hour's pictures out by range of groups, in place of what was laid out before."""
    bodies = list(_bodies(file, query, hour_s - 60, hour_s + HOUR_S + 60, 10 * AT_ONCE))
    bodies = [(t, body) for t, body in bodies if hour_s <= t < hour_s + HOUR_S]
    common = {"query": query, "start_s": hour_s, "points": len(bodies)}
    rows = [
        {**common, "operator": operator, "first": first, "body": _encode(tile)}
        for operator, cube in _cubes(bodies).items()
        for first, tile in _cut([t for t, _ in bodies], cube)
    ]
    if bodies and not rows:  # a query without groups: the hour counts as laid out
        rows = [{**common, "operator": "", "first": 0, "body": b""}]
    c = GROUP_TILES.c
    with file.write() as db:
        db.execute(delete(GROUP_TILES).where((c.query == query) & (c.start_s == hour_s)))
        if rows:
            db.execute(insert(GROUP_TILES), rows)


def _cubes(bodies: Sequence[tuple[float, bytes]]) -> dict[str, Floats]:
    """GROUP_FIGURES × groups × pictures, by operator; NaN where there was no such group."""
    cubes: dict[str, Floats] = {}
    for point, (_, body) in enumerate(bodies):
        operators, columns = unpack_columns(body, ("operator", "group", *GROUP_FIGURES))
        for index, operator in enumerate(operators):
            mine = np.flatnonzero(columns["operator"] == index)
            groups = columns["group"][mine]
            most = int(groups.max(initial=-1)) + 1
            cube = _at_least(cubes.get(operator.name), most, len(bodies))
            for row, name in enumerate(GROUP_FIGURES):
                cube[row, groups, point] = columns[name][mine]
            cubes[operator.name] = cube
    return cubes


def _at_least(cube: Floats | None, groups: int, points: int) -> Floats:
    if cube is None:
        return np.full((len(GROUP_FIGURES), groups, points), np.nan, np.float32)
    missing = max(0, groups - cube.shape[1])
    return np.pad(cube, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan) if missing else cube


def _cut(times: Sequence[float], cube: Floats) -> Iterator[tuple[int, GroupTile]]:
    for first in range(0, cube.shape[1], GROUPS_A_TILE):
        yield first, GroupTile(np.array(times), cube[:, first : first + GROUPS_A_TILE])


def _encode(tile: GroupTile) -> bytes:
    return to_blob({"time_s": tile.time_s, "values": tile.values}, figures=list(GROUP_FIGURES))


def _decode(body: bytes) -> GroupTile:
    head, arrays = from_blob(body)
    names, values = head["figures"], arrays["values"]
    missing = np.full(values.shape[1:], np.nan, np.float32)
    rows = [values[names.index(n)] if n in names else missing for n in GROUP_FIGURES]
    return GroupTile(arrays["time_s"], np.stack(rows))
