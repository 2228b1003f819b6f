"""Steps as they are, group by group, against nothing: what options.py does for amounts, done for a plan.

A plan's groups are gathered apart from the others, so that exactly they are spilled or moved. Before and
after are made of the same slices: what differs between them is the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from control.cost.draws import Compared
from control.cost.options import (
    back_in_memory,
    cleanup_cost,
    cleanup_cpu_s,
    move_cost,
    saved_by_cleanup,
)
from control.cost.outlook import Outlook, gathered
from control.cost.owed import delay, owed
from control.cost.roll import Picture, Rolled, Slices, roll
from control.errors import PlanError
from control.migration.gain import Offer
from control.migration.terms import results_per_s
from control.orders import Priced, priced
from control.plans import Cleanup, Migrate, Move, SetBudget, Spill, Step, nodes_of, pairs_of
from control.snapshot import ClusterSnapshot, Longs, node_sums

SLICES = 30  # of a node, operator and step: fewer than the search's, as these are drawn many times


@dataclass(frozen=True, slots=True)
class Direct:
    """What one step takes and does by itself."""

    bytes: int = 0
    seconds: float = 0.0
    pause_s: float = 0.0
    read_cpu_s: float = 0.0  # of a cleanup: reading
    cpu_s: float = 0.0  # all of it
    owed_rows: float = 0.0  # put off until the horizon; a cleanup's are negative
    owed_row_s: float = 0.0
    fixed_row_s: float = 0.0
    saved_row_s: float = 0.0
    order: Priced | None = None  # of a migration


@dataclass(frozen=True)
class Exact:
    """A plan priced: its pair of pictures, both rolled, and each step's own figures. What a join order gains is all
    in its own figures: the pictures do not know of it."""

    pair: Compared
    before: Rolled
    after: Rolled
    steps: tuple[Direct, ...]

    @property
    def cost_row_s(self) -> float:
        return self.pair.fixed_row_s + float(self.after.first_row_s.sum())

    @property
    def gain_row_s(self) -> float:
        saved = float((self.before.row_s - self.after.row_s).sum())
        return saved - self.pair.fixed_row_s + self.pair.saved_row_s


def rows_at(snapshot: ClusterSnapshot, step: Step) -> Longs:
    """The rows of a step's groups; PlanError names one that does not exist."""
    found = [(pair, snapshot.row(*pair)) for pair in pairs_of(step)]
    for (operator, group), row in found:
        if row is None:
            raise PlanError(f"no group {group} of {operator!r}", where="plan")
    return np.array([row for _, row in found if row is not None], dtype=np.int64)


def exact(outlook: Outlook, steps: Sequence[Step]) -> Exact:
    """All steps together against nothing, over the nodes that they touch."""
    snapshot = outlook.snapshot
    rows = [rows_at(snapshot, step) for step in steps]
    direct = tuple(_direct(outlook, step, some) for step, some in zip(steps, rows, strict=True))
    touched = {node for step in steps for node in nodes_of(step)}
    real = np.array(sorted(touched or range(len(snapshot.nodes))), dtype=np.int64)
    mark = np.full(len(snapshot.groups), -1, dtype=np.int64)
    for number, some in enumerate(rows):
        mark[some] = number
    mine = np.flatnonzero(np.isin(snapshot.groups.owner, real))
    slices, _, which = gathered(snapshot, outlook.horizon.seconds, mine, mark, SLICES)
    before = _picture(outlook, slices, real, ())
    after = _picture(outlook, _after(outlook, steps, rows, slices, which), real, steps)
    fixed, saved = sum(d.fixed_row_s for d in direct), sum(d.saved_row_s for d in direct)
    pair = Compared(before, after, real, fixed, saved)
    about = outlook.numbers, outlook.horizon, outlook.rule
    return Exact(pair, roll(before, *about), roll(after, *about), direct)


def _after(
    outlook: Outlook, steps: Sequence[Step], rows: Sequence[Longs], slices: Slices, which: Longs
) -> Slices:
    """The slices once the steps are done; `which` is the step of each, or -1. Nodes are real ones."""
    kinds = np.array([isinstance(step, Spill) for step in steps] + [False])
    targets = np.array([s.target if isinstance(s, Move) else -1 for s in steps] + [-1])
    node = np.where(targets[which] >= 0, targets[which], slices.node)
    back = [
        back_in_memory(outlook, some)
        for step, some in zip(steps, rows, strict=True)
        if isinstance(step, Cleanup)
    ]
    return Slices.joined(replace(slices, node=node, chosen=kinds[which]), *back)


def _picture(outlook: Outlook, slices: Slices, real: Longs, steps: Sequence[Step]) -> Picture:
    """Of the nodes `real` only; chosen slices are spilled at time 0."""
    slices = slices.at(np.searchsorted(real, slices.node)).sorted()
    first = node_sums(slices.node, np.where(slices.chosen, slices.bytes, 0.0), len(real))
    picture = outlook.picture(slices, real.tolist(), first.tolist())
    limit = picture.limit_bytes.copy()
    for step in steps:
        if isinstance(step, SetBudget):
            limit[np.searchsorted(real, step.node)] = step.bytes
    return replace(picture, limit_bytes=limit)


