"""Recorded snapshots as a world to act in: state per group grows as it was recorded, wherever the group is.

What a group's state and results would be does not depend on where it is or on which tier: bytes and rows come
from the recording, results too, with what was owed added. Placement, tiers, memory by node, and what is owed
here follow from what is done here. Between two recorded snapshots everything goes straight from one to the other.

A join order that was changed here is one in name only: nobody has recorded what groups of another order's operators
would have. Who looks for a better one sees the order that was changed to, with the rates and selectivities as recorded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from control.cost.coefficients import LocalRule
from control.limits import OPEN
from control.migration.joins import Joins
from control.migration.trees import Tree
from control.orders import tree_of
from control.plans import Cleanup, Migrate, Move, SetBudget, Spill, Step, pairs_of
from control.policies.local_spill import LocalSpill
from control.snapshot import (
    HALF_LIFE_S,
    ClusterSnapshot,
    Doubles,
    Groups,
    Longs,
    Nodes,
    node_sums,
)

TOLD_BELOW = 0.95  # of the results found in memory: above, what is owed says too little


def alike(a: ClusterSnapshot, b: ClusterSnapshot) -> bool:
    """Of the same operators and as many nodes: one can go on into the other."""
    return a.operators == b.operators and len(a.nodes) == len(b.nodes)


class Replay:
    """A cluster between recorded snapshots. `enter` gives the next stretch, `advance` moves within it."""

    def __init__(self, first: ClusterSnapshot, local: LocalSpill | None) -> None:
        self.local = local
        self.before = self.after = first
        self.now_s = first.time_s
        self.budgets: dict[int, int] = {}  # set by steps, instead of the recorded ones
        self.delay_row_s = self.spilled_bytes = 0.0
        self.overflows = 0
        self.share_max = 0.0
        self.due = due_per_s(first), due_per_s(first)
        self.follow(first)

    def follow(self, recorded: ClusterSnapshot) -> None:
        """Be as it was recorded: placement, tiers and what is owed."""
        groups = recorded.groups
        self._recorded: ClusterSnapshot | None = recorded  # until time goes on or something is done
        self.owner = groups.owner.copy()
        self.memory, self.disk = (
            groups.memory_bytes.astype(np.float64),
            groups.disk_bytes.astype(np.float64),
        )
        self.generations = groups.generations.copy()
        self.owed = groups.owed_rows.copy()
        self.rows_out = groups.rows_out.astype(np.float64)
        self.rate = groups.rows_out_per_s.copy()  # decayed, as the engine tells it
        self.round_in, self.round_out = np.zeros(len(groups)), np.zeros(len(groups))
        self.in_flight = groups.in_flight.copy()
        self.order: tuple[Tree, float] | None = None  # changed to, and when
        self.history = replace(recorded.history, round_start_s=recorded.time_s, round_s=0.0)

    def enter(self, after: ClusterSnapshot) -> None:
        """The stretch from where the last one ended to `after`."""
        self.before, self.after = self.after, after
        self.due = due_between(self.before, after)

    def advance(self, until_s: float) -> None:
        """Let state grow, results come and be owed; then nodes that overflow spill."""
        seconds = until_s - self.now_s
        self._recorded = None
        a, b = self._place(self.now_s), self._place(until_s)
        if seconds > 0:
            grown = (_whole(self.after) - _whole(self.before)) * (b - a)
            self._grow(grown.astype(np.float64))
            made, owes = self._results((a + b) / 2)
            keep = 0.5 ** (seconds / HALF_LIFE_S)
            self.rate = self.rate * keep + made * (1 - keep)
            self.rows_out = self.rows_out + made * seconds
            self.owed = self.owed + owes * seconds
            rows_in = self._between("rows_in_per_s", (a + b) / 2) * seconds
            self.round_in, self.round_out = self.round_in + rows_in, self.round_out + made * seconds
            self.delay_row_s += float(self.owed.sum()) * seconds
        self.now_s = until_s
        self.seen = self.shares()
        self.share_max = max(self.share_max, float(self.seen.max(initial=0.0)))
        self._overflow()

    def _grow(self, grown: Doubles) -> None:
        """New state is in memory; what leaves a window leaves both tiers alike."""
        whole = np.maximum(self.memory + self.disk, 1.0)
        stays = np.clip(1 + np.minimum(grown, 0.0) / whole, 0.0, 1.0)
        self.memory = self.memory * stays + np.maximum(grown, 0.0)
        self.disk = self.disk * stays

    def _results(self, at: float) -> tuple[Doubles, Doubles]:
        """Results per second that the state in memory gives, and that are owed: by the share of it, once for
        each other stream."""
        due = self.due[0] + (self.due[1] - self.due[0]) * at
        share = self.memory / np.maximum(self.memory + self.disk, 1.0)
        made = np.where(self.disk > 0, due * share ** (self.before.streams - 1), due)
        return made, due - made

    def _place(self, time_s: float) -> float:
        length = self.after.time_s - self.before.time_s
        return (time_s - self.before.time_s) / length if length > 0 else 0.0

    def _between(self, name: str, at: float) -> Doubles:
        low, high = getattr(self.before.groups, name), getattr(self.after.groups, name)
        return np.asarray(low + (high - low) * at, dtype=np.float64)

    def _overflow(self) -> None:
        if self.local is None or not self.local.spill_percent:
            return
        memory, budget = self.memory_bytes(), self.budget_bytes()
        if (self.before.nodes.alive & (memory > self.local.threshold * budget)).any():
            for step in self.local.decide(self.snapshot(), OPEN).steps:
                self.overflows += 1
                self.spilled_bytes += step.bytes
                self.carry_out(step)

    def memory_bytes(self) -> Doubles:
        return node_sums(self.owner, self.memory, len(self.before.nodes))

    def budget_bytes(self) -> Longs:
        budget = self.before.nodes.budget_bytes.copy()
        for node, size in self.budgets.items():
            budget[node] = size
        return budget

    def shares(self) -> Doubles:
        """Memory of each node as a share of its budget."""
        return np.asarray(self.memory_bytes() / np.maximum(self.budget_bytes(), 1))

    def rows_of(self, step: Step) -> Longs:
        found = [self.before.row(*pair) for pair in pairs_of(step)]
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def carry_out(self, step: Step) -> None:
        """At once: who does it says when."""
        self._recorded = None
        if isinstance(step, SetBudget):
            self.budgets[step.node] = step.bytes
            return
        if isinstance(step, Migrate):
            joins = self.before.joins
            self.order = (tree_of(joins, step.order), self.now_s) if joins is not None else None
            return
        rows = self.rows_of(step)
        if isinstance(step, Move):
            self.owner[rows] = step.target
        elif isinstance(step, Spill):
            self.disk[rows] += self.memory[rows]
            self.memory[rows] = 0.0
            self.generations[rows] += 1
        elif isinstance(step, Cleanup):
            self.memory[rows] += self.disk[rows]
            self.disk[rows] = self.owed[rows] = 0.0
            self.generations[rows] = 0

    def adapted(self, spilled_bytes: int) -> None:
        """Something that was not a node's own has ended."""
        forced = self.history.forced_spill_bytes + spilled_bytes
        self.history = replace(
            self.history, last_adaptation_s=self.now_s, forced_spill_bytes=forced
        )

    def new_round(self) -> None:
        self.round_in[:] = 0.0
        self.round_out[:] = 0.0
        self.history = replace(self.history, round_start_s=self.now_s)

    def snapshot(self) -> ClusterSnapshot:
        """What the engine would tell here."""
        if self._recorded is not None:
            return self._recorded
        return replace(
            self.before,
            time_s=self.now_s,
            version=self.before.version + int(self.now_s - self.before.time_s),
            nodes=self._nodes(),
            groups=self._groups(),
            history=self.history,
            joins=self._joins(),
            spill_rule=self._spill_rule(),
        )

    def _spill_rule(self) -> LocalRule | None:
        """When nodes spill here; as it was recorded, where they do what was recorded."""
        if self.local is None:
            return self.before.spill_rule
        return LocalRule(self.local.threshold, self.local.spill_percent)

    def _joins(self) -> Joins | None:
        joins = self.before.joins
        if joins is None or self.order is None:
            return joins
        tree, since_s = self.order
        return replace(joins, running=tree, since_s=since_s)

    def _nodes(self) -> Nodes:
        was, count = self.before.nodes, len(self.before.nodes)
        at = self._place(self.now_s)
        disk = node_sums(self.owner, self.disk, count)
        return replace(
            was,
            budget_bytes=self.budget_bytes(),
            memory_bytes=self.memory_bytes().astype(np.int64),
            disk_bytes=disk.astype(np.int64),
            disk_free_bytes=np.maximum(was.disk_free_bytes + was.disk_bytes - disk, 0).astype(
                np.int64
            ),
            rows_in_per_s=node_sums(self.owner, self._between("rows_in_per_s", at), count),
            rows_out_per_s=node_sums(self.owner, self.rate, count),
        )

    def _groups(self) -> Groups:
        at, was = self._place(self.now_s), self.before.groups
        return replace(
            was,
            owner=self.owner.copy(),
            memory_bytes=self.memory.astype(np.int64),
            disk_bytes=self.disk.astype(np.int64),
            generations=self.generations.copy(),
            rows_in=self._between("rows_in", at).astype(np.int64),
            rows_out=self.rows_out.astype(np.int64),
            rows_in_per_s=self._between("rows_in_per_s", at),
            rows_out_per_s=self.rate.copy(),
            rows_in_round=self.round_in.astype(np.int64),
            rows_out_round=self.round_out.astype(np.int64),
            bytes_per_s=self._between("bytes_per_s", at),
            last_insert_s=self._last_insert(),
            owed_rows=self.owed.copy(),
            owed_rows_per_s=self._results(at)[1],
            in_flight=self.in_flight.copy(),
        )

    def _last_insert(self) -> Doubles:
        """A group that had input by the end of the stretch had it all along."""
        last = self.after.groups.last_insert_s
        went_on = last > self.before.time_s
        return np.where(went_on, np.minimum(last, self.now_s), self.before.groups.last_insert_s)


