"""Every operator and function allowed after the exchange, against Spark: same type, same values.

All expressions run as one Spark query over rows of edge values; those that must fail, one by one.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.errors import SpillwayError
from engine.query.functions import ALIASES, POST, PRE
from engine.query.model import Field, JoinQuery, QuerySpec, SinkSpec, StreamSpec
from engine.query.post import evaluate
from engine.query.sql import analyse
from engine.query.types import arrow_type
from engine.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.UTC
VALUES: dict[str, tuple[str, list[Any]]] = {
    "k": ("bigint", []),
    "t": ("tinyint", [-5, -1, 0, 1, 3, 7]),
    "s": ("smallint", [-150, -1, 0, 1, 9, 120]),
    "i": ("int", [-40000, -7, -1, 0, 1, 2, 3, 1000]),
    "l": ("bigint", [-(1 << 31), -9, -1, 0, 1, 5, 1 << 31]),
    "big": ("bigint", [-(1 << 63), (1 << 63) - 1, 0, -1, (1 << 53) + 1]),
    "f": ("float", [-1.5, -0.0, 0.0, 0.1, 3.25, float("nan"), float("inf")]),
    "d": ("double", [-2.5, -0.0, 0.0, 0.1, 1e300, 7.0, float("nan"), float("-inf")]),
    "dd": ("double", [-7.99, -0.5, 0.49, 2.5, 120.7]),
    "m": (
        "decimal(10,2)",
        [Decimal(x) for x in ("-12345678.91", "-0.05", "0.00", "1.50", "99.99")],
    ),
    "m6": (
        "decimal(18,6)",
        [Decimal(x) for x in ("-1.000001", "0.500000", "3.141593", "8.999999")],
    ),
    "m38": (
        "decimal(38,18)",
        [
            Decimal(x)
            for x in (
                "0.1",
                "-12345678901234567890.123456789012345678",
                "0.3",
                "9007199254740993.5",
            )
        ],
    ),
    "n": (
        "string",
        [
            "",
            " ",
            "a",
            "A",
            "b",
            "abc",
            " pad ",
            "\tx",
            "Straße",
            "naïve",
            "日本語",
            "𝄞clef",
            "a%b",
            "a_c",
            "Zz",
            "it's",
            'say "x"',
            "back\\slash",
        ],
    ),
    "y": ("binary", [b"", b"\x00", b"\xff\xfe", b"abc"]),
    "b": ("boolean", [True, False]),
    "da": (
        "date",
        [
            dt.date(1, 1, 1),
            dt.date(1582, 10, 15),
            dt.date(1969, 12, 31),
            dt.date(2000, 2, 29),
            dt.date(2024, 12, 30),
            dt.date(9999, 12, 31),
        ],
    ),
    "ts": (
        "timestamp",
        [
            dt.datetime(1, 1, 1, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(2024, 2, 29, 12, 30, 45, 123456, tzinfo=UTC),
            dt.datetime(2024, 3, 31, 2, 30, tzinfo=UTC),
            dt.datetime(2000, 1, 1, tzinfo=UTC),
        ],
    ),
    "tn": (
        "timestamp_ntz",
        [
            dt.datetime(1960, 5, 5, 5, 5, 5),
            dt.datetime(2024, 2, 29),
            dt.datetime(2030, 10, 27, 1, 59, 59, 1),
        ],
    ),
}
FIELDS = tuple(Field(name, kind) for name, (kind, _) in VALUES.items())
ROWS = 400
SEED = 20


@cache
def rows(seed: int) -> pa.Table:
    pick = random.Random(seed)
    columns = {
        name: pa.array([_one(pick, name, given, row) for row in range(ROWS)], arrow_type(kind))
        for name, (kind, given) in VALUES.items()
    }
    return pa.table(columns)


def _one(pick: random.Random, name: str, given: list[Any], row: int) -> Any:
    if name == "k":
        return row
    return None if pick.random() < 0.1 else pick.choice(given)


def query(sql: str) -> JoinQuery:
    streams = {name: StreamSpec(name, "parquet", "", FIELDS) for name in "ab"}
    return analyse(QuerySpec("t", sql, streams, SinkSpec("noop", ""), Path("c"), Path("q.toml")))


def select(expressions: list[str], where: str = "") -> str:
    columns = ", ".join(f"{text} AS e{n}" for n, text in enumerate(expressions))
    return f"SELECT a.k AS k, {columns} FROM a JOIN b ON a.k = b.k{where}"


def joined() -> pa.Table:
    """The joined rows as the engine would hand them over."""
    left, right = rows(SEED), rows(SEED + 1)
    columns = {"$0": left["k"]}
    for alias, table in (("a", left), ("b", right)):
        columns |= {f"{alias}.{name}": table[name] for name in VALUES if name != "k"}
    return pa.table(columns)


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    for name, seed in (("a", SEED), ("b", SEED + 1)):
        given = spark.createDataFrame(rows(seed), ", ".join(f"{f.name} {f.type}" for f in FIELDS))
        given.createOrReplaceTempView(name)
    kinds = [field.dataType.simpleString() for field in spark.table("a").schema.fields]
    assert kinds == [field.type for field in FIELDS]
    return spark


NUMBERS = ("t", "s", "i", "l", "f", "d", "m", "m6")
ORDERED = (*NUMBERS, "big", "m38")
TIMES = ("da", "ts")


def _arithmetic() -> list[str]:
    pairs = [(x, y) for x in NUMBERS for y in NUMBERS]
    found = [
        f"a.{x} {sign} b.{y}"
        for x, y in pairs
        for sign in "+-"
        if not {x, y} <= {"t"} or sign == "+"
    ]
    found += [
        f"a.{x} * b.{y}" for x, y in pairs if "t" not in (x, y) or {x, y} & {"i", "l", "d", "m"}
    ]
    plain = ("t", "s", "i", "l", "f", "d")
    found += [
        f"CASE WHEN b.{y} <> 0 THEN a.{x} {sign} b.{y} END"
        for x in plain
        for y in plain
        for sign in "/%"
    ]
    found += [f"IF(b.{y} <> 0, a.{x} DIV b.{y}, NULL)" for x in plain[:4] for y in plain[:4]]
    found += [
        "a.i + 1",
        "1 - a.l",
        "a.t + 100",
        "a.m + 1",
        "a.m * 2",
        "a.m - 1.5",
        "a.m * 100",
        "a.d * 2",
        "a.f * 2",
        "a.f + 0.5",
        "a.d + 0.5",
        "a.l + 3000000000",
        "-5 + a.i",
        "a.i % 3",
        "a.big % 2",
        "a.d / 3",
        "a.l / 7",
        "a.i DIV 2",
        "a.s * a.s",
        "a.big / 3",
        "2147483648 + a.i",
        "a.f / 2",
        "a.i * 1.25",
        "a.i + 0",
        "a.l - -1",
        "a.m + 0.005",
        "0.1 + 0.2 + b.m",
        "1e3 * a.i",
        "1L + a.t",
        "a.i * 10BD",
        "2.5D * a.i",
        "a.d % 2",
        "a.f % 2",
    ]
    return found


def _others() -> list[str]:
    found = [f"a.{x} {sign} b.{y}" for x in ORDERED for y in ORDERED for sign in ("=", "<")]
    found += [
        f"a.{x} {sign} b.{x}"
        for x in ("n", "y", "b", "da", "ts", "tn", "f", "d")
        for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ]
    found += ["a.da < b.ts", "a.ts >= b.da", "a.tn > b.da", "a.i < 2.5", "a.m = 1.5", "a.d = 0"]
    found += [f"-a.{x}" for x in NUMBERS] + [f"abs(a.{x})" for x in NUMBERS]
    found += [f"negative(a.{x})" for x in NUMBERS]
    found += [
        "a.b AND b.b",
        "a.b OR b.b",
        "NOT a.b",
        "a.b IS TRUE",
        "a.b IS NOT FALSE",
        "a.b AND NULL",
        "a.n IS NULL",
        "b.i IS NOT NULL",
        "a.i IN (1, 2, b.i)",
        "a.n IN ('a', 'b')",
        "a.i NOT IN (1, NULL)",
        "a.m IN (1, 1.5)",
        "a.i BETWEEN b.t AND 5",
        "a.n BETWEEN 'A' AND 'b'",
        "a.i & b.l",
        "a.t | b.t",
        "a.s ^ b.i",
        "~a.i",
        "a.i != 3",
        "b.l <> 0 AND 10 / b.l > 1",
        "b.l = 0 OR 10 % b.l = 1",
    ]
    found += [
        "CASE WHEN a.b THEN a.i ELSE b.l END",
        "CASE a.t WHEN 1 THEN 'one' WHEN b.t THEN 'same' END",
        "CASE WHEN a.i > 0 THEN a.m ELSE b.i END",
        "IF(a.b, a.m, b.m6)",
        "IF(a.b, a.f, b.i)",
        "IF(a.b, a.da, b.ts)",
        "IF(a.b, NULL, b.n)",
        "coalesce(a.i, b.l, 0)",
        "coalesce(a.n, b.n, '?')",
        "nvl(a.m, 0)",
        "ifnull(a.d, b.f)",
        "coalesce(a.f, b.l)",
        "coalesce(NULL, a.da)",
        "nullif(a.i, b.l)",
        "nullif(a.n, 'a')",
        "nullif(a.m, 1.5)",
        "nvl2(a.n, a.i, b.l)",
        "nvl2(NULL, a.i, b.m)",
    ]
    for name in ("greatest", "least"):
        found += [f"{name}(a.{x}, b.{x})" for x in (*ORDERED, "n", "y", "b", "da", "ts", "tn")]
        found += [
            f"{name}(a.i, b.l, 5)",
            f"{name}(a.m, b.i)",
            f"{name}(a.d, b.i)",
            f"{name}(a.f, b.d)",
            f"{name}(a.da, b.ts)",
        ]
    return found


def _texts() -> list[str]:
    found = [
        "a.n || b.n",
        "concat(a.n, '-', b.n)",
        "concat(a.n)",
        "length(a.n)",
        "length(a.y)",
        "char_length(a.n)",
        "trim(a.n)",
        "ltrim(a.n)",
        "rtrim(a.n)",
        "TRIM(BOTH FROM a.n)",
        "TRIM(LEADING FROM a.n)",
        "a.n LIKE 'a%'",
        "a.n LIKE '%_b%'",
        "a.n NOT LIKE '_'",
        "NOT a.n LIKE 'a%'",
        "a.n || ' ' || CAST(b.i AS STRING)",
        "a.n = 'it\\'s'",
        "a.n = 'it''s'",
        'a.n = "say ""x"""',
        "a.n || 'x' 'y'   'z' || ''''",
        "a.n || '\\t\\\\'",
        "'日本' || a.n",
        "a.n < 'é'",
        "left(a.n, 2)",
        "left(a.n, b.t)",
        "right(a.n, 2)",
        "right(a.n, b.t)",
    ]
    found += [
        f"substring(a.n, {at}, {count})"
        for at in (-9, -2, -1, 0, 1, 2, 9)
        for count in (-1, 0, 1, 2, 50)
    ]
    found += [
        "substring(a.n, 2)",
        "substr(a.n, -2)",
        "substring(a.n, 0)",
        "substring(a.n, b.t, a.t)",
        "substring(a.n, b.i, 2147483647)",
    ]
    return found


