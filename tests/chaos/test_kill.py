"""kill −9 in a commit and of a worker; then start again: exactly the batch join. In this process, test_died.py does the same
at every step of a commit. Long: every step, and random instants.

`pytest -m long tests/chaos` repeats the random kills 200 times (CHAOS_SEED picks another sequence).
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.kills import (
    end,
    finish,
    make,
    start,
    strike,
)


@pytest.mark.parametrize(
    "point",
    [
        "commit",
        *(pytest.param(point, marks=pytest.mark.long) for point in ("step", "part", "publish")),
    ],
)
def test_killed_within_a_commit(spark: SparkSession, tmp_path: Path, point: str) -> None:
    """The next life is in this process: that it is another one is enough."""
    case = make(tmp_path, seed=1)
    code, _, err = end(start(case, point, 3))
    assert code == -signal.SIGKILL, err[-2000:]
    case.run()
    assert case.check() > 1000
    assert not list(case.out.glob(".part*")), "staged files are left"


def test_a_killed_python_worker_costs_a_retry_and_no_row(tmp_path: Path) -> None:
    case = make(tmp_path, seed=2)
    code, _, err = end(start(case, "worker", 3))
    assert code == 0, err[-2000:]
    assert case.check() > 1000


@pytest.mark.long
def test_killed_at_random_instants_for_long(tmp_path: Path) -> None:
    for round_ in range(40):
        (root := tmp_path / str(round_)).mkdir()
        kill_at_random(root, kills=5)


def kill_at_random(root: Path, kills: int) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    case = make(root, seed)
    strike(case, random.Random(seed), kills)
    finish(case)
