"""Spark's `xxhash64` over Arrow columns, in NumPy: the hash that routes, sorts and slices all state.

Bit-equal to Spark SQL's `xxhash64(c1, c2, …)`: seed 42, the hash of a column being the seed of the
next one. Also here: the one definition of how a hash falls into a group. Nothing here knows about
placement, runs or Spark sessions; nulls, floats and collations are the caller's to filter or refuse.

No row is touched from Python. Fixed-width columns are mixed in blocks that stay in the CPU cache.
Strings are gathered as unaligned 8-byte words straight from Arrow's data buffer: rows of at least
32 bytes go through the stripes together, longest last, so that finished rows drop out; what is left
of every row (0 to 31 bytes) is bucketed by its exact length. Memory is a few words per row, whatever
the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

SEED = 42
FULL_MASK = 0xFFFF_FFFF_FFFF_FFFF
DECIMAL_LONG_DIGITS = 18  # up to here Spark hashes the unscaled value as a long

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_BLOCK = 1 << 14  # rows whose temporaries fit in the second-level cache
_STRIPE = 32


def hash_keys(
    columns: Sequence[pa.Array | pa.ChunkedArray], mask: int = FULL_MASK, *, nulls: bool = False
) -> U64:
    """xxhash64 of each row of the key columns, as Spark computes it. The columns hold no nulls, unless
    `nulls` says that they may: then a null leaves the hash as it was, as in Spark.

    `mask` is ANDed onto every hash: tests narrow it to force collisions (0 makes all keys collide).
    """
    if not columns:
        raise ValueError("hash_keys needs at least one column")
    h = np.full(len(columns[0]), SEED, dtype=np.uint64)
    for column in columns:
        if len(column) != h.size:
            raise ValueError(f"key columns differ in length: {len(column)} and {h.size}")
        start = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            part = h[start : start + len(chunk)]
            if nulls and chunk.null_count:
                _hash_valid(chunk, part)
            else:
                _hash_array(chunk, part)
            start += len(chunk)
    if mask != FULL_MASK:
        h &= np.uint64(mask)
    return h


def invert(h: U64) -> I64:
    """The one bigint whose xxhash64 is h: over single 64-bit keys the hash is a bijection."""
    x = h.astype(np.uint64)
    x ^= x >> np.uint64(32)
    x *= _inverse(_P3)
    x ^= (x >> np.uint64(29)) ^ (x >> np.uint64(58))
    x *= _inverse(_P2)
    x ^= x >> np.uint64(33)
    x -= np.uint64(_P4)
    x *= _inverse(_P1)
    _rotate(x, 64 - 27)
    x ^= np.uint64((SEED + _P5 + 8) & FULL_MASK)
    x *= _inverse(_P1)
    _rotate(x, 64 - 31)
    x *= _inverse(_P2)
    return x.view(np.int64)


def group_of(h: U64, groups: int) -> I64:
    """The group of each hash: its high 32 bits scaled to 0 … groups − 1."""
    return (((h >> np.uint64(32)) * np.uint64(groups)) >> np.uint64(32)).view(np.int64)


def lower_bounds(groups: int) -> U64:
    """The least hash of each of the groups (the end of the last one, 2**64, fits no uint64)."""
    scaled = np.arange(groups, dtype=np.uint64) << np.uint64(32)
    return (scaled + np.uint64(groups - 1)) // np.uint64(groups) << np.uint64(32)


def group_offsets(sorted_h: U64, groups: int) -> I64:
    """Where each group starts among hashes sorted as unsigned; one more entry ends the last group."""
    starts = np.searchsorted(sorted_h, lower_bounds(groups))
    return np.append(starts, sorted_h.size).astype(np.int64, copy=False)


def _hash_valid(array: pa.Array, h: U64) -> None:
    """As `_hash_array`, passing over nulls."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    some = h[valid]
    _hash_array(array.drop_null(), some)
    h[valid] = some


