"""An engine that is played, for a console to be looked at: a store as after days of use, and a tick each second.

`python -m tests.bench.played FOLDER SCALE_AS_JSON` writes ticks until it is ended: a process of its own, so that
it takes no time from whoever measures.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from app.auth import Passwords
from control.ledger import QueryRow, RuleRow, Wanted
from control.people import Role, User
from control.rules import shipped_rules
from control.samples import Heartbeat
from db.open import Store, open_store
from tests.bench.store_fill import QUERY, Scale, World, fill

USER, PASSWORD = "olga", "a password for the benchmark"
EVERY_S = 1.0
ABOUT = {"streams": {"a": {}, "b": {}}, "operators": {"join": {}}}


def prepare(folder: Path, scale: Scale, told: Callable[[str], None]) -> None:
    """Users, a query that runs, shipped rules, and what was recorded until `scale.end_s`."""
    store = open_store(folder, create=True)
    now_s = scale.end_s
    store.users.add(User(USER, Role.OPERATOR, Passwords().hash(PASSWORD), False, now_s))
    store.queries.add(
        QueryRow(QUERY, f'name = "{QUERY}"\n', "", scale.nodes, Wanted.RUNNING, True, now_s)
    )
    store.queries.told(QUERY, "running", "", ABOUT | {"groups": scale.groups}, now_s)
    for rule in shipped_rules():
        store.rules.keep(
            RuleRow(rule.name, rule.text, rule.mode.value, USER, now_s, anchor_s=now_s)
        )
    fill(store, scale, told)
    store.close()


def tick(store: Store, world: World, now_s: float) -> None:
    store.metrics.write([world.sample(now_s, world.snapshot(now_s))])
    for name in ("engine", "control"):
        store.metrics.beat(Heartbeat(name, 1, now_s - 60, now_s, "running"))


def play(folder: Path, scale: Scale) -> None:
    store, world = open_store(folder), World(scale)
    due_s = time.monotonic()
    while True:
        tick(store, world, time.time())
        due_s += EVERY_S
        time.sleep(max(0.0, due_s - time.monotonic()))


def command(folder: Path, scale: Scale) -> list[str]:
    return [sys.executable, "-m", "tests.bench.played", str(folder), json.dumps(asdict(scale))]


if __name__ == "__main__":
    play(Path(sys.argv[1]), Scale(**json.loads(sys.argv[2])))
