"""kill -9 of a query with window functions, groups suspended on disk or not; then start again: DuckDB's results.

All of it is long; test_died.py has what takes less."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.kills import end, rounds_of_kills, start
from tests.chaos.kills_groups import make
from tests.engine.group_by import FINAL, ONE, same
from tests.engine.oracle import Case


def finished(case: Case) -> None:
    code, _, err = end(start(case, "never"))
    assert code == 0, err[-2000:]
    assert same(case, ONE, FINAL) > 400


@pytest.mark.long
@pytest.mark.parametrize("point", ["step", "commit", "part", "publish"])
@pytest.mark.parametrize("version", [2, 5])
def test_killed_anywhere(tmp_path: Path, point: str, version: int) -> None:
    case = make(tmp_path, version)
    code, _, err = end(start(case, point, version))
    assert code == -signal.SIGKILL, err[-2000:]
    finished(case)


@pytest.mark.long
def test_killed_at_random_instants_for_long(tmp_path: Path) -> None:
    rounds_of_kills(tmp_path, make, finished)