def _direct(outlook: Outlook, step: Step, rows: Longs) -> Direct:
    if isinstance(step, Move):
        return _move(outlook, step, rows)
    if isinstance(step, Spill):
        return _spill(outlook, rows)
    if isinstance(step, Cleanup):
        return _cleanup(outlook, rows)
    if isinstance(step, Migrate):
        return _migrate(outlook, step)
    return Direct(seconds=outlook.numbers.tick_s)


def _migrate(outlook: Outlook, step: Migrate) -> Direct:
    """As the optimiser prices it. Where nothing is known of the query's joins yet: as if all state were read and
    sorted anew, which is the most, and two ticks' results wait for the swap."""
    numbers = outlook.numbers
    found = priced(
        outlook.snapshot,
        numbers,
        step.order,
        step.strategy,
        rule=outlook.rule,
        horizon=outlook.horizon,
        waits=step.at_once,
    )
    if found is not None and found.offer is not None:
        return _offered(outlook, found, found.offer)
    cpu = step.bytes * (numbers.read_s_per_byte + numbers.write_s_per_byte)
    pause_s = 2 * numbers.tick_s
    waits = outlook.rows_out_per_s * pause_s**2 / 2
    fixed = waits + cpu * float(outlook.price.mean())
    seconds = pause_s + cpu / numbers.side_slice
    return Direct(step.bytes, seconds, pause_s, cpu, cpu, 0.0, waits, fixed, order=found)


def _offered(outlook: Outlook, found: Priced, offer: Offer) -> Direct:
    """One that would never end lasts until the horizon, as far as figures go; why it cannot be is told beside."""
    estimate, horizon = offer.estimate, outlook.horizon.seconds
    endless = not isfinite(estimate.length_s)
    cpu, length = (0.0, horizon) if endless else (estimate.cpu_s, estimate.length_s)
    results = results_per_s(outlook, found.proposal.advice.change.model)
    waits = results * (estimate.stall_s**2 + estimate.again_s**2) / 2
    worth = offer.gain_row_s + offer.cost_row_s
    return Direct(
        int(estimate.extra_bytes),
        length,
        estimate.pause_s,
        cpu,
        cpu,
        0.0,
        waits,
        offer.cost_row_s,
        worth,
        found,
    )


def _move(outlook: Outlook, step: Move, rows: Longs) -> Direct:
    """CPU is spent on both ends. Results wait as long as their groups' input does."""
    groups, numbers = outlook.snapshot.groups, outlook.numbers
    going = _slice_of(outlook.snapshot, rows)
    sender = float(groups.bytes_per_s[outlook.snapshot.on(step.source)].sum())
    fixed, seconds, pause_s = move_cost(outlook, step.source, step.target, going, sender, False)
    size, rate = int(groups.memory_bytes[rows].sum()), float(groups.rows_out_per_s[rows].sum())
    cpu = 2 * numbers.transfer_s_per_byte * size
    waits = rate * pause_s**2 / 2
    return Direct(size, seconds, pause_s, 0.0, cpu, 0.0, waits, fixed)


def _slice_of(snapshot: ClusterSnapshot, rows: Longs) -> Slices:
    """Groups as they are, one slice each."""
    groups = snapshot.groups
    size, beta, rho = (
        column[rows].astype(np.float64)
        for column in (groups.memory_bytes, groups.bytes_per_s, groups.rows_out_per_s)
    )
    owner, plain = groups.owner[rows], np.zeros(len(rows), dtype=np.bool_)
    about = snapshot.streams[rows], snapshot.window_s[rows], owner, plain
    return Slices(owner, size, beta, beta, rho, *about)


def _spill(outlook: Outlook, rows: Longs) -> Direct:
    """What it owes and delays until the horizon is in the roll's cost; here it is told."""
    snapshot, numbers, horizon = outlook.snapshot, outlook.numbers, outlook.horizon
    groups = snapshot.groups
    size = groups.memory_bytes[rows].astype(np.float64)
    rate, growth = groups.rows_out_per_s[rows], groups.bytes_per_s[rows] / np.maximum(size, 1.0)
    about = rate, growth, snapshot.streams[rows], snapshot.window_s[rows], horizon.seconds
    owes, late = (numbers.owed_factor * float(form(*about).sum()) for form in (owed, delay))
    cpu = numbers.write_s_per_byte * float(size.sum())
    seconds = numbers.tick_s + cpu / numbers.side_slice
    return Direct(int(size.sum()), seconds, 0.0, 0.0, cpu, owes, late)


def _cleanup(outlook: Outlook, rows: Longs) -> Direct:
    groups, numbers = outlook.snapshot.groups, outlook.numbers
    read, join = cleanup_cpu_s(outlook, rows)
    owes = numbers.owed_factor * float(groups.owed_rows[rows].sum())
    saved = float(saved_by_cleanup(outlook, rows).sum())
    seconds = numbers.tick_s + (read + join) / numbers.side_slice
    size, fixed = int(groups.disk_bytes[rows].sum()), cleanup_cost(outlook, rows)
    return Direct(size, seconds, 0.0, read, read + join, -owes, -saved, fixed, saved)
