"""A whole simulated run: seconds pass, nodes spill by their own rule, the policy decides once a round.

Every plan goes through the arbiter; a move and a cleanup take their time, during which their groups are in
flight, and nothing else begins. What is decided, refused and done is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from control.arbiter import Running, Verdict, judge
from control.limits import OPEN, Limits
from control.plans import Cleanup, Move, Plan, SetBudget, Spill
from control.policies.local_spill import LocalSpill
from control.policies.registry import Policy
from control.snapshot import Doubles, History, Longs, node_sums
from tests.control.fluid.workloads import Workload
from tests.control.fluid.world import World, spills_in


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster and the pace of a run."""

    seconds: int
    round_s: float = 15.0
    bandwidth_bytes_per_s: float = 100e6
    join_rows_per_s: float = 1e6
    read_bytes_per_s: float = 200e6
    sample_s: int = 10


@dataclass(frozen=True)
class Outcome:
    """What a run came to. Series are sampled; `memory_bytes` is times × nodes."""

    results: float  # made while rows arrived, and by cleanups in between
    owed_rows: float
    cleanup_s: float  # of what is left at the end, nodes in parallel
    delay_row_s: float  # ∫ owed rows dt
    moves: int
    spills: int
    cleanups: int
    stopped_s: float | None  # when memory ran out with spilling off
    time_s: Doubles = field(repr=False)
    memory_bytes: Doubles = field(repr=False)
    decisions: tuple[tuple[float, Plan, Verdict | None], ...] = field(repr=False, default=())


def simulate(
    workload: Workload,
    owner: Longs,
    budget_bytes: Longs,
    policy: Policy,
    setting: Setting,
    local: LocalSpill | None = None,
    limits: Limits = OPEN,
) -> Outcome:
    """Run a policy. `local`: the rule that nodes spill by themselves with, if any."""
    return _Run(World(workload, owner, budget_bytes), policy, setting, local, limits).run()


class _Run:
    def __init__(
        self,
        world: World,
        policy: Policy,
        setting: Setting,
        local: LocalSpill | None,
        limits: Limits,
    ) -> None:
        self.world, self.policy, self.setting = world, policy, setting
        self.local, self.limits = local, limits
        self.history = History(round_start_s=0.0)
        self.jobs: list[tuple[float, Move | Cleanup]] = []  # (end, step)
        self.counts = {"move": 0, "spill": 0, "cleanup": 0}
        self.decisions: list[tuple[float, Plan, Verdict | None]] = []
        self.samples: list[tuple[float, Doubles]] = []
        self.stopped_s: float | None = None

    def run(self) -> Outcome:
        for second in range(1, self.setting.seconds + 1):
            self.run_once()
            if second % self.setting.sample_s == 0 or self.stopped_s is not None:
                self.samples.append((self.world.time_s, self.world.memory_bytes))
            if self.stopped_s is not None:
                break
        return self._outcome()

    def run_once(self) -> None:
        """One second."""
        world = self.world
        world.advance(1.0)
        for end, step in [item for item in self.jobs if item[0] <= world.time_s]:
            self.jobs.remove((end, step))
            self._finished(step)
        self._overflow()
        if world.time_s % self.setting.round_s < 1.0:
            self._round()

    def _overflow(self) -> None:
        world = self.world
        if self.local is None or not self.local.spill_percent:
            if (world.memory_bytes > world.budget).any():
                self.stopped_s = world.time_s
            return
        if (world.memory_bytes > self.local.threshold * world.budget).any():
            plan = self.local.decide(world.snapshot(self.history), self.limits)
            for step in spills_in(plan):
                world.spill(world.rows_of(step))
                self.counts["spill"] += 1

    def _round(self) -> None:
        world = self.world
        snapshot = world.snapshot(self.history)
        plan = self.policy.decide(snapshot, self.limits)
        verdict = None
        if plan.steps:
            running = [Running("job", snapshot.query, step) for _, step in self.jobs]
            verdict = judge(plan, snapshot, running, self.limits)
            if verdict.accepted:
                self._carry_out(plan)
        self.decisions.append((world.time_s, plan, verdict))
        world.new_round()
        self.history = replace(self.history, round_start_s=world.time_s)

    def _carry_out(self, plan: Plan) -> None:
        world = self.world
        for step in plan.steps:
            if isinstance(step, Move):
                self._start(step, step.bytes / self.setting.bandwidth_bytes_per_s)
            elif isinstance(step, Spill):
                world.spill(world.rows_of(step))
                self.counts["spill"] += 1
                self._adapted(0 if plan.local else step.bytes, not plan.local)
            elif isinstance(step, Cleanup):
                owed = float(world.owed[world.rows_of(step)].sum())
                read = step.bytes / self.setting.read_bytes_per_s
                self._start(step, read + owed / self.setting.join_rows_per_s)
            elif isinstance(step, SetBudget):
                world.budget[step.node] = step.bytes

    def _start(self, step: Move | Cleanup, seconds: float) -> None:
        self.world.in_flight[self.world.rows_of(step)] = True
        self.jobs.append((self.world.time_s + seconds, step))

    def _finished(self, step: Move | Cleanup) -> None:
        rows = self.world.rows_of(step)
        if isinstance(step, Move):
            self.world.move(rows, step.target)
        else:
            self.world.cleanup(rows)
        self.world.in_flight[rows] = False
        self.counts["move" if isinstance(step, Move) else "cleanup"] += 1
        self._adapted(0, True)

    def _adapted(self, forced_bytes: int, counts: bool) -> None:
        now = self.world.time_s if counts else self.history.last_adaptation_s
        forced = self.history.forced_spill_bytes + forced_bytes
        self.history = replace(self.history, last_adaptation_s=now, forced_spill_bytes=forced)

    def _outcome(self) -> Outcome:
        world, setting = self.world, self.setting
        nodes = len(world.budget)
        on_disk = world.disk * world.workload.row_bytes
        work = node_sums(world.owner, world.owed, nodes) / setting.join_rows_per_s
        work = work + node_sums(world.owner, on_disk, nodes) / setting.read_bytes_per_s
        times, memory = zip(*self.samples, strict=True)
        return Outcome(
            float(world.made.sum()) + world.late,
            float(world.owed.sum()),
            float(work.max()),
            world.delay_row_s,
            self.counts["move"],
            self.counts["spill"],
            self.counts["cleanup"],
            self.stopped_s,
            np.array(times),
            np.array(memory),
            tuple(self.decisions),
        )
