"""Parquet files of other tools: whole queries over them against DuckDB's batch join, and what is refused before
Spark starts. How the files were made is in foreign/README.md."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands import check
from engine.errors import SourceError
from engine.footers import FILES_MAX
from engine.query.ddl import parse_type
from engine.query.file import read_query
from engine.query.paths import Roots
from engine.query.types import arrow_type
from engine.registry import NotAQuery
from engine.registry import check as check_text
from engine.runner import QueryRun
from engine.settings import Settings
from engine.sources.parquet_types import fits, fits_spark
from tests.engine.sources.native_shared import AGREE, REFUSED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOREIGN = Path(__file__).parent / "foreign"
# `o` and `p` are read by our reader, `s` by Spark's, as it is filtered and has a list.
SQL = """
SELECT o.id, o.word, o.kind, o.raw, o.u8, o.u16, o.u32, o.at, o.day, o.price, o.ok,
       p.amount, p.payer, p.ns, s.word AS word_s, s.kind AS kind_s, s.raw AS raw_s, s.u8 AS u8_s,
       s.u16 AS u16_s, s.u32 AS u32_s, s.at AS at_s, s.day AS day_s, s.price AS price_s, s.tags
FROM orders o JOIN payments p ON o.id = p.bill JOIN (SELECT * FROM orders WHERE id < 4000) s ON s.id = o.id
"""
PAYMENTS = "bill int, amount double, payer string, ns timestamp_ntz"
ORDERS_BY_HAND = """
SELECT id, word, kind, raw, tags, u8, u16, u32, "at", day, price, ok FROM (VALUES
 (0, 'a',     'x', 'a',  ['p', 'q'], 0,    0,     0,          TIMESTAMP '2026-01-01 12:00:00.000001', true),
 (1, '',      'y', '',   [],         255,  65535, 4294967295, TIMESTAMP '1969-12-31 23:59:59.999999', false),
 (2, 'naïve', 'x', NULL, NULL,       NULL, NULL,  NULL,       NULL,                                   NULL),
 (3, '日本',  NULL, 'b', [NULL, 's'], 7,   8,     9,          TIMESTAMP '2026-01-01 12:00:00',        true))
 t(id, word, kind, raw, tags, u8, u16, u32, "at", ok), (SELECT DATE '2026-02-03' AS day, 1.25 AS price)
