"""State that lasts for every plan of a query, not only for the one that runs. Pure.

An operator lets go of rows that none of its other sides can meet any more. Another plan may need them: where
stream c is behind, rows of a and b are over for a ⋈ b, which keeps what they gave, but not for a ⋈ c. So while a
migration is on its way, rows stay until no row to come of any other stream of the query can be in a result with
them; and it begins once that was so of all that had gone before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine import watermarks
from engine.flow import Flow, Op
from engine.query.bounds import US_MAX
from engine.query.model import JoinQuery, time_id
from engine.state.model import Manifest, Place, Run
from engine.state.ranges import Ranges
from engine.watermarks import NEVER, fronts

Expired = Mapping[Place, Mapping[str, Ranges]]
Bases = Mapping[str, int]  # input -> no row of it to come is older


def bases(flow: Flow, marks: Mapping[str, int], manifest: Manifest) -> Bases:
    """The least time of rows to come of each input, held ones included."""
    known = fronts(flow, marks, manifest)
    out: dict[str, int] = {}
    for source in flow.sources:
        (alias,) = flow.ops[source.op].sides[source.side].aliases
        ways = known[source.op, source.side]
        if source.time and all(source.time in front for front in ways):
            out[alias] = min(front[source.time] for front in ways)
    return out


def spared(
    expired: Expired,
    flow: Flow,
    query: JoinQuery,
    base: Bases,
    manifest: Manifest,
    ops: frozenset[str],
) -> Expired:
    """What goes all the same when the state of these operators is to last."""
    sides = {op.id: op.sides for op in flow.ops}
    out: dict[Place, Mapping[str, Ranges]] = {}
    for place, kept in expired.items():
        going = dict(kept)
        if place.operator in ops:
            side = sides[place.operator][place.input]
            for run in manifest.runs.get(place, ()):
                if run.id in going and not _over(query, side.aliases, side.times, run, base):
                    del going[run.id]
        if going:
            out[place] = going
    return out


def _over(
    query: JoinQuery, mine: tuple[str, ...], times: tuple[str, ...], run: Run, base: Bases
) -> bool:
    """Can no row to come, of any stream, be in a result with a row of the run?"""
    latest = {name: high for name, (_, high) in zip(times, run.times, strict=True)}
    names = [given.alias for given in query.inputs]
    return all(
        any(
            base.get(other, NEVER) - latest[time_id(names[b.early])] > b.us
            for b in query.bounds
            if names[b.late] == other and time_id(names[b.early]) in latest
        )
        for other in names
        if other not in mine
    )


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows of input `early` that are older than `before` may have gone, as far as one other input matters."""

    early: str
    before: int


Gone = tuple[tuple[Cut, ...], ...]  # of one side, for each input of its other sides
Cuts = Mapping[tuple[str, int], Gone]


def cuts(flow: Flow, marks: Mapping[str, int], manifest: Manifest) -> Cuts:
    """What every side may have let go of by now: rows that are too old for all inputs of other sides. Neither held
    rows nor such as are owed count, so that it was never more. What inputs promise does not depend on the tree, which
    may have been another one."""
    most = bases(flow, marks, replace(manifest, holds=(), disk={}))
    return {
        (op.id, at): ((),)  # a base lets go of nothing that any input may need
        if op.base
        else tuple(
            _cuts(op, at, alias, most)
            for other, side in enumerate(op.sides)
            if other != at
            for alias in side.aliases
        )
        for op in flow.ops
        for at in range(len(op.sides))
    }


def _cuts(op: Op, at: int, alias: str, most: Bases) -> tuple[Cut, ...]:
    return tuple(
        Cut(limit.early, most[alias] - limit.us)
        for limit in op.limits
        if (limit.early_side, limit.late) == (at, time_id(alias)) and alias in most
    )


def unbound(query: JoinQuery, mine: tuple[str, ...], gone: Gone) -> str:
    """A stream whose rows may for ever need rows of a side that have gone, as no window is between them."""
    names = [given.alias for given in query.inputs]
    open_end = {name: max(US_MAX, *(c.before for some in gone for c in some)) + 8 * US_MAX
                for name in names if gone and all(gone)}  # fmt: skip
    return missing(query, mine, gone, open_end) if open_end else ""


def missing(query: JoinQuery, mine: tuple[str, ...], gone: Gone, base: Bases) -> str:
    """The stream whose rows to come may still need rows of a side that have gone; "" where there is none."""
    if any(not cut for cut in gone):
        return ""  # some other side needs them all
    names = [given.alias for given in query.inputs]
    for other in names:
        if other in mine:
            continue
        need = {
            time_id(names[b.early]): base[other] - b.us
            for b in query.bounds
            if names[b.late] == other and other in base
        }
        if not any(
            all(cut.early in need and need[cut.early] >= cut.before for cut in some)
            for some in gone
        ):
            return other
    return ""


def expired(
    flow: Flow,
    query: JoinQuery,
    manifest: Manifest,
    marks: Mapping[str, int],
    ops: frozenset[str],
) -> Expired:
    """Runs that are over, but for what is to last for another plan. A base's are over once no row of any other input
    can meet them."""
    found = watermarks.expired(flow, manifest, marks)
    kept = {op.id: op for op in flow.ops if op.base}
    if not ops and not kept:
        return found
    base = bases(flow, marks, manifest)
    for place, runs in manifest.runs.items():
        if query.bounds and place.operator in kept:
            side = kept[place.operator].sides[place.input]
            dead: dict[str, Ranges] = {
                r.id: () for r in runs if _over(query, side.aliases, side.times, r, base)
            }
            if dead:
                found[place] = dead
    return spared(found, flow, query, base, manifest, ops)
