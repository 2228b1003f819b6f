"""The arbiter: may this plan be carried out now? One pure function; refusals are values with numbers.

Control calls it for a preview, the engine again on its own manifest: the engine's verdict is final. A
node's own spill on overflow (`plan.local`) ignores hold, cool-down and budgets, and what else runs, but
never touches groups in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from control.limits import Limits
from control.plans import (
    Cleanup,
    Migrate,
    Move,
    Plan,
    SetBudget,
    Spill,
    Step,
    name_of,
    nodes_of,
    pairs_of,
)
from control.snapshot import ClusterSnapshot


class Why(StrEnum):
    """Why a plan is refused."""

    NO_STEPS = "no_steps"
    TOO_MANY_STEPS = "too_many_steps"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_OPERATOR = "unknown_operator"
    UNKNOWN_GROUP = "unknown_group"
    NO_GROUPS = "no_groups"
    GROUP_TWICE = "group_twice"
    NODE_NOT_ALIVE = "node_not_alive"
    MOVE_TO_ITSELF = "move_to_itself"
    WRONG_OWNER = "wrong_owner"
    SPILLED_GROUP_MOVED = "spilled_group_moved"
    GROUP_IN_FLIGHT = "group_in_flight"
    NOTHING_IN_MEMORY = "nothing_in_memory"
    NOTHING_ON_DISK = "nothing_on_disk"
    RECEIVER_FULL = "receiver_full"
    NO_ROOM_FOR_CLEANUP = "no_room_for_cleanup"
    DISK_FULL = "disk_full"
    OVERLAP = "overlap"
    TRANSFER_ON_NODE = "transfer_on_node"
    COOL_DOWN = "cool_down"
    ON_HOLD = "on_hold"
    ACTION_BYTES = "action_bytes"
    DAILY_BYTES = "daily_bytes"
    PERCENT_OUT_OF_RANGE = "percent_out_of_range"
    BUDGET_TOO_SMALL = "budget_too_small"
    NOTHING_TO_UNDO = "nothing_to_undo"
    NO_PICTURE = "no_picture"
    DAILY_PAUSE = "daily_pause"
    NODE_DRAINED = "node_drained"
    UNKNOWN_STRATEGY = "unknown_strategy"
    BAD_ORDER = "bad_order"
    SAME_ORDER = "same_order"
    NO_BETTER_ORDER = "no_better_order"
    STATE_GONE = "state_gone"
    NO_ROOM_FOR_PLAN = "no_room_for_plan"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason against, with what was found and what is allowed."""

    why: Why
    text: str
    found: float | None = None
    limit: float | None = None

    def __str__(self) -> str:
        figures = [f"{self.found:,.10g}"] if self.found is not None else []
        figures += [f"limit {self.limit:,.10g}"] if self.limit is not None else []
        return f"{self.text} ({', '.join(figures)})" if figures else self.text


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted when nothing speaks against it."""

    refusals: tuple[Refusal, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.refusals

    def __str__(self) -> str:
        return "accepted" if self.accepted else "; ".join(str(r) for r in self.refusals)


@dataclass(frozen=True, slots=True)
class Running:
    """A step that is being carried out, of this or another query on the same nodes."""

    action: str
    query: str
    step: Step


def judge(
    plan: Plan, snapshot: ClusterSnapshot, running: Sequence[Running], limits: Limits
) -> Verdict:
    """All reasons against a plan, not only the first."""
    if not plan.steps:
        return Verdict((Refusal(Why.NO_STEPS, "the plan has no steps"),))
    named = [refusal for step in plan.steps for refusal in _names(step, snapshot)]
    if named:
        return Verdict(tuple(named))
    found = [refusal for step in plan.steps for refusal in _state(step, snapshot)]
    found += _twice(plan)
    found += _room(plan, snapshot, limits)
    found += _others(plan, snapshot, running)
    if not plan.local:
        found += _bounds(plan, snapshot, limits)
    return Verdict(tuple(found))


def judge_percent(percent: float) -> Refusal | None:
    """A share of a node's state, as a person or a script gives it."""
    if 0 < percent <= 100:
        return None
    return Refusal(Why.PERCENT_OUT_OF_RANGE, "percent must be over 0 and at most 100", percent, 100)