"""


def _by_duckdb(folder: Path, spark: SparkSession) -> None:
    con = duckdb.connect()
    con.execute("CREATE TYPE kinds AS ENUM ('x', 'y')")
    con.execute(
        f"""COPY (SELECT id::UINTEGER AS id, word, kind::kinds AS kind, raw::BLOB AS raw, tags,
            u8::UTINYINT AS u8, u16::USMALLINT AS u16, u32::UINTEGER AS u32, "at", day,
            price::DECIMAL(10,2) AS price, ok FROM ({ORDERS_BY_HAND}))
            TO '{folder}/orders/1.parquet'"""
    )
    con.execute(
        f"""COPY (SELECT id::USMALLINT AS bill, id + 0.5::DOUBLE AS amount, word::VARCHAR AS payer,
            "at"::TIMESTAMP_NS AS ns FROM ({ORDERS_BY_HAND})) TO '{folder}/payments/1.parquet'"""
    )


def _by_spark(folder: Path, spark: SparkSession) -> None:
    """Spark has no unsigned types; the others are its own."""
    rows = duckdb.sql(ORDERS_BY_HAND).to_arrow_table()
    kinds = (
        "id int, word string, kind string, raw binary, tags array<string>, u8 smallint, u16 int, "
    )
    kinds += "u32 bigint, at timestamp_ntz, day date, price decimal(10,2), ok boolean"
    pairs = [part.rsplit(" ", 1) for part in kinds.split(", ")]
    schema = pa.schema([(name, arrow_type(str(parse_type(kind)))) for name, kind in pairs])
    orders = spark.createDataFrame(rows.cast(schema), kinds).coalesce(1)
    orders.write.mode("append").parquet(str(folder / "orders"))
    bills = orders.selectExpr("id AS bill", "id + 0.5D AS amount", "word AS payer", "at AS ns")
    bills.write.mode("append").parquet(str(folder / "payments"))


def _copied(tool: str) -> Callable[[Path, SparkSession], None]:
    def copy(folder: Path, spark: SparkSession) -> None:
        for stream in ("orders", "payments"):
            shutil.copy(FOREIGN / tool / f"{stream}.parquet", folder / stream)

    return copy


MAKERS = {
    "polars": _copied("polars"),
    "pandas": _copied("pandas"),
    "duckdb": _by_duckdb,
    "spark": _by_spark,
}


def _write_query(folder: Path, sql: str, schemas: dict[str, str], name: str = "foreign") -> Path:
    text = [f'name = "{name}"\nsql = """{sql}"""\ncheckpoint = "cp"']
    for stream, schema in schemas.items():
        (folder / stream).mkdir(exist_ok=True)
        text.append(f'[streams.{stream}]\nformat = "parquet"\npath = "{stream}"')
        text += [f'schema = "{schema}"'] if schema else []
    text.append('[sink]\nformat = "parquet"\npath = "out"\n')
    (folder / "q.toml").write_text("\n".join(text))
    return folder / "q.toml"


def _agrees_with_duckdb(folder: Path, sql: str, streams: tuple[str, ...]) -> int:
    QueryRun(read_query(folder / "q.toml"), Settings.load({}), (), once=True).run(None)
    con = duckdb.connect()
    for stream in streams:
        con.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder}/{stream}/*.parquet')")
    con.execute(f"CREATE TABLE want AS {sql}")
    con.execute(f"CREATE TABLE got AS FROM read_parquet('{folder}/out/*.parquet')")
    assert con.execute("FROM want EXCEPT ALL FROM got").fetchall() == []
    assert con.execute("FROM got EXCEPT ALL FROM want").fetchall() == []
    return len(con.execute("FROM got").fetchall())


@pytest.mark.parametrize("tool", MAKERS)
def test_a_query_over_files_of(tool: str, spark: SparkSession, tmp_path: Path) -> None:
    file = _write_query(tmp_path, SQL, {"orders": "id long", "payments": PAYMENTS})
    MAKERS[tool](tmp_path, spark)
    _write_query(
        tmp_path, SQL, {"orders": "", "payments": PAYMENTS}
    )  # columns of orders: as the files say
    kinds = {field.name: field.type for field in read_query(file).streams["orders"].fields}
    assert (kinds["u8"], kinds["u16"], kinds["u32"]) == ("smallint", "int", "bigint")
    assert (kinds["word"], kinds["kind"], kinds["raw"]) == ("string", "string", "binary")
    assert kinds["tags"] == "array<string>"
    assert _agrees_with_duckdb(tmp_path, SQL, ("orders", "payments")) >= 4


def test_a_query_over_files_of_arrow_rs(spark: SparkSession, tmp_path: Path) -> None:
    sql = """SELECT n.n_name, n.n_comment, r.r_name, s.s_name, s.s_acctbal, s.s_comment FROM nation n
        JOIN region r ON n.n_regionkey = r.r_regionkey
        JOIN (SELECT * FROM supplier WHERE s_acctbal > 0) s ON s.s_nationkey = n.n_nationkey"""
    nation = "n_nationkey int, n_name string, n_regionkey long, n_comment string"
    schemas = {
        "nation": nation.replace("n_nationkey int", "n_nationkey long"),
        "region": "",
        "supplier": "",
    }
    _write_query(tmp_path, sql, schemas)
    for stream in schemas:
        shutil.copy(FOREIGN / "tpchgen-cli" / f"{stream}.parquet", tmp_path / stream)
    held = {str(f.type) for f in pq.read_schema(tmp_path / "nation" / "nation.parquet")}
    assert "string_view" in held
    assert _agrees_with_duckdb(tmp_path, sql, tuple(schemas)) > 3


# -- what is refused, before Spark starts ------------------------------------------------------------

NATIVE = "SELECT a.c FROM a JOIN b ON a.k = b.k"
BY_SPARK = "SELECT a.c FROM a JOIN b ON a.k = b.k WHERE a.k > 0"
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 6)
# The type in the file, its values, the declared type, and what is to be written instead.
UNREADABLE: list[tuple[pa.DataType, list[Any], str, str]] = [
    (pa.string_view(), ["1"], "bigint", "write `c string`"),
    (pa.large_string(), ["1"], "timestamp", "write `c string`"),
    (pa.dictionary(pa.int8(), pa.string()), ["1"], "int", "write `c string`"),
    (pa.binary_view(), [b"1"], "int", "write `c binary`"),
    (pa.uint32(), [2**32 - 1], "int", "write `c bigint`"),
    (pa.uint32(), [2**32 - 1], "double", "write `c bigint`"),
    (pa.uint64(), [2**64 - 1], "bigint", "write `c decimal(20,0)`"),
    (pa.int64(), [1], "int", "write `c bigint`"),
    (pa.float64(), [1.5], "float", "write `c double`"),
    (pa.decimal128(7, 2), [1], "decimal(7,1)", "write `c decimal(7,2)`"),
    (pa.timestamp("us"), [AT], "date", "write `c timestamp_ntz`"),
    (pa.time64("us"), [AT.time()], "string", "leave it out"),
    (pa.list_(pa.int32()), [[1]], "int", "write `c array<int>`"),
]
NESTED: list[tuple[pa.DataType, list[Any], str, str]] = [
    (pa.large_list(pa.uint32()), [[1]], "array<int>", "write `c array<bigint>`"),
    (pa.list_(pa.string_view()), [["x"]], "array<int>", "write `c array<string>`"),
    (pa.struct([("x", pa.int64())]), [{"x": 1}], "struct<x:string>", "write `c struct<x:bigint>`"),
    (pa.int32(), [1], "array<int>", "write `c int`"),
    (
        pa.timestamp("ns"),
        [AT],
        "timestamp_ntz",
        "which cuts nanoseconds; a stream that is filtered",
    ),
    (pa.null(), [None], "string", "the file has no value in it"),
]
CASES = [
    *((sql, *case) for case in UNREADABLE for sql in (NATIVE, BY_SPARK)),
    *((BY_SPARK, *case) for case in NESTED),
]


def _refusable(folder: Path, sql: str, kind: pa.DataType, values: list[Any], declared: str) -> Path:
    file = _write_query(folder, sql, {"a": f"k long, c {declared}", "b": "k long"})
    table = pa.table({"k": pa.array([1]), "c": pa.array(values, kind)})
    pq.write_table(table, folder / "a" / "2.parquet")
    return file


@pytest.mark.parametrize(("sql", "kind", "values", "declared", "hint"), CASES)
def test_types_are_refused_before_spark_starts(
    sql: str,
    kind: pa.DataType,
    values: list[Any],
    declared: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = _refusable(tmp_path, sql, kind, values, declared)
    assert check([file]) == 2
    said = capsys.readouterr().err
    have = pq.read_schema(tmp_path / "a" / "2.parquet").field("c").type
    assert (
        f"{tmp_path}/a/2.parquet: column c is {have} in the file, and {declared} is declared"
        in said
    )
    assert hint in said

    def session() -> SparkSession:
        raise AssertionError("Spark was asked for")

    with pytest.raises(SourceError, match="column c is"):
        QueryRun(read_query(file), Settings.load({}), (), once=True).serve(session)
    assert not (tmp_path / "cp").exists()


def test_what_the_query_does_not_read_may_be_of_any_type(tmp_path: Path) -> None:
    for sql in (NATIVE, BY_SPARK):
        file = _refusable(tmp_path, sql.replace("a.c", "a.k"), pa.string_view(), ["x"], "int")
        assert check([file]) == 0


def test_a_registered_query_is_refused_too(tmp_path: Path) -> None:
    file = _refusable(tmp_path, NATIVE, pa.uint32(), [1], "int")
    text = file.read_text()
    for stream in "ab":
        text = text.replace(f'path = "{stream}"', f'path = "{tmp_path}/{stream}"')
    with pytest.raises(NotAQuery, match="column c is uint32 in the file, and int is declared"):
        check_text(text, tmp_path / "data", Roots([tmp_path], []))


def test_only_the_streams_own_files_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as a limit, the first and the last by name; damaged ones are for the reading to name."""
    file = _refusable(tmp_path, NATIVE, pa.string_view(), ["x"], "string")
    other = pa.table({"k": [1], "c": [1.5]})
    for name in ("_2.parquet", "day.csv", ".3.parquet"):
        pq.write_table(other, tmp_path / "a" / name)
    (tmp_path / "a" / "0.parquet").write_bytes(b"PAR1, but cut")
    text = file.read_text()
    file.write_text(
        text.replace('path = "a"', 'path = "a"\noptions = { pathGlobFilter = "*.parquet" }')
    )
    assert check([file]) == 0
    file.write_text(text)
    assert check([file]) == 2
    assert "day.csv: column c is double" in capsys.readouterr().err
    (tmp_path / "a" / "day.csv").unlink()
    good = pa.table({"k": [1], "c": ["x"]})
    for n in range(FILES_MAX):
        pq.write_table(other if n == FILES_MAX - 1 else good, tmp_path / "a" / f"3{n:03d}.parquet")
    assert check([file]) == 2


