"""Aggregates over sliding frames of sorted rows: column in, one value for each frame out, no row loops.

A frame is a half-open range [lo, hi) of row numbers that always holds the row itself. Sums of integers
and decimals are exact, by differences of prefix sums of 32-bit limbs. All others are folded from blocks
of 1, 2, 4 … rows: nothing is ever subtracted, so a large value does not spoil the frames after it,
and a result depends on the rows of its frame only, not on where ticks were cut. What is sorted how,
and which rows are due, is group_by.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import Longs
from engine.errors import SpillwayError

Values = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
State = tuple[Values, ...]

_LIMB = (1 << 32) - 1
_SPREAD = {
    "stddev_samp": (1, True),
    "stddev_pop": (0, True),
    "var_samp": (1, False),
    "var_pop": (0, False),
}


@dataclass(frozen=True, slots=True)
class Frames:
    """One frame for each row of interest."""

    lo: Longs
    hi: Longs


@dataclass(frozen=True, slots=True)
class Ordered:
    """Sorted rows: `key` rises by one with every new key, `time` does not fall within a key."""

    key: Longs
    time: Longs

    def rows(self, at: Longs, preceding: int) -> Frames:
        """ROWS: up to so many rows of the same key before each of these rows, and the row."""
        first = np.searchsorted(self.key, self.key[at])
        return Frames(np.maximum(first, at - preceding), at + 1)

    def range(self, at: Longs, us: int) -> Frames:
        """RANGE: rows of the same key at most so much older, and all of the row's own time."""
        distinct, rank = np.unique(self.time, return_inverse=True)
        width = len(distinct) + 1
        place = self.key * width + rank
        oldest = np.searchsorted(distinct, self.time[at] - us)
        return Frames(
            np.searchsorted(place, self.key[at] * width + oldest),
            np.searchsorted(place, place[at], "right"),
        )


def aggregate(
    function: str, column: pa.Array | None, frames: Frames, kind: pa.DataType
) -> pa.Array:
    """The aggregate over each frame, as Spark types it; nulls are passed over, as SQL says."""
    if column is None:
        return pa.array(frames.hi - frames.lo)
    valid = _valid(column)
    counts = _difference(valid.astype(np.int64), frames)
    if function == "count":
        return pa.array(counts)
    if function in ("min", "max"):
        return _extreme(column, valid, frames, counts, greatest=function == "max")
    if function == "sum" and pa.types.is_decimal(kind):
        return _decimal_sum(column, valid, frames, counts, kind)
    if function == "sum" and pa.types.is_integer(kind):
        return _integer_sum(column, valid, frames, counts)
    if function in ("sum", "avg"):
        total = _double_sum(column, valid, frames)
        return pa.array(
            total if function == "sum" else total / np.maximum(counts, 1), mask=counts == 0
        )
    return _spread(function, _doubles(column, valid), valid, frames)


def fold(
    state: State, frames: Frames, empty: tuple[Any, ...], combine: Callable[[State, State], State]
) -> State:
    """Combine the states of each frame's rows, in order. `empty` combined with a state gives that state."""
    at, length = frames.lo.copy(), frames.hi - frames.lo
    out = tuple(np.full(len(at), e, dtype=s.dtype) for s, e in zip(state, empty, strict=True))
    step, longest = 1, int(length.max(initial=0))
    while True:
        some = np.flatnonzero(length & step)
        piece = combine(tuple(o[some] for o in out), tuple(s[at[some]] for s in state))
        for old, new in zip(out, piece, strict=True):
            old[some] = new
        at[some] += step
        if 2 * step > longest:
            return out
        state = combine(tuple(s[:-step] for s in state), tuple(s[step:] for s in state))
        step *= 2


def _valid(column: pa.Array) -> Flags:
    flags: Flags = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return flags


def _difference(values: Longs, frames: Frames) -> Longs:
    """Exact sums by prefix sums, which may wrap but whose differences are right."""
    prefix = np.r_[0, np.cumsum(values)]
    found: Longs = prefix[frames.hi] - prefix[frames.lo]
    return found


# -- sums --------------------------------------------------------------------------------------------


def _limb_sums(limbs: Sequence[Longs], frames: Frames) -> list[Longs]:
    """Sums of numbers in 32-bit limbs, lowest first and the highest signed; carried. The highest is too
    large where the sum does not fit."""
    out: list[Longs] = []
    carry: Longs | int = 0
    for number, limb in enumerate(limbs, start=1):
        total = _difference(limb, frames) + carry
        carry = total >> 32
        out.append(total if number == len(limbs) else total & _LIMB)
    return out


def _integer_limbs(column: pa.Array, valid: Flags) -> tuple[Longs, Longs]:
    whole = np.where(valid, pc.fill_null(column, 0).to_numpy(zero_copy_only=False), 0).astype(
        np.int64
    )
    return whole & _LIMB, whole >> 32


def _fits(highest: Longs) -> Flags:
    fits: Flags = (highest >= -(1 << 31)) & (highest < 1 << 31)
    return fits


def _integer_sum(column: pa.Array, valid: Flags, frames: Frames, counts: Longs) -> pa.Array:
    low, high = _limb_sums(_integer_limbs(column, valid), frames)
    if not _fits(high).all():
        raise _overflow("bigint", "CAST the argument to decimal(20,0)")
    return pa.array((high << 32) | low, mask=counts == 0)


