"""A console over a store with a recording in it, and the engine played by the test: it ticks when told to.

The server, the store, sessions and the page are real; what an engine would write (samples, beats, actions) is
written here, through the same functions, at the time of a clock that only the test moves.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from app.server import make_app, serve
from app.settings import ConsoleSettings
from control.actions import Action, to_json
from control.dispatch import Dispatcher
from control.ledger import ActionRow, QueryRow, RuleRow, Wanted
from control.migration.joins import Joins
from control.plans import Cleanup, Move, Part, Spill, Step
from control.rules import shipped_rules
from control.samples import NODE_FIGURES, QUERY_FIGURES, Heartbeat, Sample
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from db.secrets import FOLDER, SecretFolder
from engine.query.paths import Roots
from engine.registry import check
from tests.app.made import CHEAP, Clock, Passwords, people
from tests.db.template import fresh_store

QUERY = "market"
MB = 1_000_000
BUDGET = 400 * MB
OPERATOR = "join-1"
GROWTH = 0.72  # of the budget, in half an hour, of a node that grows as fast as can be
START_S = 1_790_000_000.0


@dataclass
class Stage:
    """One console; `nodes` × `groups`. Node 2 grows fastest: it will be full first."""

    folder: Path
    nodes: int = 6
    groups: int = 240
    clock: Clock = field(default_factory=lambda: Clock(START_S))
    version: int = 0
    url: str = ""
    moved: dict[int, int] = field(default_factory=dict)  # group → node
    joins: Joins | None = None  # what is known of the query's joins

    def __post_init__(self) -> None:
        self.store: Any = fresh_store(self.folder, people)
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None
        random = np.random.default_rng(11)
        self.weights = random.gamma(2.0, 0.5, self.groups)
        self.grows = 0.2 + 0.1 * random.random(self.nodes)
        self.grows[min(2, self.nodes - 1)] = 0.75
        self.begun_s = self.clock.now_s

    # -- what is there before anybody looks ----------------------------------------------------------------

    def prepare(self, history_s: float = 1_800.0, step_s: float = 5.0) -> Stage:
        """Users, a query that runs, shipped rules, half an hour of ticks, and what was done meanwhile."""
        about = {"streams": {"a": {}, "b": {}, "c": {}}, "operators": {OPERATOR: {}}}
        row = QueryRow(QUERY, f'name = "{QUERY}"\n', "", self.nodes, Wanted.RUNNING, True, START_S)
        self.store.queries.add(row)
        self.store.queries.told(QUERY, "running", "", about, START_S)
        for rule in shipped_rules():
            kept = RuleRow(rule.name, rule.text, rule.mode.value, "ada", START_S, anchor_s=START_S)
            self.store.rules.keep(kept)
        until_s = self.clock.now_s
        self.begun_s = until_s - history_s
        times = np.arange(self.begun_s, until_s, step_s)
        self.store.metrics.write([self.sample(float(t)) for t in times])
        self.clock.now_s = until_s
        self.tick()
        return self

    def serve(self) -> Stage:
        """On a free port, until the stage is closed."""
        settings = ConsoleSettings(port=8050)
        secrets = SecretFolder(self.folder / FOLDER)
        dispatcher = Dispatcher(
            self.store,
            self.clock,
            check=lambda text: check(text, self.folder, Roots([], []), secrets=secrets),
            keeper=secrets,
        )
        app = make_app(
            self.store,
            dispatcher,
            settings,
            self.clock,
            passwords=Passwords(CHEAP),
            secrets=secrets,
        )
        self.app = app
        told = threading.Event()

        def ready(url: str) -> None:
            self.url = url
            told.set()

        self.thread = threading.Thread(target=serve, args=(app, 0, self.stop, ready), daemon=True)
        self.thread.start()
        assert told.wait(30), "the console does not answer"
        return self

    def close(self) -> None:
        self.stop.set()
        if self.thread is not None:
            self.thread.join(60)
        self.store.close()

    # -- the engine, played ------------------------------------------------------------------------------------

    def tick(self, seconds: float = 1.0, times: int = 1) -> Sample:
        """Time goes on, and the engine says what it has."""
        for _ in range(times):
            self.clock.pause(seconds)
            sample = self.sample(self.clock.now_s)
            self.store.metrics.write([sample])
            self.beat()
        return sample

    def beat(self, *silent: str) -> None:
        now_s = self.clock.now_s
        for name in ("engine", "control", "console"):
            if name not in silent:
                self.store.metrics.beat(Heartbeat(name, 1, self.begun_s, now_s, "running"))

    def owner(self) -> Any:
        owner = np.arange(self.groups) % self.nodes
        for group, node in self.moved.items():
            owner[group] = node
        return owner

    def sample(self, now_s: float) -> Sample:
        """Memory that grows with time, by group; rates with a slow wave in them."""
        self.version += 1
        age = max(0.0, now_s - self.begun_s)
        owner, wave = self.owner(), 1 + 0.08 * np.sin(now_s / 47) + 0.04 * np.sin(now_s / 5)
        share = self.weights / np.bincount(owner, weights=self.weights, minlength=self.nodes)[owner]
        per_node = BUDGET * (0.3 + GROWTH * self.grows * min(age / 1_800.0, 1.25))
        groups = self._groups(owner, share, per_node, wave, now_s)
        memory = np.bincount(owner, weights=groups.memory_bytes, minlength=self.nodes)
        disk = np.bincount(owner, weights=groups.disk_bytes, minlength=self.nodes)
        out = np.bincount(owner, weights=groups.rows_out_per_s, minlength=self.nodes)
        nodes = Nodes.of(
            [BUDGET] * self.nodes, memory, disk_bytes=disk, rows_in_per_s=out / 3,
            rows_out_per_s=out, busy=np.clip(0.4 + 0.5 * self.grows * wave, 0, 1),
        )  # fmt: skip
        operators = (Operator(OPERATOR, 3, self.groups, 7_200.0),)
        snapshot = ClusterSnapshot(
            QUERY, self.version, now_s, nodes, operators, groups, joins=self.joins
        )
        return self._told(snapshot, out, wave)

    def _groups(self, owner: Any, share: Any, per_node: Any, wave: float, now_s: float) -> Groups:
        memory = (per_node[owner] * share).astype(np.int64)
        spilled = (np.arange(self.groups) % 31 == 7).astype(np.int64)
        return Groups.of(
            owner,
            np.where(spilled, 0, memory),
            disk_bytes=spilled * memory // 2,
            generations=spilled,
            rows_in=1_000,
            rows_out=3_000,
            rows_in_per_s=90_000 * self.weights / self.weights.sum() * wave,
            rows_out_per_s=300_000 * self.weights / self.weights.sum() * wave,
            bytes_per_s=BUDGET * GROWTH * self.grows[owner] / 1_800.0 * share,
            last_insert_s=now_s,
            owed_rows=spilled * 5_000.0,
        )

    def _told(self, snapshot: ClusterSnapshot, out: Any, wave: float) -> Sample:
        nodes = snapshot.nodes
        by_node = {name: np.zeros(self.nodes) for name in NODE_FIGURES}
        by_node |= {
            "memory_bytes": nodes.memory_bytes.astype(float),
            "disk_bytes": nodes.disk_bytes.astype(float),
            "budget_bytes": nodes.budget_bytes.astype(float),
            "rows_in_per_s": nodes.rows_in_per_s,
            "rows_out_per_s": nodes.rows_out_per_s,
            "busy": nodes.busy,
        }
        figures = dict.fromkeys(QUERY_FIGURES, 0.0) | {
            "rows_in_per_s": 90_000 * wave,
            "rows_out_per_s": float(out.sum()),
            "tick_s": 0.4,
            "memory_bytes": float(nodes.memory_bytes.sum()),
            "disk_bytes": float(nodes.disk_bytes.sum()),
            "lag_s": 0.42,
        }
        return Sample(QUERY, snapshot.time_s, snapshot.version, figures, by_node, snapshot)

    # -- actions ---------------------------------------------------------------------------------------------

    def act(self, id: str, step: Step, back_s: float, takes_s: float | None, **more: Any) -> None:
        """An action that began so long ago and took so long; None: it still runs. `fails`: with this note."""
        start_s = self.clock.now_s - back_s
        action, fails = Action.propose(id, QUERY, step).accept(start_s), more.pop("fails", "")
        if takes_s is None:
            action = action.begin(start_s).end(start_s + 0.1).begin(start_s + 0.2)
        elif fails:
            action = action.begin(start_s).fail(start_s + takes_s, fails)
        else:
            while action.following is not None:
                action = action.begin(start_s).end(start_s + takes_s, step.bytes)
            action = action.finish(start_s + takes_s)
        end_s = None if takes_s is None else start_s + takes_s
        row = ActionRow(
            id, QUERY, to_json(action), "olga", action.state.value, start_s, end_s, step.bytes,
            0.4 if takes_s is None else None, **more,
        )  # fmt: skip
        self.store.actions.keep([row])

    def going(self, still: bool) -> None:
        """The move that the story ends with: still running, or done."""
        part = (Part(OPERATOR, tuple(range(8))),)
        self.act("01e-0", Move(part, 2, 3, 55 * MB), 60, None if still else 50.0)

    def story(self) -> Stage:
        """Something of each kind on the charts."""
        part = (Part(OPERATOR, tuple(range(8))),)
        self.act("01a-0", Spill(part, 2, 42 * MB), 1_600, 70.0)
        self.act("01b-0", Cleanup(part, 5, 18 * MB), 1_150, 190.0, rule="night_cleanup")
        self.act("01c-0", Move(part, 4, 0, 61 * MB), 800, 85.0, rule="relocate")
        self.act("01d-0", Move(part, 2, 1, 37 * MB), 420, 20.0, fails="disk full")
        self.going(True)
        for n in range(9):
            self.act(f"local-{n}", Spill(part, 2, 3 * MB), 300 - 11 * n, 0.0)
        return self
