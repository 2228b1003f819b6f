"""Subqueries in FROM: UNION ALL of streams, projections and filters; and each refusal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.errors import SqlError
from engine.query.ddl import parse_schema
from engine.query.model import Field, JoinQuery, KeyPart, QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = {
    "a1": "k long, ts timestamp, v int, m decimal(10,2), d double, da date, n string",
    "a2": "key int, t timestamp, x long, m decimal(5,4), f float, n string, other timestamp",
    "a3": "k long, ts timestamp_ntz, v int",
    "b": "k int, ts timestamp, w int",
}
TIMES = {"a1": "ts", "a2": "t", "a3": "ts", "b": "ts"}


def query(sql: str, window_s: float | None = None) -> JoinQuery:
    streams = {
        name: StreamSpec(name, "parquet", "", parse_schema(text), TIMES[name])
        for name, text in SCHEMAS.items()
    }
    sink = SinkSpec("noop", "")
    spec = QuerySpec("q", sql, streams, sink, Path("c"), Path("q.toml"), window_s=window_s)
    return analyse(spec)


BOTH = """(SELECT k, ts, v FROM a1 WHERE v > 3
    UNION ALL SELECT key AS k, t AS ts, x AS v FROM a2) a"""


def test_two_streams_under_one_alias() -> None:
    found = query(f"SELECT a.k, a.v, a.ts FROM {BOTH} JOIN b ON a.k = b.k WHERE a.v < 9", 60.0)
    first = found.inputs[0]
    (second,) = first.more
    assert (first.alias, first.stream, second.alias, second.stream) == ("a", "a1", "a", "a2")
    assert first.keys == (KeyPart("`k`", "bigint", "k"),)
    assert second.keys == (KeyPart("CAST(`key` AS bigint)", "bigint", "key"),)
    assert first.payload == second.payload == (Field("v", "bigint"),)
    assert (first.exprs, second.exprs) == (("CAST(`v` AS bigint)",), ("`x`",))
    assert first.where == "(`v` > 3) AND (CAST(`v` AS bigint) < 9)" and second.where == "(`x` < 9)"
    assert (first.time, second.time) == ("ts", "t")
    assert [o.source for o in found.outputs] == ["$0", "a.v", "@a"]
    assert found.inputs[1].exprs == () and found.inputs[1].more == ()


def test_bounds_between_united_times() -> None:
    found = query(f"SELECT v FROM {BOTH} [RANGE 5 s] JOIN b ON a.k = b.k AND b.ts >= a.ts")
    assert [(b.early, b.late, b.us) for b in found.bounds] == [(0, 1, 5_000_000), (1, 0, 0)]
    assert [one.time for one in (found.inputs[0], *found.inputs[0].more)] == ["ts", "t"]


def test_times_need_not_be_selected() -> None:
    found = query("SELECT x.v FROM (SELECT k, v FROM a1) x JOIN b ON x.k = b.k", 60.0)
    assert found.inputs[0].time == "ts" and found.inputs[0].payload == (Field("v", "int"),)


def test_a_plain_projection() -> None:
    found = query(
        "SELECT x.* FROM b, (SELECT k + 1 AS kk, upper(n) || 'x' AS n, v FROM a1 one "
        "WHERE one.v > 3) AS x WHERE x.kk = b.k".replace("upper(n) || 'x'", "n || 'x'")
    )
    given = found.inputs[1]
    assert given.keys[0].expr == "(`k` + 1)" and given.keys[0].column is None
    assert [o.source for o in found.outputs] == ["$0", "x.n", "x.v"]
    assert given.exprs == ("(`n` || 'x')", "`v`") and given.where == "(`v` > 3)"
    assert given.payload == (Field("n", "string"), Field("v", "int")) and given.more == ()


def test_star_and_nested_parentheses() -> None:
    found = query(
        "SELECT x.w FROM (((SELECT * FROM b)) UNION ALL (SELECT * FROM b UNION ALL SELECT k, ts, 7 FROM b)) x "
        "JOIN a1 ON a1.k = x.k"
    )
    streams = [found.inputs[0], *found.inputs[0].more]
    assert [one.stream for one in streams] == ["b"] * 3
    assert [one.exprs for one in streams] == [(), (), ("7",)]


def test_filters_and_using_of_united_columns() -> None:
    found = query(f"SELECT k FROM {BOTH} JOIN b USING (k) WHERE a.v = a.k")
    assert found.inputs[0].where == "(`v` > 3) AND (CAST(`v` AS bigint) = `k`)"
    assert found.inputs[0].more[0].where == "(`x` = CAST(`key` AS bigint))"


JOIN = " JOIN b ON x.k = b.k"
REFUSED = [
    (
        "(SELECT k FROM a1 UNION SELECT k FROM b) x",
        "UNION without ALL is not supported\n  write UNION ALL",
    ),
    ("(SELECT k FROM a1 INTERSECT SELECT k FROM b) x", "INTERSECT in FROM is not supported"),
    ("(SELECT k FROM a1 EXCEPT SELECT k FROM b) x", "EXCEPT in FROM is not supported"),
    (
        "(SELECT k FROM a1 UNION ALL SELECT k FROM b LIMIT 3) x",
        "LIMIT of a UNION ALL is not supported|LIMIT is not",
    ),
    (
        "(SELECT k FROM a1 UNION ALL SELECT k, w FROM b) x",
        r"line 1 column 52: this SELECT of a UNION ALL has 2 columns, the first 1\n  give all the same",
    ),
    (
        "(SELECT k FROM a1 UNION ALL SELECT n FROM a1) x",
        "column 25: column `k` of a UNION ALL is bigint and string: bigint and string have no common type",
    ),
    (
        "(SELECT k, ts FROM a1 UNION ALL SELECT k, ts FROM a3) x",
        "column `ts` of a UNION ALL is timestamp and timestamp_ntz: .* do not mix",
    ),
    (
        "(SELECT k, md5(n) AS h FROM a1) x",
        "column 25: the type of `md5.n.?` is not known\n  CAST it|the type of",
    ),
    ("(SELECT k, NULL AS h FROM a1) x", r"NULL alone has no type\n  write CAST"),
    ("(SELECT k, INTERVAL 1 DAY AS h FROM a1) x", "the type of .* is not known"),
    ("(SELECT k, k FROM a1) x", "two output columns are named `k`"),
    ("(SELECT k + 1 FROM a1) x", "needs a name"),
    ("(SELECT k FROM a1)", "a subquery in FROM needs a name"),
    ("(SELECT k FROM a1) `x y`", "alias `x y` is not a plain name"),
    ("(SELECT k FROM a1) x(y)", r"aliases for columns, as in t\(x, y\), are not supported"),
    (
        "(SELECT a1.k FROM a1 JOIN a2 ON a1.k = a2.key) x",
        "column 43: a join within a subquery is not supported",
    ),
    ("(SELECT k FROM (SELECT k FROM a1) y) x", "a subquery within a subquery is not supported"),
    ("(SELECT DISTINCT k FROM a1) x", "DISTINCT is not supported"),
    ("(SELECT k FROM a1 GROUP BY k) x", "GROUP BY is not supported"),
    (
        "(SELECT count(*) AS k FROM a1) x",
        r"aggregate function count is not supported|\* inside an expression",
    ),
    ("(SELECT k FROM nope) x", "column 32: there is no stream `nope`"),
    ("(SELECT kk FROM a1) x", "column `kk` is not in stream|column `kk` is not in any stream"),
    ("(SELECT k FROM a1 WHERE n) x", "WHERE needs a boolean"),
    (
        "(SELECT k FROM a1 [RANGE 1 min]) x",
        r"`\[RANGE 1 min\]` does not stand behind a stream in FROM",
    ),
    (
        "(SELECT k, ts FROM a1 UNION ALL SELECT key, other FROM a2) x JOIN b y ON x.k = y.k AND x.ts <= y.ts",
        r"`x.ts` is not the event time of stream a2\n  its `time` is t",
    ),
    ("(VALUES (1)) x", "not supported"),
    ("(a1 JOIN b ON a1.k = b.k) x", "a join in parentheses is not supported|cannot be parsed"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        query(f"SELECT b.w FROM {text}{JOIN}")
    assert caught.value.where.startswith("q.toml: sql line ")


def test_too_many_branches() -> None:
    union = " UNION ALL ".join(["SELECT k FROM a1"] * 17)
    with pytest.raises(SqlError, match="UNION ALL of 17 SELECTs; the limit is 16"):
        query(f"SELECT b.w FROM ({union}) x{JOIN}")


def test_united_times_of_two_kinds_do_not_mix() -> None:
    sql = f"SELECT b.w FROM (SELECT k, v FROM a1 UNION ALL SELECT k, v FROM a3) x{JOIN}"
    with pytest.raises(
        SqlError, match=r"the times of a1 \(timestamp\) and a3 \(timestamp_ntz\) do not mix"
    ):
        query(sql.replace("x JOIN", "x [NOW] JOIN"))
    assert query(sql).bounds == ()


PAIRS = [
    ("k", "x"),
    ("v", "x"),
    ("k", "key"),
    ("m", "m"),
    ("v", "m"),
    ("m", "x"),
    ("d", "f"),
    ("v", "f"),
    ("d", "m"),
    ("da", "t"),
    ("n", "n"),
    ("NULL", "x"),
    ("v", "NULL"),
    ("1", "x"),
    ("1.5", "key"),
]


def test_types_of_a_union_are_sparks(spark: SparkSession) -> None:
    for name in ("a1", "a2"):
        spark.createDataFrame([], SCHEMAS[name]).createOrReplaceTempView(name)
    wrong = []
    for one, other in PAIRS:
        union = f"(SELECT k AS kk, {one} AS c FROM a1 UNION ALL SELECT key, {other} FROM a2) x"
        ours = query(f"SELECT x.c FROM {union} JOIN b ON x.kk = b.k").outputs[0].type
        theirs = spark.sql(f"SELECT x.c FROM {union}").schema.fields[0].dataType.simpleString()
        if ours != theirs:
            wrong.append((one, other, ours, theirs))
    assert not wrong
