"""The accounts of actions on their way: what is counted while they run, for their receipts and figures.

Ticks do no more than add up, and only while an action runs. Figures have the names that the cost model learns
from (control/cost/recalibrate.py); what was not measured is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from control.actions import Action, State
from control.cost.coefficients import Coefficients
from control.plans import (
    Cleanup,
    Migrate,
    Move,
    SetBudget,
    Spill,
    Step,
    name_of,
    nodes_of,
    parts_of,
)
from control.policies.registry import Policy as Kind
from control.policies.registry import with_numbers
from control.snapshot import ClusterSnapshot
from engine.adapt.picture import together
from engine.adapt.receipts import DISK, MEMORY, Count, Part, Switch, receipt
from engine.adapt.records import Records, local_name
from engine.adapt.tasks import Merged
from engine.flow import Flow, Op
from engine.outcome import Outcome
from engine.reports import TickReport
from engine.state import ranges
from engine.state.commits import Commit
from engine.state.model import Manifest

if TYPE_CHECKING:
    from engine.adapt.progress import Log

Body = dict[str, Any]
LATELY = 0.1  # the last tick's part in how long ticks take


@dataclass
class Account:
    """One action, from its beginning on."""

    log: Log
    parts: list[Part]
    owed: float = 0.0  # an estimate
    budget: int | None = None  # that its node had
    switches: list[Switch] | None = None  # of its last commit
    version: int = 0
    commits: int = 0
    results: int = 0  # that were owed and came out
    join_cpu_s: float = 0.0
    copying_s: float = 0.0  # tasks' own time, until the last commit
    agree: bool = True  # is what merges wrote what they read?
    ticks: int = 0
    ticking_s: float = 0.0
    spills: int = 0  # of nodes by themselves, while it was on its way

    @property
    def action(self) -> Action:
        return self.log.action

    def switched(self, before: Manifest, after: Manifest) -> None:
        self.switches = [part.at(before, after) for part in self.parts]
        self.version, self.commits = after.version, self.commits + 1
        self.copying_s = self.log.wall_s


class Accounts:
    """Of one desk's actions. What they come to is in the records."""

    def __init__(
        self,
        flow: Flow,
        records: Records,
        manifest: Manifest,
        snapshot: Callable[[], ClusterSnapshot],
    ) -> None:
        self.flow, self.records, self.snapshot = flow, records, snapshot
        self._last = manifest
        self._open: dict[str, Account] = {}
        self.spills_in_moves = 0  # nodes' own, while a move was on its way
        self._tick_s = 0.0  # as ticks with input take by now

    def begin(self, log: Log, budget: int | None = None) -> None:
        """An action begins. `budget`: of its node, where it sets another."""
        step = log.action.step
        nodes = tuple(nodes_of(step))
        parts = [Part.of(self._last, op, some, nodes) for op, some in _wanted(self.flow, step)]
        owed = self._owed(parts) if isinstance(step, Spill | Cleanup) else 0.0
        self._open[log.action.id] = Account(log, parts, owed, budget)

    def committed(self, action: str, after: Manifest, merged: Mapping[str, Merged]) -> None:
        """A commit beside the ticks."""
        before, self._last = self._last, after
        account = self._open.get(action)
        if account is None:
            return
        for made in merged.values():
            account.results += made.rows
            account.join_cpu_s += made.join_cpu_s
            account.agree = account.agree and made.read == made.wrote
        account.switched(before, after)

    def replanned(self, flow: Flow, action: str, after: Manifest) -> None:
        """A commit has put another plan in place."""
        self.flow = flow
        self.committed(action, after, {})

    def ticked(
        self, outcome: Outcome, commit: Commit, after: Manifest, moves: Sequence[str] = ()
    ) -> None:
        """A tick's commit, before anything is made of it. `moves`: those that were on their way meanwhile."""
        before, self._last = self._last, after
        for account in self._open.values():
            for part in account.parts:
                part.took(outcome, commit, before)
            if account.action.id in commit.actions:
                account.switched(before, after)
        if outcome.disk:
            self._local(outcome, commit, before, after, moves)

    @property
    def numbers(self) -> Coefficients:
        """The cost model's, with what is measured here."""
        return self.measured(Coefficients())

    def informed(self, kind: Kind) -> Kind:
        """A policy that uses the cost model, with what is measured here; others as they are."""
        numbers = getattr(kind, "numbers", None)
        if not isinstance(numbers, Coefficients):
            return kind
        return with_numbers(kind, self.measured(numbers))

    def measured(self, numbers: Coefficients) -> Coefficients:
        """With what is measured here."""
        return replace(numbers, tick_s=self._tick_s) if self._tick_s else numbers

    def publish(self, report: TickReport) -> None:
        """As a port of the ticker: how long ticks take, also those of an action's time."""
        if report.tick is not None:
            self._tick_s += (report.seconds - self._tick_s) * (LATELY if self._tick_s else 1.0)
            for account in self._open.values():
                account.ticks += 1
                account.ticking_s += report.seconds

    def close(self, log: Log) -> None:
        """The action is over: its receipt and its figures."""
        account = self._open.pop(log.action.id, None)
        if account is None:
            return
        step = log.action.step
        if isinstance(step, SetBudget):
            body: Body = {"ok": True, "budget_before": account.budget, "budget_after": step.bytes}
        elif isinstance(step, Migrate):
            body = {"ok": True, "commits": account.commits, "version": account.version, **log.about}
        else:
            body = self._receipt(account, step)
        self.records.settle(log.action.id, body, _figures(account, step))

    def _receipt(self, account: Account, step: Step) -> Body:
        now = self._last
        switches = account.switches or [part.at(now, now) for part in account.parts]
        kind = name_of(step) if account.commits else "nothing"
        merged = account.agree if isinstance(step, Cleanup) and account.commits else None
        body = receipt(kind, account.parts, switches, merged)
        body |= {"commits": account.commits, "version": account.version or now.version}
        if account.spills:
            body["spills_meanwhile"] = account.spills
        if isinstance(step, Spill | Cleanup):
            body["owed"] = {
                "groups_before": _owing([(part, part.begun) for part in account.parts]),
                "groups_after": _owing(
                    [(p, s.after) for p, s in zip(account.parts, switches, strict=True)]
                ),
                "rows_before_estimated": round(account.owed),
                "rows_after_estimated": round(self._owed(account.parts)),
                "rows_came_out": account.results,
            }
        return body

    def _owed(self, parts: Sequence[Part]) -> float:
        """Results put off, as estimated."""
        now = self.snapshot()
        groups, index = now.groups, {op.name: n for n, op in enumerate(now.operators)}
        total = 0.0
        for part in parts:
            mine = np.flatnonzero(groups.operator == index[part.op.id])
            total += float(groups.owed_rows[mine[np.isin(groups.group[mine], part.groups)]].sum())
        return total

    def _local(
        self,
        outcome: Outcome,
        commit: Commit,
        before: Manifest,
        after: Manifest,
        moves: Sequence[str],
    ) -> None:
        """Nodes that spilled by themselves: over by the time that they are heard of."""
        spilled: dict[int, dict[str, set[int]]] = {}
        for place, runs in outcome.disk.items():
            mine = spilled.setdefault(place.node, {}).setdefault(place.operator, set())
            mine.update(g for run in runs for g in ranges.members(run.groups))
        ops = {op.id: op for op in self.flow.ops}
        for node, by_op in spilled.items():
            parts = [Part.of(before, ops[op], sorted(some), (node,)) for op, some in by_op.items()]
            for part in parts:
                part.took(outcome, commit, before)
            body = receipt("local", parts, [part.at(before, after) for part in parts])
            size = sum(run.bytes_of(ops[place.operator].groups).sum()
                       for place, runs in outcome.disk.items() if place.node == node
                       for run in runs)  # fmt: skip
            figures = {"bytes": int(size), "pause_s": 0.0}
            body |= {"commits": 1, "version": commit.version}
            if moves:
                body["during"] = list(moves)
                self.spills_in_moves += 1
                for name in moves:
                    if account := self._open.get(name):
                        account.spills += 1
            self.records.settle(local_name(commit.version, node), body, figures)


