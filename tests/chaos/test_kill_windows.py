"""kill −9 in a tree of window joins with late rows: every step of a commit, random instants, other nodes afterwards."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.chaos.kills import end, finish, rounds_of_kills, start
from tests.chaos.kills_windows import make, wanted
from tests.engine.chains import chain
from tests.engine.oracle import Case


def killed_at(root: Path, point: str, order: str, version: int, nodes: int = 2) -> None:
    case = make(root, 1, order)
    code, _, err = end(start(case, point, version))
    assert code == -signal.SIGKILL, err[-2000:]
    chain(root, order, nodes)
    finish(case, lambda: wanted(case))


@pytest.mark.long
def test_killed_and_begun_again_with_more_nodes(tmp_path: Path) -> None:
    killed_at(tmp_path, "part", "((a b) (c d))", 4, nodes=3)


@pytest.mark.long
@pytest.mark.parametrize("point", ["step", "commit", "part", "publish"])
@pytest.mark.parametrize("order", ["", "((a b) (c d))", "(a (b (c d)))", "(((a b) c) d)"])
@pytest.mark.parametrize("version", [2, 5])
def test_killed_anywhere_in_any_tree(tmp_path: Path, point: str, order: str, version: int) -> None:
    killed_at(tmp_path, point, order, version)


@pytest.mark.long
def test_a_killed_worker_costs_a_retry_and_no_row(tmp_path: Path) -> None:
    case = make(tmp_path, 2)
    code, _, err = end(start(case, "worker", 3))
    assert code == 0, err[-2000:]
    assert case.check(wanted(case)) > 1000


@pytest.mark.long
def test_killed_at_random_instants_for_long(tmp_path: Path) -> None:
    def some_order(root: Path, seed: int) -> Case:
        return make(root, seed, random.Random(seed).choice(["", "(a (b (c d)))"]))

    rounds_of_kills(tmp_path, some_order, lambda case: finish(case, lambda: wanted(case)))
