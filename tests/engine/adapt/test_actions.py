"""Spilling, cleaning up and moving groups of running queries on Spark, results compared with DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.adapt.scripts import script, states, three
from tests.engine.oracle import Kept


@pytest.mark.parametrize(
    "commands",
    [
        [(2, "spill", {"percent": 50})],
        [(2, "spill", {"percent": 50}), (5, "cleanup", {})],
        [(2, "spill", {"percent": 50}), (4, "spill", {"percent": 100}), (6, "cleanup", {})],
        [(2, "move", {"to": 1, "percent": 40})],
        [(2, "spill", {"percent": 30}), (5, "move", {"to": 1, "percent": 60})],
        [(2, "move", {"to": 1, "percent": 60}), (5, "spill", {"node": 1, "percent": 60})],
    ],
    ids=["spill", "cleanup", "twice", "move", "spill-move", "move-spill"],
)
@pytest.mark.parametrize("hold", [False, True], ids=["copy", "hold"])
def test_results_are_the_same(
    spark: SparkSession, tmp_path: Path, commands: list[Any], hold: bool
) -> None:
    if hold and all(do != "move" for _, do, _ in commands):
        pytest.skip("nothing moves")
    case, kept = three(tmp_path), Kept()
    case.run(kept, adaptation=script(*commands, hold=hold))
    print(case.report.read_text()[:3000])
    assert case.check() > 10_000
    done = [state for _, state in states(case)]
    assert done and set(done) == {"done"}, case.adapted()["refusals"]
    for action in case.adapted()["actions"]:
        assert action["receipt"]["ok"], action["receipt"]["problems"]
        assert action["receipt"]["checksums"]["agree"] and action["actual"]["bytes"] > 0
    assert sum(action["actual"]["cpu_s"] for action in case.adapted()["actions"]) > 0
