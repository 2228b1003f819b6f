"""Spilling, cleaning up and moving groups of running queries on Spark, results compared with DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from control.policies.none import Nothing
from control.requests import Request
from engine.adapt.policy import Command, Policy
from tests.engine.oracle import Case, Kept

THREE = "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


def three(root: Path, ticks: int = 8, rows: int = 200, nodes: int = 2, extra: str = "") -> Case:
    case = Case(
        root, THREE, dict.fromkeys("abc", "k long, v long"), nodes=nodes, groups=16, extra=extra
    )
    case.write()
    rng = np.random.default_rng(5)
    for tick in range(ticks):
        for name in "abc":
            keys, values = rng.integers(0, 150, rows), rng.integers(0, 10**6, rows)
            case.feed(name, tick, pa.table({"k": keys, "v": values}))
    return case


def script(*commands: tuple[int, str, dict[str, Any]], **about: Any) -> Policy:
    """Commands by tick; nothing else is decided."""
    made = [Command(tick, Request(do, **{"node": 0, **what})) for tick, do, what in commands]
    return Policy(**{"kind": Nothing(), **about}, commands=made)


def states(case: Case) -> list[tuple[str, str]]:
    return [(a["course"], a["state"]) for a in case.adapted()["actions"]]


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
