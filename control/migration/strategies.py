"""How long each strategy takes here, over runs sorted by hash, and what it takes: no pairs are tried in vain.

*Moving state*: what matches is named by the new plan; the rest is computed anew beside the ticks, by a few passes, each
over what came during the one before; what came during the last is done while ticks wait, with the swap. *Parallel
track*: the new plan starts empty and both run until no result can have an old part: the longest reach of a window
after the start, not twice that (docs/papers/zhu2004-costs.md). *Delta*: the inputs' rows are sorted by the keys that are
missing, then the plan without intermediate state runs (delta.py) while all that the new tree joins is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from control.cost.price import BUSY_MAX
from control.migration import delta as without
from control.migration.model import Model, TreeLoad, load_of
from control.migration.trees import (
    Mask,
    Matched,
    State,
    Tree,
    below,
    joins,
    key,
    match,
    matched,
    members,
    single,
    states,
)

Strategy = Literal["moving", "parallel", "delta"]
SMALL_BYTES = 4e6  # so much is done for all nodes together
LAST_BYTES = 4e5  # so little is left to the swap; else once passes do not halve it any more


@dataclass(frozen=True, slots=True)
class Pace:
    """What this engine takes and has, in CPU seconds, cores and seconds. Defaults are guesses until measured."""

    join_s: float = 1e-6  # T_j, a row probed or made
    insert_s: float = 1e-6  # T_s, a row kept
    recompute_s: float = 2e-6  # κj, a row read or made when state is computed anew
    sort_s: float = 5e-7  # a row put under another key
    side_cores: float = 0.2  # what a side job's tasks get beside the ticks
    cores: float = 2.0  # what ticks get
    tick_s: float = 0.5
    swap_s: float = 1.0  # each job that a tick waits for takes, with the commit after the last
    passes: int = 7  # at most
    delay_s: float = 0.0  # of watermarks: how much longer rows may be late
    job_ticks: float = 0.0  # that a side job takes, whatever it does: it ends between two of them
    nodes: int = 1  # one after the other, as side jobs have one slot, unless there is little to do
    waits: bool | None = None  # ticks for all of moving state; None: where that costs less
    least_s: float = 0.0  # from one tick to the next with little to do; 0: not known
    order_s: float = 0.0  # CPU of what a node has to do for a state, whatever its rows,
    beside_s: float = 0.0  # and beside the ticks

    @property
    def job_s(self) -> float:
        """Of a side job, besides its work."""
        return self.job_ticks * self.tick_s

    def under(self, cpu_s: float, other_s: float) -> Pace:
        """The same where ticks have `other_s` CPU a second to do instead of `cpu_s`. They come one after the other, and each
        has what came during the one before: as long as they are idle less, they are longer."""
        idle, left = (1 - min(max(cpu, 0.0) / self.cores, BUSY_MAX) for cpu in (cpu_s, other_s))
        return replace(self, tick_s=self.tick_s * idle / left)

    def told(self, cpu_s: float, other_s: float) -> Pace:
        """The same by how long ticks were: what they take with little to do does not change, and the rest is the plan's,
        whatever share of it T_j and T_s know of."""
        if not 0 < self.least_s < self.tick_s or cpu_s <= 0:
            return self.under(cpu_s, other_s)
        busy = (1 - self.least_s / self.tick_s) * max(other_s, 0.0) / cpu_s
        return replace(self, tick_s=self.least_s / (1 - min(busy, BUSY_MAX)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one strategy takes. `rows`: read or made anew; `cpu_s` beside the ticks (moving, delta) or within them
    (parallel); `extra_bytes`: most memory on top of what there is; `hindrance`: why it cannot be, or empty.
    `again_s`: a second stall. For `ticks_s` of the length ticks take `ticks_cpu_s` more than the old plan's, or less.
    `job_s`: of each side job, besides its work, of which there are `jobs`; `swap_s`: of each swap, besides its work.
    `at_once`: nothing is done beside the ticks, they wait for all of it."""

    strategy: Strategy
    length_s: float
    stall_s: float
    rows: float
    cpu_s: float
    extra_bytes: float
    behind_s: float = 0.0  # how far results fall behind in ticks that have both plans to do
    hindrance: str = ""
    sorted_rows: float = 0.0  # of `rows`: only put under another key
    again_s: float = 0.0
    ticks_s: float = 0.0
    ticks_cpu_s: float = 0.0
    job_s: float = 0.0
    swap_s: float = 0.0
    at_once: bool = False
    jobs: int = 0

    @property
    def pause_s(self) -> float:
        """Of all stalls."""
        return self.stall_s + self.again_s


@dataclass(frozen=True)
class Change:
    """From one tree to another: what both take, and what becomes of state."""

    model: Model
    old: TreeLoad
    new: TreeLoad
    matched: Matched

    @staticmethod
    def of(model: Model, old: Tree, new: Tree) -> Change:
        found = match(old, new, model.classes)
        return Change(model, load_of(model, old), load_of(model, new), found)