def _times() -> list[str]:
    parts = ("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekday")
    found = [f"{part}(a.{x})" for part in parts for x in ("da", "ts", "tn")]
    found += [f"{part}(a.{x})" for part in ("hour", "minute", "second") for x in ("ts", "tn")]
    found += [
        "EXTRACT(YEAR FROM a.ts)",
        "EXTRACT(DOY FROM a.da)",
        "EXTRACT(DAYOFWEEK FROM a.ts)",
        "EXTRACT(HOUR FROM a.ts)",
        "a.ts + INTERVAL 1 DAY",
        "a.tn - INTERVAL '90' MINUTES",
        "INTERVAL 25 HOURS + a.ts",
        "a.ts BETWEEN b.ts - INTERVAL 5 SECONDS AND b.ts + INTERVAL 100 DAYS",
        "date_add(a.da, -7)",
        "date_sub(a.da, b.t)",
        "date_add(a.da, b.s)",
        "datediff(a.da, b.da)",
        "date_diff(a.da, DATE '2024-02-29')",
        "a.ts > TIMESTAMP '2024-01-01 00:00:00'",
        "a.da = DATE '2000-02-29'",
        "a.tn >= TIMESTAMP_NTZ '2024-02-29 00:00:00'",
        "coalesce(a.ts, TIMESTAMP '2020-01-01')",
    ]
    return found


