"""A stage for the rules' loop: the simulator as an engine, over a real store, by a clock that is set by hand.

It does what the engine's service does, as far as control/ can tell: writes samples and heartbeats, takes
commands, carries plans out step by step, and tells what became of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from control import actions
from control.actions import Action
from control.arbiter import judge
from control.dispatch import Dispatcher
from control.ledger import ActionRow, Command, CommandState, QueryRow, RuleRow, Wanted
from control.limits import ON_REQUEST
from control.loop import Loop
from control.people import Role, User
from control.plans import Cleanup, Move, Spill, plan_from_json
from control.policies.local_spill import LocalSpill
from control.rules import rule_from
from control.samples import Heartbeat, Sample
from control.snapshot import History, Longs
from tests.control.fluid.workloads import Workload
from tests.control.fluid.world import World, spills_in
from tests.db.template import fresh_store

QUERY = "simulated"
START_S = 1_763_000_000.0  # a Thursday, 02:13 UTC
BANDWIDTH = 100e6


class Stage:
    """`second` lets one second pass for the engine; `loop` is the real one."""

    def __init__(
        self,
        folder: Path,
        workload: Workload,
        owner: Longs,
        budget: Longs,
        start_s: float = START_S,
    ) -> None:
        self.now_s = start_s
        self.store = fresh_store(folder, busy_s=0.3)
        self.world = World(workload, owner, budget)
        self.world.time_s = start_s
        self.local = LocalSpill()
        self.history = History(round_start_s=start_s)
        self.dispatcher = Dispatcher(self.store, self.clock)
        self.loop = Loop(self.store, self.dispatcher, self.clock)
        self.ahead: deque[tuple[Command, Action]] = deque()
        self.running: tuple[float, Command, Action] | None = None
        self.done: list[str] = []
        self.store.users.add(User("ann", Role.ADMIN, "-", False, start_s))
        row = QueryRow(QUERY, "", "", None, Wanted.RUNNING, True, start_s)
        self.store.queries.add(row)
        self.store.queries.told(QUERY, "running", "", {}, start_s)

    def clock(self) -> float:
        return self.now_s

    def rule(self, text: str, editor: str = "ann") -> None:
        rule = rule_from(text)
        at = self.now_s
        row = RuleRow(rule.name, text, rule.mode.value, editor, at, anchor_s=at)
        self.store.rules.keep(row)

    def seconds(self, count: int, every: int = 1) -> None:
        """`every`: how often samples are told and rules asked, in seconds."""
        for number in range(1, count + 1):
            self.second(tell=number % every == 0)
            if number % every == 0:
                self.loop.run_once()

    def second(self, *, tell: bool = True) -> None:
        self.now_s += 1.0
        self.world.advance(1.0)
        self.world.time_s = self.now_s
        self._finish()
        self._overflow()
        for command in self.store.commands.take(self.now_s):
            self._take(command)
        self._begin()
        if tell:
            self.tell()

    def tell(self) -> None:
        snapshot = self.world.snapshot(self.history)
        nodes = snapshot.nodes
        columns = {
            "memory_bytes": nodes.memory_bytes,
            "disk_bytes": nodes.disk_bytes,
            "budget_bytes": nodes.budget_bytes,
            "busy": nodes.busy,
        }
        by_node = {name: np.asarray(column, np.float64) for name, column in columns.items()}
        figures = {"rows_out_per_s": float(nodes.rows_out_per_s.sum()), "late_rows": 0.0}
        sample = Sample(QUERY, self.now_s, snapshot.version, figures, by_node, snapshot)
        self.store.metrics.write([sample])
        self.store.metrics.beat(Heartbeat("engine", 1, START_S, self.now_s, "running"))

    def _take(self, command: Command) -> None:
        if command.kind != "apply":
            self._end(command, CommandState.REFUSED, {"text": "this engine only applies"})
            return
        plan = plan_from_json(command.body["plan"])
        for number, step in enumerate(plan.steps, start=1):
            action = Action.propose(f"{command.id[:8]}{command.id[-6:]}-{number}", QUERY, step)
            self.ahead.append((command, action))

    def _begin(self) -> None:
        if self.running is not None or not self.ahead:
            return
        command, action = self.ahead.popleft()
        snapshot = self.world.snapshot(self.history)
        step = action.step
        plan = replace(plan_from_json(command.body["plan"]), steps=(step,))
        verdict = judge(plan, snapshot, (), ON_REQUEST)
        if not verdict.accepted:
            self._keep(command, action.reject(self.now_s, str(verdict)), 0.0)
            self._end(command, CommandState.REFUSED, {"text": str(verdict)})
            return
        seconds = 0.0
        if isinstance(step, Move | Cleanup):
            self.world.in_flight[self.world.rows_of(step)] = True
            seconds = max(1.0, step.bytes / BANDWIDTH)
        action = action.accept(self.now_s).begin(self.now_s)
        self.running = (self.now_s + seconds, command, action)
        self._keep(command, action, 0.0)
        self._finish()

    def _finish(self) -> None:
        if self.running is None or self.running[0] > self.now_s:
            return
        _, command, action = self.running
        self.running = None
        step = action.step
        rows = self.world.rows_of(step)  # type: ignore[arg-type]
        if isinstance(step, Move):
            self.world.move(rows, step.target)
        elif isinstance(step, Spill):
            self.world.spill(rows)
        else:
            self.world.cleanup(rows)
        self.world.in_flight[rows] = False
        self.history = replace(self.history, last_adaptation_s=self.now_s)
        action = action.end(self.now_s, step.bytes)
        while action.following:
            action = action.begin(self.now_s).end(self.now_s, step.bytes)
        self._keep(command, action.finish(self.now_s), step.bytes)
        self.done.append(action.id)
        if not any(other.id == command.id for other, _ in self.ahead):
            self._end(command, CommandState.DONE, {"text": "done"})

    def _overflow(self) -> None:
        over = self.world.memory_bytes > self.local.threshold * self.world.budget
        if not over.any():
            return
        for step in spills_in(self.local.decide(self.world.snapshot(self.history), ON_REQUEST)):
            self.world.spill(self.world.rows_of(step))
            action = Action.propose(f"local-{self.world.version}-{step.node}", QUERY, step)
            action = action.accept(self.now_s)
            while action.following:
                action = action.begin(self.now_s).end(self.now_s, step.bytes)
            self._keep(None, action.finish(self.now_s), step.bytes)

    def _keep(self, command: Command | None, action: Action, size: int) -> None:
        ended = self.now_s if action.over else None
        predicted: dict[str, Any] = {}
        if command:
            number = int(action.id.rpartition("-")[2]) - 1
            predicted = command.body["predicted"]["steps"][number]
        actual = {"bytes": size, "move_bandwidth": BANDWIDTH / 2} if size else {}
        started = min((r.start_s for r in action.records), default=self.now_s)
        row = ActionRow(
            action.id,
            QUERY,
            actions.to_json(action),
            command.user if command else "",
            action.state.value,
            started,
            ended,
            size,
            command=command.id if command else "",
            rule=command.rule if command else "",
            predicted=predicted,
            actual=actual,
        )
        self.store.actions.keep([row])

    def _end(self, command: Command, state: CommandState, outcome: dict[str, Any]) -> None:
        self.store.commands.end(command.id, state.value, outcome, self.now_s)
