"""The terms of a migration's price on one cluster: what it costs while it lasts, and what is saved once the new plan
stands.

A node's work is what is known of it (how busy it was, or work_s_per_row), and at least its joins; groups shrink and
grow alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, isfinite

import numpy as np

from control.cost.options import cleanup_cpu_s
from control.cost.outlook import Outlook
from control.cost.price import load, tick_s, work_by_node
from control.cost.roll import Picture, Rolled, roll
from control.migration.model import Model, TreeLoad
from control.migration.strategies import ESTIMATES, Change, Estimate, Pace, Strategy, ways
from control.migration.words import mb
from control.snapshot import NO_LIMIT, Doubles


@dataclass(frozen=True, slots=True)
class Parts:
    """The terms of one strategy: direct cost, load while it lasts and what is saved a second after it."""

    estimate: Estimate
    stall_row_s: float
    cpu_row_s: float
    load_row_s: float
    saved_row_s: float  # of load, until the horizon
    whole_row_s: float  # the same, did the new plan stand at once
    stands: float  # share of the horizon that the new plan stands

    @property
    def cost_row_s(self) -> float:
        return self.stall_row_s + self.cpu_row_s + self.load_row_s

    @property
    def until_stands_row_s(self) -> float:
        """The cost, and what is not saved yet."""
        return self.cost_row_s + self.whole_row_s - self.saved_row_s


def results_per_s(outlook: Outlook, model: Model) -> float:
    """Nodes give rows in between too; it is the query's results that somebody waits for."""
    return min(outlook.rows_out_per_s, model.rate(model.everything))


