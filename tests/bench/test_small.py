"""The benchmark in small: W1 with 3 × 20 000 rows through all three sides, rows compared, no time judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import beside, migrating, reordered
from tests.bench.rounds import Order, measure
from tests.bench.workloads import WORKLOADS

ALL = Order(runs=1, files_per_trigger=(5,), spark_setting="hdfs-v2", spark_memory="1g")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["window2", "chain4"])
def test_windows_give_duckdb_s_rows(name: str) -> None:
    small = replace(WORKLOADS[name].scaled(20_000), spacing_us=30_000)
    lines: list[str] = []
    measured = measure(small, replace(ALL, sides=("spillway", "duckdb")), lines.append)
    assert not measured.failures, "\n".join(measured.failures)
    assert measured.exact, "\n".join(lines)
    assert measured.checks["spillway", 5][0].rows > 20_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "sides",
    [("spillway", "duckdb"), pytest.param(ALL.sides, marks=pytest.mark.long)],
    ids=["two", "all"],
)
def test_all_sides_give_the_same_rows(sides: tuple[str, ...]) -> None:
    lines: list[str] = []
    measured = measure(WORKLOADS["tri"].scaled(20_000), replace(ALL, sides=sides), lines.append)
    assert not measured.failures, "\n".join(measured.failures)
    assert measured.exact, "\n".join(lines)
    ours = measured.of("spillway", 5)[0]
    for key in ("query", "ticks", "rows_in", "rows_out", "seconds", "seconds_startup"):
        assert key in ours.summary
    for key in ("tick_seconds", "state_bytes", "spilled_bytes", "late_rows", "null_key_rows"):
        assert key in ours.summary
    assert ours.summary["ticks"] == len(ours.ticks_s) == 4
    assert ours.summary["rows_in"] == 60_000
    assert ours.summary["rows_out"] == measured.checks["spillway", 5][0].rows
    assert 0 < ours.summary["state_bytes"] <= 2 * measured.workload.state_bytes_limit(5)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_another_order_half_way(tmp_path: Path) -> None:
    """Spark's answer is Spark's to give: it may refuse, or be wrong. Ours is exact, and changes order."""
    theirs, ours = reordered.compare(tmp_path, 4000, [reordered.OTHER, "spillway"])
    assert theirs.refused or theirs.found is not None
    assert not ours.refused and ours.found is not None and ours.found.exact
    assert ours.found.rows > 10_000
    assert "| exact |" in reordered.page([theirs, ours], 4000)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_both_plans_side_by_side(tmp_path: Path) -> None:
    """Figures of either plan, paced and flat out; no time is judged but that of the window."""
    size = beside.Size(rows=300, keys=300, window_ticks=3, at=6, ticks=16, tick_s=0.5)
    found = beside.measure(tmp_path / "parallel", 1, size)
    for (row,) in found.values():
        assert row["exact"] and 3 <= row["ticks"] <= 6
        assert min(row[name] for name in row if name != "exact") > 0
        assert row["bytes_old"] > 0.5 * row["bytes_before"]
        assert row["rate_before"] > 10 * size.rows, "no row was late"
    (paced,) = found["paced"]
    assert paced["length_s"] >= size.window_s
    text = "\n".join(beside.table(found, migrating.figure))
    assert text.count("\n") == 9 and "| paced | flat out |" in text