def due_between(before: ClusterSnapshot, after: ClusterSnapshot) -> tuple[Doubles, Doubles]:
    """Results per second that came due, at both ends of a stretch: straight between the rates as recorded, so
    much more or less that the sum is what was counted, made and owed since. A group that was cleaned up
    meanwhile made results that were due before: there the rates must do."""
    a, b = before.groups, after.groups
    rates = due_per_s(before), due_per_s(after)
    counted = ((b.rows_out - a.rows_out) + (b.owed_rows - a.owed_rows)).astype(np.float64)
    seconds = max(after.time_s - before.time_s, 1e-3)
    told = (rates[0] + rates[1]) / 2 * seconds
    sure = (b.generations >= a.generations) & (counted >= 0) & (told > 0)
    times = np.where(sure, counted / np.where(told > 0, told, 1.0), 1.0)
    return rates[0] * times, rates[1] * times


def due_per_s(recorded: ClusterSnapshot) -> Doubles:
    """Results per second that each group would give with all its state in memory. Of one that is partly on
    disk, what it owes says so at once; the decayed rate of its results would only come to it."""
    groups = recorded.groups
    whole = np.maximum(groups.memory_bytes + groups.disk_bytes, 1)
    found = (groups.memory_bytes / whole) ** (recorded.streams - 1)
    partly = groups.spilled & (found < TOLD_BELOW) & (groups.owed_rows_per_s > 0)
    told = groups.owed_rows_per_s / np.where(partly, 1 - found, 1.0)
    return np.where(partly, told, groups.rows_out_per_s + groups.owed_rows_per_s)


def _whole(snapshot: ClusterSnapshot) -> Longs:
    groups = snapshot.groups
    return groups.memory_bytes + groups.disk_bytes
