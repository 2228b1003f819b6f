"""Another join order for a running query by way of the plan without intermediate state: the delta strategy.

First what each input's rows have to meet is sorted, and one commit puts that plan in the running one's place: from then on
each input's new rows meet the others' rows themselves, and no state has to be kept for them (plan/delta.py). The new
tree's states are computed meanwhile, and one commit more puts it in place. Between the two there is no way back but
onward, as nobody keeps the old tree's states: what finds no room in memory goes to disk, and a restart goes on. What runs
is in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.migration.delta import orders_of
from control.migration.model import Model
from control.migration.trees import states
from control.plans import Migrate
from engine.adapt.making import Making, way_to
from engine.adapt.progress import Course, Log, lighten, resume
from engine.hashing import FULL_MASK
from engine.plan import matching
from engine.plan.delta import Orders
from engine.plan.matching import Transition
from engine.state.replan import Delta

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.tick import Ticker

ONWARD = "the states of the order from before are gone: let it end, then undo it"
SORTED = (
    0.25  # of the progress that is shown: what is sorted first is less than what is computed then
)
AGAIN_S = 30.0  # after something went wrong


def delta_of(ticker: Ticker) -> Delta | None:
    """The plan without intermediate state, while it runs."""
    plan = ticker.manifest.plan
    return plan.delta if plan is not None else None


def doing(ticker: Ticker) -> str:
    """The action that it runs for."""
    found = delta_of(ticker)
    return found.action if found is not None else ""


def go_on(desk: Desk) -> None:
    """Where it runs and nobody is about to end it, the way to the order that was asked for begins again."""
    found = delta_of(desk.ticker)
    if found is None or desk.running or desk.now_s() < desk.again_s:
        return
    desk.again_s = desk.now_s() + AGAIN_S
    size = sum(desk.ticker.manifest.memory_bytes(node) for node in range(desk.nodes))
    resume(desk, Migrate(found.to, "delta", size), found.action)


def way(desk: Desk, step: Migrate, action: str = "") -> Transition:
    """From the running tree to the plan without intermediate state. The order must be one."""
    setup, ticker = desk.ticker.setup, desk.ticker
    assert setup.spec is not None
    matching.tree_of(setup.query, step.order)
    return matching.to_delta(
        setup.spec,
        setup.query,
        setup.flow,
        ticker.placements,
        Delta(_orders(desk), step.order, action),
        ticker.manifest.plan,
        exact=setup.hash_mask == FULL_MASK,
    )


def _orders(desk: Desk) -> Orders:
    """By what is known of the query's joins; of all inputs alike where nothing is."""
    query = desk.ticker.setup.query
    spans = [sorted(span) for span in matching.spans_of(query)]
    joins = desk.snapshot().joins
    model = (
        joins.model
        if joins is not None and joins.known
        else Model.of([1.0] * len(query.inputs), spans, [0.1] * len(spans), 10.0)
    )
    tree = query.order if query.order is not None else tuple(range(len(query.inputs)))
    return orders_of(model, [s for s in states(tree, model.classes) if s.inputs.bit_count() == 1])


def bridge(desk: Desk, log: Log, step: Migrate) -> Course:
    """All steps; from the second tree's on also those of an earlier life."""
    if delta_of(desk.ticker) is None:
        yield from _to_bases(desk, log, step)
    log.kept, log.onward, log.lasting = "the plan without intermediate state runs on", ONWARD, True
    log.reach("Recompute")
    one = Making(desk, log, way_to(desk, step), spills=True, share=SORTED)
    one.quiet.keep()
    try:
        with log.step("Recompute"):
            yield from one.round(at_once=one.pressed)
        with log.step("CatchUp"):
            yield from one.catch_up()
        with log.step("Swap"):
            stalled = desk.wall_s()
            yield from one.round(at_once=True)
            one.swap()
            log.figures["pause_s"] = log.figures.get("pause_s", 0.0) + desk.wall_s() - stalled
    finally:
        one.over()
    with log.step("DropOld"):
        yield from lighten(desk, range(desk.nodes))


def _to_bases(desk: Desk, log: Log, step: Migrate) -> Course:
    """The inputs' rows sorted by every key by which they are met, and the plan that needs no others."""
    one = Making(desk, log, way(desk, step, log.action.id), until=SORTED)
    try:
        with log.step("CleanAccumulated"):
            log.kept = "what was owed is out, the plan is as it was"
            yield from one.quiet.clean()
        with log.step("MatchStates"):
            yield from one.wait()
            log.note(one.shared_bytes())
        with log.step("SortBases"):
            yield from one.round()
            yield from one.catch_up()
        with log.step("ToDelta"):
            stalled = desk.wall_s()
            yield from one.round(at_once=True)
            one.swap(done=False)
            log.figures["pause_s"] = desk.wall_s() - stalled
    finally:
        one.over()