def _casts() -> list[str]:
    found = [
        f"CAST(a.{x} AS {kind})"
        for x in ("t", "s", "i", "l")
        for kind in ("INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(20,2)", "BOOLEAN")
        if (x, kind) != ("l", "INT")
    ]
    found += [
        f"CAST(a.{x} AS {kind})"
        for x in ("m", "m6")
        for kind in ("INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(20,1)", "DECIMAL(38,10)")
    ]
    found += [
        "CAST(a.m38 AS DOUBLE)",
        "CAST(a.m38 AS STRING)",
        "CAST(a.f AS DOUBLE)",
        "a.i::long",
        "CAST(a.dd AS TINYINT)",
        "CAST(a.dd AS BIGINT)",
        "CAST(a.dd AS INT) + 1",
        "CAST(a.b AS INT)",
        "CAST(a.b AS STRING)",
        "CAST(a.da AS STRING)",
        "CAST(a.da AS TIMESTAMP)",
        "CAST(a.ts AS DATE)",
        "CAST(a.ts AS TIMESTAMP_NTZ)",
        "CAST(a.tn AS TIMESTAMP)",
        "CAST(a.tn AS DATE)",
        "CAST(a.da AS TIMESTAMP_NTZ)",
        "CAST(NULL AS INT)",
        "CAST('2024-05-06' AS DATE)",
        "CAST(a.i AS DECIMAL(12,2)) + a.m",
        "CAST(a.big AS DOUBLE)",
        "CAST(a.big AS DECIMAL(38,2))",
    ]
    return found


