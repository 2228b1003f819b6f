"""`local-cluster[3,1,1024]`: executors in processes of their own, as on a cluster, on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from control.plans import STRATEGIES
from tests.cluster.cases import chain, three_way, within
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
