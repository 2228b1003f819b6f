"""Window functions in SELECT: what they become, Spark's types, and every refusal by its words and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SpillwayError
from engine.plan.build import build_plan
from engine.plan.show import render
from engine.query.ddl import parse_schema
from engine.query.model import Aggregate, Field, Frame, JoinQuery, QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

SCHEMAS = {
    "a": "k bigint, g string, ts timestamp, at timestamp, v int, w double, m decimal(10,2), x float, big decimal(35,1), "
    "arr array<int>, y boolean",
    "b": "k bigint, ts timestamp, u bigint",
    "c": "k bigint, ts timestamp, u bigint",
}
W = "(PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"


def query(sql: str, *, window_s: float | None = None, time: str | None = "ts") -> JoinQuery:
    streams = {
        name: StreamSpec(name, "parquet", "", parse_schema(text), time)
        for name, text in SCHEMAS.items()
    }
    sink = SinkSpec("noop", "")
    return analyse(QuerySpec("q", sql, streams, sink, Path("c"), Path("q.toml"), window_s=window_s))


def refused(sql: str, **more: object) -> str:
    with pytest.raises(SpillwayError) as found:
        query(sql, **more)  # type: ignore[arg-type]
    return f"{found.value.where} {found.value.what} | {found.value.hint}"


def test_one_stream() -> None:
    found = query(
        "SELECT k, ts, v, avg(v) OVER w AS m, count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN "
        "INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW) AS n FROM a WHERE v > 0 "
        "WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
    )
    assert found.group is not None
    assert found.group.key == (Field("$0", "bigint"),)
    assert (found.group.time, found.group.order) == ("@a", ("#a",))
    assert found.group.aggregates == (
        Aggregate("~0", "avg", "a.v", Frame(rows=9), "double"),
        Aggregate("~1", "count", None, Frame(us=60_000_000), "bigint"),
    )
    (given,) = found.inputs
    assert given.ordered and given.nullable and given.time == "ts" and given.where == "(`v` > 0)"
    assert [f.name for f in given.payload] == ["v"]
    assert [(o.name, o.source or o.expr) for o in found.outputs] == [
        ("k", "$0"),
        ("ts", "@a"),
        ("v", "a.v"),
        ("m", "~0"),
        ("n", "~1"),
    ]


def test_over_a_join_with_expressions() -> None:
    found = query(
        "SELECT a.k, sum(a.v + b.u) OVER (PARTITION BY a.g ORDER BY b.ts ROWS 3 PRECEDING) / 2 AS h "
        "FROM a JOIN b ON a.k = b.k WHERE a.v < b.u",
        window_s=10,
    )
    assert found.group is not None
    assert found.group.key == (Field("a.g", "string"),)
    assert (found.group.time, found.group.order) == ("@b", ("@a", "#a", "#b"))
    assert found.group.arguments[0].type == "bigint"
    assert found.group.aggregates[0].argument == found.group.arguments[0].name
    assert found.outputs[1].type == "double"
    assert all(
        given.ordered and not given.nullable and given.time == "ts" for given in found.inputs
    )
    assert found.where is not None


def test_a_key_that_is_the_joins_key() -> None:
    found = query(
        "SELECT a.k, count(*) OVER (PARTITION BY b.k ORDER BY a.ts RANGE CURRENT ROW) AS n "
        "FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts"
    )
    assert found.group is not None and found.group.key == (Field("$0", "bigint"),)
    assert found.group.aggregates[0].frame == Frame(us=0)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("count(g)", "bigint"), ("sum(v)", "bigint"), ("sum(w)", "double"), ("sum(x)", "double"),
        ("sum(m)", "decimal(20,2)"), ("sum(big)", "decimal(38,1)"), ("avg(v)", "double"), ("mean(x)", "double"),
        ("stddev(v)", "double"), ("std(w)", "double"), ("stddev_pop(v)", "double"), ("variance(v)", "double"),
        ("min(g)", "string"), ("max(m)", "decimal(10,2)"), ("min(ts)", "timestamp"), ("max(y)", "boolean"),
        ("avg(CAST(m AS double))", "double"),
    ],
)  # fmt: skip
def test_types_are_sparks(call: str, kind: str) -> None:
    assert query(f"SELECT {call} OVER {W} AS r FROM a").outputs[0].type == kind


FRAME = "SELECT sum(v) OVER (PARTITION BY k ORDER BY ts {}) AS r FROM a"
CASES = [
    (FRAME.format(""), "column 8 a window without a frame"),
    (FRAME.format("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"), "starts at UNBOUNDED PRECEDING"),
    (FRAME.format("ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"), "ends at 1 FOLLOWING"),
    (FRAME.format("ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"), "ends at 1 PRECEDING"),
    (FRAME.format("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"), "ends at UNBOUNDED FOLLOWING"),
    (FRAME.format("RANGE BETWEEN 5 PRECEDING AND CURRENT ROW"), "RANGE needs an interval, not `5`"),
    (FRAME.format("RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW"), "MONTH is not supported"),
    (FRAME.format("ROWS INTERVAL 1 MINUTE PRECEDING"), "ROWS needs a whole number"),
    (FRAME.format("ROWS 2000000 PRECEDING"), "whole number up to 1000000"),
    ("SELECT rank() OVER (PARTITION BY k ORDER BY ts) AS r FROM a", "function rank is not supported over a window"),
    (f"SELECT lag(v) OVER {W} AS r FROM a", "function lag is not supported over a window"),
    (f"SELECT sum(DISTINCT v) OVER {W} AS r FROM a", "sum(DISTINCT …)"),
    (f"SELECT sum(v) FILTER (WHERE v > 1) OVER {W} AS r FROM a", "FILTER (WHERE …)"),
    (f"SELECT sum(v, w) OVER {W} AS r FROM a", "sum takes one argument, not 2"),
    (f"SELECT count() OVER {W} AS r FROM a", "count takes one argument, not 0"),
    (f"SELECT avg(m) OVER {W} AS r FROM a", "avg of decimal(10,2) is not supported yet | CAST it to double"),
    (f"SELECT stddev(m) OVER {W} AS r FROM a", "stddev_samp of decimal(10,2)"),
    (f"SELECT sum(g) OVER {W} AS r FROM a", "sum of string"),
    (f"SELECT min(arr) OVER {W} AS r FROM a", "min of array<int> is not supported"),
    (f"SELECT sum(sum(v) OVER {W}) OVER {W} AS r FROM a", "a window function (OVER) is not allowed here"),
    (f"SELECT v FROM a JOIN b ON a.k = b.k WHERE sum(v) OVER {W} > 1", "a window function (OVER) is not allowed here"),
    (f"SELECT sum(v) OVER {W} FROM a", "needs a name"),
    ("SELECT sum(v) OVER w AS r FROM a", "there is no window `w`"),
    ("SELECT sum(v) OVER (w ROWS 1 PRECEDING) AS r FROM a WINDOW w AS (PARTITION BY k ORDER BY ts)", "extends window `w`"),
    (f"SELECT sum(v) OVER w AS r FROM a WINDOW w AS {W}, W AS {W}", "defined twice"),
    ("SELECT sum(v) OVER (ORDER BY ts ROWS 1 PRECEDING) AS r FROM a", "needs PARTITION BY"),
    ("SELECT sum(v) OVER (PARTITION BY k + 1 ORDER BY ts ROWS 1 PRECEDING) AS r FROM a", "PARTITION BY `k + 1`: only columns"),
    ("SELECT sum(v) OVER (PARTITION BY w ORDER BY ts ROWS 1 PRECEDING) AS r FROM a", "PARTITION BY `w`: double cannot be a key"),
    ("SELECT sum(v) OVER (PARTITION BY k ROWS 1 PRECEDING) AS r FROM a", "needs ORDER BY"),
    ("SELECT sum(v) OVER (PARTITION BY k ORDER BY ts, v ROWS 1 PRECEDING) AS r FROM a", "needs ORDER BY one column"),
    ("SELECT sum(v) OVER (PARTITION BY k ORDER BY ts DESC ROWS 1 PRECEDING) AS r FROM a", "DESC is not supported"),
    ("SELECT sum(v) OVER (PARTITION BY k ORDER BY at ROWS 1 PRECEDING) AS r FROM a", "must be the event time of a stream | ORDER BY ts"),
    (f"SELECT sum(v) OVER {W} AS r, max(v) OVER (PARTITION BY g ORDER BY ts ROWS 1 PRECEDING) AS q FROM a", "the same PARTITION BY"),
    ("SELECT a.k, sum(v) OVER (PARTITION BY a.k ORDER BY a.ts ROWS 1 PRECEDING) AS r, sum(v) OVER (PARTITION BY a.k "
     "ORDER BY b.ts ROWS 1 PRECEDING) AS q FROM a JOIN b ON a.k = b.k AND a.ts = b.ts", "the same ORDER BY"),
    ("SELECT a.k, sum(v) OVER (PARTITION BY a.k ORDER BY a.ts ROWS 1 PRECEDING) AS r FROM a JOIN b ON a.k = b.k",
     "no window says how much later than a a row of b may come"),
    ("SELECT a.k, sum(v) OVER (PARTITION BY a.k ORDER BY a.ts ROWS 1 PRECEDING) AS r FROM a JOIN b ON a.k = b.k AND a.ts <= b.ts",
     "no window says how much later than a a row of b may come"),
    ("SELECT k, sum(v) AS s FROM a GROUP BY k", "GROUP BY is not supported yet"),
    ("SELECT k, v FROM a", "the query reads one stream, `a`"),
    ("SELECT a.k, sum(a.v) AS s FROM a JOIN b ON a.k = b.k", "aggregate function sum is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), CASES)
def test_refusals(sql: str, message: str) -> None:
    found = refused(sql)
    assert message in found and "q.toml" in found and "column" in found, found


def test_a_stream_without_time() -> None:
    found = refused(f"SELECT sum(v) OVER {W} AS r FROM a", time=None)
    assert 'name its `time = "…"` under [streams.a]' in found and "column" in found


def test_the_example_of_a_window_is_one() -> None:
    assert query(f"SELECT count(*) OVER {W} AS r FROM a").group is not None


def test_the_plan_shows_what_is_computed() -> None:
    sql = f"SELECT k, avg(v) OVER {W} AS m, sum(v + 1) OVER {W} AS s FROM a WHERE v > 0"
    streams = {"a": StreamSpec("a", "parquet", "/a", parse_schema(SCHEMAS["a"]), "ts", 5.0)}
    spec = QuerySpec(
        "q", sql, streams, SinkSpec("parquet", "/o"), Path("c"), Path("q.toml"), groups=4
    )
    shown = render(build_plan(spec, analyse(spec)))
    for line in (
        "group_by group-1 on a.k, ordered by a.ts, then stream and offset",
        "~0 double = avg(a.v) over 9 rows before and the row",
        "4 groups: node 0 has 2, node 1 has 2",
        "m double = ~0",
    ):
        assert line in shown, shown
