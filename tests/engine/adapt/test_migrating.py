"""Migrations on Spark, from the command line's script to the published results; what they share, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.engine.adapt.test_actions import script, states
from tests.engine.oracle import Case, Kept

CHAIN = (
    "SELECT a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd "
    "FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j JOIN d ON c.k = d.k"
)
RUN = Path(__file__).parents[3] / "run.py"


def chain(root: Path, ticks: int = 16, rows: int = 60, extra: str = "") -> Case:
    """Four streams whose trees need other keys at other places; the right order of sources matters."""
    schemas = dict.fromkeys("abcd", "k long, j long, v long")
    case = Case(root, CHAIN, schemas, groups=16, extra=extra)
    case.write()
    rng = np.random.default_rng(7)
    for tick in range(ticks):
        for at, name in enumerate("abcd"):
            columns = {
                "k": rng.integers(0, 40, rows),
                "j": rng.integers(0, 40, rows),
                "v": 1_000_000 * at + 1000 * tick + np.arange(rows),
            }
            case.feed(name, tick, pa.table(columns))
    return case


@pytest.mark.parametrize("first", [None, "(((d c) b) a)"], ids=["default", "right to left"])
def test_a_chain_of_migrations(spark: SparkSession, tmp_path: Path, first: str | None) -> None:
    """With the checkpoint read again in between: the query file keeps its order, the plan its own."""
    extra = f'join_order = "{first}"' if first else ""
    case, kept = chain(tmp_path, extra=extra), Kept()
    orders = ["(a (b (c d)))", "((a b) (c d))", "((a (b c)) d)"]
    case.run(
        kept,
        adaptation=script(
            *((1 + 5 * n, "migrate", {"order": order}) for n, order in enumerate(orders))
        ),
    )
    assert case.check() > 1000
    assert states(case) == [("migrate", "done")] * 3, case.adapted()
    rng = np.random.default_rng(8)
    for name in "abcd":
        more = {"k": rng.integers(0, 40, 60), "j": rng.integers(0, 40, 60), "v": np.arange(60)}
        case.feed(name, 16, pa.table(more))
    case.run(kept, adaptation=script((16, "migrate", {"order": "(((a b) c) d)"})))
    assert case.check() > 1000
    assert states(case) == [("migrate", "done")], case.adapted()["refusals"]


def test_from_the_command_line(tmp_path: Path) -> None:
    case = chain(tmp_path, ticks=6)
    commands, report = tmp_path / "script.toml", tmp_path / "report.json"
    commands.write_text(
        '[[at]]\ntick = 2\ndo = "migrate"\njoin_order = "(a (b (c d)))"\nstrategy = "moving"\n'
        '[[at]]\ntick = 3\ndo = "migrate"\njoin_order = "((a d) (b c))"\n'
    )
    asked = ["query", "run", str(case.file), "--once", "--script", str(commands)]
    done = subprocess.run(
        [sys.executable, str(RUN), *asked, "--report", str(report)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert case.check() > 100
    found = json.loads(report.read_text())
    (action,) = found["actions"]
    assert action["state"] == "done" and action["receipt"]["order_after"] == "(a (b (c d)))"
    said = {one["why"]: one["text"] for asked in found["refusals"] for one in asked["refusals"]}
    assert "share no key" in said["bad_order"]