def test_a_schema_is_proposed_where_none_can_be_taken_from_the_file(tmp_path: Path) -> None:
    file = _write_query(tmp_path, "SELECT o.id FROM orders o", {"orders": ""})
    shutil.copy(FOREIGN / "polars" / "payments.parquet", tmp_path / "orders")
    with pytest.raises(SourceError, match=r"column `ns` of .*timestamp\[ns\]") as caught:
        read_query(file)
    assert caught.value.hint == (
        'declare the columns: schema = "bill int, amount double, payer string, ns timestamp_ntz"'
    )


# -- the tables of types against the readers' own tests ------------------------------------------------


@pytest.mark.parametrize("case", AGREE, ids=lambda case: f"{case[0]} as {case[2]}")
def test_what_both_readers_agree_on_fits_both(case: tuple[pa.DataType, list[Any], str]) -> None:
    kind, _, declared = case
    assert fits(kind, declared) and fits_spark(kind, declared)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} as {case[2]}")
def test_what_both_readers_refuse_fits_neither(case: tuple[pa.DataType, list[Any], str]) -> None:
    kind, _, declared = case
    assert not fits(kind, declared) and not fits_spark(kind, declared)


def test_small_numbers_are_not_cut_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet keeps them in 32 bits, of which Spark's reader would take the last eight."""
    small = "k long, c tinyint, d smallint"
    file = _write_query(tmp_path, BY_SPARK.replace("a.c", "a.c, a.d"), {"a": small, "b": "k long"})
    rows = {"k": pa.array([1]), "c": pa.array([-7], pa.int32()), "d": pa.array([300], pa.uint16())}
    pq.write_table(pa.table(rows), tmp_path / "a" / "1.parquet")
    pq.write_table(pa.table({"k": [1]}), tmp_path / "b" / "1.parquet")
    spec = read_query(file)
    QueryRun(spec, Settings.load({}), (), once=True).run(None)
    (result,) = (pq.read_table(path).to_pylist() for path in Path(spec.sink.path).glob("*.parquet"))
    assert result == [{"c": -7, "d": 300}]
    rows = {**rows, "c": pa.array([255], pa.uint8())}
    pq.write_table(pa.table(rows), tmp_path / "a" / "2.parquet")
    with pytest.raises(Exception, match=r"CAST_OVERFLOW|cannot be cast"):
        QueryRun(replace(spec), Settings.load({}), (), once=True).run(None)
