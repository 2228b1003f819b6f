"""Both plans at once on Spark: by script, live with restarts, several queries side by side, over unions, under window
functions, and into sinks that Spark writes."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from control.actions import State
from engine.adapt import parallel
from engine.adapt.desk import Desk
from engine.host import EngineHost
from engine.query.file import read_query
from engine.runner import QueryRun
from engine.settings import Settings
from tests.engine.adapt.live import fed, until
from tests.engine.adapt.scripts import script, states
from tests.engine.chains import stamps
from tests.engine.oracle import Case, Kept
from tests.inside import inside

WINDOW_S = 3
JOINS = "FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j JOIN d ON c.k = d.k"
CHAIN = f"SELECT a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd {JOINS}"
FIRST, SECOND, THIRD = "(a (b (c d)))", "((a b) (c d))", "((a (b c)) d)"
ROWS = 60


def within(sql: str, names: str) -> str:
    """The query for DuckDB, which does not know the file's window."""
    gaps = [f"abs(epoch_us({one}.ts) - epoch_us({other}.ts)) <= {WINDOW_S * 10**6}"
            for one, other in itertools.combinations(names, 2)]  # fmt: skip
    return f"{sql} WHERE {' AND '.join(gaps)}"


def chain(root: Path, ticks: int, sql: str = CHAIN, names: str = "abcd", extra: str = "") -> Case:
    """Streams within a window; a tick is a second."""
    case = Case(
        root,
        sql,
        dict.fromkeys(names, "k long, j long, v long, ts timestamp"),
        groups=16,
        extra=f'window = "{WINDOW_S} seconds"\n{extra}',
        stream_extra='time = "ts"\nwatermark = "0 seconds"',
    )
    root.mkdir(exist_ok=True)
    case.write()
    for tick in range(ticks):
        feed(case, tick)
    return case


def feed(case: Case, tick: int) -> None:
    for at, name in enumerate(case.schemas):
        rng = np.random.default_rng([tick, at])
        columns = {
            "k": rng.integers(0, 30, ROWS),
            "j": rng.integers(0, 30, ROWS),
            "v": 1_000_000 * at + 1000 * tick + np.arange(ROWS),
            "ts": stamps(tick + np.round(rng.uniform(0, 1, ROWS), 3)),
        }
        case.feed(name, tick, pa.table(columns))


def beside(tick: int, order: str) -> tuple[int, str, dict[str, Any]]:
    return tick, "migrate", {"order": order, "strategy": "parallel"}


def test_a_chain_of_migrations(spark: SparkSession, tmp_path: Path) -> None:
    """With other numbers of exchanges, for which Spark's streaming query begins again, and with the checkpoint read again
    between them."""
    case = chain(tmp_path, 18)
    case.run(adaptation=script(beside(2, FIRST), beside(10, SECOND)))
    assert case.check(within(CHAIN, "abcd")) > 1000
    assert states(case) == [("migrate_parallel", "done")] * 2, case.adapted()
    for tick in range(18, 28):
        feed(case, tick)
    other = (25, "migrate", {"order": FIRST, "strategy": "moving"})
    case.run(adaptation=script(beside(19, THIRD), other))
    assert case.check(within(CHAIN, "abcd")) > 1000
    assert states(case) == [("migrate_parallel", "done"), ("migrate", "done")], case.adapted()


def test_in_the_paper_s_order_from_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    case = chain(tmp_path, 12)
    (tmp_path / "adapt.toml").write_text('policy = "none"\nhold = true\n')
    (tmp_path / "script.toml").write_text(
        f'[[at]]\ntick = 2\ndo = "migrate"\njoin_order = "{FIRST}"\nstrategy = "parallel"\n'
    )
    asked = ["query", "run", str(case.file), "--once", "--adapt", str(tmp_path / "adapt.toml")]
    asked += ["--script", str(tmp_path / "script.toml"), "--report", str(case.report)]
    done = inside(*asked)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = case.check(within(CHAIN, "abcd"))
    assert json.loads(done.stdout.splitlines()[-1])["rows_out"] == rows > 1000
    (action,) = case.adapted()["actions"]
    assert (action["course"], action["state"]) == ("migrate_parallel_hold", "done")
    assert action["receipt"]["rows_withheld"] > 100
    assert not list(case.out.glob(".part*"))


@contextmanager
def running(spark: SparkSession, case: Case, kept: Kept, **about: Any) -> Iterator[QueryRun]:
    """A live query, until the end of the block."""
    run = QueryRun(
        read_query(case.file), Settings.load({"trigger_seconds": "0.2"}), [kept], once=False
    )
    run.adaptation, run.report_path = script(*about.pop("asked", ()), **about), case.report
    thread = threading.Thread(target=run.serve, args=(spark.newSession,))
    thread.start()
    try:
        yield run
    finally:
        run.stop()
        thread.join(120)


def both(run: QueryRun) -> bool:
    return run.desk is not None and parallel.track_of(run.desk) is not None


