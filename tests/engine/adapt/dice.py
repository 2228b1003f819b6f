"""Adaptation by dice, and what holds of state whatever was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from control.policies.local_spill import LocalSpill
from control.requests import Request
from engine.adapt import kinds
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.state import ranges
from tests.engine.local import Local, LocalSide


@dataclass
class Dice:
    """Adapts a query at random. `budget`: bytes of memory of each node, 0 for none."""

    seed: int
    budget: int
    hold: bool
    crashes: float
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.desk: Desk | None = None

    def boundary(self, local: Local) -> None:
        if self.rng.random() < self.crashes:
            if self.desk is not None and self.rng.random() < 0.5:
                self.desk.close()  # an orderly end
            local.start(local.nodes)
        desk = self._desk_of(local)
        for _ in range(int(self.rng.integers(0, 4))):
            if self.rng.random() < 0.6:
                self._side.work()
            desk.between(idle=bool(self.rng.random() < 0.3))
            consistent(local)
            if self.rng.random() < 0.5:
                desk.ask(self._request(local), "dice")
            elif self.rng.random() < 0.2:
                desk.cancel("last")
            consistent(local)

    def finish(self, local: Local) -> None:
        desk = self._desk_of(local)
        self._side.eager = True
        self._side.work()
        for _ in range(200):
            if local.ticker.due() and not desk.running:
                local.drain()
            elif not desk.finish_some(cleanup=True):
                break
            consistent(local)
        else:
            raise AssertionError("there is always something owed")
        self._count()

    def _desk_of(self, local: Local) -> Desk:
        """A new one after every start: nothing of an action outlives the process."""
        if self.desk is None or self.desk.ticker is not local.ticker:
            self._count()
            folder = local.root / "cp" / "actions"
            budgets = dict.fromkeys(range(local.nodes), self.budget) if self.budget else {}
            policy = Policy(kind=LocalSpill(spill_percent=40.0), interval_s=1e9, hold=self.hold)
            records = Records(folder)
            records.restart(local.ticker.carried_out, 0.0, kinds.doing(local.ticker))
            self.desk = Desk(local.ticker, policy, budgets, records, local.clock, LocalSide)
            self.desk.jobs_apart = bool(self.rng.random() < 0.5)
        return self.desk

    @property
    def _side(self) -> LocalSide:
        assert self.desk is not None and isinstance(self.desk._runs.side, LocalSide)
        return self.desk._runs.side

    def _count(self) -> None:
        if self.desk is not None:
            self.done.update(
                f"{a.course} {a.state.value}" for a in self.desk.records.actions.values()
            )

    def _request(self, local: Local) -> Request:
        rng, ops = self.rng, local.ticker.setup.flow.ops
        op = ops[int(rng.integers(len(ops)))]
        do = ("spill", "cleanup", "move")[int(rng.integers(3))]
        groups = None
        if rng.random() < 0.4:
            groups = tuple(np.flatnonzero(rng.random(op.groups) < rng.random()).tolist())
        percent = float(rng.integers(1, 101)) if groups is None else None
        node, to = (int(n) for n in rng.integers(0, local.nodes, 2))
        return Request(do, node, to if do == "move" else None, op.id, groups, percent)


def consistent(local: Local) -> None:
    """One owner for each group; what is in memory and on disk adds up; every file is there."""
    manifest, root = local.ticker.manifest, local.root
    for op in local.ticker.setup.flow.ops:
        owner = local.ticker.placements[op.id]
        for tier in (manifest.runs, manifest.disk):
            for place, runs in tier.items():
                if place.operator != op.id:
                    continue
                for run in runs:
                    rows = run.rows_of(op.groups)
                    assert rows.sum() == run.rows
                    strangers = [g for g in np.flatnonzero(rows) if owner[g] != place.node]
                    assert not strangers, (place, run.id, strangers)
                    assert bool(run.generation) == (tier is manifest.disk) == (not run.memory)
        for node in range(local.nodes):
            mine = ranges.mask(manifest.owing(op.id, node), op.groups)
            assert all(owner[g] == node for g in np.flatnonzero(mine))
    for name in manifest.durable_files():
        assert (root / "cp" / "state" / name).exists(), name
    for name in manifest.memory_files():
        assert (root / "memory" / name).exists(), name
    for file in manifest.plan.withheld if manifest.plan is not None else ():
        assert (root / "out" / file.tmp).stat().st_size == file.bytes
