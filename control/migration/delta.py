"""The plan without intermediate state: in which order each input's new rows meet the others' rows, and what that takes.

Nothing is kept but the inputs' own rows, sorted by every key by which they are met: a *base* each. A row in between is made,
met and forgotten; it is made anew for each result that another input's rows lead to. So this plan takes more rows
in between than the best tree and no state for them, and it can begin as soon as its bases are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control.errors import PlanError
from control.migration.model import Model
from control.migration.trees import Mask, State, key, members

Orders = tuple[tuple[int, ...], ...]
WITHIN_S = 60.0  # a base that is sorted only for this is paid back within so long, or another order is taken


@dataclass(frozen=True, slots=True)
class DeltaLoad:
    """What the plan takes. `made`: rows a second that probes make, results included; `bases`: what it keeps."""

    orders: Orders
    bases: tuple[State, ...]
    rows_in_per_s: float  # of sources, once
    met_per_s: float  # rows on their way into a probe
    made_per_s: float
    kept_per_s: float  # rows into bases
    state_bytes: float

    def cpu(self, join_s: float, insert_s: float) -> float:
        """CPU seconds a second, as of a tree: T_j per row probed or made, T_s per row kept."""
        return join_s * (self.met_per_s + self.made_per_s) + insert_s * self.kept_per_s


def orders_of(model: Model, have: Sequence[State]) -> Orders:
    """For each input the order that makes the fewest rows in between. `have`: bases that need not be sorted anew."""
    there, found = set(have), list[tuple[int, ...]]()
    for number in range(len(model.rates)):
        order = _order(model, number, there)
        there.update(bases_of(model.classes, order))
        found.append(order)
    return tuple(found)


def bases_of(classes: Sequence[Mask], order: Sequence[int]) -> tuple[State, ...]:
    """What an input's rows meet on their way."""
    seen, out = 1 << order[0], list[State]()
    for number in order[1:]:
        out.append(State(1 << number, key(classes, (seen, 1 << number))))
        seen |= 1 << number
    return tuple(out)


def load_of(model: Model, orders: Orders) -> DeltaLoad:
    """What these orders take."""
    met = made = 0.0
    bases: dict[State, None] = {}
    for order in orders:
        bases.update(dict.fromkeys(bases_of(model.classes, order)))
        seen = 0
        for place, number in enumerate(order):
            seen |= 1 << number
            rows = begun_by(model, seen)
            met += rows if place < len(order) - 1 else 0.0
            made += rows if place else 0.0
    rates = model.rates
    kept = sum(rates[members(base.inputs)[0]] for base in bases)
    size = sum(model.state_bytes(base.inputs, model.everything ^ base.inputs) for base in bases)
    return DeltaLoad(orders, tuple(bases), sum(rates), met, made, kept, size)


def begun_by(model: Model, mask: Mask) -> float:
    """Rows a second of some inputs joined that one of them begins: each has its youngest part somewhere."""
    return model.rate(mask) / mask.bit_count()


def _order(model: Model, first: int, there: set[State]) -> tuple[int, ...]:
    """The cheapest way through all inputs, set by set: what a set makes does not depend on how it was reached."""
    ways: dict[Mask, tuple[float, tuple[int, ...]]] = {1 << first: (0.0, (first,))}
    for _ in range(len(model.rates) - 1):
        further: dict[Mask, tuple[float, tuple[int, ...]]] = {}
        for mask, (cost, order) in ways.items():
            for number in range(len(model.rates)):
                way = _step(model, mask, number, cost, order, there)
                if way is not None and way < further.get(mask | 1 << number, (float("inf"), ())):
                    further[mask | 1 << number] = way
        ways = further
    if model.everything not in ways:
        raise PlanError("not every input shares a key with another", where="join order")
    return ways[model.everything][1]


def _step(
    model: Model, mask: Mask, number: int, cost: float, order: tuple[int, ...], there: set[State]
) -> tuple[float, tuple[int, ...]] | None:
    """One input further; None where no key leads there."""
    bit = 1 << number
    shared = key(model.classes, (mask, bit))
    if mask & bit or not shared:
        return None
    sorts = 0.0
    if State(bit, shared) not in there:
        sorts = model.state_rows(bit, model.everything ^ bit) / WITHIN_S
    made = begun_by(model, mask | bit) if mask | bit != model.everything else 0.0
    return cost + made + sorts, (*order, number)
