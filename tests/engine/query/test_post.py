"""Evaluation over joined rows: plain columns, expressions, filters, types and errors."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.errors import SpillwayError
from engine.query.model import JoinInput, JoinQuery, KeyPart, OutputColumn
from engine.query.post import connection, evaluate, output_schema

INPUT = JoinInput("a", "a", (KeyPart("`k`", "bigint", "k"),), ())
TABLE = pa.table({"$0": pa.array([1, 2, None], pa.int64()), "a.x y": pa.array(["p", None, 'q"'])})


def query(*outputs: OutputColumn, where: str | None = None) -> JoinQuery:
    return JoinQuery((INPUT, INPUT), outputs, where)


def test_plain_columns_are_not_copied() -> None:
    found = evaluate(
        TABLE, query(OutputColumn("n", "string", "a.x y"), OutputColumn("k", "bigint", "$0"))
    )
    assert found.column_names == ["n", "k"]
    assert found["k"].chunk(0).buffers()[1].address == TABLE["$0"].chunk(0).buffers()[1].address


def test_filter_and_expression() -> None:
    found = evaluate(
        TABLE,
        query(
            OutputColumn('a "b', "decimal(10,2)", expr='"$0" * 1.5'),
            OutputColumn("n", "string", "a.x y"),
            where='"$0" < 2',
        ),
    )
    assert found.to_pylist() == [{'a "b': Decimal("1.50"), "n": "p"}]


def test_expressions_stand_beside_plain_columns_row_by_row() -> None:
    numbers = pa.chunked_array([list(range(n * 100_000, (n + 1) * 100_000)) for n in range(4)])
    found = evaluate(
        pa.table({"$0": numbers}),
        query(
            OutputColumn("k", "bigint", "$0"),
            OutputColumn("twice", "bigint", expr='"$0" * 2'),
            OutputColumn("again", "bigint", "$0"),
        ),
    )
    assert found.column_names == ["k", "twice", "again"]
    assert pc.all(pc.equal(pc.multiply(found["k"], 2), found["twice"])).as_py()


def test_exact_types() -> None:
    kinds = [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(38,4)",
        "string",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
        "binary",
    ]
    asked = query(
        *(
            OutputColumn(f"c{n}", kind, expr=f"CAST(NULL AS {_duck(kind)})")
            for n, kind in enumerate(kinds)
        )
    )
    assert evaluate(TABLE, asked).schema == output_schema(asked)
    assert evaluate(TABLE.slice(0, 0), asked).schema == output_schema(asked)


def _duck(kind: str) -> str:
    return {
        "string": "VARCHAR",
        "timestamp": "TIMESTAMPTZ",
        "timestamp_ntz": "TIMESTAMP",
        "binary": "BLOB",
    }.get(kind, kind)


def test_failure_names_the_column() -> None:
    good = OutputColumn("good", "bigint", expr='"$0" + 1')
    bad = OutputColumn("bad", "bigint", expr='"$0" * 9223372036854775807 * 3')
    with pytest.raises(SpillwayError, match=r"cannot compute column `bad` .*: .*[Oo]verflow"):
        evaluate(TABLE, query(good, bad))


def test_failure_names_where() -> None:
    with pytest.raises(SpillwayError, match="cannot compute WHERE"):
        evaluate(TABLE, query(OutputColumn("k", "bigint", "$0"), where="error('no')::boolean"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET threads = 4",
        "SET enable_external_access = true",
    ],
)
def test_duckdb_is_closed(sql: str) -> None:
    with pytest.raises(duckdb.Error):
        connection().execute(sql)
