"""kill -9 of the processes of `run.py up`, one after the other: nothing lost, nothing done twice, status honest."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import psutil
import pytest

from tests.test_story import QUERY, feed, results, wanted
from tests.up import Up, until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
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


def victims(up: Up) -> dict[str, int]:
    """The processes of this `up`, by name."""
    found = {}
    assert up.process is not None
    for child in psutil.Process(up.process.pid).children():
        with contextlib.suppress(psutil.Error):
            command = child.cmdline()
            found |= {
                name: child.pid for name in ("engine", "control", "console") if name in command
            }
    return found


def asked(up: Up, rng: random.Random) -> str:
    """Something to do for the engine; the command's id, if it was accepted."""
    node = rng.randrange(2)
    body: dict[str, Any] = {
        "do": rng.choice(["move", "spill", "cleanup"]),
        "node": node,
        "percent": 60,
    }
    if body["do"] == "move":
        body["to"] = 1 - node
    with contextlib.suppress(HTTPError, URLError, ConnectionError, TimeoutError):
        made = up.api("POST", "/queries/files/proposals", body)
        return str(up.api("POST", f"/proposals/{made['id']}/apply", {})["id"])
    return ""


def strike(up: Up, kills: int, seed: int) -> None:
    rng, inputs, commands = random.Random(seed), up.data / "inputs", []
    for number in range(1, kills + 1):
        feed(inputs, number)
        commands.append(asked(up, rng))
        name = rng.choice(["engine", "engine", "control", "console"])
        pid = until(lambda n=name: victims(up).get(n), 60, name)
        os.kill(pid, signal.SIGKILL)
        until(lambda n=name, p=pid: victims(up).get(n, p) != p, 60, f"{name} again")
        until(lambda: _serves(up), 60, "the console")
        if name != "engine":
            assert results(up) is not None, "the engine goes on meanwhile"
    feed(inputs, kills + 1)
    until(lambda: results(up) == wanted(inputs), 180, "exact results")
    until(lambda: up.state("files") == "running", 90, "running, and said so")
    once(up, [c for c in commands if c])


def _serves(up: Up) -> bool:
    with contextlib.suppress(HTTPError, URLError, ConnectionError, TimeoutError):
        return bool(up.api("GET", "/processes")["items"])
    return False


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


def test_killed_one_after_the_other(up: Up) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    strike(up, 3, seed)


@pytest.mark.long
def test_killed_for_long(up: Up) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    strike(up, 40, seed)
