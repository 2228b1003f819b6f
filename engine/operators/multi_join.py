"""`multi_join`: the m-way symmetric join of one shared key, as a pure function over Arrow.

The delta of one input meets the runs of all others. Everything is sorted by hash, so a probe is two
binary searches; rows whose key is missing from any input drop out before a row is copied. What is left
is gathered key by key into small tables, hash collisions are taken apart there, and the results are
enumerated in chunks of bounded size. No file is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.columns import Longs, concat, longs, take, take_rows

HASH = "$h"
Hashes = npt.NDArray[np.uint64]

MATCHED_ROWS_MAX = 2_000_000  # rows of all inputs gathered at once; one key alone may exceed it
CHUNK_ROWS_MAX = 524_288  # result rows handed on at once
_SAMPLE = 512


def hashes(batch: pa.RecordBatch) -> Hashes:
    """The hash column, which comes first in every sorted batch."""
    return longs(batch.column(0)).view(np.uint64)


@dataclass(frozen=True, slots=True)
class Limit:
    """A window: column `late` of one side is at most `us` microseconds after column `early` of another."""

    early_side: int
    early: str
    late_side: int
    late: str
    us: int


class View:
    """A run as it is probed: segments in hash order, numbered as one long sequence of rows."""

    def __init__(self, segments: Sequence[pa.RecordBatch]) -> None:
        self.segments = [s for s in segments if s.num_rows]
        self.hashes = [hashes(s) for s in self.segments]
        self.bases = np.cumsum([0] + [s.num_rows for s in self.segments])

    def locate(self, wanted: Hashes) -> tuple[Longs, Longs]:
        """For each of the sorted `wanted`: its first row here, and how many rows have it."""
        first = np.zeros(len(wanted), dtype=np.int64)
        count = np.zeros(len(wanted), dtype=np.int64)
        for base, have in zip(self.bases, self.hashes, strict=False):
            a, b = np.searchsorted(wanted, have[0]), np.searchsorted(wanted, have[-1], "right")
            some = wanted[a:b]
            low = np.searchsorted(have, some)
            found = np.searchsorted(have, some, "right") - low
            fresh = count[a:b] == 0  # a key may go on from the segment before
            first[a:b] = np.where(fresh, base + low, first[a:b])
            count[a:b] += found
        return first, count

    def take(self, rows: Longs) -> pa.RecordBatch:
        """The rows with these ascending numbers."""
        ends = np.searchsorted(rows, self.bases)
        parts = [
            take_rows(segment, rows[a:b] - base)
            for segment, base, a, b in zip(self.segments, self.bases, ends, ends[1:], strict=False)
            if b > a
        ]
        return concat(parts) if parts else take_rows(self.segments[0], rows)


@dataclass(frozen=True, slots=True)
class _Hits:
    """Where the wanted keys are in one input: for each run, first row and count of every key."""

    views: Sequence[View]
    first: list[Longs]
    count: list[Longs]

    def keep(self, mask: npt.NDArray[np.bool_] | slice) -> _Hits:
        return _Hits(self.views, [f[mask] for f in self.first], [c[mask] for c in self.count])

    def total(self) -> Longs:
        out: Longs = np.sum(self.count, axis=0, dtype=np.int64)
        return out


@dataclass(frozen=True, slots=True)
class _Rows:
    """One input's matching rows, ordered by key number; `offsets[k]` is where key k begins. `times`: the
    event times that windows compare, by name."""

    batch: pa.RecordBatch
    offsets: Longs
    times: dict[str, Longs] = field(default_factory=dict)

    @property
    def counts(self) -> Longs:
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some result rows: each input's columns, expanded. `counts` says how many results each key
    hash has in this chunk (hashes may repeat); `new`: no row has an old part, while two plans run."""

    columns: tuple[pa.RecordBatch, ...]
    hashes: Hashes
    counts: Longs
    new: bool = False

    @property
    def rows(self) -> int:
        return int(self.columns[0].num_rows)


