"""Migrations on Spark, from the command line's script to the published results; what they share, and what they refuse."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.lifecycle import Event
from engine.query.file import read_query
from engine.runner import QueryRun
from engine.settings import Settings
from tests.engine.adapt.live import fed, until
from tests.engine.adapt.scripts import script, states
from tests.engine.oracle import Case, Kept
from tests.inside import inside

CHAIN = (
    "SELECT a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd "
    "FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j JOIN d ON c.k = d.k"
)
KEYS = 100  # of which four streams of 960 rows make a million results


def chain(root: Path, ticks: int = 16, rows: int = 60, extra: str = "") -> Case:
    """Four streams whose trees need other keys at other places; the right order of sources matters."""
    schemas = dict.fromkeys("abcd", "k long, j long, v long")
    case = Case(root, CHAIN, schemas, groups=16, extra=extra)
    case.write()
    rng = np.random.default_rng(7)
    for tick in range(ticks):
        for at, name in enumerate("abcd"):
            columns = {
                "k": rng.integers(0, KEYS, rows),
                "j": rng.integers(0, KEYS, rows),
                "v": 1_000_000 * at + 1000 * tick + np.arange(rows),
            }
            case.feed(name, tick, pa.table(columns))
    return case


@pytest.mark.parametrize(
    ("first", "strategy"),
    [
        (None, "moving"),
        pytest.param("(((d c) b) a)", "moving", marks=pytest.mark.long),
        (None, "delta"),
    ],
    ids=["default", "right to left", "delta"],
)
def test_a_chain_of_migrations(
    spark: SparkSession, tmp_path: Path, first: str | None, strategy: str
) -> None:
    """With the checkpoint read again in between: the query file keeps its order, the plan its own."""
    extra = f'join_order = "{first}"' if first else ""
    case, kept = chain(tmp_path, extra=extra), Kept()
    orders = ["(a (b (c d)))", "((a b) (c d))", "((a (b c)) d)"]
    case.run(
        kept,
        adaptation=script(
            *(
                (1 + 5 * n, "migrate", {"order": order, "strategy": strategy})
                for n, order in enumerate(orders)
            )
        ),
    )
    assert case.check() > 1000
    course = "migrate" if strategy == "moving" else f"migrate_{strategy}"
    assert states(case) == [(course, "done")] * 3, case.adapted()
    rng = np.random.default_rng(8)
    for name in "abcd":
        more = {"k": rng.integers(0, KEYS, 60), "j": rng.integers(0, KEYS, 60), "v": np.arange(60)}
        case.feed(name, 16, pa.table(more))
    case.run(kept, adaptation=script((16, "migrate", {"order": "(((a b) c) d)"})))
    assert case.check() > 1000
    assert states(case) == [("migrate", "done")], case.adapted()["refusals"]


def test_from_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    case = chain(tmp_path, ticks=6)
    commands, report = tmp_path / "script.toml", tmp_path / "report.json"
    commands.write_text(
        '[[at]]\ntick = 2\ndo = "migrate"\njoin_order = "(a (b (c d)))"\nstrategy = "moving"\n'
        '[[at]]\ntick = 3\ndo = "migrate"\njoin_order = "((a d) (b c))"\n'
    )
    found = scripted(case, commands, report)
    (action,) = found["actions"]
    assert action["state"] == "done" and action["receipt"]["order_after"] == "(a (b (c d)))"
    said = {one["why"]: one["text"] for asked in found["refusals"] for one in asked["refusals"]}
    assert "share no key" in said["bad_order"]


def scripted(case: Case, commands: Path, report: Path) -> Any:
    """Run by the command line until the input is done; its report."""
    asked = ["query", "run", str(case.file), "--once", "--script", str(commands)]
    done = inside(*asked, "--report", report)
    assert done.returncode == 0, done.stderr[-3000:]
    assert case.check() > 100
    return json.loads(report.read_text())


def test_the_best_order_from_a_script(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is named: what ticks have told by then says which order, and by which way; predicted beside actual."""
    case = Case(tmp_path, CHAIN, dict.fromkeys("abcd", "k long, j long, v long"), groups=16)
    case.write()
    rng = np.random.default_rng(11)
    for tick in range(14):
        for at, name in enumerate("abcd"):
            many = 6 if name in "ab" else 300  # a and b meet far too often
            columns = {
                "k": rng.integers(0, many, 50),
                "j": rng.integers(0, 300, 50),
                "v": 1_000_000 * at + 1000 * tick + np.arange(50),
            }
            case.feed(name, tick, pa.table(columns))
    commands, report = tmp_path / "script.toml", tmp_path / "report.json"
    commands.write_text('[[at]]\ntick = 1\ndo = "migrate"\n[[at]]\ntick = 9\ndo = "migrate"\n')
    found = scripted(case, commands, report)
    assert found["refusals"][0]["refusals"][0]["why"] == "no_picture"
    (action,) = found["actions"]
    assert action["state"] == "done", action["note"]
    after = action["receipt"]["order_after"]
    assert after == action["step"]["order"] and "(a b)" not in after and "(b a)" not in after
    predicted, actual = action["predicted"], action["actual"]
    assert predicted["migration"]["join_order"] == after and predicted["gain_row_s"] > 0
    # Where ticks waited for all of it, none was in it.
    ticks = set() if action["step"]["at_once"] else {"tick_s"}
    assert {"seconds", "bytes", "pause_s"} | ticks <= set(actual) & set(predicted["figures"])


