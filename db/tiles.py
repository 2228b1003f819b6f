"""Spans of samples as columns: raw ticks, or means over a step with how many ticks each stands for.

A step of 0 is raw. Spans begin at multiples of their length, so that whoever packs a span twice writes the
same tile twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from control.samples import NODE_FIGURES, QUERY_FIGURES, RATES
from control.snapshot import Doubles, Longs
from db.blobs import Arrays, from_blob, to_blob

RAW, MINUTE_S, QUARTER_S = 0, 60, 900
SPANS: Mapping[int, int] = {RAW: 300, MINUTE_S: 3600, QUARTER_S: 86_400}
NO_TIME_S = 2.0**-30  # what a sample that is about no time counts beside none that is
COVERED = QUERY_FIGURES.index("covered_s")
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Tile:
    """`figures`: QUERY_FIGURES × points; `nodes`: NODE_FIGURES × nodes × points."""

    time_s: Doubles
    count: Longs
    figures: Doubles
    nodes: Floats

    def __len__(self) -> int:
        return len(self.time_s)

    def rows(self, wanted: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Tile:
        return Tile(
            self.time_s[wanted],
            self.count[wanted],
            self.figures[:, wanted],
            self.nodes[:, :, wanted],
        )

    def between(self, since_s: float, until_s: float) -> Tile:
        """Points from the one time until before the other."""
        return self.rows((self.time_s >= since_s) & (self.time_s < until_s))


def empty() -> Tile:
    return Tile(
        np.empty(0),
        np.empty(0, np.int64),
        np.empty((len(QUERY_FIGURES), 0)),
        np.empty((len(NODE_FIGURES), 0, 0), np.float32),
    )


def of_ticks(times: Sequence[float], figures: Sequence[bytes], nodes: Sequence[bytes]) -> Tile:
    """Ticks as they were written: one blob of each kind a tick."""
    if not times:
        return empty()
    # Rows of one shape at a time: another number of nodes, or figures of an earlier version.
    columns = [_figures_of(body) for body in figures]
    shapes = [len(body) for body in nodes]
    ends = [i for i in range(1, len(shapes)) if shapes[i] != shapes[i - 1]]
    parts = []
    for a, b in zip([0, *ends], [*ends, len(shapes)], strict=True):
        cube = np.frombuffer(b"".join(nodes[a:b]), np.float32)
        cube = cube.reshape(b - a, len(NODE_FIGURES), -1).transpose(1, 2, 0)
        some = np.stack(columns[a:b], axis=1)
        parts.append(Tile(np.array(times[a:b]), np.ones(b - a, np.int64), some, cube))
    return joined(parts)


def _figures_of(body: bytes) -> Doubles:
    """What an earlier version did not write is unknown."""
    found = np.frombuffer(body, np.float64)[: len(QUERY_FIGURES)]
    missing = len(QUERY_FIGURES) - len(found)
    return found if not missing else np.append(found, np.full(missing, np.nan))


def joined(tiles: Sequence[Tile]) -> Tile:
    """All points in order of time; of points at the same time the last one given counts."""
    some = [tile for tile in tiles if len(tile)]
    if not some:
        return empty()
    if len(some) == 1 and bool(np.all(np.diff(some[0].time_s) > 0)):
        return some[0]
    whole = _side_by_side(some)
    order = np.argsort(whole.time_s, kind="stable")
    times = whole.time_s[order]
    last = np.append(times[1:] != times[:-1], True)
    return whole.rows(order[last])


def _side_by_side(tiles: Sequence[Tile]) -> Tile:
    most = max(tile.nodes.shape[1] for tile in tiles)
    return Tile(
        np.concatenate([tile.time_s for tile in tiles]),
        np.concatenate([tile.count for tile in tiles]),
        np.concatenate([tile.figures for tile in tiles], axis=1),
        np.concatenate([_padded(tile.nodes, most) for tile in tiles], axis=2),
    )


def _padded(nodes: Floats, most: int) -> Floats:
    missing = most - nodes.shape[1]
    if not missing:
        return nodes
    return np.pad(nodes, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)


def bucketed(tiles: Sequence[Tile], step_s: float) -> Tile:
    """Means over each step, by count, of rates by the time that they are about; what is unknown (NaN) has no
    part in them."""
    some = [tile for tile in tiles if len(tile)]
    if not some:
        return empty()
    whole = _side_by_side(some)
    bucket = np.floor(whole.time_s / step_s)
    order = np.argsort(bucket, kind="stable")
    whole, bucket = whole.rows(order), bucket[order]
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    return Tile(
        bucket[starts] * step_s,
        np.add.reduceat(whole.count, starts),
        _by_weight(whole, whole.figures, QUERY_FIGURES, starts),
        _by_weight(whole, whole.nodes, NODE_FIGURES, starts).astype(np.float32),
    )


def _by_weight(
    whole: Tile,
    values: npt.NDArray[np.floating],
    names: Sequence[str],
    starts: npt.NDArray[np.intp],
) -> Doubles:
    """Means of named rows: rates count by the seconds that they are about, which add up; all else by ticks."""
    count = whole.count.astype(np.float64)
    means = _means(values, count, starts)
    covered = whole.figures[COVERED]
    # A version before did not say how long: as if it were a second a tick. Where no time is covered, all count alike.
    seconds = np.where(np.isnan(covered), count, covered) + NO_TIME_S * count
    rates = [row for row, name in enumerate(names) if name in RATES]
    means[rates] = _means(values[rates], seconds, starts)
    if names is QUERY_FIGURES:
        unknown = np.isnan(means[COVERED])
        sums = np.add.reduceat(np.nan_to_num(covered), starts)
        means[COVERED] = np.where(unknown, np.nan, sums)
    return means


def _means(
    values: npt.NDArray[np.floating], weights: Doubles, starts: npt.NDArray[np.intp]
) -> Doubles:
    """Of runs of the last axis, weighted. Nodes that are partly unknown count where they are known."""
    unknown = np.isnan(values)
    if not unknown.any():
        sums = np.add.reduceat(values * weights, starts, axis=-1)
        plain: Doubles = sums / np.add.reduceat(weights, starts)
        return plain
    known = np.where(unknown, 0.0, weights)
    sums = np.add.reduceat(np.where(unknown, 0.0, values) * known, starts, axis=-1)
    total = np.add.reduceat(known, starts, axis=-1)
    means: Doubles = np.where(total > 0, sums / np.maximum(total, 1e-300), np.nan)
    return means


def encode(tile: Tile) -> tuple[bytes, bytes]:
    """Query figures and node figures apart: most reads want one of them."""
    about: Arrays = {
        "time_s": tile.time_s,
        "count": tile.count.astype(np.int32),
        "values": tile.figures,
    }
    return (
        to_blob(about, figures=list(QUERY_FIGURES)),
        to_blob({"values": tile.nodes}, figures=list(NODE_FIGURES)),
    )


def decode(figures: bytes, nodes: bytes | None) -> Tile:
    """Without the nodes' blob, a tile of no nodes."""
    head, arrays = from_blob(figures)
    time_s = arrays["time_s"]
    values = _named(arrays["values"], head["figures"], QUERY_FIGURES)
    if nodes is None:
        cube = np.empty((len(NODE_FIGURES), 0, len(time_s)), np.float32)
    else:
        head, found = from_blob(nodes)
        cube = _named(found["values"], head["figures"], NODE_FIGURES)
    return Tile(time_s, arrays["count"].astype(np.int64), values, cube)


def _named(
    values: npt.NDArray[Any], names: Sequence[str], wanted: Sequence[str]
) -> npt.NDArray[Any]:
    """Rows by name: an earlier version may have had others."""
    if list(names) == list(wanted):
        return values
    missing = np.full(values.shape[1:], np.nan, values.dtype)
    return np.stack([values[names.index(n)] if n in names else missing for n in wanted])