LITERALS = [
    "1",
    "1.5",
    "0.5",
    "-0.5",
    "00.50",
    "1e3",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1L",
    "2S",
    "3Y",
    "1.5BD",
    "1.5D",
    "2F",
    "'x'",
    "true",
    "123456789.123456789",
    ".5",
    "5.",
    "0.00",
    "r'a\\b'",
]


@pytest.mark.parametrize("group", ["arithmetic", "others", "texts", "times", "casts", "literals"])
def test_same_types_and_values(views: SparkSession, group: str) -> None:
    made = {
        "arithmetic": _arithmetic,
        "others": _others,
        "texts": _texts,
        "times": _times,
        "casts": _casts,
        "literals": lambda: LITERALS,
    }[group]()
    expressions, refused = [], []
    for text in made:
        try:
            query(select([text]))
            expressions.append(text)
        except SpillwayError as error:
            refused.append((text, error.what))
    unexpected = [r for r in refused if not _may_be_refused(r[1])]
    assert not unexpected, unexpected
    assert len(expressions) > len(made) * 0.7, refused
    ours = query(select(expressions))
    theirs = views.sql(select(expressions))
    kinds = [field.dataType.simpleString() for field in theirs.schema.fields]
    different = [
        (text, o.type, kind)
        for text, o, kind in zip(["k", *expressions], ours.outputs, kinds, strict=True)
        if o.type != kind
    ]
    assert not different
    _compare(expressions, evaluate(joined(), ours), theirs.toArrow())


def _may_be_refused(why: str) -> bool:
    return "38 digits" in why or "decimals with" in why or "needs decimal" in why


