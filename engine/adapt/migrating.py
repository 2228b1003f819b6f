"""Another join order for a running query: Zhu et al.'s moving state, with ticks going on meanwhile.

States that both plans have are shared as they are. The others are computed by side jobs, from what there is when
they begin; what comes meanwhile is computed after it, until little is missing. That is done between two ticks, and
in the same place one commit puts the new plan with its state in the place of the old one. Before it nothing has
changed; after it, all has. Where all of it is over within a tick's time, going on may cost more than waiting: then ticks
wait (`at_once`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from control.arbiter import Refusal, Why
from control.plans import STRATEGIES, Migrate
from control.snapshot import NO_LIMIT
from engine import lasting
from engine.adapt import bridging, parallel
from engine.adapt.making import Making, needed, way_to
from engine.adapt.progress import Course, Log
from engine.plan import matching
from engine.plan.matching import Transition
from engine.query.order import BadOrder
from engine.state.model import Place

if TYPE_CHECKING:
    from engine.adapt.desk import Desk


def against(desk: Desk, step: Migrate) -> Iterator[Refusal]:
    """What speaks against a migration, seen from the query's state."""
    query = desk.ticker.setup.query
    if step.strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        yield Refusal(Why.UNKNOWN_STRATEGY, f"no strategy {step.strategy!r}, there is {known}")
        return
    if parallel.track_of(desk) is not None or bridging.delta_of(desk.ticker) is not None:
        return  # one on its way already, which is refused for being that
    try:
        way = way_to(desk, step)
    except BadOrder as bad:
        hint = f" ({bad.hint})" if bad.hint else ""
        yield Refusal(Why.BAD_ORDER, f"join_order, column {bad.at + 1}: {bad}{hint}")
        return
    if way.query.order == query.order:
        yield Refusal(Why.SAME_ORDER, f"the query runs {matching.shown(query)} already")
        return
    if step.strategy == "parallel":
        yield from parallel.against(desk, way)
        return
    if step.strategy == "delta":
        way = bridging.way(desk, step)
    gone = lasting.cuts(desk.flow, desk.ticker.marks(), desk.ticker.manifest)
    for origin, mine in needed(desk, way):
        other = lasting.unbound(query, mine, gone[origin.op, origin.side])
        if other:
            text = (
                f"rows of {'+'.join(mine)} have gone that rows of {other} may need under that order"
            )
            yield Refusal(Why.STATE_GONE, f"{text}: no window is between them")
    yield from _room(desk, way)


def _room(desk: Desk, way: Transition) -> Iterator[Refusal]:
    """What is sorted anew is there twice for a while; what is computed is not known before."""
    manifest, nodes = desk.ticker.manifest, range(desk.nodes)
    twice = [o for o in way.origins.values() if o is not None and not o.shared]
    need = sum(
        run.bytes
        for origin in twice
        for node in nodes
        for run in manifest.runs.get(Place(origin.op, node, origin.side), ())
    )
    room = sum(desk.budgets.get(n, NO_LIMIT) - manifest.memory_bytes(n) for n in nodes)
    if need > room:
        text = "the nodes have no room for states that are sorted anew, in bytes"
        yield Refusal(Why.NO_ROOM_FOR_PLAN, text, need, room)


def migrate(desk: Desk, log: Log, step: Migrate) -> Course:
    """All steps. Ticks go on until the last one, which does it all where so it was asked."""
    one = Making(desk, log, way_to(desk, step))
    try:
        with log.step("CleanAccumulated"):
            log.kept = "what was owed is out, the plan is as it was"
            yield from one.quiet.clean()
        with log.step("MatchStates"):
            yield from one.wait()
            log.note(one.shared_bytes())
        with log.step("Recompute"):
            if not step.at_once:
                yield from one.round()
        with log.step("CatchUp"):
            if not step.at_once:
                yield from one.catch_up()
        with log.step("Swap"):
            stalled = desk.wall_s()
            yield from one.round(at_once=True)
            one.swap()
            log.figures["pause_s"] = desk.wall_s() - stalled
    finally:
        one.over()
    with log.step("DropOld"):
        pass  # files that only the old plan had went with the commit