def _wanted(flow: Flow, step: Step) -> list[tuple[Op, list[int]]]:
    """The groups that a step is about: a move takes those along that share a task."""
    wanted: dict[int, set[int]] = {}
    number = {op.id: op.number for op in flow.ops}
    for part in parts_of(step):
        mine = (
            together(flow, [part.operator]) if isinstance(step, Move) else [number[part.operator]]
        )
        for n in mine:
            wanted.setdefault(n, set()).update(part.groups)
    return [(flow.ops[n], sorted(groups)) for n, groups in sorted(wanted.items())]


def _owing(parts: Sequence[tuple[Part, Manifest]]) -> int:
    """Groups of which two parts have not met each other."""
    total = 0
    for part, manifest in parts:
        times = manifest.generations(part.op.id, part.op.groups)[part.groups]
        rows = Count.of(manifest, part.op, part.nodes, part.groups).rows
        memory = rows[:, MEMORY].sum(axis=(0, 1)) > 0
        total += int(((times > 1) | ((times > 0) & memory)).sum())
    return total


def _figures(account: Account, step: Step) -> dict[str, float]:
    """What it took. What the model learns from is told only of actions that were done."""
    log, action = account.log, account.action
    times = [t for r in action.records for t in (r.start_s, r.end_s) if t is not None]
    found: dict[str, float] = {
        "seconds": round(max(times) - min(times), 6) if times else 0.0,
        "pause_s": _pause_s(log),
        "cpu_s": log.cpu_s,
        "bytes": 0,
    }
    found |= log.figures
    if isinstance(step, Migrate):
        found |= {"bytes": log.figures.get("bytes", action.bytes)}
        found |= log.toll.figures(found["pause_s"])
    if account.ticks:
        found["tick_s"] = account.ticking_s / account.ticks
    if action.state is not State.DONE:
        return found
    was = [part.before for part in account.parts]
    if isinstance(step, Cleanup):
        found["bytes"] = sum(int(count.bytes[:, DISK].sum()) for count in was)
        found["cleanup_read_cpu_s"] = max(0.0, log.cpu_s - account.join_cpu_s)
        found["cleanup_join_cpu_s"] = account.join_cpu_s
        found["cleanup_rows"] = account.results
    elif isinstance(step, Spill | Move):
        found["bytes"] = sum(int(count.bytes[0, MEMORY].sum()) for count in was)
        found["spill_cpu_s" if isinstance(step, Spill) else "move_cpu_s"] = log.cpu_s
    copied = sum(r.bytes for r in action.records if r.name in ("ReceivePartitions", "Deactivated"))
    if isinstance(step, Move) and copied and account.copying_s:
        found["move_bandwidth"] = copied / account.copying_s
    return found


def _pause_s(log: Log) -> float:
    """How long the moved groups' input was held."""
    if log.held_s is None:
        return 0.0
    ends = [r.end_s for r in log.action.records if r.name == "ReactivatePartitions"]
    until = next((end for end in ends if end is not None), log.action.history[-1].time_s)
    return max(0.0, until - log.held_s)
