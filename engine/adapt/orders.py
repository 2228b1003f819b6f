"""What adaptation asks of the ticks while it goes on beside them: values only.

Ticks respect these and know nothing of actions; whoever runs actions (desk.py) makes them anew for every tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.brief import Overflow, Settle
from engine.flow import Flow
from engine.state import ranges
from engine.state.model import Manifest, Place
from engine.watermarks import suspended

Pair = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Orders:
    """`hold` and `release`: groups whose rows wait at the exchange, or need not wait any longer, by operator.
    `frozen`: runs that a copy is being made of, and that must not be merged. `pins`: files that side jobs
    read. `since`: the version before which side jobs wrote nothing. `open`: operators at which nothing waits but
    what `hold` names; `lasting`: those whose state is to last for another plan."""

    hold: Mapping[str, frozenset[int]] = field(default_factory=dict)
    release: Mapping[str, frozenset[int]] = field(default_factory=dict)
    frozen: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    limits: Mapping[int, Overflow] = field(default_factory=dict)
    victims: Mapping[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # by node, of all operators
    settle: Mapping[Pair, Settle] = field(default_factory=dict)
    pins: frozenset[str] = frozenset()
    since: int | None = None
    work: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)  # small jobs, by node
    open: frozenset[str] = frozenset()
    lasting: frozenset[str] = frozenset()


NONE = Orders()


def frozen_counts(flow: Flow, manifest: Manifest, orders: Orders) -> dict[Pair, tuple[int, ...]]:
    """Of each side, how many of its oldest runs must stay as they are."""
    sides = {op.id: len(op.sides) for op in flow.ops}
    out: dict[Pair, list[int]] = {}
    for place, ids in orders.frozen.items():
        mine = out.setdefault((place.operator, place.node), [0] * sides[place.operator])
        runs = manifest.runs.get(place, ())
        mine[place.input] = 1 + max((n for n, run in enumerate(runs) if run.id in ids), default=-1)
    return {at: tuple(counts) for at, counts in out.items()}


Held = Mapping[str, frozenset[int]]


def with_suspended(
    flow: Flow, manifest: Manifest, hold: Held, let_in: Held, settle: Mapping[Pair, Settle]
) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """What waits and what need not, with the groups of window functions: their input waits while they are on
    disk, and comes in with the tick in which they are back."""
    held, free = dict(hold), dict(let_in)
    for op in flow.ops:
        if waiting := suspended(manifest, op):
            backs = [s.groups for (name, _), s in settle.items() if name == op.id]
            back = {g for some in backs for g in ranges.members(some)}
            held[op.id] = held.get(op.id, frozenset()) | (waiting - back)
            free[op.id] = free.get(op.id, frozenset()) | back
    return held, free
