"""Native Parquet reading against Spark's own reader, and its refusals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from engine.errors import SourceError
from engine.query.model import Field, StreamSpec
from engine.sources.files import ddl
from engine.sources.native import is_native, local_path, read_native
from tests.engine.sources.native_shared import AGREE, AT, REFUSED


def _spark_reads(spark: SparkSession, path: Path, fields: tuple[Field, ...]) -> pa.Table:
    return spark.read.schema(ddl(fields)).parquet(str(path)).toArrow()


@pytest.mark.parametrize("dictionary", [True, False])
def test_agrees_with_spark(spark: SparkSession, tmp_path: Path, dictionary: bool) -> None:
    """Every pair of types at once: columns of one length, written by pyarrow."""
    columns = [pa.array((values * 4)[:4], kind) for kind, values, _ in AGREE]
    names = [f"c{i}" for i in range(len(AGREE))]
    fields = tuple(Field(n, declared) for n, (_, _, declared) in zip(names, AGREE, strict=True))
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table(columns, names=names), path, use_dictionary=dictionary)
    ours, theirs = read_native(f"file:{path}", names, fields), _spark_reads(spark, path, fields)
    assert ours.schema.types == theirs.schema.types
    for name, case in zip(names, AGREE, strict=True):
        assert ours[name].to_pylist() == theirs[name].to_pylist(), case


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} as {case[2]}")
def test_refuses_with_spark(spark: SparkSession, tmp_path: Path, case: Any) -> None:
    kind, values, declared = case
    fields = (Field("c", declared),)
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"c": pa.array(values, kind)}), path)
    with pytest.raises(SourceError) as caught:
        read_native(str(path), ["c"], fields)
    for part in (str(path), "column c", declared, str(kind).split("<")[0]):
        assert part in str(caught.value)
    with pytest.raises(Exception, match=r"(?i)parquet|type|convert"):
        _spark_reads(spark, path, fields)


SPARK_TYPES = {
    "boolean": "true",
    "tinyint": "-128",
    "smallint": "7",
    "int": "2147483647",
    "bigint": "-9223372036854775808",
    "float": "0.1",
    "double": "0.1",
    "decimal(9,2)": "-1234567.89",
    "decimal(18,0)": "999999999999999999",
    "decimal(38,10)": "-1234567890123456789012345678.0123456789",
    "string": "'ä€😀'",
    "binary": "'\\0abc'",
    "date": "'0001-01-01'",
    "timestamp": "'1500-06-07 08:09:10.123456'",
    "timestamp_ntz": "'0001-01-01 00:00:00.000001'",
}


@pytest.mark.parametrize("as_int96", [True, False])
def test_reads_what_spark_writes(spark: SparkSession, tmp_path: Path, as_int96: bool) -> None:
    kind = "INT96" if as_int96 else "TIMESTAMP_MICROS"
    spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    try:
        names = [f"c{i}" for i in range(len(SPARK_TYPES))]
        exprs = [
            f"cast(if(id = 1, null, {text}) as {kind}) as {name}"
            for name, (kind, text) in zip(names, SPARK_TYPES.items(), strict=True)
        ]
        spark.range(3).coalesce(1).selectExpr(*exprs).write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (path,) = (tmp_path / "out").glob("part-*.parquet")
    fields = tuple(Field(n, kind) for n, kind in zip(names, SPARK_TYPES, strict=True))
    theirs = _spark_reads(spark, path, fields)
    assert read_native(str(path), names, fields).cast(theirs.schema).equals(theirs)


@given(
    st.lists(st.sampled_from(["a", "B", "ccc", "Été", "a.b", "x y"]), unique=True),
    st.lists(st.sampled_from(["A", "b", "CCC", "Été", "a.b", "X Y", "gone"]), unique=True),
    st.integers(0, 4),
)
def test_columns_by_name_whatever_their_case(have: list[str], want: list[str], rows: int) -> None:
    path = f"/dev/shm/spillway-test-{os.getpid()}.parquet"
    columns = {name: pa.array([i * 10 + row for row in range(rows)]) for i, name in enumerate(have)}
    pq.write_table(pa.table({"always": pa.array(range(rows)), **columns}), path)
    try:
        table = read_native(path, want, tuple(Field(name, "bigint") for name in want))
    finally:
        os.unlink(path)
    by_case = {name.lower(): values.to_pylist() for name, values in columns.items()}
    assert table.schema.names == want
    for name in want:
        assert table[name].to_pylist() == by_case.get(name.lower(), [None] * rows)


def test_missing_columns_are_null_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"other": [1, 2]}), path)
    fields = (Field("k", "bigint"), Field("d", "decimal(5,2)"))
    ours = read_native(str(path), ["k", "d"], fields)
    assert ours.equals(_spark_reads(spark, path, fields))
    assert ours.num_rows == 2


def test_int96_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    times = pa.array([1_999, -1, -1000, -1001, None], pa.int64()).cast(pa.timestamp("ns"))
    rows = pa.table({"z": times, "n": times})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    fields = (Field("z", "timestamp"), Field("n", "timestamp_ntz"))
    theirs = _spark_reads(spark, path, fields)
    assert read_native(str(path), ["z", "n"], fields).equals(theirs)


def test_nanoseconds_are_cut(tmp_path: Path) -> None:
    """Spark refuses them; pandas writes them by default, so we read them."""
    path = tmp_path / "f.parquet"
    values = pa.array([1_999, -1, None], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"ts": values}), path)
    table = read_native(str(path), ["ts"], (Field("ts", "timestamp"),))
    assert table["ts"].cast(pa.int64()).to_pylist() == [1, -1, None]


def test_stricter_than_spark(tmp_path: Path) -> None:
    """Spark would give a time's microseconds; as a key or a sum that is hardly meant."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": pa.array([AT])}), path)
    with pytest.raises(SourceError, match=r"timestamp\[us\] in the file, and bigint is declared"):
        read_native(str(path), ["c"], (Field("c", "bigint"),))