@dataclass(frozen=True, slots=True)
class _Work:
    """Side jobs of one pass: how many, and what they take and read, of what there is and of what comes in a second.
    `bytes`: of states that there are. `orders`: each node works on so many in a pass."""

    jobs: int
    cpu_s: float
    bytes: float
    cpu_per_s: float
    bytes_per_s: float
    orders: int


def moving(change: Change, pace: Pace) -> Estimate:
    """Recompute beside the ticks, catch up, swap."""
    cpu_s, rows, sorted_rows = _recompute(change, pace)
    read = _read_bytes(change)
    orders = len(list(_unmatched(change))) + len(change.matched.sorted_anew)
    work = _Work(_jobs(change), cpu_s, read[0], _arriving(change, pace), read[1], orders)
    length, cpu, stall, jobs = _beside(work, pace)
    about = length, stall, rows, cpu, anew_bytes(change)
    swap_s = pace.swap_s * max(1, work.jobs)
    return Estimate(
        "moving", *about, sorted_rows=sorted_rows, job_s=pace.job_s, swap_s=swap_s, jobs=jobs
    )


def ways(change: Change, pace: Pace) -> list[Estimate]:
    """Of moving state: beside the ticks, or while they wait for all of it. The latter only where it takes no longer
    than a tick does, as results would else stand still for longer than they do anyway, or somebody wants it."""
    found = [moving(change, pace)] if not pace.waits else []
    whole = replace(moving(change, replace(pace, passes=0)), at_once=True)
    if pace.waits or (pace.waits is None and whole.stall_s <= pace.tick_s):
        found.append(whole)
    return found


def delta(change: Change, pace: Pace) -> Estimate:
    """Sort what is missing, swap, recompute all that the new tree joins, swap."""
    model = change.model
    had = states(change.old.tree, model.classes)
    have = [state for state in had if single(state.inputs)]
    plan = without.load_of(model, without.orders_of(model, have))
    missing = [base for base in plan.bases if base not in have]
    pairs = [(one.inputs, model.everything ^ one.inputs) for one in missing]
    size = sum(model.state_bytes(*pair) for pair in pairs)
    resorted = sum(model.state_rows(*pair) for pair in pairs)
    rate = sum(model.rate(mask) for mask, _ in pairs)
    fresh = sum(model.rate(mask) * model.width(mask) for mask, _ in pairs)
    about = size, pace.sort_s * rate, fresh, len(missing)
    sorts = _Work(bool(missing), pace.sort_s * resorted, *about)
    first_s, first_cpu, first_stall, first_jobs = _beside(sorts, pace)
    wants = states(change.new.tree, model.classes)
    # What was sorted goes once the plan that keeps it runs: until then none of it does.
    later = replace(model, longer_s={one.inputs: first_s for one in missing})
    then = Change(later, change.old, load_of(later, change.new.tree), matched(plan.bases, wants))
    before, meanwhile = (one.cpu(pace.join_s, pace.insert_s) for one in (change.old, plan))
    second = moving(then, pace.told(before, meanwhile))
    jobs = first_jobs + second.jobs
    jobs_s = first_jobs * pace.job_s + second.jobs * second.job_s
    extra = max(size, plan.state_bytes + second.extra_bytes - change.old.state_bytes, 0.0)
    return Estimate(
        "delta",
        first_s + second.length_s,
        max(first_stall, second.stall_s),
        resorted + second.rows,
        first_cpu + second.cpu_s,
        extra,
        sorted_rows=resorted + second.sorted_rows,
        again_s=min(first_stall, second.stall_s),
        ticks_s=second.length_s,
        ticks_cpu_s=(meanwhile - before) * second.length_s,
        job_s=jobs_s / jobs if jobs else pace.job_s,
        swap_s=(pace.swap_s + second.swap_s) / 2,
        jobs=jobs,
    )


def _beside(work: _Work, pace: Pace) -> tuple[float, float, float, int]:
    """Length, CPU, stall and number of what side jobs make, pass after pass, until little is left, or not half as much
    as after the pass before; that is made between two ticks."""
    length = cpu = before = 0.0
    made, orders = 0, work.orders * pace.nodes
    cpu_s, size = work.cpu_s, work.bytes
    for number in range(pace.passes):
        jobs = work.jobs * (pace.nodes if size > SMALL_BYTES else 1)
        cpu_s += pace.beside_s * orders
        spent = jobs * pace.job_s + cpu_s / pace.side_cores
        length, cpu, made = length + spent, cpu + cpu_s, made + jobs
        cpu_s, size = work.cpu_per_s * spent, work.bytes_per_s * spent
        if size <= LAST_BYTES or (number and 2 * size > before):
            break
        before = size
    cpu_s += pace.order_s * orders
    stall = pace.swap_s * max(1, work.jobs) + cpu_s / pace.cores
    return length + stall, cpu + cpu_s, stall, made