def _names(step: Step, snapshot: ClusterSnapshot) -> Iterator[Refusal]:
    """Everything named must exist."""
    count = len(snapshot.nodes)
    for node in nodes_of(step):
        if not 0 <= node < count:
            yield Refusal(Why.UNKNOWN_NODE, f"no node {node}", node, count - 1)
    if isinstance(step, SetBudget | Migrate):
        return
    if not pairs_of(step):
        yield Refusal(Why.NO_GROUPS, f"the {name_of(step)} names no group")
    for part in step.parts:
        index = snapshot.operator_index.get(part.operator)
        if index is None:
            yield Refusal(Why.UNKNOWN_OPERATOR, f"no operator {part.operator!r}")
            continue
        for group in part.groups:
            if snapshot.row(part.operator, group) is None:
                last = snapshot.operators[index].groups - 1
                yield Refusal(
                    Why.UNKNOWN_GROUP, f"no group {group} in {part.operator}", group, last
                )


def _state(step: Step, snapshot: ClusterSnapshot) -> Iterator[Refusal]:
    """What the groups and nodes of one step must be like. Whether an order is one, the engine says."""
    if isinstance(step, Migrate):
        return
    for node in nodes_of(step):
        if not snapshot.nodes.alive[node]:
            yield Refusal(Why.NODE_NOT_ALIVE, f"node {node} is not alive", node)
    if isinstance(step, SetBudget):
        yield from _budget(step, snapshot)
        return
    if isinstance(step, Move) and step.source == step.target:
        yield Refusal(Why.MOVE_TO_ITSELF, f"node {step.source} would move to itself", step.target)
    owner = nodes_of(step)[0]
    groups = snapshot.groups
    for operator, group in pairs_of(step):
        row = snapshot.row(operator, group)
        assert row is not None
        where = f"group {group} of {operator}"
        if groups.owner[row] != owner:
            yield Refusal(
                Why.WRONG_OWNER, f"{where} is not on node {owner}", float(groups.owner[row]), owner
            )
        if groups.in_flight[row]:
            yield Refusal(Why.GROUP_IN_FLIGHT, f"{where} is in flight")
        yield from _tiers(step, snapshot, row, where)


def _tiers(step: Step, snapshot: ClusterSnapshot, row: int, where: str) -> Iterator[Refusal]:
    groups = snapshot.groups
    memory, disk = int(groups.memory_bytes[row]), int(groups.disk_bytes[row])
    if isinstance(step, Move) and groups.spilled[row]:
        yield Refusal(Why.SPILLED_GROUP_MOVED, f"{where} is on disk: clean it up first", disk, 0)
    if isinstance(step, Spill) and memory == 0:
        yield Refusal(Why.NOTHING_IN_MEMORY, f"{where} has nothing in memory", memory)
    if isinstance(step, Cleanup) and not groups.spilled[row]:
        yield Refusal(Why.NOTHING_ON_DISK, f"{where} has nothing on disk", disk)


def _budget(step: SetBudget, snapshot: ClusterSnapshot) -> Iterator[Refusal]:
    """A node must be able to hold its largest group."""
    sizes = snapshot.groups.memory_bytes[snapshot.on(step.node)]
    largest = int(sizes.max(initial=0))
    if step.bytes <= 0 or step.bytes < largest:
        yield Refusal(
            Why.BUDGET_TOO_SMALL,
            f"node {step.node} could not hold its largest group",
            step.bytes,
            max(largest, 1),
        )


def _twice(plan: Plan) -> Iterator[Refusal]:
    """No group in two steps, no node in two transfers."""
    pairs = Counter(pair for step in plan.steps for pair in pairs_of(step))
    for (operator, group), times in pairs.items():
        if times > 1:
            yield Refusal(Why.GROUP_TWICE, f"group {group} of {operator} is named twice", times, 1)
    busy = Counter(node for step in plan.steps if isinstance(step, Move) for node in nodes_of(step))
    for node, times in busy.items():
        if times > 1 and not _to_itself(plan, node):
            yield Refusal(Why.TRANSFER_ON_NODE, f"node {node} would be in two transfers", times, 1)
    kinds = {name_of(step) for step in plan.steps}
    if {"move", "spill"} <= kinds:
        yield Refusal(Why.OVERLAP, "a move and a spill at once", len(kinds), 1)


def _to_itself(plan: Plan, node: int) -> bool:
    return any(isinstance(s, Move) and s.source == s.target == node for s in plan.steps)