class Pricing:
    """One change on one cluster."""

    def __init__(self, outlook: Outlook, pace: Pace, change: Change) -> None:
        self.outlook, self.pace, self.change = outlook, pace, change
        self._estimates: dict[Strategy, Estimate] = {}
        nodes, numbers = outlook.snapshot.nodes, outlook.numbers
        self.alive = np.flatnonzero(nodes.alive)
        self.work = work_by_node(nodes, numbers)
        # Whatever nodes say, they do the joins of the tree that runs.
        joins_s = self._cpu(change.old, 1.0) * numbers.tick_s / max(len(self.alive), 1)
        self.work[self.alive] = np.maximum(self.work[self.alive], joins_s)
        every, self.rho = outlook.rows_out_per_s, results_per_s(outlook, change.model)
        price = float(outlook.price[self.alive].mean()) if len(self.alive) else 0.0
        self.cpu_price = price * self.rho / every if every > 0 else 0.0
        groups = outlook.snapshot.groups
        self.spilled = np.flatnonzero(groups.spilled)
        self.clean_cpu_s = sum(cleanup_cpu_s(outlook, self.spilled))

    def late(self, cpu_more: float, seconds: float) -> float:
        """Row·s of waiting for ticks with so much more work a second, and of falling behind where that is more
        than there is time for."""
        numbers, work = self.outlook.numbers, self.work.copy()
        if not len(self.alive) or seconds <= 0:
            return 0.0
        work[self.alive] += cpu_more * numbers.tick_s / len(self.alive)
        busy, then = (
            tick_s(np.maximum(one, 0.0), numbers.cores, 0.0) / numbers.tick_s
            for one in (self.work, work)
        )
        cores = self.pace.cores
        length = self.pace.under(busy * cores, then * cores).tick_s
        over = max(0.0, 1 - 1 / then) if then > 0 else 0.0
        return load(self.rho, seconds, length) + self.rho * over * seconds**2 / 2

    def estimate(self, strategy: Strategy) -> Estimate:
        """Once: it does not depend on what is drawn."""
        if strategy not in self._estimates:
            change, pace = self.change, self.pace
            found = (
                ways(change, pace) if strategy == "moving" else [ESTIMATES[strategy](change, pace)]
            )
            cleaned = [self._cleaned(one) for one in found]
            costs = [self._of(one).until_stands_row_s for one in cleaned]
            self._estimates[strategy] = cleaned[costs.index(min(costs))]
        return self._estimates[strategy]

    def _cleaned(self, estimate: Estimate) -> Estimate:
        """With what comes first: spilled groups go back to memory, and what they owe comes out."""
        cpu_s = self.clean_cpu_s
        if not cpu_s:
            return estimate
        length_s = estimate.length_s + cpu_s / self.pace.side_cores
        return replace(estimate, length_s=length_s, cpu_s=estimate.cpu_s + cpu_s)

    def parts(self, strategy: Strategy, doubt: float = 0.0) -> Parts:
        """`doubt`: ln of how many times more rows the new tree makes in between than is thought."""
        return self._of(self.estimate(strategy), doubt)

    def _of(self, estimate: Estimate, doubt: float = 0.0) -> Parts:
        change = self.change
        horizon, factor = self.outlook.horizon.seconds, exp(doubt)
        lasts = min(estimate.length_s, horizon)
        more = self._cpu(change.new, factor) - self._cpu(change.old, 1.0)
        within = estimate.strategy == "parallel"  # both plans: its CPU is the ticks'
        ticks_s = min(estimate.ticks_s, horizon)
        during = (
            estimate.ticks_cpu_s / estimate.ticks_s
            if isfinite(estimate.ticks_cpu_s) and ticks_s
            else 0.0
        )
        during *= factor if within else 1.0
        beside_s = 0.0 if within else factor * (estimate.cpu_s - self.clean_cpu_s)
        saved = self.late(0.0, horizon - lasts) - self.late(more, horizon - lasts)
        longer = self.late(during, ticks_s) - self.late(0.0, ticks_s)
        return Parts(
            estimate,
            self.rho * (estimate.stall_s**2 + estimate.again_s**2) / 2,
            self.cpu_price * (beside_s + self.clean_cpu_s),
            max(longer, 0.0),
            saved + max(-longer, 0.0),
            self.late(0.0, horizon) - self.late(more, horizon),
            1 - lasts / horizon,
        )

    def _cpu(self, told: TreeLoad, factor: float) -> float:
        """CPU a second, with `factor` times the rows in between: each is made once, probed once and kept."""
        join_s, insert_s = self.pace.join_s, self.pace.insert_s
        more = (factor - 1) * told.between_per_s * (2 * join_s + insert_s)
        return told.cpu(join_s, insert_s) + more

    def shares(self) -> Doubles:
        """How state is spread over nodes."""
        memory = self.outlook.snapshot.nodes.memory_bytes.astype(np.float64)
        total = memory.sum()
        return memory / total if total > 0 else np.full(len(memory), 1 / max(len(memory), 1))

    def picture(self, factor: float = 1.0, extra_bytes: float = 0.0) -> Picture:
        """All nodes with state of so many times the bytes, growing so many times as fast, and something beside it."""
        outlook = self.outlook
        slices = outlook.slices
        made = outlook.picture(
            replace(
                slices,
                bytes=slices.bytes * factor,
                bytes_per_s=slices.bytes_per_s * factor,
                net_bytes_per_s=slices.net_bytes_per_s * factor,
            ),
            list(range(len(outlook.snapshot.nodes))),
            [0.0] * len(outlook.snapshot.nodes),
        )
        limit = np.where(outlook.snapshot.nodes.alive, made.limit_bytes, np.inf)
        other = made.other_bytes + extra_bytes * self.shares()
        return replace(made, limit_bytes=limit, other_bytes=other)

    def rolled(self, picture: Picture) -> float:
        return float(self.ahead(picture).row_s.sum())

    def ahead(self, picture: Picture) -> Rolled:
        outlook = self.outlook
        return roll(picture, outlook.numbers, outlook.horizon, outlook.rule)

    def hindrance(self, estimate: Estimate) -> str:
        if estimate.hindrance:
            return estimate.hindrance
        nodes = self.outlook.snapshot.nodes
        groups = self.outlook.snapshot.groups
        needs = estimate.extra_bytes * self.shares()
        np.add.at(needs, groups.owner[self.spilled], groups.disk_bytes[self.spilled])
        limited = nodes.alive & (nodes.budget_bytes < NO_LIMIT)
        short = np.where(limited, needs - nodes.free_bytes, -np.inf)
        node = int(short.argmax()) if len(short) else 0
        if not len(short) or short[node] <= 0:
            return ""
        free = max(0, int(nodes.free_bytes[node]))
        return f"node {node} needs {mb(needs[node])} more and has {mb(free)} free"