def probe(
    delta: pa.RecordBatch,
    source: int,
    targets: Sequence[Sequence[View]],
    *,
    keys: int,
    exact_hash: bool,
    wanted: Sequence[Sequence[str]],
    limits: Sequence[Limit] = (),
    chunk_rows: int = CHUNK_ROWS_MAX,
) -> Iterator[Chunk]:
    """All results with one part from `delta` (input `source`) and one from each other input.

    `targets[j]` are the runs of input j (that of `source` is not used); `wanted[j]` names the columns
    of input j that results need; `exact_hash` says that equal hashes mean equal keys; `limits` are the
    windows that a result must keep.
    """
    view = View([delta])
    distinct, start, count = distinct_of(hashes(delta))
    hits = {source: _Hits([view], [start], [count])}
    others = [j for j in range(len(targets)) if j != source]
    for j in _by_fan_out(distinct, others, targets):
        found = [v.locate(distinct) for v in targets[j]]
        mine = _Hits(targets[j], [f for f, _ in found], [c for _, c in found])
        present = mine.total() > 0 if found else np.zeros(len(distinct), dtype=bool)
        hits = {i: h.keep(present) for i, h in hits.items()} | {j: mine.keep(present)}
        distinct = distinct[present]
        if not len(distinct):
            return
    ordered = [hits[j] for j in range(len(targets))]
    for part in bounded(sum(h.total() for h in ordered), MATCHED_ROWS_MAX):  # type: ignore[arg-type]
        rows = [_gather(h.keep(part)) for h in ordered]
        marks = distinct[part]
        if not exact_hash:
            rows, marks = _separate(rows, marks, keys)
        yield from _Product(rows, marks, wanted, limits).chunks(chunk_rows)


def distinct_of(ordered: Hashes) -> tuple[Hashes, Longs, Longs]:
    """The distinct values of a sorted array with first position and count."""
    start = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[start], start, np.diff(np.r_[start, len(ordered)])


