"""kill -9 of the processes of `run.py up`, again and again: nothing lost, nothing done twice, status honest.

tests/test_story.py kills each of them once."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from tests.files_query import QUERY, feed, results, wanted
from tests.up import Up, until

pytestmark = [pytest.mark.long, pytest.mark.chaos, pytest.mark.timeout(1800)]
OVER = {"done", "refused", "failed", "expired"}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path / "data", "--no-demo", settings=("trigger_seconds=0.2",)).start()
    feed(made.data / "inputs", 0)
    path = tmp_path / "query.toml"
    path.write_text(QUERY.format(inputs=made.data / "inputs"))
    try:
        made.ctl("query", "register", str(path))
        made.running("files")
        yield made
    finally:
        made.stop()


def something(rng: random.Random) -> dict[str, Any]:
    """To do for the engine."""
    node, do = rng.randrange(2), rng.choice(["move", "spill", "cleanup"])
    to = {"to": 1 - node} if do == "move" else {}
    return {"do": do, "node": node, "percent": 60, **to}


def asked(up: Up, body: dict[str, Any]) -> str:
    """The command's id, if it was accepted."""
    with contextlib.suppress(HTTPError, URLError, ConnectionError, TimeoutError):
        made = up.api("POST", "/queries/files/proposals", body)
        return str(up.api("POST", f"/proposals/{made['id']}/apply", {})["id"])
    return ""


def strike(up: Up, kills: int, seed: int) -> None:
    rng, inputs, commands = random.Random(seed), up.data / "inputs", []
    for number in range(1, kills + 1):
        feed(inputs, number)
        commands.append(asked(up, something(rng)))
        name = rng.choice(["engine", "engine", "control", "console"])
        up.kill(name)
        if name != "engine":
            assert results(up) is not None, "the engine goes on meanwhile"
    feed(inputs, kills + 1)
    until(lambda: whole(up, inputs), 180, "exact results")
    until(lambda: up.state("files") == "running", 90, "running, and said so")
    once(up, [c for c in commands if c])


def whole(up: Up, inputs: Path) -> bool:
    """Exact. Pairs of spilled rows are owed until a clean-up, so one is asked for where there are any."""
    for node in range(2):
        if results(up) == wanted(inputs):
            return True
        if command := asked(up, {"do": "cleanup", "node": node, "percent": 100}):
            until(lambda c=command: _over(up, c), 90, "the end of a clean-up")
    return results(up) == wanted(inputs)


def once(up: Up, commands: list[str]) -> None:
    """Every command is over, and its action, if there is one, is one and says how it ended."""
    ended = {c: until(lambda c=c: _over(up, c), 90, f"the end of {c}") for c in commands}
    actions = {a["id"]: a for a in up.json("actions", "--most", "500")["items"]}
    for name, command in ended.items():
        mine = [a for a in actions.values() if a["command"] == name]
        assert len(mine) <= 1, "a proposal of one step is one action"
        assert all(a["state"] in ("done", "failed", "cancelled") for a in mine), mine
        if command["state"] == "done":
            assert mine and all(a["state"] == "done" for a in mine)


def _over(up: Up, command: str) -> Any:
    found = up.api("GET", f"/commands/{command}")
    return found if found["state"] in OVER else None


def test_killed_for_long(up: Up) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    strike(up, 40, seed)
