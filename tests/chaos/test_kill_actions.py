"""kill -9 in the steps of spills, clean-ups, moves and migrations on Spark; then start again: exactly the batch join."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from control.actions import COURSES
from tests.chaos.kills import VICTIM, end, finish, make
from tests.cluster.cases import STAR
from tests.engine.chains import stamps
from tests.engine.oracle import Case

SCRIPT = """
[[at]]
tick = 1
do = "spill"
node = 0
percent = 50
[[at]]
tick = 3
do = "{do}"
node = {node}
percent = 60
{more}
"""
ACTIONS = (
    "spill",
    "cleanup",
    "move",
    "move_hold",
    "migrate",
    "migrate_delta",
    "migrate_parallel",
    "migrate_parallel_hold",
)
STEPS = [(course, step) for course in ACTIONS for step in COURSES[course].steps]
# One of them really killed; tests/engine/adapt/test_crashes.py has every step of all of them, in this process.
FEW = [("migrate", "Swap")]
TICKS = 12  # of a query whose window is one tick
MORE = {"move": "to = 0", "migrate": 'join_order = "((a c) b)"'}


def made(root: Path, course: str, seed: int) -> tuple[Case, str]:
    """A query, and what to ask DuckDB where that is not the same: two plans at once need a window to end."""
    if not course.startswith("migrate_parallel"):
        return make(root, seed), ""
    case = Case(
        root,
        STAR,
        dict.fromkeys("abc", "k long, v long, ts timestamp"),
        groups=32,
        extra='window = "1 second"',
        stream_extra='time = "ts"\nwatermark = "0 seconds"',
    )
    case.write()
    rng = np.random.default_rng(seed)
    for stream, tick in itertools.product("abc", range(TICKS)):
        size = int(rng.integers(200, 600))
        columns = {"k": rng.integers(0, 200, size), "v": rng.integers(0, 99, size)}
        times = stamps(tick + np.round(rng.uniform(0, 1, size), 3))
        case.feed(stream, tick, pa.table({**columns, "ts": times}))
    gaps = (f"abs(epoch_us({x}.ts) - epoch_us({y}.ts)) <= 1000000" for x, y in ("ab", "bc", "ac"))
    return case, f"{STAR} WHERE {' AND '.join(gaps)}"


def struck(case: Case, course: str, step: str, when: str) -> None:
    """Run until the process dies in that step."""
    script = case.root / "script.toml"
    do, _, strategy = course.removesuffix("_hold").partition("_")
    more = MORE.get(do, "") + (f'\nstrategy = "{strategy}"' if strategy else "")
    script.write_text(SCRIPT.format(do=do, node=1 if do == "move" else 0, more=more))
    command = [sys.executable, str(VICTIM), str(case.file), f"action:{course}:{step}:{when}", "3"]
    process = subprocess.Popen(
        [*command, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    code, _, err = end(process)
    assert code == -signal.SIGKILL, err[-2000:]


@pytest.mark.parametrize(("course", "step"), FEW)
def test_killed_in_an_action(spark: SparkSession, tmp_path: Path, course: str, step: str) -> None:
    case, sql = made(tmp_path, course, seed=4)
    struck(case, course, step, "end")
    case.run()
    assert case.check(sql or None) > 1000
    assert not list((case.checkpoint / "actions").glob("*.json")), "an action is half done"


@pytest.mark.long
@pytest.mark.parametrize("when", ["begin", "end"])
@pytest.mark.parametrize(("course", "step"), STEPS)
@pytest.mark.parametrize("seed", range(7))
def test_killed_in_every_step(tmp_path: Path, course: str, step: str, when: str, seed: int) -> None:
    case, sql = made(tmp_path, course, seed=10 + seed)
    struck(case, course, step, when)
    finish(case, lambda: sql)
