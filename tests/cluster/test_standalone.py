"""A standalone cluster with three workers: exact whatever is killed, and nodes at home while all is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cases import three_way
from tests.cluster.machines import Driver, standalone

pytestmark = [pytest.mark.long, pytest.mark.chaos]


@pytest.mark.chaos
def test_exact_and_at_home_with_an_executor_killed(tmp_path: Path) -> None:
    case = three_way(tmp_path / "case", files=28, rows=120)
    with standalone(tmp_path / "cluster") as cluster:
        driver = Driver(cluster, case.file)
        driver.wait_ticks(1)
        (executor,) = cluster.executors(1)
        driver.wait_ticks(20)
        executor.kill()
        home, tasks = driver.at_home()
        print(f"at home: {home} of {tasks} node tasks")
        used = {
            executor.partition("/")[0]
            for tick in driver.ticks
            for executor, _ in tick["nodes"]
            if executor
        }
        assert used == {host.address for host in cluster.hosts[1:]}
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 1000
    assert home >= 0.95 * tasks and tasks >= 57


@pytest.mark.long
@pytest.mark.chaos
def test_exact_with_a_worker_killed(tmp_path: Path) -> None:
    case = three_way(tmp_path / "case", files=8)
    with standalone(tmp_path / "cluster") as cluster:
        driver = Driver(cluster, case.file)
        driver.wait_ticks(3)
        cluster.kill("worker2")
        driver.wait_ticks(5)
        cluster.start_worker(2)
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 1000


@pytest.mark.long
@pytest.mark.chaos
def test_exact_with_the_driver_killed_and_restarted(tmp_path: Path) -> None:
    case = three_way(tmp_path / "case", files=8)
    with standalone(tmp_path / "cluster") as cluster:
        first = Driver(cluster, case.file)
        first.wait_ticks(3)
        first.kill()
        second = Driver(cluster, case.file)
        second.finish()
    assert case.check() > 1000
