"""kill -9 in the steps of spills, clean-ups, moves and migrations on Spark; then start again: exactly the batch join."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from control.actions import COURSES
from tests.chaos.test_kill import VICTIM, end, finish, make
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
STEPS = [
    (course, step)
    for course in ("spill", "cleanup", "move", "move_hold", "migrate")
    for step in COURSES[course].steps
]
FEW = [
    ("spill", "DropMemory"),
    ("cleanup", "JoinOwed"),
    ("move", "ReactivatePartitions"),
    ("migrate", "Swap"),
]
MORE = {"move": "to = 0", "migrate": 'join_order = "((a c) b)"'}


def struck(case: Case, course: str, step: str, when: str) -> None:
    """Run until the process dies in that step."""
    script = case.root / "script.toml"
    do, move = course.removesuffix("_hold"), course.startswith("move")
    script.write_text(SCRIPT.format(do=do, node=1 if move else 0, more=MORE.get(do, "")))
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
def test_killed_in_an_action(tmp_path: Path, course: str, step: str) -> None:
    case = make(tmp_path, seed=4)
    struck(case, course, step, "end")
    finish(case)
    assert not list((case.checkpoint / "actions").glob("*.json")), "an action is half done"


@pytest.mark.long
@pytest.mark.parametrize("when", ["begin", "end"])
@pytest.mark.parametrize(("course", "step"), STEPS)
@pytest.mark.parametrize("seed", range(7))
def test_killed_in_every_step(tmp_path: Path, course: str, step: str, when: str, seed: int) -> None:
    case = make(tmp_path, seed=10 + seed)
    struck(case, course, step, when)
    finish(case)