def test_a_live_query_goes_on_and_may_be_paused_afterwards(
    spark: SparkSession, tmp_path: Path
) -> None:
    """That Spark's streaming query begins again is nobody's pause."""
    case = chain(tmp_path, ticks=5)
    kept, told = Kept(), list[Event]()
    settings = Settings.load({"trigger_seconds": "0.2"})
    run = QueryRun(read_query(case.file), settings, [kept], once=False)
    run.adaptation = script((2, "migrate", {"order": "(a (b (c d)))"}))
    run.report_path = case.report
    run.notice = told.append
    thread = threading.Thread(target=run.serve, args=(spark.newSession,))
    thread.start()
    try:
        until(lambda: moved(run) and fed(kept) == 5 * 4 * 60)
        assert told == [Event.UP]
        run.pause()
        until(lambda: told[-1] is Event.HALTED)
        run.resume()
        until(lambda: told[-1] is Event.UP)
        rng = np.random.default_rng(9)
        for name in "abcd":
            more = {
                "k": rng.integers(0, KEYS, 60),
                "j": rng.integers(0, KEYS, 60),
                "v": np.arange(60),
            }
            case.feed(name, 5, pa.table(more))
        until(lambda: fed(kept) == 6 * 4 * 60)
    finally:
        run.stop()
        thread.join(120)
    assert case.check() > 100
    assert told == [Event.UP, Event.HALTED, Event.UP]
    assert states(case) == [("migrate", "done")]


def test_spark_begins_again_only_for_other_exchanges(spark: SparkSession, tmp_path: Path) -> None:
    """As many exchanges as before: the same streaming query goes on with the other plan."""
    case, kept = chain(tmp_path, ticks=12, extra='join_order = "(((a b) c) d)"'), Kept()
    run = QueryRun(read_query(case.file), Settings.load({}), [kept], once=True)
    orders = ["(((c b) a) d)", "((a b) (c d))", "((c d) (b a))"]
    run.adaptation = script(
        *((1 + 4 * n, "migrate", {"order": order}) for n, order in enumerate(orders))
    )
    run.report_path = case.report
    run.serve(spark.newSession)
    assert case.check() > 1000
    assert states(case) == [("migrate", "done")] * 3, case.adapted()
    runs = {given["runId"] for given in run._progress}
    assert len(runs) == 2  # three exchanges in a row became two


def moved(run: QueryRun) -> bool:
    return run.desk is not None and run.desk.ticker.manifest.plan is not None
