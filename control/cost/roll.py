"""Rolling nodes forward over the horizon: when each is full, what its own rule spills then, what that owes.

A *picture* is any number of imagined nodes with their slices, all rolled at once in columns: the cluster as
it is, as it would be after each option, or two hundred draws of either. A slice is (part of) one or more
groups; spilling takes slices least productive first and cuts the last one. A slice once spilled goes on
gaining new state, which is spilled only when nothing else is left, at no further charge: what it then
owes in addition is small beside what it owes already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.owed import delay, owed
from control.snapshot import Bools, Doubles, Longs, node_sums

TINY = 1e-9


@dataclass(frozen=True)
class Slices:
    """Columns, grouped by node and in the order in which they are spilled."""

    node: Longs
    bytes: Doubles
    bytes_per_s: Doubles  # β, of new state
    net_bytes_per_s: Doubles  # less what leaves the window
    rows_out_per_s: Doubles  # ρ
    streams: Longs
    window_s: Doubles
    origin: Longs  # the real node that it is on before any option
    chosen: Bools  # spilled before all others: a step names these groups

    def __len__(self) -> int:
        return len(self.node)

    def take(self, rows: Longs) -> Slices:
        return Slices(*(column[rows] for column in vars(self).values()))

    def scaled(self, share: Doubles) -> Slices:
        """Parts of the slices: state and rates shrink alike."""
        return replace(
            self,
            bytes=self.bytes * share,
            bytes_per_s=self.bytes_per_s * share,
            net_bytes_per_s=self.net_bytes_per_s * share,
            rows_out_per_s=self.rows_out_per_s * share,
        )

    def at(self, node: Longs) -> Slices:
        return replace(self, node=node)

    def sorted(self) -> Slices:
        """By node, chosen ones first, then the least productive."""
        productivity = self.rows_out_per_s / np.maximum(self.bytes, TINY)
        return self.take(
            np.lexsort((productivity, 2 * self.node + (~self.chosen).astype(np.int64)))
        )

    @staticmethod
    def joined(*many: Slices) -> Slices:
        columns = zip(*(vars(one).values() for one in many), strict=True)
        return Slices(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class Picture:
    """Imagined nodes. `other_bytes` is memory that no slice accounts for; `spill_first_bytes` is spilled
    at time 0 whatever the rule says."""

    slices: Slices
    limit_bytes: Doubles
    other_bytes: Doubles
    disk_free_bytes: Doubles
    price: Doubles  # π
    query_rows_out_per_s: Doubles
    spill_first_bytes: Doubles

    def __len__(self) -> int:
        return len(self.limit_bytes)


@dataclass(frozen=True)
class Rolled:
    """By node: row·s, rows owed at the end, when first full (infinite: never), bytes spilled."""

    row_s: Doubles
    first_row_s: Doubles  # of which: what was spilled at time 0
    owed_rows: Doubles
    full_s: Doubles
    spilled_bytes: Doubles


class _Roll:
    """The state of a roll. Each turn takes every node to its next overflow."""

    def __init__(
        self, picture: Picture, numbers: Coefficients, horizon: Horizon, rule: LocalRule
    ) -> None:
        self.picture, self.numbers, self.horizon, self.rule = picture, numbers, horizon, rule
        self.slices = picture.slices
        nodes = len(picture)
        self.left = np.ones(len(self.slices))
        self.memory = picture.other_bytes + self._sum(self.slices.bytes)
        self.fill = self._sum(self.slices.net_bytes_per_s)
        self.now = np.zeros(nodes)
        self.disk = picture.disk_free_bytes.copy()
        self.row_s, self.owed, self.spilled = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        self.full = np.full(nodes, np.inf)
        self.stopped = np.zeros(nodes, dtype=np.bool_)

    def _sum(self, column: Doubles) -> Doubles:
        return node_sums(self.slices.node, column, len(self.picture))

    def run(self) -> Rolled:
        self._spill(self.picture.spill_first_bytes, self.picture.spill_first_bytes > 0)
        first = self.row_s
        for _ in range(self.horizon.events_max):
            due = self._to_next_overflow()
            if not due.any():
                break
            self.full = np.where(due, np.minimum(self.full, self.now), self.full)
            self._spill(self.memory * self.rule.percent / 100, due)
        return Rolled(self.row_s, first, self.owed, self.full, self.spilled)

    def _to_next_overflow(self) -> Bools:
        """Advance the nodes that will be full within the horizon; which those are."""
        room = np.maximum(self.picture.limit_bytes * self.rule.threshold - self.memory, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = np.where(self.fill > TINY, room / self.fill, np.where(room > 0, np.inf, 0.0))
        at = self.now + wait
        due: Bools = (at < self.horizon.seconds) & ~self.stopped & (self.memory > TINY)
        step = np.where(due, wait, 0.0)
        self.memory = self.memory + self.fill * step
        self.now = self.now + step
        return due

    def _spill(self, amount: Doubles, due: Bools) -> None:
        """The least productive `amount` of each due node goes to disk now."""
        every = self.slices
        rows = np.flatnonzero(due[every.node] & (self.left > TINY))
        size = self.left[rows] * np.maximum(
            every.bytes[rows] + every.net_bytes_per_s[rows] * self.now[every.node[rows]], 0.0
        )
        share = _shares(every.node[rows], size, amount)
        struck = np.flatnonzero(share)
        rows, size, share = rows[struck], size[struck], share[struck]
        some = every.take(rows)
        taken = size * share
        gone = self._sum_of(some.node, taken)
        self._charge(some, self.left[rows] * share, size, taken)
        self.fill = self.fill + self._sum_of(
            some.node, self.left[rows] * share * (some.bytes_per_s - some.net_bytes_per_s)
        )
        self.left[rows] *= 1 - share
        again = np.where(due, np.minimum(amount - gone, self.memory - gone), 0.0)
        self._dispose(np.where(due, gone + np.maximum(again, 0.0), 0.0), due)

    def _dispose(self, gone: Doubles, due: Bools) -> None:
        """Memory back, disk filled; a node whose disk is full stops the query's results from there on."""
        self.memory = self.memory - gone
        self.spilled = self.spilled + gone
        self.disk = self.disk - gone
        stuck = due & ((self.disk < 0) | (gone <= TINY)) & ~self.stopped
        rest = self.horizon.seconds - self.now
        stall = self.picture.query_rows_out_per_s * rest**2 / 2
        self.row_s = self.row_s + np.where(stuck, stall, 0.0)
        self.stopped = self.stopped | stuck

    def _charge(self, some: Slices, part: Doubles, size: Doubles, taken: Doubles) -> None:
        """J, the charge after the horizon, and the CPU of writing now, reading and joining later."""
        rest = self.horizon.seconds - self.now[some.node]
        rate = some.rows_out_per_s * part
        now_bytes = np.maximum(some.bytes + some.net_bytes_per_s * self.now[some.node], TINY)
        growth = some.bytes_per_s / now_bytes
        late = delay(rate, growth, some.streams, some.window_s, rest)
        rows = owed(rate, growth, some.streams, some.window_s, rest)
        if self.horizon.charge_after:
            late = late + rows * np.minimum(some.window_s, self.horizon.seconds)
        numbers = self.numbers
        cpu = taken * (numbers.write_s_per_byte + numbers.read_s_per_byte)
        cpu = cpu + rows * numbers.join_s_per_row
        late = late * numbers.owed_factor + cpu * self.picture.price[some.node]
        self.row_s = self.row_s + self._sum_of(some.node, late)
        self.owed = self.owed + self._sum_of(some.node, rows * numbers.owed_factor)

    def _sum_of(self, node: Longs, column: Doubles) -> Doubles:
        return node_sums(node, column, len(self.picture))


def _shares(node: Longs, size: Doubles, amount: Doubles) -> Doubles:
    """How much of each slice is taken so that each node gives `amount`, in order."""
    if not len(node):
        return np.zeros(0)
    running = np.cumsum(size)
    first = np.flatnonzero(np.r_[True, node[1:] != node[:-1]])
    counts = np.diff(np.r_[first, len(node)])
    start = np.repeat(running[first] - size[first], counts)
    before = running - size - start
    wanted = np.clip(amount[node] - before, 0.0, size)
    return np.divide(wanted, size, out=np.zeros_like(size), where=size > TINY)


def roll(
    picture: Picture,
    numbers: Coefficients,
    horizon: Horizon,
    rule: LocalRule,
) -> Rolled:
    """What becomes of every node of a picture within the horizon."""
    return _Roll(picture, numbers, horizon, rule).run()