def _compare(expressions: list[str], ours: pa.Table, theirs: pa.Table) -> None:
    ours, theirs = ours.sort_by("k"), theirs.sort_by("k")
    assert ours.num_rows == theirs.num_rows
    wrong = []
    for number, text in enumerate(expressions):
        mine, other = (_plain(t.column(f"e{number}")) for t in (ours, theirs))
        for row, (x, y) in enumerate(zip(mine, other, strict=True)):
            if repr(x) != repr(y):
                inputs = {
                    c: joined()[c][row].as_py()
                    for c in joined().column_names
                    if c[2:] and c in text
                }
                wrong.append((text, inputs, x, y))
                break
    assert not wrong, "\n".join(map(str, wrong))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Python values; dates and times as numbers, as some lie beyond what Python's can be."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


FAILING = [
    "CAST(127 AS TINYINT) + CAST(1 AS TINYINT)",
    "2147483647 + 1",
    "9223372036854775807 + a.k + 1",
    "-2147483648 - 1",
    "a.k * 9223372036854775807 * 4",
    "1 / (a.k - a.k)",
    "1 % (a.k - a.k)",
    "1 DIV (a.k - a.k)",
    "1.0D / (a.k - a.k)",
    "CAST(300 AS TINYINT)",
    "CAST(1e10 AS INT)",
    "-(CAST(-128 AS TINYINT))",
    "abs(CAST(-2147483648 AS INT))",
    "CAST(12345.67 AS DECIMAL(5,2))",
    "(-9223372036854775808) DIV -1",
    "CAST((a.k + 1) * 1e300 * 1e300 AS BIGINT)",
    "negative(CAST(-9223372036854775808 AS BIGINT))",
    "CAST(99.5 AS DECIMAL(2,0)) + CAST(99.99 AS DECIMAL(2,0))",
]


@pytest.mark.parametrize("expression", FAILING)
def test_what_fails_in_spark_fails_here(views: SparkSession, expression: str) -> None:
    sql = select([expression], " WHERE a.k = 7 AND b.k = 7")
    with pytest.raises(Exception, match=r"(?i)overflow|zero|range|represented"):
        views.sql(sql).collect()
    chunk = joined().slice(7, 1)
    with pytest.raises(SpillwayError, match="cannot compute") as caught:
        evaluate(chunk, query(sql))
    assert "e0" in str(caught.value)


FILTERS = [
    "a.n = 'it\\'s'",
    "a.n LIKE 'a\\\\%%'",
    "a.n RLIKE '^[a-z]+$'",
    "a.n NOT ILIKE 'A%'",
    "upper(a.n) <> 'X'",
    "NOT (a.b AND a.i > 1) OR a.i - 1 - 2 < 3",
    "a.i - (1 - 2) = 2",
    "-(-a.i) = 1",
    "a.i * (2 + a.t) > 1",
    "a.i BETWEEN 1 AND 3",
    "a.i NOT IN (1, 2)",
    "a.n IS NOT NULL",
    "a.b IS NOT TRUE",
    "a.n <=> NULL",
    "CASE a.i WHEN 1 THEN true ELSE a.b END",
    "IF(a.b, a.i, a.l) > 0",
    "a.da > DATE '2000-01-01'",
    "a.ts >= TIMESTAMP '2000-01-01 00:00:00'",
    "a.ts > '2024-01-01'",
    "CAST(a.i AS STRING) = '1'",
    "TRY_CAST(a.n AS INT) IS NULL",
    "a.m > 1.5",
    "a.d > 1e-3",
    "a.i::bigint + 1L > 0",
    "EXTRACT(YEAR FROM a.ts) > 2000",
    "TRIM(BOTH FROM a.n) = 'pad'",
    "regexp_replace(a.n, 'a', '\\\\$0') = a.n",
    "a.i & 1 = 1",
    "a.n || 'x' = 'ax'",
    "coalesce(a.b, false)",
    "substring(a.n, 2, 1) = 'b'",
    "date_format(a.ts, 'yyyy') = '2024'",
    "a.n = r'back\\slash'",
    "a.i % 2 = 1 AND a.i DIV 2 = 0",
    "ln(a.dd + 10) > 1",
    "a.da + INTERVAL 1 DAY > a.ts",
    "a.ts - INTERVAL '3' HOUR < a.tn",
]


