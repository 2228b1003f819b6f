"""The benchmark's own parts: same rows from a seed, wrong rows are noticed, orphans' CPU is counted."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import duckdb
import pytest

from engine.papers.plot import svg
from tests.bench.data import inputs, rows_per_tick
from tests.bench.exact import difference
from tests.bench.figures import growth, ratios, verdicts
from tests.bench.recovery import Recovery, page, verdict
from tests.bench.report import write
from tests.bench.rounds import Measured
from tests.bench.sides import Bench, Run, SideError, query_file, supervised
from tests.bench.workloads import WORKLOADS


def parquet(folder: Path, query: str) -> Path:
    folder.mkdir(exist_ok=True)
    duckdb.sql(f"COPY ({query}) TO '{folder}/part.parquet' (FORMAT parquet)")
    return folder


def run(side: str, trigger: int, ticks: list[float], **summary: object) -> Run:
    usage = {"cpu_s": 1.0, "memory_bytes_max": 10**9, "shm_bytes_max": 0}
    base = {"tick_seconds": ticks, "seconds": sum(ticks), "seconds_startup": 1.0, "rows_in": 60}
    return Run(side, "", trigger, base | {"rows_out": 5} | summary, usage, Path("out"))


def test_same_seed_same_rows(tmp_path: Path) -> None:
    workload = WORKLOADS["skew"].scaled(2000)
    first, second = inputs(workload, tmp_path / "x"), inputs(workload, tmp_path / "y")
    for stream in workload.streams:
        one, two = first / stream.name, second / stream.name
        assert len(list(one.glob("*.parquet"))) == workload.files
        assert not difference(one, two).missing
        assert difference(one, two).exact


def test_skew_is_in_one_stream_only(tmp_path: Path) -> None:
    workload = WORKLOADS["skew"].scaled(30_000)
    folder = inputs(workload, tmp_path)
    hot = int(workload.rows / 6.67) // 5  # a fifth of the keys
    for name, low, high in (("a", 0.79, 0.83), ("b", 0.2, 0.4)):
        share = duckdb.sql(
            f"SELECT sum(n) / {workload.rows} FROM (SELECT count(*) AS n "
            f"FROM '{folder}/{name}/*.parquet' GROUP BY k ORDER BY n DESC LIMIT {hot})"
        ).fetchall()[0][0]
        assert low < float(share) < high, name


@pytest.mark.parametrize(
    ("query", "missing", "extra"),
    [
        ("SELECT * FROM (VALUES (1, 'x'), (1, 'x'), (NULL, 'y')) t(k, v)", 0, 0),
        ("SELECT * FROM (VALUES (1, 'x'), (NULL, 'y')) t(k, v)", 1, 0),
        ("SELECT * FROM (VALUES (1, 'x'), (1, 'x'), (1, 'x'), (NULL, 'y')) t(k, v)", 0, 1),
        ("SELECT * FROM (VALUES (1, 'x'), (1, 'x'), (2, 'y')) t(k, v)", 1, 1),
    ],
    ids=["same", "one-missing", "one-doubled", "one-changed"],
)
def test_multisets_are_compared_exactly(
    tmp_path: Path, query: str, missing: int, extra: int
) -> None:
    wanted = parquet(
        tmp_path / "w", "SELECT * FROM (VALUES (1, 'x'), (1, 'x'), (NULL, 'y')) t(k, v)"
    )
    found = difference(parquet(tmp_path / "f", query), wanted)
    assert (found.missing, found.extra) == (missing, extra)
    assert found.exact == (not missing and not extra)


def test_no_output_is_not_exact(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    assert not difference(tmp_path / "f", parquet(tmp_path / "w", "SELECT 1 AS k")).exact


def test_rows_of_every_tick_add_up(tmp_path: Path) -> None:
    workload = WORKLOADS["tri"].scaled(1000)
    ticks = rows_per_tick(workload, inputs(workload, tmp_path), 5)
    assert len(ticks) == workload.ticks(5) == 4
    assert sum(ticks) == sum(rows_per_tick(workload, inputs(workload, tmp_path), 1))


def test_cpu_of_orphans_is_counted(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.6: pass"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    (tmp_path / "leave.py").write_text(leave)
    report = tmp_path / "usage.json"
    # In a process of its own: becoming a reaper is for life, and rusage is per process.
    code = (
        "import json, sys; from dataclasses import asdict; from pathlib import Path;"
        "from tests.bench.supervise import supervise;"
        f"used = supervise([sys.executable, {str(tmp_path / 'leave.py')!r}], 60);"
        f"Path({str(report)!r}).write_text(json.dumps(asdict(used)))"
    )
    place = tmp_path / "run"
    place.mkdir()
    with pytest.raises(SideError, match="ended with 0"):  # prints no JSON line
        supervised("leaver", [sys.executable, "-c", code], place)
    used = json.loads(report.read_text())
    assert used["returncode"] == 0
    if sys.platform == "linux":
        assert used["cpu_s"] >= 0.6
        assert used["memory_bytes_max"] > 1_000_000


def test_first_tick_is_left_out_and_shown_apart() -> None:
    spark, ours = run("spark", 1, [9.0, 4.0, 4.0]), run("spillway", 1, [5.0, 1.0, 1.0])
    assert (ours.cold_s, ours.warm_s) == (5.0, 2.0)
    found = ratios([spark], [ours])
    assert found
    assert found.middle == 4.0


def test_growth_is_per_row() -> None:
    rows = [10 * (tick + 1) for tick in range(20)]
    assert growth(run("spillway", 1, [float(n) for n in rows]), rows) == pytest.approx(1.0)
    assert growth(run("spillway", 1, [1.0] * 4), [1] * 4) is None


def test_page_shows_a_missed_bar(tmp_path: Path) -> None:
    workload = WORKLOADS["tri"]
    measured = Measured(workload, tick_rows={5: [10] * 4})
    measured.add(run("spark", 5, [9.0, 4.0, 4.0, 4.0], state_bytes=1), None)
    measured.add(run("spillway", 5, [5.0, 2.0, 2.0, 2.0], state_bytes=70_000_000), None)
    measured.add(run("duckdb", 0, [1.0]), None)
    reached = {verdict.name.split(",")[0]: verdict.reached for verdict in verdicts(measured)}
    assert reached["throughput against Spark"] is False
    assert reached["distance to DuckDB"] is True
    assert reached["state size"] is True
    text = write(measured, tmp_path).read_text()
    assert "**missed**" in text
    assert "2.00 ×" in text
    assert len(json.loads((tmp_path / "tri.json").read_text())["runs"]) == 3


def test_plot_is_well_formed() -> None:
    root = ET.fromstring(svg("a < b", {"one": [1.0, 2.0], "none": [], "two": [0.0]}, "x", "y"))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 3


def test_query_file_is_relative(tmp_path: Path) -> None:
    workload = WORKLOADS["tri"]
    bench = Bench(workload, tmp_path / "inputs")
    place = tmp_path / "runs" / "one"
    place.mkdir(parents=True)
    text = query_file(bench, 5, place).read_text()
    assert 'path = "../../inputs/a"' in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("restart_s", "empty_s", "said"),
    [
        ([6.0, 6.2], [5.0, 5.1], "reached"),
        ([9.0, 9.1], [5.0, 5.1], "**missed**"),
        ([6.0, 6.0], [5.0, 8.0], "**too noisy to tell**"),
    ],
)
def test_recovery_is_judged_over_the_noise(
    restart_s: list[float], empty_s: list[float], said: str
) -> None:
    pairs = zip(restart_s, empty_s, strict=True)
    found = [Recovery(10**9, 1.0, restart, empty) for restart, empty in pairs]
    assert verdict(found).endswith(said + ".")
    assert verdict(found) in page(found)
