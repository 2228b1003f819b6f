"""Windows and trees of joins on Spark against DuckDB. Few and small: what does not need Spark is in test_trees.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.brief import Brief
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import QueryRun
from engine.tick import Outcome, Ticker
from tests.engine.chains import ALL, accepted, chain, feed_chain, near, stamps
from tests.engine.oracle import Case, Kept, quiet


@pytest.mark.parametrize("order", ["", "((a b) (c d))"])
def test_a_chain_within_windows_in_every_order(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    case = chain(tmp_path, order)
    feed_chain(case, 9, seed=3, rows=40)
    kept = Kept()
    summary = case.run(kept)
    rows = case.check(f"{case.sql} WHERE {near(*ALL)}")
    assert summary.rows_out == rows > 50
    assert summary.late_rows == 0
    state = [report.memory_bytes for report in kept.reports]
    assert state[-1] < 1.6 * max(state[:6]), "old runs expire"


def test_late_rows_are_set_aside_restarts_and_other_nodes_do_not_matter(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = 0
    for tick, nodes in enumerate([2, 3, 1]):
        case = chain(tmp_path, nodes=nodes)
        feed_chain(case, 2, seed=tick, late=0.1, start=2 * tick)
        late = case.run().late_rows
    assert late > 20
    case.check(f"{accepted(case)}{case.sql} WHERE {near(*ALL)}")


MIXED = """
name = "mixed"
nodes = 2
groups = 8
checkpoint = "cp"
sql = '''SELECT u.v AS vu, j.v AS vj, c.v AS vc, d.v AS vd
FROM (SELECT k, ts, v FROM p UNION ALL SELECT k2 AS k, t AS ts, v + 1 AS v FROM j) u
JOIN j ON u.k = j.k2 AND j.t BETWEEN u.ts - INTERVAL 5 SECONDS AND u.ts + INTERVAL 20 SECONDS
JOIN c ON j.v = c.j AND c.ts >= j.t AND c.ts <= j.t + INTERVAL 15 SECONDS
JOIN c AS d ON d.j = c.j AND abs(d.v) >= 0 AND d.ts BETWEEN c.ts - INTERVAL 3 SECONDS AND c.ts'''
[streams.p]
format = "parquet"
path = "p"
schema = "k long, ts timestamp, v long"
time = "ts"
watermark = "5 seconds"
options = { maxFilesPerTrigger = "1" }
[streams.j]
format = "json"
path = "j"
schema = "k2 int, t timestamp, v long"
time = "t"
watermark = "5 seconds"
options = { maxFilesPerTrigger = "1" }
[streams.c]
format = "csv"
path = "c"
schema = "j long, ts timestamp, v long"
time = "ts"
watermark = "5 seconds"
options = { maxFilesPerTrigger = "1", header = "true" }
[sink]
format = "parquet"
path = "out"
"""


def feed_mixed(root: Path, ticks: int) -> None:
    """Parquet, JSON lines and CSV; a few rows late."""
    rng = np.random.default_rng(11)
    names = {"p": ("k", "ts", "v"), "j": ("k2", "t", "v"), "c": ("j", "ts", "v")}
    for name in names:
        (root / name).mkdir()
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    for tick in range(ticks):
        for name, (key, time, value) in names.items():
            seconds = tick * 10 + rng.uniform(-2, 10, 40) - np.where(rng.random(40) < 0.08, 60, 0)
            table = pa.table(
                {
                    key: rng.integers(0, 12, 40),
                    time: stamps(np.round(seconds, 3)),
                    value: rng.integers(0, 12, 40),
                }
            )
            con.register("t", table)
            path, kind = (
                f"{root}/{name}/{tick}",
                {"p": "parquet", "j": "json", "c": "csv, HEADER"}[name],
            )
            shown = {"c": f"REPLACE (strftime({time}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {time})", "p": ""}
            shown["j"] = shown["c"]
            con.execute(f"COPY (SELECT * {shown[name]} FROM t) TO '{path}.tmp' (FORMAT {kind})")
            os.rename(f"{path}.tmp", f"{path}.{name}")


def test_a_union_of_formats_a_self_join_and_partial_windows_in_one_tree(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "q.toml").write_text(MIXED)
    feed_mixed(tmp_path, 5)
    summary = QueryRun(read_query(tmp_path / "q.toml"), quiet(), (), once=True).run(None)
    assert summary.late_rows > 10
    side = tmp_path / "cp" / "side" / "late"
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(
        f"CREATE VIEW p AS FROM '{tmp_path}/p/*.p'".replace("FROM '", "FROM read_parquet('") + ")"
    )
    json = "columns = {k2: 'INT', t: 'TIMESTAMPTZ', v: 'BIGINT'}, format = 'newline_delimited'"
    con.execute(f"CREATE VIEW jj AS FROM read_json('{tmp_path}/j/*.j', {json})")
    con.execute(
        f"CREATE VIEW cc AS SELECT j, CAST(ts AS TIMESTAMPTZ) AS ts, v FROM read_csv('{tmp_path}/c/*.c', header = true, types = {{'ts': 'VARCHAR'}})"
    )
    con.execute(f"""CREATE VIEW u AS (SELECT k, ts, v FROM p UNION ALL SELECT k2, t, v + 1 FROM jj)
                    EXCEPT ALL SELECT k, ts, v FROM read_parquet('{side}/u/*.parquet')""")
    late = {"j": ("jj", "k2, t, v"), "c": ("cc", "j, ts, v"), "d": ("cc", "j, ts, v")}
    for alias, (view, columns) in late.items():
        con.execute(
            f"CREATE VIEW {alias} AS FROM {view} EXCEPT ALL SELECT {columns} FROM read_parquet('{side}/{alias}/*.parquet')"
        )
    want = """SELECT u.v AS vu, j.v AS vj, c.v AS vc, d.v AS vd FROM u
        JOIN j ON u.k = j.k2 AND j.t BETWEEN u.ts - INTERVAL 5 SECONDS AND u.ts + INTERVAL 20 SECONDS
        JOIN c ON j.v = c.j AND c.ts BETWEEN j.t AND j.t + INTERVAL 15 SECONDS
        JOIN d ON d.j = c.j AND d.ts BETWEEN c.ts - INTERVAL 3 SECONDS AND c.ts"""
    got = f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')"
    assert con.execute(f"({want}) EXCEPT ALL ({got})").fetchall() == []
    assert con.execute(f"({got}) EXCEPT ALL ({want})").fetchall() == []
    assert con.execute(f"SELECT count(*) FROM ({got})").fetchall()[0][0] == summary.rows_out > 50


def test_three_levels_on_one_key_are_one_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k JOIN d ON a.k = d.k"
    case = Case(
        tmp_path,
        sql,
        dict.fromkeys("abcd", "ts timestamp, k long, v long"),
        groups=16,
        extra='window = "20 seconds"\njoin_order = "(((a b) c) d)"',
        stream_extra='time = "ts"\nwatermark = "5 seconds"',
    )
    case.write()
    rng = np.random.default_rng(1)
    for tick in range(3):
        for name in "abcd":
            seconds = tick * 10 + rng.uniform(-2, 10, 30)
            case.feed(
                name,
                tick,
                pa.table(
                    {
                        "ts": stamps(seconds),
                        "k": rng.integers(0, 9, 30),
                        "v": rng.integers(0, 99, 30),
                    }
                ),
            )
    seen, inner = [], Ticker.step

    def step(ticker: Ticker, rows: Any, brief: Brief) -> Outcome:
        if rows is not None:
            execution = rows._jdf.queryExecution()
            seen.append(
                (execution.toRdd().toDebugString().count("ShuffledRowRDD"), ticker._idle_stages)
            )
        return inner(ticker, rows, brief)

    monkeypatch.setattr(Ticker, "step", step)
    case.run()
    assert case.check(f"{sql} WHERE {near(*ALL)}") > 100
    assert {shuffles for shuffles, _ in seen} == {1}, "stages that rows went through"
    plan = seen[0][1]._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning") == 1, plan


@pytest.mark.timeout(180)
def test_a_silent_stream_holds_nothing_back_and_its_late_rows_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    """b is silent: a's state goes once b counts as idle; what b says then of the past is late."""
    case = Case(
        tmp_path,
        "SELECT a.v AS va, b.v AS vb FROM a JOIN b ON a.k = b.k",
        dict.fromkeys("ab", "ts timestamp, k long, v long"),
        groups=8,
        extra='window = "20 seconds"',
        stream_extra='time = "ts"\nwatermark = "5 seconds"\nidle_after = "2 seconds"',
    )
    case.write()

    def feed(stream: str, number: int, second: float, rows: int = 400) -> None:
        keys = pa.array(np.arange(rows) % 7)
        case.feed(
            stream, number, pa.table({"ts": stamps(np.full(rows, second)), "k": keys, "v": keys})
        )

    feed("a", 0, 0)
    feed("b", 0, 1)
    state = {"ticks": 0, "told": False}

    class Port:
        def publish(self, report: TickReport) -> None:
            if report.tick is None:
                return
            state["ticks"] += 1
            if report.late_rows:
                run.stop()
            elif not state["told"] and state["ticks"] > 3 and report.memory_bytes < 3 * 400 * 40:
                state["told"] = True
                feed("b", 1, 2.0, rows=9)  # a's rows of then are gone
                feed("b", 2, 40.0 * state["ticks"])
                feed("a", 900, 40.0 * state["ticks"] + 21)
            elif not state["told"]:
                feed("a", state["ticks"], 40.0 * state["ticks"])

    run = QueryRun(read_query(case.file), quiet(), (Port(),), once=False)
    summary = run.run(None)
    assert state["told"]
    assert summary.late_rows == 9
    # what is left to do, with every row of then accepted or late
    case.run()
    late = f"SELECT ts, k, v FROM read_parquet('{case.checkpoint}/side/late/b/*.parquet')"
    case.check(
        f"WITH b AS (FROM read_parquet('{case.root}/data/b/*.parquet') EXCEPT ALL {late}) {case.sql} WHERE {near('ab')}"
    )