@pytest.mark.parametrize("hold", [False, True], ids=["at once", "held"])
def test_a_live_query_goes_on_with_both_after_a_restart(
    spark: SparkSession, tmp_path: Path, hold: bool
) -> None:
    case, kept = chain(tmp_path, 5), Kept()
    with running(spark, case, kept, asked=[beside(4, FIRST)], hold=hold) as run:
        until(lambda: both(run) and fed(kept) == 5 * 4 * ROWS)
    (told,) = case.adapted()["actions"]
    assert told["state"] == "running" and told["records"][-1][0] == "BothPlans"
    assert bool(list(case.out.glob(".part*"))) == hold
    with running(spark, case, kept) as run:
        until(lambda: both(run))
        for tick in range(5, 12):
            feed(case, tick)
        until(lambda: fed(kept) == 12 * 4 * ROWS and not both(run))
    (ended,) = case.adapted()["actions"]
    assert (ended["id"], ended["state"]) == (told["id"], "done")
    assert case.check(within(CHAIN, "abcd")) > 1000


def test_unions_feed_both_plans(spark: SparkSession, tmp_path: Path) -> None:
    union = "(SELECT k, j, v, ts FROM a UNION ALL SELECT j AS k, k AS j, v + 1 AS v, ts FROM e)"
    joins = f"FROM {union} x JOIN b ON x.k = b.k JOIN c ON b.j = c.j"
    sql = f"SELECT x.v AS va, b.v AS vb, c.v AS vc {joins}"
    case = chain(tmp_path, 14, sql, "abce")
    case.run(adaptation=script(beside(2, "(x (b c))")))
    assert case.check(within(sql, "xbc")) > 1000
    assert states(case) == [("migrate_parallel", "done")], case.adapted()


def test_window_functions_above_both_plans(spark: SparkSession, tmp_path: Path) -> None:
    """They put rows in order of time whichever plan made them: nothing is withheld from them."""
    found: list[Counter[Any]] = []
    for asked in ([], [beside(2, "(a (b c))")]):
        root = tmp_path / str(len(found))
        sql = (
            "SELECT a.v AS va, b.v AS vb, c.v AS vc, count(c.v) OVER (PARTITION BY a.k ORDER BY a.ts "
            "RANGE BETWEEN INTERVAL 2 SECONDS PRECEDING AND CURRENT ROW) AS n "
            "FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j"
        )
        case = chain(root, 14, sql, "abc", 'join_order = "((a b) c)"')
        case.run(adaptation=script(*asked, hold=True))
        rows = duckdb.sql(f"SELECT * FROM read_parquet('{case.out}/*.parquet')").fetchall()
        found.append(Counter(rows))
        if asked:
            (action,) = case.adapted()["actions"]
            assert action["state"] == "done" and not action["receipt"].get("rows_withheld")
    # How early results are due is a matter of the tree; those that are due are the same.
    few, many = sorted(found, key=Counter.total)
    assert few.total() > 1000 and few <= many


def test_two_of_three_queries_change_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """On the same nodes, in one engine; the third goes on as it is."""
    cases = {name: chain(tmp_path / name, 12, CHAIN) for name in ("one", "two", "three")}
    for name, case in cases.items():
        case.file.write_text(case.file.read_text().replace('name = "case"', f'name = "{name}"', 1))
    desks: dict[str, Desk] = {}

    def seated(run: QueryRun, desk: Desk) -> None:
        desks[run.spec.name] = desk
        if run.spec.name != "three":
            desk.policy = script(beside(2, FIRST if run.spec.name == "one" else THIRD))

    host = EngineHost(Settings.load({}), start_with=lambda: spark, seated=seated)
    for case in cases.values():
        host.register(read_query(case.file))
    for name in cases:
        host.start(name, once=True)
    assert host.wait_ended(240)
    for name, case in cases.items():
        assert host.status_of(name).error is None
        assert case.check(within(CHAIN, "abcd")) > 1000
        ended = [action.state for action in desks[name].records.actions.values()]
        assert ended == ([State.DONE] if name != "three" else [])


def test_held_results_for_a_sink_that_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    """They wait as files in the checkpoint, and are handed over in one piece."""
    case = chain(tmp_path, 12)
    text = case.file.read_text().replace('[sink]\nformat = "parquet"', '[sink]\nformat = "json"')
    case.file.write_text(text)
    waiting = Waiting(case)
    case.run(waiting, adaptation=script(beside(2, FIRST), hold=True))
    (action,) = case.adapted()["actions"]
    assert action["state"] == "done" and action["receipt"]["rows_withheld"] > 100
    assert max(waiting.hidden) > 0 == waiting.hidden[-1]
    names = "va long, vb long, vc long, vd long"
    rows = spark.read.schema(names).format("json").load(str(case.out)).collect()
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(case.expected(f"CREATE TABLE want AS {within(CHAIN, 'abcd')}"))
    assert Counter(map(tuple, rows)) == Counter(con.execute("SELECT * FROM want").fetchall())


class Waiting:
    """A port: how many files wait in the checkpoint after each tick."""

    def __init__(self, case: Case) -> None:
        self.folder = case.checkpoint / "results"
        self.hidden: list[int] = []

    def publish(self, report: object) -> None:
        self.hidden.append(len(list(self.folder.glob(".part*"))))
