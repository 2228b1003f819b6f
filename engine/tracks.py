"""Two plans of one query as one flow: Zhu et al.'s parallel track. Pure.

The old plan goes on with all its state, the new one begins with nothing; every row that comes goes to both. A result
all of whose parts are new, so came since the new plan began, is the new plan's; one with an old part is the old
plan's, whose top join leaves out what is the other's. So nothing is made twice, and nothing is missed. Below the top
the old plan makes new rows too, as old ones may come and meet them; its operators keep the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.flow import Flow, Op, Source, Target
from engine.lasting import Bases
from engine.query.model import JoinQuery
from engine.watermarks import NEVER

Until = Mapping[str, int]  # input -> the greatest time of its old rows


def beside(old: Flow, new: Flow, *, withholds: bool = False) -> Flow:
    """The operators of both plans: the old ones under their numbers, the new ones after them, and window functions,
    which are above both, last. `withholds`: nobody is to see the new plan's results yet."""
    mine, others = _joins(old), _joins(new)
    top = len(mine) + len(others)
    found = [_parted(op, len(mine), top) for op in mine]
    found += [_shifted(op, len(mine), len(others), top, withholds) for op in others]
    if old.root.grouping is not None:
        stage = 1 + max(op.stage for op in found)
        # Not in the task of the old top join, even where its groups are on the same nodes: rows come from two.
        sides = tuple(replace(side, fused=None) for side in old.root.sides)
        found.append(replace(old.root, number=top, stage=stage, sides=sides))
    return Flow(tuple(found), tuple(_sources(old, new, len(mine))))


def _joins(flow: Flow) -> list[Op]:
    return [op for op in flow.ops if op.grouping is None]


def _parted(op: Op, joins: int, top: int) -> Op:
    """A join of the old plan."""
    to = op.target
    if to is not None and to.op < joins:
        return replace(op, parted=True)
    return replace(op, parted=True, spares=True, target=to and Target(top, 0))


def _shifted(op: Op, by: int, joins: int, top: int, withholds: bool) -> Op:
    """A join of the new plan, after so many of the old one. What goes to window functions is not withheld: they put
    all rows in order of time, whichever plan made them."""
    to = op.target
    hidden = withholds and to is None
    if to is not None:
        to = Target(to.op + by, to.side) if to.op < joins else Target(top, 0)
    sides = tuple(
        side if side.fused is None else replace(side, fused=side.fused + by) for side in op.sides
    )
    return replace(op, number=op.number + by, sides=sides, target=to, withholds=hidden)


def _sources(old: Flow, new: Flow, by: int) -> list[Source]:
    """Each of the old plan's sources, with the side of the new one that it feeds too."""
    others = {source.mark: source for source in new.sources}
    return [
        replace(one, also=(Target(others[one.mark].op + by, others[one.mark].side),))
        for one in old.sources
    ]


def endless(query: JoinQuery) -> tuple[str, str] | None:
    """Two inputs of which old rows of the first may for ever meet new ones of the second: no window is between them."""
    names = [given.alias for given in query.inputs]
    bound = {(names[b.early], names[b.late]) for b in query.bounds}
    pairs = ((one, other) for one in names for other in names if one != other)
    return next((pair for pair in pairs if pair not in bound), None)


def ahead(query: JoinQuery, until: Until, base: Bases) -> tuple[str, float]:
    """Of the inputs whose rows to come may be in a result with old rows, the one that has most of a window's way to go
    until they cannot, and the share that is left; ("", 0) if there is none: the old plan has nothing to do."""
    names = [given.alias for given in query.inputs]
    reach = {(names[b.early], names[b.late]): b.us for b in query.bounds}
    found, share = "", 0.0
    for one, at in until.items():
        for other in names:
            us, gone = reach.get((one, other)), base.get(other, NEVER) - at
            if other == one or (us is not None and gone > us):
                continue
            left = min(1.0, 1 - gone / us) if us else 1.0
            if not found or left > share:
                found, share = other, left
    return found, share
