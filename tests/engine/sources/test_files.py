"""Streams opened in Spark: the generator's and files' rows arrive, once, and errors are clear."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from engine.errors import SourceError, decode
from engine.query.model import Field, StreamSpec
from engine.sources.files import open_file_list, open_stream
from engine.sources.generator import batch, default_fields, stream_seed
from engine.sources.native import read_native

K_V = (Field("k", "bigint"), Field("v", "string"))


def _generated(**options: str) -> StreamSpec:
    return StreamSpec("prices", "generator", "", default_fields(options), options=options)


def _files(path: Path, kind: str = "parquet", **options: str) -> StreamSpec:
    return StreamSpec("a", kind, str(path), K_V, options=options)


def _run(frame: DataFrame, checkpoint: Path) -> list[pa.Table]:
    """All that is there, one table a tick."""
    ticks: list[pa.Table] = []

    def each(rows: DataFrame, _: int) -> None:
        ticks.append(rows.toArrow())

    writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return ticks


@pytest.mark.parametrize("preset", ["plain", "prices", "volumes", "reviews"])
def test_the_generators_rows_arrive_in_limited_ticks(
    spark: SparkSession, tmp_path: Path, preset: str
) -> None:
    options = {"preset": preset, "rows": "2500", "rows_per_tick": "1000", "keys": "100"}
    ticks = _run(open_stream(spark, _generated(**options)), tmp_path)
    assert [tick.num_rows for tick in ticks] == [1000, 1000, 500]
    expected = pa.Table.from_batches([batch(options, stream_seed("prices"), 0, 2500)])
    rows = pa.concat_tables(ticks)
    assert rows.cast(expected.schema).equals(expected)


def test_the_generator_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    columns = (Field("v", "bigint"), Field("k", "bigint"))
    for rows, start in ((1000, 0), (1800, 1000)):
        options = {"rows": str(rows), "tuple_range": "90", "join_ratio": "3"}
        stream = StreamSpec("a", "generator", "", columns, options=options)
        (tick,) = _run(open_stream(spark, stream), tmp_path)
        assert tick.schema.names == ["v", "k"]
        assert tick["v"].to_pylist() == list(range(start, rows))


def test_an_endless_generator_cannot_run_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:
        _run(open_stream(spark, _generated()), tmp_path)
    error = decode(str(caught.value))
    assert isinstance(error, SourceError)
    assert "set rows" in error.hint


def test_generated_columns_are_as_declared(spark: SparkSession) -> None:
    stream = StreamSpec("a", "generator", "", (Field("k", "string"),))
    with pytest.raises(SourceError, match=r"no column k of type string.*\n.*k bigint"):
        open_stream(spark, stream)


def _write_files(folder: Path, count: int = 5) -> None:
    folder.mkdir(exist_ok=True)
    for i in range(count):
        rows = pa.table({"K": [10 * i, 10 * i + 1], "v": [f"{i}", None], "w": [0.5, 1.5]})
        pq.write_table(rows, folder / f"part {i}%20+ä.parquet")
        os.utime(folder / f"part {i}%20+ä.parquet", (1_000_000 + i, 1_000_000 + i))
    for ignored in ("_temporary.parquet", ".hidden.parquet"):
        (folder / ignored).write_bytes(b"not parquet")


@pytest.mark.parametrize(
    "options", [{}, {"maxFilesPerTrigger": "2"}, {"pathGlobFilter": "*[13]%*"}]
)
def test_native_reading_sees_what_sparks_source_sees(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    """Tick by tick: Spark's Parquet source against paths from Spark and files read by us."""
    _write_files(tmp_path / "in")
    stream = _files(tmp_path / "in", **options)
    theirs = _run(open_stream(spark, stream), tmp_path / "one")
    lists = _run(open_file_list(spark, stream), tmp_path / "two")
    ours = [
        pa.concat_tables(read_native(path, ["k", "v"], K_V) for path in tick["path"].to_pylist())
        for tick in lists
    ]
    assert [_sorted(tick) for tick in ours] == [_sorted(tick) for tick in theirs]
    assert len(ours) == (3 if "maxFilesPerTrigger" in options else 1)
    pq.write_table(pa.table({"k": [99], "v": ["late"]}), tmp_path / "in" / "late1%.parquet")
    (late,) = _run(open_file_list(spark, stream), tmp_path / "two")
    assert len(late) == 1


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["k"])


def test_json_and_csv(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "c").mkdir()
    (tmp_path / "j" / "a.json").write_text('{"k": 1, "v": "x", "w": 2}\n{"k": 2}\n')
    (tmp_path / "c" / "a.csv").write_text("k,v\n1,x\n2,\n")
    want = [{"k": 1, "v": "x"}, {"k": 2, "v": None}]
    for kind, options in (("json", {}), ("csv", {"header": "true"})):
        stream = _files(tmp_path / kind[0], kind, **options)
        (tick,) = _run(open_stream(spark, stream), tmp_path / f"{kind}.state")
        assert tick.to_pylist() == want


@pytest.mark.parametrize(
    ("kind", "text"), [("json", '{"k": "one"}\n'), ("json", "{broken\n"), ("csv", "one,x\n")]
)
def test_text_that_cannot_be_read_stops_the_query(
    spark: SparkSession, tmp_path: Path, kind: str, text: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"bad.{kind}").write_text(text)
    with pytest.raises(Exception, match=rf"(?s)bad\.{kind}|MALFORMED"):
        _run(open_stream(spark, _files(tmp_path / "in", kind)), tmp_path / "state")


def test_paths_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"stream a: .*nowhere does not exist"):
        open_stream(spark, _files(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match="does not exist"):
        open_file_list(spark, _files(tmp_path / "no*"))
    with pytest.raises(SourceError, match='format "jdbc" is not supported'):
        open_stream(spark, _files(tmp_path, "jdbc"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    with pytest.raises(SourceError, match=r"no permission to read .*closed"):
        open_stream(spark, _files(closed))