def test_values_that_do_not_fit_stop_the_query(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": pa.array([300], pa.int32())}), path)
    with pytest.raises(SourceError, match=r"column c is int32 in the file, and tinyint.*300"):
        read_native(str(path), ["c"], (Field("c", "tinyint"),))


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped", "gone", "directory"])
def test_damaged_files_are_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "bad file.parquet"
    pq.write_table(pa.table({"k": list(range(10_000))}), path)
    whole = path.read_bytes()
    middle = bytes(255 - b for b in whole[4:400])
    contents = {"empty": b"", "text": b"k,v\n1,2\n", "cut": whole[: len(whole) // 2]}
    contents["flipped"] = whole[:4] + middle + whole[400:]
    path.unlink()
    if damage in contents:
        path.write_bytes(contents[damage])
    elif damage == "directory":
        path.mkdir()
    with pytest.raises(SourceError) as caught:
        read_native(f"file:{path}", ["k"], (Field("k", "bigint"),))
    assert "bad file.parquet" in caught.value.where
    assert "start again" in caught.value.hint


def test_two_spellings_are_ambiguous(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": [1], "K": [2]}), path)
    with pytest.raises(SourceError, match="column k is ambiguous: the file has k, K"):
        read_native(str(path), ["k"], (Field("k", "bigint"),))


def test_partition_directories_that_appear_later_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "day=1" / "f.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"k": [1]}), path)
    with pytest.raises(SourceError, match="column day became a partition"):
        read_native(str(path), ["day"], (Field("day", "bigint"),))


def test_what_is_native(tmp_path: Path) -> None:
    def spec(**changes: Any) -> StreamSpec:
        base = {"name": "a", "format": "parquet", "path": str(tmp_path), "options": {}}
        return StreamSpec(**{**base, "fields": (Field("k", "decimal(38,0)"),), **changes})

    assert is_native(spec(options={"maxfilespertrigger": "1"}))
    assert is_native(spec(path=f"file://{tmp_path}"))
    assert not is_native(spec(format="json"))
    assert not is_native(spec(path="s3a://bucket/x"))
    assert not is_native(spec(options={"int96RebaseMode": "LEGACY"}))
    assert not is_native(spec(fields=(Field("k", "array<int>"),)))
    (tmp_path / "sub").mkdir()
    assert is_native(spec(path=f"{tmp_path}/*"))
    (tmp_path / "sub" / "day=1").mkdir()
    assert not is_native(spec())
    assert not is_native(spec(path=f"{tmp_path}/s*"))


@pytest.mark.parametrize("uri", ["/a b/%20", "file:/a b/%20", "file:///a b/%20"])
def test_local_path(uri: str) -> None:
    assert local_path(uri) == "/a b/%20"
