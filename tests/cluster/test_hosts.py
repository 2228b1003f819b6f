"""Several hosts, each in a network namespace: at home on them, and exact when the network of one is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import nets
from tests.cluster.cases import three_way
from tests.cluster.machines import Driver, standalone

pytestmark = [
    pytest.mark.long,
    pytest.mark.chaos,
    pytest.mark.skipif(bool(nets.unavailable()), reason=nets.unavailable() or "available"),
]


@pytest.mark.parametrize("back", [1.0, 25.0], ids=["before Spark gave it up", "after"])
def test_exact_with_the_network_cut_and_restored(tmp_path: Path, back: float) -> None:
    case = three_way(tmp_path / "case", files=30, rows=150)
    with nets.net(4) as net, standalone(tmp_path / "cluster", net.hosts) as cluster:
        driver = Driver(cluster, case.file)
        driver.wait_ticks(20)
        home, tasks = driver.at_home()
        print(f"at home: {home} of {tasks} node tasks")
        net.cut(2)
        driver.pause(back)
        net.restore(2)
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 1000
    assert home >= 0.95 * tasks and tasks >= 57
