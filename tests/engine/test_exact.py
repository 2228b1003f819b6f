"""Whole queries on Spark against DuckDB: random schemas, key types, duplicates, nulls, skew, tick cuts, groups, nodes,
forced hash collisions, restarts between ticks."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import examples
from tests.engine.oracle import Case, Kept, rows

FULL = (1 << 64) - 1
KINDS: dict[str, tuple[str, pa.DataType, list[object]]] = {
    "long": ("long", pa.int64(), [0, 1, -1, 2**62, -(2**63)]),
    "int": ("int", pa.int32(), [0, 1, -1, 2**31 - 1]),
    "smallint": ("smallint", pa.int16(), [0, 1, -1, 7]),
    "string": ("string", pa.string(), ["", "a", "b", "A", "ä", "x" * 40]),
    "date": ("date", pa.date32(), [date(2020, 1, 1), date(1960, 2, 29), date(2020, 1, 2)]),
    "timestamp": (
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    ),
    "decimal": (
        "decimal(12,2)",
        pa.decimal128(12, 2),
        [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")],
    ),
    "wide": (
        "decimal(30,4)",
        pa.decimal128(30, 4),
        [Decimal("0.0000"), Decimal("12345678901234567890.1234")],
    ),
    "binary": ("binary", pa.binary(), [b"", b"\x00", b"\xff\x00"]),
    "boolean": ("boolean", pa.bool_(), [True, False]),
}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    """Everything about one case but its folder."""
    streams = draw(st.integers(2, 5))
    parts = draw(st.integers(1, 2))
    kinds = [draw(st.sampled_from(sorted(KINDS))) for _ in range(parts)]
    value = [
        st.one_of(st.sampled_from(KINDS[k][2]), st.none())
        if draw(st.booleans())
        else st.sampled_from(KINDS[k][2])
        for k in kinds
    ]
    ticks, size = draw(st.integers(1, 4)), 14 if streams < 4 else 6
    row = st.tuples(*value, st.integers(-9, 9) | st.none(), st.sampled_from(["p", "", None]))
    return {
        "kinds": kinds,
        "data": [
            [draw(st.lists(row, max_size=size)) for _ in range(ticks)] for _ in range(streams)
        ],
        "nodes": draw(st.integers(1, 3)),
        "groups": draw(st.sampled_from([3, 16, 300])),
        "mask": draw(st.sampled_from([FULL, FULL, 0, 1 << 63])),
        "restart": draw(st.booleans()),
        "where": draw(
            st.sampled_from(["", " WHERE s0.v > 0", " WHERE s0.v + s1.v < 4 AND s1.w IS NOT NULL"])
        ),
        "pick": draw(st.sampled_from(["plain", "expr"])),
    }


def build(root: object, made: dict[str, object]) -> Case:
    kinds, data = made["kinds"], made["data"]
    columns = ", ".join(f"k{i} {KINDS[k][0]}" for i, k in enumerate(kinds)) + ", v long, w string"
    names = [f"s{i}" for i in range(len(data))]
    on = [" AND ".join(f"s0.k{p} = {n}.k{p}" for p in range(len(kinds))) for n in names[1:]]
    picks = [f"s0.k{p}" for p in range(len(kinds))] + [f"{n}.v AS v_{n}" for n in names] + ["s1.w"]
    if made["pick"] == "expr":
        picks.append("s0.v + s1.v AS total")
        picks.append("coalesce(s0.w, 'none') AS loud")
    joins = "".join(f" JOIN {n} ON {c}" for n, c in zip(names[1:], on, strict=True))
    sql = f"SELECT {', '.join(picks)} FROM s0{joins}{made['where']}"
    return Case(
        root,
        sql,
        dict.fromkeys(names, columns),
        nodes=made["nodes"],
        groups=max(made["groups"], made["nodes"]),
    )


@examples.lives(few=5, most=100)
@given(cases())
def test_results_are_the_batch_join(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, made: dict[str, object]
) -> None:
    case = build(tmp_path_factory.mktemp("case"), made)
    case.write()
    schema = [(f"k{i}", KINDS[k][1]) for i, k in enumerate(made["kinds"])] + [
        ("v", pa.int64()),
        ("w", pa.string()),
    ]
    total = nulls = 0
    ticks = len(made["data"][0])
    for number in range(ticks):
        for i, per_tick in enumerate(made["data"]):
            case.feed(f"s{i}", number, rows(schema, per_tick[number]))
        if made["restart"] or number == ticks - 1:
            kept = Kept()
            summary = case.run(kept, mask=made["mask"])
            total, nulls = summary.rows_in, summary.null_key_rows
    assert summary.rows_out == case.check()
    if "WHERE" not in case.sql:
        everything = [r for per_tick in made["data"] for t in per_tick for r in t]
        missing = sum(any(k is None for k in r[: len(made["kinds"])]) for r in everything)
        assert (total, nulls) == (len(everything) - missing, missing)