def _room(plan: Plan, snapshot: ClusterSnapshot, limits: Limits) -> Iterator[Refusal]:
    """Memory for what arrives, disk for what is spilled. What a plan frees is not counted on."""
    nodes = snapshot.nodes
    arriving: Counter[int] = Counter()
    spilling: Counter[int] = Counter()
    for step in plan.steps:
        size = bytes_now(step, snapshot)
        if isinstance(step, Move):
            arriving[step.target] += size
        elif isinstance(step, Spill):
            spilling[step.node] += size
        elif isinstance(step, Cleanup):
            free = int(nodes.free_bytes[step.node])
            if size > free:
                text = f"node {step.node} has no room for the state that comes back"
                yield Refusal(Why.NO_ROOM_FOR_CLEANUP, text, size, free)
    for node, size in arriving.items():
        room = int(limits.receiver_fill_max * float(nodes.budget_bytes[node])) - int(
            nodes.memory_bytes[node]
        )
        if size > room:
            yield Refusal(Why.RECEIVER_FULL, f"node {node} has no room for the move", size, room)
    for node, size in spilling.items():
        if size > nodes.disk_free_bytes[node]:
            disk = int(nodes.disk_free_bytes[node])
            yield Refusal(
                Why.DISK_FULL, f"node {node}'s disk has no room for the spill", size, disk
            )


def bytes_now(step: Step, snapshot: ClusterSnapshot) -> int:
    """A step's bytes by this snapshot: what it was decided on may have drifted."""
    if isinstance(step, SetBudget):
        return 0
    if isinstance(step, Migrate):
        return step.bytes
    column = (
        snapshot.groups.disk_bytes if isinstance(step, Cleanup) else snapshot.groups.memory_bytes
    )
    rows = [row for o, g in pairs_of(step) if (row := snapshot.row(o, g)) is not None]
    return max(step.bytes, int(column[rows].sum()))


def _others(plan: Plan, snapshot: ClusterSnapshot, running: Sequence[Running]) -> Iterator[Refusal]:
    """One adaptation at a time per query, one transfer per node; groups in a running step are taken."""
    taken = {
        pair: r.action for r in running if r.query == snapshot.query for pair in pairs_of(r.step)
    }
    for step in plan.steps:
        for pair in pairs_of(step):
            if pair in taken:
                text = f"group {pair[1]} of {pair[0]} is in action {taken[pair]}"
                yield Refusal(Why.GROUP_IN_FLIGHT, text)
    if plan.local:
        return
    mine = [r for r in running if r.query == snapshot.query and not isinstance(r.step, SetBudget)]
    if mine and any(not isinstance(step, SetBudget) for step in plan.steps):
        text = f"action {mine[0].action} ({name_of(mine[0].step)}) is still running"
        yield Refusal(Why.OVERLAP, text, len(mine), 0)
    busy = {
        node: r.action for r in running if isinstance(r.step, Move) for node in nodes_of(r.step)
    }
    for node in sorted({n for s in plan.steps if isinstance(s, Move) for n in nodes_of(s)}):
        if node in busy:
            text = f"node {node} is in the transfer of action {busy[node]}"
            yield Refusal(Why.TRANSFER_ON_NODE, text, 2, 1)


def _bounds(plan: Plan, snapshot: ClusterSnapshot, limits: Limits) -> Iterator[Refusal]:
    """Hold, cool-down and budgets of bytes."""
    if limits.held:
        yield Refusal(Why.ON_HOLD, "automation is on hold")
    if len(plan.steps) > limits.steps_max:
        text = "the plan has too many steps"
        yield Refusal(Why.TOO_MANY_STEPS, text, len(plan.steps), limits.steps_max)
    since = snapshot.time_s - snapshot.history.last_adaptation_s
    adapts = any(not isinstance(step, SetBudget) for step in plan.steps)
    if adapts and since < limits.cooldown_s:
        text = "the last adaptation is too recent, in seconds"
        yield Refusal(Why.COOL_DOWN, text, since, limits.cooldown_s)
    sizes = [bytes_now(step, snapshot) for step in plan.steps]
    for step, size in zip(plan.steps, sizes, strict=True):
        if size > limits.action_bytes_max:
            text = f"the {name_of(step)} is over the bytes of one action"
            yield Refusal(Why.ACTION_BYTES, text, size, limits.action_bytes_max)
    if sum(sizes) > limits.daily_bytes_left:
        text = "the plan is over what is left of the day's bytes"
        yield Refusal(Why.DAILY_BYTES, text, sum(sizes), limits.daily_bytes_left)