def test_filters_pushed_into_spark_mean_what_was_written(views: SparkSession) -> None:
    tried = []
    for text in FILTERS:
        found = query(f"SELECT a.k FROM a JOIN b ON a.k = b.k WHERE {text}")
        tried.append((text, found.inputs[0].where))
    pairs = ", ".join(
        f"sum(CAST(NOT (({text}) <=> ({ours})) AS INT)) AS e{n}"
        for n, (text, ours) in enumerate(tried)
    )
    row = views.sql(f"SELECT {pairs} FROM a").collect()[0]
    assert not [tried[n] for n, differing in enumerate(row) if differing]


SHAPES = [
    "SELECT A.K, a.T, B.`n` AS N2 FROM a JOIN b ON a.k = B.k",
    "SELECT * FROM few JOIN more USING (k)",
    "SELECT more.*, x FROM few JOIN more ON few.k = more.K",
    "SELECT * FROM few JOIN more USING (j, k)",
    "SELECT k, few.k AS fk, more.k AS mk FROM few JOIN more USING (k)",
    "SELECT * FROM few JOIN more USING (k) JOIN more m USING (k)",
]


@pytest.mark.parametrize("sql", SHAPES[:-1])
def test_names_and_order_of_columns(views: SparkSession, sql: str) -> None:
    schemas = {
        "a": FIELDS,
        "b": FIELDS,
        "few": (Field("x", "int"), Field("j", "int"), Field("k", "int")),
        "more": (Field("y", "int"), Field("K", "bigint"), Field("J", "int")),
    }
    if "USING (k)" in sql:
        schemas["more"] = schemas["more"][:2]
    for name in ("few", "more"):
        columns = ", ".join(f"CAST(1 AS {f.type}) AS {f.name}" for f in schemas[name])
        views.sql(f"SELECT {columns}").createOrReplaceTempView(name)
    streams = {name: StreamSpec(name, "parquet", "", fields) for name, fields in schemas.items()}
    spec = QuerySpec("t", sql, streams, SinkSpec("noop", ""), Path("c"), Path("q.toml"))
    ours = [(o.name, o.type) for o in analyse(spec).outputs]
    assert ours == [(f.name, f.dataType.simpleString()) for f in views.sql(sql).schema.fields]


def test_every_allowed_function_exists(views: SparkSession) -> None:
    known = {function.name for function in views.catalog.listFunctions()}
    assert not (PRE | set(ALIASES)) - known


def test_every_function_is_tried() -> None:
    text = " ".join(_arithmetic() + _others() + _texts() + _times() + _casts()).lower()
    assert not [name for name in POST if f"{name}(" not in text]


TEXTS = ("${env:HOME}", "${spark.app.name}", "${system:user.home}", "${hiveconf:x}", "${}")


@pytest.mark.parametrize("value", TEXTS)
def test_a_text_stays_that_text(spark: SparkSession, value: str) -> None:
    """Spark would put the engine's environment, its settings and its JVM's properties in. In a branch of UNION ALL
    columns are computed by Spark, in SELECT by us."""
    sql = f"""SELECT u.leak, '{value}' AS ours FROM
              (SELECT k, '{value}' AS leak FROM a UNION ALL SELECT k, n AS leak FROM b) u JOIN b ON u.k = b.k"""
    found = query(sql)
    [given] = [one for one in found.inputs if any(value in expr for expr in one.exprs)]
    leak = next(expr for expr in given.exprs if value in expr)
    for session in (spark, spark.newSession()):
        [row] = session.range(1).selectExpr(f"{leak} AS leak").collect()
        assert row.leak == value
        assert session.range(1).where(f"{leak} = '{value}'").count() == 1


def test_a_session_of_somebody_elses_is_told_too(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.variable.substitute", "true")
    same = start_session(master=None, nodes=1, app_name="x", log_dir=None)
    assert same.range(1).selectExpr("'${env:HOME}' AS leak").collect()[0].leak == "${env:HOME}"