def _hash_array(array: pa.Array, h: U64) -> None:
    """Replace h, the rows' seeds, by the rows' hashes."""
    if array.null_count:
        raise ValueError(f"hash_keys got {array.null_count} null keys; filter them out first")
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_int8(kind) or pa.types.is_int16(kind):
        _in_blocks(_mix_int, _fixed(array.cast(pa.int32()), np.uint32), h)
    elif pa.types.is_int32(kind) or pa.types.is_date32(kind):
        _in_blocks(_mix_int, _fixed(array, np.uint32), h)
    elif pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        _in_blocks(_mix_long, _fixed(array, np.uint64), h)
    elif pa.types.is_decimal128(kind):
        _hash_decimals(array, kind.precision, h)
    elif _is_bytes(kind):
        data, starts, lengths = _spans(array)
        _hash_bytes(data, starts, lengths, h)
    else:
        raise TypeError(f"cannot hash keys of type {kind}")


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _fixed(array: pa.Array, dtype: type[Any]) -> npt.NDArray[Any]:
    """The values of a fixed-width array in place, whatever its offset."""
    if not len(array):
        return np.empty(0, dtype)
    item = np.dtype(dtype).itemsize
    buffer = array.buffers()[1]
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * item)


def _spans(array: pa.Array) -> tuple[Bytes, I64, I64]:
    """The data bytes of a string or binary array, each row's start in them, each row's length."""
    _, offsets_buffer, data = array.buffers()
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if large else np.int32)
    if not len(array):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    skip = array.offset * dtype.itemsize
    offsets = np.frombuffer(offsets_buffer, dtype, count=len(array) + 1, offset=skip)
    flat = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    return flat, starts, offsets[1:] - starts


def _hash_decimals(array: pa.Array, precision: int, h: U64) -> None:
    """Unscaled value as a long; over 18 digits, as java.math.BigInteger.toByteArray has its bytes."""
    halves = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array)]
    if precision <= DECIMAL_LONG_DIGITS:
        _in_blocks(_mix_long, halves[::2], h)
        return
    big_endian = np.ascontiguousarray(halves.view(np.uint8).reshape(-1, 16)[:, ::-1])
    sign = (big_endian[:, :1] >> 7) * np.uint8(255)
    magnitude = big_endian ^ sign
    first = (magnitude != 0).argmax(axis=1)
    rows = np.arange(len(array), dtype=np.int64)
    top_bit = magnitude[rows, first] >> 7  # then a byte of sign goes before the first one
    lengths = np.where(magnitude.any(axis=1), 16 - first + top_bit, 1).astype(np.int64)
    _hash_bytes(big_endian.reshape(-1), rows * 16 + 16 - lengths, lengths, h)


# -- fixed width -------------------------------------------------------------------------------


def _in_blocks(mix: Callable[[Any, U64], None], values: npt.NDArray[Any], h: U64) -> None:
    for start in range(0, h.size, _BLOCK):
        mix(values[start : start + _BLOCK], h[start : start + _BLOCK])


def _mix_int(values: npt.NDArray[np.uint32], h: U64) -> None:
    h += np.uint64((_P5 + 4) & FULL_MASK)
    _absorb_int(values.astype(np.uint64), h)
    _avalanche(h)


def _mix_long(values: U64, h: U64) -> None:
    h += np.uint64((_P5 + 8) & FULL_MASK)
    _absorb_long(values.copy(), h)
    _avalanche(h)


def _absorb_long(word: U64, h: U64) -> None:
    """One 8-byte word into h; `word` is used up."""
    word *= np.uint64(_P2)
    _rotate(word, 31)
    word *= np.uint64(_P1)
    h ^= word
    _rotate(h, 27)
    h *= np.uint64(_P1)
    h += np.uint64(_P4)


def _absorb_int(word: U64, h: U64) -> None:
    word *= np.uint64(_P1)
    h ^= word
    _rotate(h, 23)
    h *= np.uint64(_P2)
    h += np.uint64(_P3)


def _absorb_byte(word: U64, h: U64) -> None:
    word *= np.uint64(_P5)
    h ^= word
    _rotate(h, 11)
    h *= np.uint64(_P1)


def _avalanche(h: U64) -> None:
    h ^= h >> np.uint64(33)
    h *= np.uint64(_P2)
    h ^= h >> np.uint64(29)
    h *= np.uint64(_P3)
    h ^= h >> np.uint64(32)


def _rotate(x: U64, bits: int) -> None:
    """Rotate left, in place."""
    high = x << np.uint64(bits)
    x >>= np.uint64(64 - bits)
    x |= high