def _by_fan_out(
    distinct: Hashes, others: list[int], targets: Sequence[Sequence[View]]
) -> list[int]:
    """The inputs to probe, that with the least expected fan-out first, judged by a sample of keys."""
    if len(others) < 2:
        return others
    sample = distinct[:: max(1, len(distinct) // _SAMPLE)]
    fan_out = {j: sum(int(v.locate(sample)[1].sum()) for v in targets[j]) for j in others}
    return sorted(others, key=lambda j: fan_out[j])


def bounded(weights: Longs, limit: int) -> Iterator[slice]:
    """Slices of consecutive items that weigh at most `limit` together, or are a single item."""
    ends = np.cumsum(weights)
    a = 0
    while a < len(weights):
        before = int(ends[a - 1]) if a else 0
        b = max(a + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield slice(a, b)
        a = b


def spread(first: Longs, count: Longs) -> Longs:
    """first[0], first[0]+1, … (count[0] of them), first[1], …: ranges written out."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - count), count) + np.arange(total)


def _gather(hits: _Hits) -> _Rows:
    """Copy the matching rows of one input together, ordered by key."""
    used = [
        (v, f, c) for v, f, c in zip(hits.views, hits.first, hits.count, strict=True) if c.any()
    ]
    batch = concat([v.take(spread(f, c)) for v, f, c in used])
    if len(used) > 1:
        key = np.concatenate([np.repeat(np.arange(len(c)), c) for _, _, c in used])
        batch = take_rows(batch, np.argsort(key, kind="stable"))
    return _Rows(batch, np.r_[0, np.cumsum(hits.total())])


def _separate(rows: list[_Rows], marks: Hashes, keys: int) -> tuple[list[_Rows], Hashes]:
    """Make key numbers stand for real keys: a hash shared by different keys is split."""
    if all(_agrees(side, rows[0], keys) for side in rows):
        return rows, marks
    tables = [pa.Table.from_batches([r.batch.select(range(1, 1 + keys))]) for r in rows]
    together = pa.concat_tables(tables)
    codes = [_codes(together.column(i).combine_chunks()) for i in range(keys)]
    _, ident = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    sides = np.split(ident.reshape(-1), np.cumsum([r.batch.num_rows for r in rows])[:-1])
    size = int(ident.max()) + 1
    counts = [np.bincount(side, minlength=size) for side in sides]
    whole = np.flatnonzero(np.min(counts, axis=0) > 0)
    named = np.zeros(size, dtype=np.uint64)
    for side, r in zip(sides, rows, strict=True):
        named[side] = hashes(r.batch)
    split = [_regroup(r, s, c, whole) for r, s, c in zip(rows, sides, counts, strict=True)]
    return split, named[whole]


def _codes(column: pa.Array) -> Longs:
    codes: Longs = (
        column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return codes


def _regroup(rows: _Rows, ident: Longs, counts: Longs, whole: Longs) -> _Rows:
    order = np.argsort(ident, kind="stable")
    first = (np.cumsum(counts) - counts)[whole]
    batch = take_rows(rows.batch, order[spread(first, counts[whole])])
    return _Rows(batch, np.r_[0, np.cumsum(counts[whole])])


def _agrees(side: _Rows, lead: _Rows, keys: int) -> bool:
    """Does every row have the very key of the lead input's first row of the same number?"""
    number = np.repeat(lead.offsets[:-1], side.counts)
    for i in range(1, 1 + keys):
        if not take(lead.batch.column(i), number).equals(side.batch.column(i)):
            return False
    return True


class _Product:
    """Every combination of the inputs' rows of one key, for many keys, within the windows."""

    def __init__(
        self,
        rows: list[_Rows],
        marks: Hashes,
        wanted: Sequence[Sequence[str]],
        limits: Sequence[Limit],
    ) -> None:
        self.marks, self.limits = marks, limits
        self.counts = [r.counts for r in rows]
        self.sides = [
            _Rows(r.batch.select(list(names)), r.offsets, _times(r.batch, n, limits))
            for n, (r, names) in enumerate(zip(rows, wanted, strict=True))
        ]

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All combinations, at most `size` of them looked at for each chunk."""
        products = np.ones(len(self.marks), dtype=np.int64)
        for c in self.counts:
            products *= c
        for part in bounded(products, size):
            if products[part.start] > size:
                yield from self._one_key(part.start, int(products[part.start]), size)
            elif chunk := self._many_keys(part, products[part]):
                yield chunk

    def _many_keys(self, part: slice, products: Longs) -> Chunk | None:
        """Expand input by input: each step repeats what is there for every row of the next input."""
        key = np.arange(part.start, part.stop)
        first, count = self.sides[0].offsets[key], self.counts[0][key]
        rows = spread(first, count)
        key = np.repeat(key, count)
        done = [take_rows(self.sides[0].batch, rows)]
        times = [{n: t[rows] for n, t in self.sides[0].times.items()}]
        for at, side in enumerate(self.sides[1:], start=1):
            first, count = side.offsets[key], self.counts[at][key]
            again = np.repeat(np.arange(len(key)), count)
            rows = spread(first, count)
            times = [{n: t[again] for n, t in have.items()} for have in times]
            times.append({n: t[rows] for n, t in side.times.items()})
            keep = self._within(at, times)
            if keep is not None:
                again, rows = again[keep], rows[keep]
                times = [{n: t[keep] for n, t in have.items()} for have in times]
            done = [take_rows(batch, again) for batch in done]
            done.append(take_rows(side.batch, rows))
            key = key[again]
        if not len(key):
            return None
        counts = np.bincount(key - part.start, minlength=len(products)) if self.limits else products
        return Chunk(tuple(done), self.marks[part], counts)

    def _one_key(self, key: int, total: int, size: int) -> Iterator[Chunk]:
        """One key with more results than fit a chunk: number the combinations and take them apart."""
        for a in range(0, total, size):
            rest = np.arange(a, min(total, a + size))
            picked: list[Longs] = []
            for side, counts in zip(reversed(self.sides), reversed(self.counts), strict=True):
                picked.insert(0, side.offsets[key] + rest % counts[key])
                rest = rest // counts[key]
            times = [
                {n: t[r] for n, t in s.times.items()}
                for s, r in zip(self.sides, picked, strict=True)
            ]
            for at in range(1, len(self.sides)):
                keep = self._within(at, times)
                if keep is not None:
                    picked = [r[keep] for r in picked]
                    times = [{n: t[keep] for n, t in have.items()} for have in times]
            if len(picked[0]):
                done = tuple(take_rows(s.batch, r) for s, r in zip(self.sides, picked, strict=True))
                yield Chunk(done, self.marks[key : key + 1], np.array([len(picked[0])]))

    def _within(self, at: int, times: list[dict[str, Longs]]) -> Longs | None:
        """Rows that keep the windows between input `at` and those before it; None: all do."""
        good: npt.NDArray[np.bool_] | None = None
        for limit in self.limits:
            if max(limit.early_side, limit.late_side) == at:
                gap = times[limit.late_side][limit.late] - times[limit.early_side][limit.early]
                good = gap <= limit.us if good is None else good & (gap <= limit.us)
        return None if good is None or good.all() else np.flatnonzero(good)


def _times(batch: pa.RecordBatch, side: int, limits: Sequence[Limit]) -> dict[str, Longs]:
    """The side's event times that the windows compare, in microseconds."""
    early = {limit.early for limit in limits if limit.early_side == side}
    late = {limit.late for limit in limits if limit.late_side == side}
    return {name: longs(batch.column(name)) for name in early | late}
