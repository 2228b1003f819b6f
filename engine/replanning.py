"""From one plan to another between two ticks: the commit that makes the new one count, and the setup that it needs.

What state the new plan begins with is made by a migration (adapt/migrating.py); that Spark's streaming query must begin
again is the runner's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine import ingest
from engine.adapt.orders import Orders
from engine.outcome import Outcome
from engine.plan.matching import Transition
from engine.setup import Setup
from engine.sinks.staged import final_name
from engine.state.commits import RESULTS
from engine.state.model import Change, Place, Runs
from engine.tick import EVERYBODY, Ticker


def setup_of(setup: Setup, way: Transition) -> Setup:
    """The same query's setup under its new plan."""
    tiers = {op.id: replace(setup.folders, groups=op.groups) for op in way.flow.ops}
    return replace(
        setup,
        plan=way.plan,
        query=way.query,
        flow=way.flow,
        union=ingest.lay_out(way.flow),
        tiers=tiers,
    )


def swap(
    ticker: Ticker,
    way: Transition,
    runs: Mapping[Place, Runs],
    disk: Mapping[Place, Runs],
    action: str,
    orders: Orders,
) -> None:
    """One commit: the new plan with the state of its new operators. Before it nothing has happened. `action`: the one
    that is carried out by that; none if it goes on. Where one plan is left, what was withheld comes out with it."""
    setup = setup_of(ticker.setup, way)
    known = ticker.setup.tiers
    placement = {one.id: one.placement for one in way.replan.everyone if one.id not in known}
    changes = {place: Change(0, some) for place, some in runs.items()}
    commit = ticker.commit(
        Outcome({}, changes, [], {} if way.replan.track else released(ticker), {}, {}, {}),
        None,
        EVERYBODY,
        placement=placement,
        disk=disk,
        actions=(action,) if action else (),
        orders=orders,
        plan=way.replan,
    )
    ticker.replan(setup, commit)


def released(ticker: Ticker) -> dict[str, list[list[Any]]]:
    """What was withheld until now, under the names that it has with the next version, in the order of its making."""
    plan, version = ticker.manifest.plan, ticker.manifest.version + 1
    files = plan.withheld if plan is not None else ()
    named = [[one.tmp, final_name(version, n), one.rows, one.bytes] for n, one in enumerate(files)]
    return {RESULTS: named} if named else {}
