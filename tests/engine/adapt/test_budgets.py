"""Budgets: nodes spill by themselves, nothing is lost, memory stays within the budget but for a tick's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from control.policies.local_spill import LocalSpill
from engine.adapt.policy import Policy
from engine.errors import StateError
from tests.engine.adapt.scripts import script, three
from tests.engine.chains import ALL, accepted, chain, feed_chain, near
from tests.engine.oracle import Kept


def test_far_beyond_the_budget(spark: SparkSession, tmp_path: Path) -> None:
    case, kept = three(tmp_path, ticks=12, rows=400, extra="memory_per_node = 60000"), Kept()
    summary = case.run(kept)
    assert case.check() > 50_000
    by = [a["by"] for a in case.adapted()["actions"]]
    assert "node 0" in by and "node 1" in by and "end of input" in by
    delta = 3 * 400 * 24 * 1.5
    assert max(n.memory_bytes for r in kept.reports for n in r.nodes) <= 60_000 + delta
    assert summary.spilled_bytes > 60_000
    assert max(n.disk_bytes for r in kept.reports for n in r.nodes) > 60_000


def test_budgets_of_their_own_and_taken_away(spark: SparkSession, tmp_path: Path) -> None:
    case = three(tmp_path, ticks=10, rows=300, extra="memory_per_node = { 0 = 40000 }")
    policy = script((5, "budget", {"node": 1, "bytes": 40_000}), kind=LocalSpill())
    kept = Kept()
    case.run(kept, adaptation=policy)
    assert case.check() > 20_000
    spills = [a for a in case.adapted()["actions"] if a["course"] == "spill"]
    assert {a["step"]["node"] for a in spills} == {0, 1}
    first = min(int(a["id"].split("-")[1]) for a in spills if a["step"]["node"] == 1)
    assert first > 5, "node 1 had no budget before"


def test_owed_results_may_be_kept_for_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    case = three(tmp_path, ticks=8, extra="memory_per_node = 30000")
    case.run(owed="keep")
    with pytest.raises(AssertionError, match="missing"):
        case.check()
    case.run(owed="cleanup")
    assert case.check() > 10_000


def test_without_spilling_it_stops_and_goes_on_later(spark: SparkSession, tmp_path: Path) -> None:
    case = three(tmp_path, ticks=8, extra="memory_per_node = 30000")
    with pytest.raises(StateError, match=r"node \d needs .* its budget is 30,000"):
        case.run(adaptation=Policy(LocalSpill(spill_percent=0.0)))
    case.run()
    assert case.check() > 10_000


@pytest.mark.parametrize("order", ["", "((a b) (c d))"])
def test_a_tree_with_its_lower_joins_on_disk(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    """Windows all over; lower joins owe results whose partners above must not have expired."""
    case = chain(tmp_path, order)
    feed_chain(case, 9, seed=3, rows=60)
    names = ["join-1", "join-2", "join-3"]
    spills = [
        (tick, "spill", {"node": tick % 2, "percent": 80, "operator": name})
        for tick, name in zip((1, 2, 3), names, strict=True)
    ]
    cleanups = [(7, "cleanup", {"node": 0, "operator": names[0]})]
    case.run(adaptation=script(*spills, *cleanups))
    assert case.check(f"{accepted(case)}{case.sql} WHERE {near(*ALL)}") > 100
    report = case.adapted()
    assert sum(a["course"] == "spill" for a in report["actions"]) >= 2, report["refusals"]
