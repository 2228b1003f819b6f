"""L9 on the engine: never two adaptations at once. While a move runs nodes spill only at all of their budgets, and the move
gives way before one would be over it. And in trees: one order of victims across operators, which shed together what one
of them would."""

from __future__ import annotations

import numpy as np

from app.pages.actions_receipt import receipt
from control.actions import Action, State
from control.arbiter import Refusal
from control.policies import victims
from control.policies.local_spill import LocalSpill
from control.requests import Request
from engine.adapt import room
from engine.adapt.orders import Orders
from engine.adapt.overflow import relieve
from engine.node_step import NodeStep
from engine.state import ranges
from tests.engine.adapt.deciding import text_of
from tests.engine.adapt.feeds import fed
from tests.engine.adapt.situation import Feed, Situation, ruled, situated

KB = 1000
BUDGET = 60 * KB
BUDGETS = {0: BUDGET}
SOME, NOTHING = Feed(rows=20), Feed(rows=1)


def moving(it: Situation) -> Action:
    """A move that does not end before `work` is called."""
    it.side.eager = False
    it.desk.jobs_apart = True
    asked = it.desk.ask(Request("move", 0, 1, groups=small(it)), "ann")
    assert not isinstance(asked, Refusal), asked
    return asked


def small(it: Situation) -> tuple[int, ...]:
    """The smallest group of node 0 that has any state."""
    seen = it.desk.snapshot()
    mine = victims.movable(seen, seen.on(0))
    return (int(seen.groups.group[mine[seen.groups.memory_bytes[mine].argmin()]]),)


def fill(it: Situation, share: float) -> None:
    while it.desk.snapshot().nodes.memory_bytes[0] < share * BUDGET:
        it.tick(SOME, NOTHING)


def test_l9_nodes_spill_only_at_all_of_their_budget_while_a_move_runs() -> None:
    with situated(budgets=BUDGETS) as it:
        fill(it, 0.8)
        move = moving(it)
        while it.desk.snapshot().nodes.memory_bytes[0] < 0.94 * BUDGET:
            it.tick(SOME, NOTHING)
        assert it.desk.running and not it.by("node 0"), "at 90 % it would have spilled"
        it.side.eager = True
        it.side.work()
        it.ticks(3, NOTHING, NOTHING)
        assert it.desk.records.actions[move.id].state is State.DONE
        while not it.by("node 0"):
            it.tick(SOME, NOTHING)
        assert it.desk.accounts.spills_in_moves == 0
        assert it.check() > 100


def test_l9_the_move_gives_way_before_a_node_is_over_its_budget() -> None:
    with situated(budgets=BUDGETS) as it:
        fill(it, 0.8)
        move, most = moving(it), 0
        while not it.by("node 0"):
            it.tick(SOME, NOTHING)
            most = max(most, int(it.desk.snapshot().nodes.memory_bytes[0]))
        ended = it.desk.records.actions[move.id]
        assert ended.state is State.FAILED and "gives way to node 0's own spill" in ended.note
        assert "state unchanged" in ended.note and not it.desk.running and not it.desk.hold
        assert most <= BUDGET and it.desk.gave_way == 1
        assert it.desk.accounts.spills_in_moves == 0, "first the move, then the spill"
        assert "during" not in it.desk.records.receipts[it.by("node 0")[0].id]
        assert it.check() > 100


def test_l9_copies_count_for_the_receiver() -> None:
    """It is the copies that would put node 1 over its budget, and they go first."""
    with situated(budgets={1: 30 * KB}) as it:
        while it.desk.snapshot().nodes.memory_bytes[1] < 0.5 * 30 * KB:
            it.tick(Feed(rows=60), Feed(rows=20))
        it.side.eager = False
        it.desk.jobs_apart = True
        seen = it.desk.snapshot()
        sizes = seen.groups.memory_bytes[seen.on(0)]
        order = seen.on(0)[np.argsort(sizes)]
        fits = order[np.cumsum(seen.groups.memory_bytes[order]) < 10 * KB]
        asked = it.desk.ask(
            Request("move", 0, 1, groups=tuple(seen.groups.group[fits].tolist())), "ann"
        )
        assert not isinstance(asked, Refusal), asked
        it.tick(NOTHING, NOTHING)
        it.side.work()
        it.side.waiting = []
        while it.desk.running:
            it.tick(NOTHING, Feed(rows=20))
        assert "gives way to node 1" in it.desk.records.actions[asked.id].note
        assert it.desk.snapshot().nodes.memory_bytes[1] < 30 * KB
        assert not any(it.desk.copied_bytes.values())
        it.side.eager = True
        assert it.check() > 100


def test_l9_a_burst_that_nobody_foresaw_is_counted_and_shown() -> None:
    with ruled(text_of("none"), budgets=BUDGETS) as (it, house):
        fill(it, 0.75)
        move = moving(it)
        house.ticks(1, NOTHING, NOTHING)
        house.ticks(1, Feed(rows=700), NOTHING)
        (spill,) = it.by("node 0")
        assert it.desk.records.receipts[spill.id]["during"] == [move.id]
        house.ticks(4, NOTHING, NOTHING)
        ended = it.desk.records.actions[move.id]
        assert ended.state is State.FAILED and "gives way" in ended.note, (
            "as many rows may come again"
        )
        assert it.desk.records.receipts[move.id]["spills_meanwhile"] == 1
        sample = house.store.metrics.newest("local")
        assert sample is not None
        assert (sample.figures["spills_in_moves"], sample.figures["moves_gave_way"]) == (1.0, 1.0)
        row = house.store.actions.find(spill.id)
        assert row is not None and row.receipt["during"] == [move.id]
        shown = str(receipt(row.receipt, over=True))
        assert move.id in shown and "all of its budget" in shown
        it.side.eager = True
        assert it.check() > 100


def test_in_a_tree_the_operators_of_a_node_shed_the_excess_once_and_in_one_order() -> None:
    """Three joins with state of very different sizes: what goes is a prefix of one order, just as long as is needed."""
    with fed(window_s=None) as feed:
        feed.ticks(12)
        ticker, seen = feed.local.ticker, feed.desk.snapshot()
        node, sizes = 0, seen.groups.memory_bytes
        used = ticker.manifest.memory_bytes(node)
        order = victims.in_order(seen, victims.spillable(seen, seen.on(node)), "largest")
        local = LocalSpill(threshold=0.9, spill_percent=5.0, victim="largest")
        limits = room.limits_of(local, {node: used})
        orders = Orders(limits=limits, victims=room.victims_of(local, seen, [node]))
        brief = ticker.brief({}, ticker.manifest, ticker.marks(), orders)
        gone: set[int] = set()
        for op in feed.desk.flow.ops:
            _, disk = relieve(NodeStep(ticker.standing, brief, op, node), {})
            for run in (run for runs in disk.values() for run in runs):
                rows = [seen.row(op.id, group) for group in ranges.members(run.groups)]
                gone |= {row for row in rows if row is not None}
        need = used - int(0.9 * used)
        assert gone == set(order[: len(gone)].tolist()), "one order"
        assert len({int(seen.groups.operator[row]) for row in order[:12]}) > 1, (
            "of several operators"
        )
        shed = int(sizes[list(gone)].sum())
        assert need <= shed < need + int(sizes[order[len(gone) - 1]]) + 1, "once"
