"""Types: DDL in, canonical spelling out; Arrow and back; common key types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.query.ddl import DataType, DdlError, parse_schema, parse_type
from engine.query.model import Field
from engine.query.types import (
    NoSuchType,
    arrow_type,
    common_key_type,
    key_refusal,
    spark_type,
)

FLAT = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
decimals = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: DataType("decimal", params=(p, s)))
)
flat = st.sampled_from(FLAT).map(DataType) | decimals
names = st.text(min_size=1, max_size=5).filter(lambda t: t.isprintable())


def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    pairs = st.lists(st.tuples(names, inner), min_size=1, max_size=3)
    return (
        inner.map(lambda t: DataType("array", children=(t,)))
        | st.tuples(flat, inner).map(lambda p: DataType("map", children=p))
        | pairs.map(
            lambda p: DataType(
                "struct", children=tuple(t for _, t in p), names=tuple(n for n, _ in p)
            )
        )
    )


@given(st.recursive(flat, nested, max_leaves=6))
def test_spelling_reads_back(kind: DataType) -> None:
    assert parse_type(str(kind)) == kind


@given(st.recursive(flat, nested, max_leaves=6))
def test_arrow_and_back(kind: DataType) -> None:
    assert spark_type(arrow_type(str(kind))) == str(kind)


def test_schema_spellings() -> None:
    text = """k LONG NOT NULL, `a b` Decimal(5, 2) COMMENT 'x, y', s: struct<x int, y:array<string>>,
              m map<string,byte>, n numeric, c string collate utf8_binary"""
    assert parse_schema(text) == (
        Field("k", "bigint"),
        Field("a b", "decimal(5,2)"),
        Field("s", "struct<x:int,y:array<string>>"),
        Field("m", "map<string,tinyint>"),
        Field("n", "decimal(10,0)"),
        Field("c", "string"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k varchar(3)", "unknown type `varchar`; write string"),
        ("k int v int", "expected `,` or the end"),
        ("", "expected a column name, got the end"),
        ("k int,", "expected a column name"),
        ("k array<int", "expected `>` after `array<…`"),
        ("k int; drop", "cannot read ';"),
        ("k decimal(5,6)", "out of range"),
        ("k decimal(x)", "expected a number, got `x`"),
    ],
)
def test_bad_schemas(text: str, message: str) -> None:
    with pytest.raises(DdlError, match=message):
        parse_schema(text)


@given(st.text(max_size=60))
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    try:
        assert parse_schema(text)
    except DdlError:
        pass


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("int", "bigint", "tinyint"), "bigint"),
        (("int", "int"), "int"),
        (("decimal(10,2)", "decimal(5,4)"), "decimal(12,4)"),
        (("int", "decimal(10,2)"), "decimal(12,2)"),
        (("date", "timestamp"), "timestamp"),
        (("bigint", "decimal(3,1)"), "decimal(21,1)"),
    ],
)
def test_common_key_type(kinds: tuple[str, ...], expected: str) -> None:
    assert common_key_type(kinds) == expected


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (("int", "string"), "int and string have no common type; CAST"),
        (("timestamp", "timestamp_ntz"), "no common type"),
        (("date", "timestamp_ntz"), "no common type"),
        (
            ("decimal(38,0)", "decimal(38,10)"),
            r"need decimal\(48,10\), and 38 digits are the limit",
        ),
    ],
)
def test_no_common_key_type(kinds: tuple[str, ...], message: str) -> None:
    with pytest.raises(NoSuchType, match=message):
        common_key_type(kinds)


@pytest.mark.parametrize(
    "kind",
    [
        "float",
        "double",
        "array<int>",
        "map<int,int>",
        "struct<a:int>",
        "variant",
        "string collate UTF8_LCASE",
    ],
)
def test_refused_keys(kind: str) -> None:
    assert "cannot be a join key" in (key_refusal(kind) or "")


@pytest.mark.parametrize(
    "kind", [k for k in FLAT if k not in ("float", "double")] + ["decimal(38,9)"]
)
def test_allowed_keys(kind: str) -> None:
    assert key_refusal(kind) is None


def test_arrow_types_without_counterpart() -> None:
    for kind in (pa.time32("s"), pa.timestamp("ns"), pa.duration("s"), pa.float16()):
        with pytest.raises(NoSuchType, match="no counterpart in Spark"):
            spark_type(kind)
    with pytest.raises(NoSuchType, match="variant is not supported"):
        arrow_type("variant")
