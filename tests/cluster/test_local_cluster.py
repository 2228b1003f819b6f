"""`local-cluster[3,1,1024]`: executors in processes of their own, as on a cluster, on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from control.plans import STRATEGIES
from tests.cluster.cases import chain, three_way, within
from tests.cluster.machines import Driver, lone, wait_until

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


@pytest.mark.long
@pytest.mark.parametrize("strategy", [*STRATEGIES, "parallel, held"])
def test_another_order_while_it_runs(tmp_path: Path, strategy: str) -> None:
    """States are computed on executors, where their groups will be, or both plans run there; a second change goes back."""
    strategy, _, held = strategy.partition(", ")
    if held:
        (tmp_path / "adapt.toml").write_text('policy = "none"\nhold = true\n')
    case = chain(tmp_path / "case", files=18, short=True)
    script = tmp_path / "script.toml"
    script.write_text(
        "".join(
            f'[[at]]\ntick = {tick}\ndo = "migrate"\njoin_order = "{order}"\nstrategy = "{strategy}"\n'
            for tick, order in ((3, "(a (b c))"), (11, "((a b) c)"))
        )
    )
    with lone(tmp_path) as nothing:
        driver = Driver(nothing, case.file, MASTER, script)
        summary = driver.finish()
    assert summary["rows_out"] == case.check(within(case)) > 100
    told = json.loads(script.with_suffix(".json").read_text())["actions"]
    assert [action["state"] for action in told] == ["done", "done"], told
    assert [action["course"].endswith("_hold") for action in told] == [bool(held)] * 2


def test_a_node_is_not_alive_while_its_executor_is_gone(tmp_path: Path) -> None:
    """Killed while nothing comes in: its nodes are not alive at once, nothing is moved there, and a probe finds them
    again elsewhere. Results are exact."""
    case = three_way(tmp_path / "case", files=2, nodes=3)
    with lone(tmp_path) as nothing:
        driver = Driver(nothing, case.file, "local-cluster[2,1,1024]", watch=True)
        driver.wait_ticks(2)
        driver.wait_vitals(all)
        homes = [int(executor.partition("/")[2]) for executor, _ in driver.ticks[-1]["nodes"]]
        # Of two executors the one with fewer nodes, so that somebody is left.
        pid = min(set(homes), key=homes.count)
        executor = psutil.Process(pid)
        assert "CoarseGrainedExecutorBackend" in " ".join(executor.cmdline())
        executor.kill()
        told = driver.wait_vitals(lambda alive: not all(alive))
        assert told["alive"] == [home != pid for home in homes]
        assert told["refused"] == ["node_not_alive"]
        driver.wait_vitals(all)
        before = driver.rows_in()
        for stream in "abc":
            case.feed(stream, 2, pa.table({"k": list(range(300)), "v": list(range(300))}))
        wait_until(lambda: driver.rows_in() == before + 900, "rows", 120)
        driver.interrupt()
        summary = driver.finish()
    assert summary["rows_out"] == case.check() > 1000
