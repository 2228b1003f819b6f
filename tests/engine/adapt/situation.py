"""A query in this process whose keys, budgets and pace the test says: for policies, which act in a situation made for them.

Two doors lead to a policy: `--adapt` (`alone`) and a rule (`ruled`: store, the rules' loop, dispatcher and the engine's
service are the real ones; only Spark is missing). The clock is set by hand, and so is how long each node's steps take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from control.actions import Action
from control.dispatch import Dispatcher
from control.ledger import QueryRow, RuleRow, Wanted
from control.limits import OPEN
from control.loop import Loop
from control.people import Role, User
from control.ports import Store
from control.rules import rule_from
from db.open import open_store
from engine.adapt import kinds
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.hashing import group_of, hash_keys
from engine.host import EngineHost, QueryStatus
from engine.lifecycle import State
from engine.outcome import Outcome
from engine.service import Service, _Kept
from engine.settings import Settings
from tests.engine.checked import scratch
from tests.engine.local import Local, LocalSide, stream

SQL = "SELECT a.id AS ia, b.id AS ib FROM a JOIN b ON a.k = b.k"
START_S = 1_763_000_000.0
GROUPS = 16


@dataclass
class Feed:
    """Rows of a tick for one node: how many of each stream, over how many keys, and whether any of them join."""

    rows: int = 40
    keys: int = 8
    joins: bool = True


@dataclass
class Situation:
    """A query that ticks once a second. `pace`: seconds that a node's steps take for a row."""

    root: Path
    nodes: int = 2
    budgets: Mapping[int, int] = field(default_factory=dict)
    pace: Mapping[int, float] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    sql: str = SQL
    order: str | None = None

    def __post_init__(self) -> None:
        streams = [stream(name, "id bigint, k bigint") for name in "ab"]
        self.local = Local(
            self.root, self.sql, streams, nodes=self.nodes, groups=GROUPS, order=self.order
        )
        self.local.clock.now = START_S
        self.fed: dict[str, list[pa.Table]] = {"a": [], "b": []}
        self.sit()
        keys = np.arange(4000)
        owner = np.array(self.local.ticker.placements[self.op])
        at = owner[group_of(hash_keys([pa.array(keys)]), GROUPS)]
        self.keys = [keys[at == node] for node in range(self.nodes)]

    @property
    def op(self) -> str:
        return self.local.ticker.setup.flow.ops[0].id

    @property
    def now(self) -> float:
        return self.local.clock.now

    def sit(self) -> Desk:
        """A desk, as each start of the engine makes one."""
        ticker = self.local.ticker
        records = Records(self.root / "cp" / "actions")
        records.restart(ticker.carried_out, self.now, kinds.doing(ticker))
        ticker.wall = self.local.clock
        ticker.step = self._paced(ticker.step)  # type: ignore[method-assign]
        self.desk = Desk(ticker, self.policy, self.budgets, records, self.local.clock, LocalSide)
        self.desk.wall_s = self.local.clock
        self.side.eager = True
        return self.desk

    def restart(self) -> Desk:
        """The engine is started again."""
        self.desk.close()
        self.local.start(self.nodes)
        return self.sit()

    @property
    def side(self) -> LocalSide:
        assert isinstance(self.desk._runs.side, LocalSide)
        return self.desk._runs.side

    def _paced(self, inner: Any) -> Any:
        def step(rows: Any, brief: Any) -> Outcome:
            outcome: Outcome = inner(rows, brief)
            for (_, node), head in outcome.heads.items():
                head["wall_s"] = self.pace.get(node, 0.0) * head["rows_in"]
            return outcome

        return step

    def tick(self, *feeds: Feed) -> None:
        """A second: the boundary, then a tick with each node's rows."""
        self.local.clock.now += 1.0
        self.desk.between(idle=False)
        self.take(*feeds)

    def take(self, *feeds: Feed) -> None:
        """A tick without the boundary before it."""
        rng = np.random.default_rng(self.local.ticks)
        rows: dict[str, list[int]] = {"a": [], "b": []}
        for node, feed in enumerate(feeds or [Feed()] * self.nodes):
            for at, name in enumerate("ab"):
                keys = self.keys[node][: 2 * feed.keys]
                mine = keys[: feed.keys] if feed.joins else keys[at::2]
                rows[name] += rng.choice(mine, feed.rows).tolist()
        made = {}
        for name, keys in rows.items():
            first = sum(len(table) for table in self.fed[name])
            made[name] = pa.table({"id": np.arange(first, first + len(keys)), "k": keys})
            self.fed[name].append(made[name])
        self.local.tick(made)

    def ticks(self, count: int, *feeds: Feed) -> None:
        for _ in range(count):
            self.tick(*feeds)

    @property
    def actions(self) -> list[Action]:
        return list(self.desk.records.actions.values())

    def by(self, who: str) -> list[Action]:
        """The actions that somebody asked for."""
        return [a for a in self.actions if self.desk.records.by[a.id].startswith(who)]

    def check(self) -> int:
        """Everything that is owed comes out; the results are the batch join. How many they are."""
        for _ in range(200):
            if self.local.ticker.due() and not self.desk.running:
                self.local.drain()
            elif not self.desk.finish_some(cleanup=True):
                break
        found = self.local.results()
        got = Counter(zip(*(found.column(n).to_pylist() for n in ("ia", "ib")), strict=True))
        a, b = (pa.concat_tables(tables) for tables in self.fed.values())
        partners: dict[int, list[int]] = {}
        for ident, key in zip(b["id"].to_pylist(), b["k"].to_pylist(), strict=True):
            partners.setdefault(key, []).append(ident)
        want = Counter(
            (ident, other)
            for ident, key in zip(a["id"].to_pylist(), a["k"].to_pylist(), strict=True)
            for other in partners.get(key, [])
        )
        assert got == want, (len(got - want), len(want - got))
        return sum(got.values())