def parallel(change: Change, pace: Pace) -> Estimate:
    """Both plans in every tick for as long as an old row can be part of a result."""
    model = change.model
    reach = model.span_s
    if not isfinite(reach):
        why = "without windows old rows never go: the parallel track would not end"
        return Estimate("parallel", float("inf"), 0.0, 0.0, float("inf"), 0.0, 0.0, why)
    old_s, new_s = (one.cpu(pace.join_s, pace.insert_s) for one in (change.old, change.new))
    # It begins and ends between two ticks: on average half a tick after the window is over.
    span = reach + pace.delay_s + pace.under(old_s, old_s + new_s).tick_s / 2
    rows, cpu = _filling(change.new, reach, pace)
    rows += change.new.rows_in_per_s * (span - reach)
    cpu += new_s * (span - reach)
    both = old_s * span + cpu
    behind = max(0.0, both / pace.cores - span)
    about = span + behind, 0.0, rows, cpu, _filled_bytes(change, span), behind
    return Estimate("parallel", *about, ticks_s=span + behind, ticks_cpu_s=cpu)


def anew_bytes(change: Change) -> float:
    """Memory of what the new plan does not share with the old one, when it begins: what is computed has no row yet
    that none to come can meet."""
    model, needed = change.model, {(one.inputs, one.key) for one in change.matched.shared}
    found, rows = 0.0, _rows(change)
    for operator in change.new.operators:
        shared = key(model.classes, operator.parts)
        for mask in operator.parts:
            found += 0.0 if (mask, shared) in needed else rows[mask] * model.width(mask)
    return found


def _jobs(change: Change) -> int:
    """Side jobs on a node, one pass: one sorts, and one for each result that is computed."""
    return len(list(_unmatched(change))) + bool(change.matched.sorted_anew)


def _read_bytes(change: Change) -> tuple[float, float]:
    """Of states that both plans have and that are read; and what comes to them in a second."""
    model, shared = change.model, set(change.matched.shared)
    masks = [state.inputs for state in change.matched.sorted_anew]
    for parts in _unmatched(change):
        by = key(model.classes, parts)
        masks += [mask for mask in parts if State(mask, by) in shared]
    size = sum(model.state_bytes(mask, model.everything ^ mask) for mask in masks)
    return size, sum(model.rate(mask) * model.width(mask) for mask in masks)


def _unmatched(change: Change) -> Iterator[tuple[Mask, ...]]:
    """The parts of each result that has to be computed anew."""
    wanted = {state.inputs for state in change.matched.recomputed}
    for parts in joins(change.new.tree):
        masks = tuple(below(part) for part in parts)
        if sum(masks) in wanted:
            yield masks


def _recompute(change: Change, pace: Pace) -> tuple[float, float, float]:
    """CPU seconds and rows of the first pass: both sides read and the result made, children first. Last, how many of
    the rows are only sorted."""
    sizes = _rows(change)
    rows = sum(sizes[sum(masks)] + sum(sizes[m] for m in masks) for masks in _unmatched(change))
    sorted_rows = sum(sizes[state.inputs] for state in change.matched.sorted_anew)
    cpu = pace.recompute_s * rows + pace.sort_s * sorted_rows
    return cpu, rows + sorted_rows, sorted_rows


def _rows(change: Change) -> dict[Mask, float]:
    """Rows of the new plan's states when it begins: as they are kept, or as they are computed."""
    model, out = change.model, dict[Mask, float]()
    anew = {state.inputs for state in change.matched.recomputed}
    for operator in change.new.operators:
        whole = sum(operator.parts)
        for mask, kept in zip(operator.parts, operator.state_rows, strict=True):
            out[mask] = model.made_rows(mask, whole ^ mask) if mask in anew else kept
    return out


def _arriving(change: Change, pace: Pace) -> float:
    """CPU seconds for what arrives in a second."""
    model = change.model
    rows = sum(
        model.rate(sum(masks)) + sum(model.rate(mask) for mask in masks)
        for masks in _unmatched(change)
    )
    again = sum(model.rate(state.inputs) for state in change.matched.sorted_anew)
    return pace.recompute_s * rows + pace.sort_s * again


def _filled_bytes(change: Change, span: float) -> float:
    """State of a plan that starts empty, after so long: rows of m inputs come as t^(m−1)."""
    return sum(
        rate * span / len(members(mask)) * change.model.width(mask)
        for operator in change.new.operators
        for mask, rate in zip(operator.parts, operator.rows_in_per_s, strict=True)
    )


def _filling(load: TreeLoad, reach: float, pace: Pace) -> tuple[float, float]:
    """Rows and CPU of a plan that starts empty, until it is full: rows of m inputs come as t^(m−1)."""
    rows = made = 0.0
    for operator in load.operators:
        came = [
            rate * reach / len(members(mask))
            for mask, rate in zip(operator.parts, operator.rows_in_per_s, strict=True)
        ]
        rows += sum(came)
        made += operator.rows_out_per_s * reach / len(members(sum(operator.parts)))
    return rows, pace.join_s * (rows + made) + pace.insert_s * rows


ESTIMATES: dict[Strategy, Callable[[Change, Pace], Estimate]] = {
    "moving": moving,
    "parallel": parallel,
    "delta": delta,
}
EVERY: tuple[Strategy, ...] = tuple(ESTIMATES)
