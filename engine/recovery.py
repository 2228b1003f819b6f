"""Going on from a checkpoint: finish what the last commits had to do, drop what never counted, settle in.

Called once, before the first tick, under the checkpoint's lock. The log itself is state/commits.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import CheckpointError
from engine.outcome import Outcome, staged_of
from engine.plan.fingerprint import describe, differences
from engine.plan.tree import Plan
from engine.query.model import QuerySpec
from engine.rehome import REHOMED, Rehome, RehomePlan
from engine.reports import Totals
from engine.state import ranges, replay
from engine.state.commits import RESULTS, Commit, CommitLog
from engine.state.model import Change, Manifest, Place, Run, Runs
from engine.state.stats import GroupStats
from engine.tick import EVERYBODY, Ticker

if TYPE_CHECKING:
    from engine.flow import Op


def claim(spec: QuerySpec, plan: Plan) -> CommitLog:
    """The commit log of a checkpoint, after making sure that it is this query's."""
    log = CommitLog(spec.checkpoint / "commits")
    now = describe(plan)
    before = log.open(now)
    changed = differences(before, now) if before is not None else []
    if changed:
        raise CheckpointError(
            "the checkpoint belongs to another query:\n  - " + "\n  - ".join(changed),
            where=str(spec.checkpoint),
            hint="Use a new checkpoint (and sink path), or undo the change.",
        )
    replay.check(spec.checkpoint, log.recover().manifest.tick)
    return log


def recover(ticker: Ticker) -> None:
    """Bring a fresh ticker to where the last commit left off."""
    found = ticker.log.recover()
    ticker.manifest = found.manifest
    since = 0
    if found.stats is not None:
        ticker.stats.update(
            {
                op: GroupStats.unpack(raw)
                for op, raw in found.stats["groups"].items()
                if op in ticker.stats
            }
        )
        ticker.totals, since = Totals(**found.stats["totals"]), found.stats["version"]
    for commit in found.tail:
        if commit.version > since:
            ticker.count(commit)
    ticker.carried_out = tuple(name for commit in found.tail for name in commit.actions)
    _finish(ticker, found.tail)
    _check_durable(ticker)
    ticker.sweep(None)  # nothing runs yet: what no manifest names is an earlier life's
    _settle(ticker)
    brief = ticker.brief(EVERYBODY, ticker.manifest, ticker.marks())
    ticker.step(None, replace(brief, warm=True))


def _finish(ticker: Ticker, tail: tuple[Commit, ...]) -> None:
    """Publish what was committed, but for what is withheld, which stays as it is."""
    plan = ticker.manifest.plan
    withheld = {one.tmp for one in plan.withheld} if plan is not None else set[str]()
    ticker.sink.recover([(c.version, staged_of(c, RESULTS)) for c in tail], withheld)
    for name, side in ticker.sides.items():
        side.recover([(c.version, staged_of(c, name)) for c in tail])


def _check_durable(ticker: Ticker) -> None:
    folder, plan = ticker.setup.folders.durable, ticker.manifest.plan
    found = [("state", folder, name, size) for name, size in _sizes(ticker.manifest).items()]
    withheld = plan.withheld if plan is not None else ()
    found += [("result", str(ticker.sink.directory), one.tmp, one.bytes) for one in withheld]
    for kind, place, name, size in found:
        path = os.path.join(place, name)
        have = os.path.getsize(path) if os.path.exists(path) else -1
        if have != size:
            what = (
                f"{kind} file is missing"
                if have < 0
                else f"{kind} file has {have} bytes instead of {size}"
            )
            raise CheckpointError(
                what,
                where=path,
                hint="Restore the checkpoint from a copy, or start with a new one.",
            )


def _sizes(manifest: Manifest) -> dict[str, int]:
    everywhere = (*manifest.runs.values(), *manifest.disk.values())
    runs = [run for some in everywhere for run in some]
    sizes = {s.file: s.bytes for run in runs for s in run.durable}
    return sizes | {hold.segment.file: hold.segment.bytes for hold in manifest.holds}


def _settle(ticker: Ticker) -> None:
    """Give every group a node: as it was, or anew where the number of nodes is another one."""
    plan, manifest = ticker.setup.plan, ticker.manifest
    if manifest.nodes == plan.nodes:
        return
    changes: dict[Place, Change] = {}
    for op in ticker.setup.flow.ops:
        if any(runs for place, runs in manifest.runs.items() if place.operator == op.id):
            changes |= _rehome(
                ticker, op, next(o.placement for o in plan.operators if o.id == op.id)
            )
    placement = {operator.id: operator.placement for operator in plan.operators}
    ticker.commit(
        Outcome({}, changes, [], {}, {}, {}, {}),
        None,
        EVERYBODY,
        placement=placement,
        disk=_rehomed_disk(ticker, placement),
    )


def _rehomed_disk(ticker: Ticker, placement: Mapping[str, tuple[int, ...]]) -> dict[Place, Runs]:
    """What is spilled goes with its groups; its files stay where they are."""
    groups = {op.id: op.groups for op in ticker.setup.flow.ops}
    out: dict[Place, Runs] = dict.fromkeys(ticker.manifest.disk, ())
    for place, runs in ticker.manifest.disk.items():
        owner, count = placement[place.operator], groups[place.operator]
        for node in sorted(set(owner)):
            mine = ranges.of(g for g, n in enumerate(owner) if n == node)
            some = tuple(part for run in runs if (part := run.only(mine, count)) is not None)
            there = replace(place, node=node)
            if some:
                out[there] = (*out.get(there, ()), *some)
    return out


def _rehome(ticker: Ticker, op: Op, placement: tuple[int, ...]) -> dict[Place, Change]:
    """The operator's groups on their new nodes."""
    runs = ticker.manifest.runs
    mine = {place: some for place, some in runs.items() if place.operator == op.id}
    everything = tuple(
        tuple(run for place, some in mine.items() if place.input == i for run in some)
        for i in range(op.places)
    )
    plan = RehomePlan(
        ticker.manifest.version + 1,
        ticker.setup.tiers[op.id],
        placement,
        everything,
        tuple(op.side_of(i).times for i in range(op.places)),
    )
    gone = {place: Change(0, ()) for place in mine}
    return gone | {
        Place(op.id, node, i): Change(0, (Run.unpack(raw),))
        for node, text in ticker.on_nodes(Rehome(plan), REHOMED)
        for i, raw in enumerate(json.loads(text))
        if raw
    }
