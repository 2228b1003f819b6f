"""The hash against the xxhash package, against Spark itself, and its arithmetic of groups."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from engine import hashing

INT64 = st.integers(-(2**63), 2**63 - 1)
DATETIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59))


def _int_of(width: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def _unscaled(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    context = decimal.Context(prec=60)
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda i: context.scaleb(decimal.Decimal(i), -scale)
    )


@given(st.lists(st.binary(max_size=120), max_size=60), st.integers(0, 5), st.booleans())
def test_bytes_as_xxhash_does(values: list[bytes], skip: int, large: bool) -> None:
    array = pa.array(values, pa.large_binary() if large else pa.binary())[skip:]
    expected = [xxhash.xxh64_intdigest(value, seed=42) for value in values[skip:]]
    assert hashing.hash_keys([array]).tolist() == expected


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=70)), max_size=40))
def test_columns_are_chained(rows: list[tuple[str, bytes]]) -> None:
    columns = [
        pa.array([r[0] for r in rows], pa.string()),
        pa.array([r[1] for r in rows], pa.binary()),
    ]
    expected = [
        xxhash.xxh64_intdigest(b, seed=xxhash.xxh64_intdigest(a.encode(), seed=42)) for a, b in rows
    ]
    assert hashing.hash_keys(columns).tolist() == expected


def test_every_length_and_many_rows() -> None:
    rng = np.random.default_rng(7)
    values = [rng.bytes(n % 200) for n in rng.integers(0, 200, 40_000)]
    chunked = pa.chunked_array([values[:1], values[1:30_000], values[30_000:]], pa.binary())
    expected = [xxhash.xxh64_intdigest(value, seed=42) for value in values]
    assert hashing.hash_keys([chunked]).tolist() == expected


def test_one_huge_value_among_small_ones() -> None:
    values = [b"a", b"b" * 1_000_003, *(b"c%d" % i for i in range(5_000))]
    expected = [xxhash.xxh64_intdigest(value, seed=42) for value in values]
    assert hashing.hash_keys([pa.array(values)]).tolist() == expected


@given(st.lists(INT64, max_size=50))
def test_bigints_invert(values: list[int]) -> None:
    h = hashing.hash_keys([pa.array(values, pa.int64())])
    assert hashing.invert(h).tolist() == values


def least_of(group: int, groups: int) -> int:
    """The least hash of a group, exact; of `groups` itself it is 2**64, past every hash."""
    return -((-group << 32) // groups) << 32


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 5000))
def test_groups_and_their_bounds(values: list[int], groups: int) -> None:
    h = np.sort(np.array(values, np.uint64))
    group = hashing.group_of(h, groups)
    for value, g in zip(h.tolist(), group.tolist(), strict=True):
        assert g == (value >> 32) * groups >> 32
        assert least_of(g, groups) <= value
        assert value < least_of(g + 1, groups)
    bounds = hashing.lower_bounds(groups)
    assert bounds.tolist() == [least_of(g, groups) for g in range(groups)]
    assert least_of(groups, groups) == 2**64
    offsets = hashing.group_offsets(h, groups)
    assert np.repeat(np.arange(groups), np.diff(offsets)).tolist() == group.tolist()


def test_mask_forces_collisions() -> None:
    keys = pa.array(range(1000))
    assert not hashing.hash_keys([keys], mask=0).any()
    assert len(set(hashing.hash_keys([keys], mask=3 << 62).tolist())) == 4


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([pa.array([1, None])], ValueError, "1 null key"),
        ([pa.array([1.0])], TypeError, "double"),
        ([pa.array([1]), pa.array([1, 2])], ValueError, "length"),
        ([], ValueError, "at least one"),
    ],
)
def test_refusals(columns: list[pa.Array], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hashing.hash_keys(columns)


# -- against Spark: all rows of all types in one session, one query ---------------------------------

UTC = dt.UTC
D38 = decimal.Context(prec=38)
TYPES: list[tuple[str, pa.DataType, list[Any], Any]] = [
    ("boolean", pa.bool_(), [True, False], st.booleans()),
    ("tinyint", pa.int8(), [-128, -1, 0, 127], _int_of(8)),
    ("smallint", pa.int16(), [-(2**15), -1, 0, 2**15 - 1], _int_of(16)),
    ("int", pa.int32(), [-(2**31), -1, 0, 2**31 - 1], _int_of(32)),
    ("bigint", pa.int64(), [-(2**63), -1, 0, 2**63 - 1], INT64),
    ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)], st.dates()),
    ("timestamp", pa.timestamp("us", "UTC"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
     DATETIMES.map(lambda t: t.replace(tzinfo=UTC))),
    ("timestamp_ntz", pa.timestamp("us"), [dt.datetime(1970, 1, 1)], DATETIMES),
    ("decimal(18,3)", pa.decimal128(18, 3), [decimal.Decimal("-999999999999999.999")],
     _unscaled(18, 3)),
    ("decimal(38,6)", pa.decimal128(38, 6),
     [decimal.Decimal(i).scaleb(-6, D38) for i in
      (0, -1, 1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63), 2**64, 2**119, 10**38 - 1, 1 - 10**38)],
     _unscaled(38, 6)),
    ("decimal(20,0)", pa.decimal128(20, 0), [decimal.Decimal(-32768), decimal.Decimal(32768)],
     _unscaled(20, 0)),
    ("string", pa.string(), ["", "ä€😀", *("x" * n for n in range(101))], st.text(max_size=80)),
    ("binary", pa.binary(), [b"", b"\x00" * 33, b"\xff" * 31], st.binary(max_size=80)),
]  # fmt: skip


@given(st.data())
def test_as_spark_does(spark: SparkSession, data: st.DataObject) -> None:
    rows = 103
    arrays = []
    for _, kind, edges, values in TYPES:
        more = data.draw(st.lists(values, min_size=12, max_size=12))
        column = (edges + more * rows)[:rows]
        arrays.append(pa.array(column, kind))
    names = [f"c{i}" for i in range(len(arrays))]
    frame = spark.createDataFrame(pa.table(arrays, names=names))
    expected = frame.selectExpr(
        *(f"xxhash64({name}) as {name}" for name in names), f"xxhash64({', '.join(names)}) as all"
    ).toArrow()
    for (sql, *_), array, name in zip(TYPES, arrays, names, strict=True):
        ours = hashing.hash_keys([array]).view(np.int64).tolist()
        assert ours == expected[name].to_pylist(), sql
    assert hashing.hash_keys(arrays).view(np.int64).tolist() == expected["all"].to_pylist()
