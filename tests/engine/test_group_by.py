"""Window functions in whole queries on Spark against DuckDB: one stream, joins, unions; ties, nulls, disorder, late
rows, restarts; what waits for the watermark comes out with later input."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import CheckpointError
from tests.engine.adapt.scripts import script
from tests.engine.group_by import (
    FINAL,
    ONE,
    ROWS,
    SCHEMA,
    TIMED,
    feed,
    one,
    same,
)
from tests.engine.oracle import Case


@pytest.mark.parametrize("mask", [(1 << 64) - 1, 0])
def test_one_stream(spark: SparkSession, tmp_path: Path, mask: int) -> None:
    case = one(tmp_path)
    feed(case, range(5), 1)
    summary = case.run(mask=mask)
    assert summary.rows_in == 300 and summary.late_rows == summary.null_key_rows == 0
    assert summary.rows_out == same(case, ONE, FINAL) > 200


def test_restarts_go_on_with_what_waited(spark: SparkSession, tmp_path: Path) -> None:
    case = one(tmp_path, nodes=2)
    for tick in range(5):
        feed(case, range(tick, tick + 1), 2)
        summary = case.run()
        assert summary.rows_out == same(case, ONE, FINAL)
    again = Case(tmp_path, ONE, case.schemas, nodes=3, groups=8, stream_extra=TIMED)
    again.write()
    feed(again, range(5, 7), 2)
    again.run()
    assert same(again, ONE, FINAL) > 350


def test_other_frames_are_another_query(spark: SparkSession, tmp_path: Path) -> None:
    case = one(tmp_path)
    feed(case, range(1), 3)
    case.run()
    other = one(tmp_path, ONE.replace("3 PRECEDING", "4 PRECEDING"))
    with pytest.raises(CheckpointError, match=r"3 rows before and the row .* → .* 4 rows before"):
        other.run()


def test_late_rows_are_in_no_frame(spark: SparkSession, tmp_path: Path) -> None:
    case = one(tmp_path)
    feed(case, range(5), 4, late=0.1)
    summary = case.run()
    assert summary.late_rows > 5
    aside = f"{case.checkpoint}/side/late/a/*.parquet"
    kept = f"(SELECT * FROM a WHERE id NOT IN (SELECT id FROM read_parquet('{aside}'))) AS a"
    assert summary.rows_out == same(case, ONE.replace("FROM a ", f"FROM {kept} "), FINAL) > 150


def test_filters_and_expressions(spark: SparkSession, tmp_path: Path) -> None:
    sql = (
        "SELECT k, ts, id, v - avg(v * 2) OVER w AS off, coalesce(sum(v + id) OVER w, 0) AS s, count(*) OVER w AS n FROM a "
        f"WHERE v > -50 AND k IS NOT NULL WINDOW w AS {ROWS.format(2)}"
    )
    case = one(tmp_path, sql)
    feed(case, range(4), 5)
    case.run()
    assert (
        same(
            case,
            sql,
            "ts < (SELECT max(ts) - INTERVAL 4 SECONDS FROM a WHERE v > -50 AND k IS NOT NULL)",
        )
        > 80
    )


JOIN = (
    "SELECT a.k AS k, a.ts AS ts, a.id AS i, b.id AS j, sum(a.v + b.v) OVER (PARTITION BY {key} ORDER BY a.ts "
    "RANGE BETWEEN INTERVAL 6 SECONDS PRECEDING AND CURRENT ROW) AS s, count(*) OVER (PARTITION BY {key} ORDER BY "
    "{order} ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS n, min(b.id) OVER (PARTITION BY {key} ORDER BY {order} "
    "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS lo FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN "
    "a.ts - INTERVAL 3 SECONDS AND a.ts + INTERVAL 2 SECONDS WHERE a.v < b.v + 60"
)


@pytest.mark.parametrize("key", ["a.k", "b.g"])
def test_over_a_join(spark: SparkSession, tmp_path: Path, key: str) -> None:
    """Once on the key of the join (fused), once on another (one more exchange; null is a key)."""
    case = Case(
        tmp_path,
        JOIN.format(key=key, order="a.ts"),
        {"a": SCHEMA, "b": SCHEMA},
        groups=8,
        stream_extra=TIMED,
    )
    case.write()
    feed(case, range(3), 6, rows=40, streams="ab")
    case.run()
    feed(case, range(3, 5), 6, rows=40, streams="ab")
    case.run()
    final = "ts < least((SELECT max(ts) FROM a), (SELECT max(ts) FROM b) - INTERVAL 2 SECONDS) - INTERVAL 4 SECONDS"
    order = "a.ts, a.id, b.ts, b.id"
    assert same(case, JOIN.format(key=key, order=order), final) > 100


def test_union_all_orders_ties_by_stream(spark: SparkSession, tmp_path: Path) -> None:
    sql = (
        "SELECT k, ts, id, u, sum(u) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s "
        "FROM (SELECT k, ts, id, id AS u FROM a UNION ALL SELECT k, ts, id, -id FROM b) x"
    )
    case = Case(tmp_path, sql, {"a": SCHEMA, "b": SCHEMA}, groups=8, stream_extra=TIMED)
    case.write()
    feed(case, range(4), 7, rows=40, streams="ab")
    case.run()
    least = "least((SELECT max(ts) FROM a), (SELECT max(ts) FROM b)) - INTERVAL 4 SECONDS"
    ranked = sql.replace("ORDER BY ts ROWS", "ORDER BY ts, o, id ROWS").replace(
        "id AS u FROM a", "id AS u, 0 AS o FROM a"
    )
    assert same(case, ranked.replace("-id FROM b", "-id, 1 FROM b"), f"ts < {least}") > 200


def test_state_is_trimmed(spark: SparkSession, tmp_path: Path) -> None:
    case = one(tmp_path)
    feed(case, range(12), 8, rows=200)
    assert case.run().state_bytes < 400_000


@pytest.mark.parametrize(
    "commands",
    [
        [(1, "spill", {"percent": 60})],
        [(1, "spill", {"percent": 60}), (4, "cleanup", {})],
        [(1, "spill", {"percent": 60}), (3, "cleanup", {}), (5, "spill", {"percent": 100})],
        [(2, "move", {"to": 1, "percent": 70})],
    ],
    ids=["suspended-to-the-end", "replayed", "twice", "moved"],
)
def test_suspended_groups_are_replayed_in_order(
    spark: SparkSession, tmp_path: Path, commands: list[tuple[int, str, dict[str, int]]]
) -> None:
    case = one(tmp_path)
    feed(case, range(8), 6)
    summary = case.run(adaptation=script(*commands, patient=True))
    assert summary.rows_out == same(case, ONE, FINAL) > 350
    done = [(a["course"], a["state"]) for a in case.adapted()["actions"]]
    assert {state for _, state in done} == {"done"}, case.adapted()
    assert [course for course, _ in done][: len(commands)] == [do for _, do, _ in commands]


def test_a_restart_finds_suspended_groups(spark: SparkSession, tmp_path: Path) -> None:
    case = one(tmp_path)
    feed(case, range(4), 7)
    case.run(adaptation=script((1, "spill", {"percent": 60})), owed="keep")
    again = Case(tmp_path, ONE, case.schemas, nodes=3, groups=8, stream_extra=TIMED)
    again.write()
    feed(again, range(4, 7), 7)
    again.run(adaptation=script())
    assert same(again, ONE, FINAL) > 300