def _decimal_sum(
    column: pa.Array, valid: Flags, frames: Frames, counts: Longs, kind: pa.DataType
) -> pa.Array:
    words = np.frombuffer(column.buffers()[1] or b"", dtype="<u4").reshape(-1, 4)
    words = words[column.offset : column.offset + len(column)]
    limbs = [np.where(valid, words[:, n], 0).astype(np.int64) for n in range(3)]
    limbs.append(np.where(valid, words[:, 3].view("<i4"), 0).astype(np.int64))
    a, b, c, d = _limb_sums(limbs, frames)
    low, high = (b.view(np.uint64) << np.uint64(32)) | a.view(np.uint64), (d << 32) | c
    if not _fits(d).all() or not _within(high, low, 10**kind.precision).all():
        raise _overflow(str(kind).replace("128", ""), "CAST the argument to fewer digits")
    data = np.stack([low, high.view(np.uint64)], axis=1)
    empty = pa.array(counts > 0).buffers()[1] if (counts == 0).any() else None
    return pa.Array.from_buffers(
        kind, len(counts), [empty, pa.py_buffer(np.ascontiguousarray(data))]
    )


def _within(high: Longs, low: Values, limit: int) -> Flags:
    """Is the 128-bit number less than `limit` from 0?"""
    top, bottom = divmod(limit, 1 << 64)
    below = (high < top) | ((high == top) & (low < np.uint64(bottom)))
    top, bottom = divmod(-limit, 1 << 64)
    above = (high > top) | ((high == top) & (low > np.uint64(bottom)))
    within: Flags = below & above
    return within


def _overflow(kind: str, hint: str) -> SpillwayError:
    return SpillwayError(f"a sum over a window does not fit {kind}", where="query", hint=hint)


def _double_sum(column: pa.Array, valid: Flags, frames: Frames) -> Values:
    if pa.types.is_integer(column.type):
        low, high = _limb_sums(_integer_limbs(column, valid), frames)
        return high * float(1 << 32) + low
    with np.errstate(all="ignore"):
        return fold((_doubles(column, valid),), frames, (0.0,), lambda a, b: (a[0] + b[0],))[0]


def _doubles(column: pa.Array, valid: Flags) -> Values:
    """The values as doubles, 0 for nulls."""
    plain = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(valid, plain, 0.0)


# -- spread ------------------------------------------------------------------------------------------


def _spread(function: str, values: Values, valid: Flags, frames: Frames) -> pa.Array:
    """Variance and standard deviation from counts, means and squared distances, joined pairwise
    (Chan, Golub and LeVeque); null for a sample of one."""
    less, root = _SPREAD[function]
    with np.errstate(all="ignore"):
        start = (valid.astype(np.float64), values, np.where(np.isfinite(values), 0.0, np.nan))
        count, _, squares = fold(start, frames, (0.0, 0.0, 0.0), _together)
        found = squares / (count - less)
        found = np.sqrt(found) if root else found
    return pa.array(found, mask=count <= less)


def _together(one: State, two: State) -> State:
    count = one[0] + two[0]
    share = two[0] / np.maximum(count, 1.0)
    apart = two[1] - one[1]
    both = (one[0] > 0) & (two[0] > 0)
    mean = np.where(both, one[1] + apart * share, np.where(one[0] > 0, one[1], two[1]))
    between = np.where(both, apart * apart * (one[0] * share), 0.0)
    return count, mean, one[2] + two[2] + between


# -- least and greatest -----------------------------------------------------------------------------


def _extreme(
    column: pa.Array, valid: Flags, frames: Frames, counts: Longs, *, greatest: bool
) -> pa.Array:
    """Among doubles NaN is the greatest, as in Spark."""
    plain, back = _comparable(column, valid)
    real = plain.dtype.kind == "f"
    choose: np.ufunc = np.maximum if greatest else np.fmin if real else np.minimum
    empty: float
    if real:
        empty = -np.inf if greatest else np.nan
    else:
        limits = np.iinfo(plain.dtype)
        empty = limits.min if greatest else limits.max
    plain = np.where(valid, plain, plain.dtype.type(empty))
    found = fold((plain,), frames, (empty,), lambda a, b: (choose(a[0], b[0]),))[0]
    return back(found, counts == 0)


def _comparable(
    column: pa.Array, valid: Flags
) -> tuple[Values, Callable[[Values, Flags], pa.Array]]:
    """Numbers in the order of the values, and the way back."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), lambda found, null: pa.array(
            found, kind, mask=null
        )
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        number = pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
        plain = pc.fill_null(column.view(number), 0).to_numpy(zero_copy_only=False)
        return plain, lambda found, null: pa.array(found, number, mask=null).view(kind)
    if pa.types.is_boolean(kind):
        plain = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.int8)
        return plain, lambda found, null: pa.array(found > 0, mask=null)
    coded = column.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes = pc.fill_null(coded.indices, len(order)).to_numpy(zero_copy_only=False)
    ranks = (
        np.where(valid, rank[np.where(valid, codes, 0)], 0)
        if len(order)
        else np.zeros(len(column), np.int64)
    )
    values = coded.dictionary.take(pa.array(order))
    return ranks, lambda found, null: values.take(pa.array(np.where(null, 0, found), mask=null))