class Standing(EngineHost):
    """The service's host of a query that ticks in this process: it runs, whatever is asked of it."""

    name = "local"

    def status_of(self, name: str) -> QueryStatus:
        return QueryStatus(name, State.RUNNING, START_S, 2, None, None, None, ())

    def status(self) -> tuple[QueryStatus, ...]:
        return (self.status_of(self.name),)

    def close(self) -> None:
        """Nothing of its own runs."""


@dataclass
class Run:
    """What the service is told of a run that has been seated."""

    spec: Any
    slow: dict[int, float] = field(default_factory=dict)


class Ruled:
    """A situation with a control process and an engine process around it, in one thread."""

    def __init__(self, situation: Situation, folder: Path) -> None:
        self.situation = situation
        clock = situation.local.clock
        self.store: Store = open_store(folder, create=True, busy_s=0.3)
        self.dispatcher = Dispatcher(self.store, clock)
        self.loop = Loop(self.store, self.dispatcher, clock)
        self.service = Service(
            self.store,
            folder,
            Settings.load({}),
            lambda s: self.store.metrics.write([s]),
            clock=clock,
        )
        self.service.host = Standing(Settings.load({}))
        self.store.users.add(User("ann", Role.ADMIN, "-", False, START_S))
        row = QueryRow("local", "", "", None, Wanted.RUNNING, True, START_S)
        self.store.queries.add(row)
        self.store.queries.told("local", "running", "", {}, START_S)
        self.spec = situation.local.spec()
        self.service._kept["local"] = _Kept(row, self.spec, wanted=Wanted.RUNNING)
        self.seat()

    def seat(self) -> None:
        """As when a query is about to tick."""
        self.service._seated(Run(self.spec), self.situation.desk)  # type: ignore[arg-type]

    def rule(self, text: str) -> None:
        rule = rule_from(text)
        at = self.situation.now
        self.store.rules.keep(RuleRow(rule.name, text, rule.mode.value, "ann", at, anchor_s=at))

    def ticks(self, count: int, *feeds: Feed) -> None:
        for _ in range(count):
            self.situation.tick(*feeds)
            self.service._due.clear()  # a second has passed
            self.service.run_once()
            done = self.loop.run_once()
            assert not done.errors, done.errors


@contextmanager
def situated(policy: Any = None, **about: Any) -> Iterator[Situation]:
    """With a policy as `--adapt` brings it."""
    with scratch() as root:
        chosen = Policy() if policy is None else Policy(policy, OPEN, 1.0)
        yield Situation(root, policy=chosen, **about)


@contextmanager
def ruled(text: str, **about: Any) -> Iterator[tuple[Situation, Ruled]]:
    """With a rule that has just been saved in mode auto."""
    with situated(**about) as made:
        house = Ruled(made, made.root / "data")
        house.rule(text)
        yield made, house


__all__ = ["Feed", "Ruled", "Sequence", "Situation", "replace", "ruled", "situated"]
