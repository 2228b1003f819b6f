"""`local-cluster[3,1,1024]`: executors in processes of their own, as on a cluster, on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.cases import chain, three_way
from tests.cluster.machines import Driver, lone

pytestmark = [pytest.mark.long, pytest.mark.chaos]

MASTER = "local-cluster[3,1,1024]"


def test_exact_and_tidy(tmp_path: Path) -> None:
    case = three_way(tmp_path / "case", files=5)
    with lone(tmp_path) as nothing:
        driver = Driver(nothing, case.file, MASTER)
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 1000
    home, tasks = driver.at_home()
    assert home == tasks >= 12
    memory = Path(os.environ["SPILLWAY_MEM_DIR"])
    assert not list(memory.glob("*@127.0.0.1")), "memory is given back at the end"


@pytest.mark.long
def test_a_tree_with_an_exchange_between_its_joins(tmp_path: Path) -> None:
    case = chain(tmp_path / "case", files=4)
    with lone(tmp_path) as nothing:
        driver = Driver(nothing, case.file, MASTER)
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 100
    home, tasks = driver.at_home()
    assert home == tasks >= 9