def _inverse(prime: int) -> np.uint64:
    return np.uint64(pow(prime, -1, 1 << 64))


# -- bytes -------------------------------------------------------------------------------------


def _hash_bytes(data: Bytes, starts: I64, lengths: I64, h: U64) -> None:
    """Blocks of rows, so that the gathered words stay in the cache; rows of one length need no sort."""
    for at in range(0, h.size, _BLOCK):
        block = slice(at, at + _BLOCK)
        _hash_block(data, starts[block], lengths[block], h[block])


def _hash_block(data: Bytes, starts: I64, lengths: I64, h: U64) -> None:
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        order, seeds, at, size = None, h, starts, lengths
    else:  # 16-bit values are sorted by radix
        narrow = lengths.astype(np.uint16) if longest < 1 << 16 else lengths
        order = np.argsort(narrow, kind="stable")
        seeds, at, size = h[order], starts[order], lengths[order]
    short = int(np.searchsorted(size, _STRIPE))
    acc = seeds + np.uint64(_P5)
    if short < size.size:
        acc[short:] = _stripes(data, at[short:], size[short:], seeds[short:])
    acc += size.view(np.uint64)
    _tails(data, at + (size & -_STRIPE), size % _STRIPE, acc)
    _avalanche(acc)
    if order is None:
        h[:] = acc
    else:
        h[order] = acc


def _stripes(data: Bytes, at: I64, size: I64, seeds: U64) -> U64:
    """The 32-byte stripes of rows sorted by size: four lanes a row, short rows dropping out first."""
    lanes = np.array([_P1 + _P2, _P2, 0, -_P1], dtype=object) & FULL_MASK
    v = seeds[:, None] + lanes.astype(np.uint64)
    words = _words(data, 8)
    stripes = size // _STRIPE
    lane_bytes = np.arange(0, _STRIPE, 8)
    for stripe in range(int(stripes[-1])):
        active = int(np.searchsorted(stripes, stripe, side="right"))
        rows = v[active:]
        word = words[(at[active:] + stripe * _STRIPE)[:, None] + lane_bytes]
        word *= np.uint64(_P2)
        rows += word
        _rotate(rows, 31)
        rows *= np.uint64(_P1)
    return _merge_lanes(v)


def _merge_lanes(v: U64) -> U64:
    rotated = v.copy()
    for lane, bits in enumerate((1, 7, 12, 18)):
        _rotate(rotated[:, lane], bits)
    acc: U64 = rotated.sum(axis=1, dtype=np.uint64)
    v *= np.uint64(_P2)
    _rotate(v, 31)
    v *= np.uint64(_P1)
    for lane in range(4):
        acc ^= v[:, lane]
        acc *= np.uint64(_P1)
        acc += np.uint64(_P4)
    return acc


def _tails(data: Bytes, at: I64, left: I64, acc: U64) -> None:
    """The last 0 to 31 bytes of each row, one bucket per exact length."""
    if (left == left[0]).all():
        _tail(data, at, int(left[0]), acc)
        return
    order = np.argsort(left.astype(np.uint8), kind="stable")
    bounds = np.searchsorted(left[order], np.arange(_STRIPE + 1))
    for length in range(1, _STRIPE):
        rows = order[bounds[length] : bounds[length + 1]]
        if rows.size:
            part = acc[rows]
            _tail(data, at[rows], length, part)
            acc[rows] = part


def _tail(data: Bytes, at: I64, length: int, acc: U64) -> None:
    pos = 0
    while pos + 8 <= length:
        _absorb_long(_words(data, 8)[at + pos], acc)
        pos += 8
    if pos + 4 <= length:
        _absorb_int(_words(data, 4)[at + pos].astype(np.uint64), acc)
        pos += 4
    for byte in range(pos, length):
        _absorb_byte(data[at + byte].astype(np.uint64), acc)


def _words(data: Bytes, width: int) -> npt.NDArray[Any]:
    """The little-endian words that start at every byte: overlapping, unaligned, nothing copied."""
    count = max(data.size - width + 1, 0)
    return np.ndarray((count,), f"<u{width}", buffer=data, strides=(1,))
