"""A snapshot prepared for the cost model: groups gathered into slices, prices, and what nothing leads to.

At most `SLICES_MAX` slices per node and operator, of neighbours in productivity: the roll cuts slices
anyway, so little is lost, and the number of groups no longer matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from control.cost.coefficients import NODE_RULE, Coefficients, Horizon, LocalRule
from control.cost.price import cpu_price
from control.cost.roll import Picture, Rolled, Slices, roll
from control.policies import victims
from control.snapshot import Bools, ClusterSnapshot, Doubles, Longs, node_sums

SLICES_MAX = 48
TIGHT = 0.9  # of the budget: here nodes spill


@dataclass(frozen=True)
class Outlook:
    """What options are compared against."""

    snapshot: ClusterSnapshot
    numbers: Coefficients
    horizon: Horizon
    rule: LocalRule
    slices: Slices
    movable: Bools  # by slice
    first: Longs  # where each node's slices begin, and their end
    price: Doubles
    other_bytes: Doubles
    nothing: Rolled = field(repr=False)

    def of(self, node: int) -> tuple[Slices, Bools]:
        """One node's slices, least productive first."""
        rows = np.arange(self.first[node], self.first[node + 1])
        return self.slices.take(rows), self.movable[rows]

    @property
    def rows_out_per_s(self) -> float:
        return float(self.snapshot.nodes.rows_out_per_s.sum())

    def picture(self, slices: Slices, nodes: list[int], spill_first: list[float]) -> Picture:
        """Imagined nodes made after real ones; `slices.node` counts through `nodes`."""
        at = np.array(nodes, dtype=np.int64)
        real = self.snapshot.nodes
        return Picture(
            slices,
            real.budget_bytes[at].astype(np.float64),
            self.other_bytes[at],
            real.disk_free_bytes[at].astype(np.float64),
            self.price[at],
            np.full(len(at), self.rows_out_per_s),
            np.array(spill_first, dtype=np.float64),
        )


def look(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    horizon: Horizon,
    rule: LocalRule | None = None,
    most: int = SLICES_MAX,
) -> Outlook:
    """The snapshot as slices (at most so many per node and operator), and every node rolled forward with nothing
    done. Without a `rule` nodes spill as the snapshot says."""
    rule = rule or rule_of(snapshot)
    slices, movable, _ = gathered(snapshot, horizon.seconds, most=most)
    count = len(snapshot.nodes)
    first = np.searchsorted(slices.node, np.arange(count + 1))
    other = snapshot.nodes.memory_bytes - node_sums(slices.node, slices.bytes, count)
    price = cpu_price(snapshot.nodes, numbers)
    empty = Rolled(*(np.zeros(count) for _ in range(5)))
    bare = Outlook(
        snapshot,
        numbers,
        horizon,
        rule,
        slices,
        movable,
        first,
        price,
        np.maximum(other, 0.0),
        empty,
    )
    alive = _alive_only(bare.picture(slices, list(range(count)), [0.0] * count), snapshot)
    nothing = roll(alive, numbers, horizon, rule)
    return Outlook(**{**vars(bare), "nothing": nothing})


def rule_of(snapshot: ClusterSnapshot) -> LocalRule:
    """When nodes spill by themselves."""
    return snapshot.spill_rule or NODE_RULE


def _alive_only(picture: Picture, snapshot: ClusterSnapshot) -> Picture:
    """A node that is not alive never fills."""
    limit = np.where(snapshot.nodes.alive, picture.limit_bytes, np.inf)
    return Picture(**{**vars(picture), "limit_bytes": limit})


def net_growth(snapshot: ClusterSnapshot, horizon_s: float) -> Doubles:
    """β less what leaves the window. State tends to βW: on average this fast within the horizon, where the node
    has room for all of that; where it has not, it is full on the way there, and what comes counts."""
    groups, nodes = snapshot.groups, snapshot.nodes
    bounded = np.isfinite(snapshot.window_s)
    window = np.where(bounded, snapshot.window_s, 1.0)
    toward = groups.bytes_per_s * window - groups.memory_bytes
    slow = toward * -np.expm1(-horizon_s / window) / horizon_s
    fast = np.where(toward > 0, groups.bytes_per_s, slow)
    more = np.where(bounded, toward, groups.bytes_per_s * horizon_s)
    last = nodes.memory_bytes + node_sums(groups.owner, more, len(nodes))
    tight = (last > TIGHT * nodes.budget_bytes)[groups.owner]
    return np.where(bounded, np.where(tight, fast, slow), groups.bytes_per_s)


def gathered(
    snapshot: ClusterSnapshot,
    horizon_s: float,
    rows: Longs | None = None,
    mark: Longs | None = None,
    most: int = SLICES_MAX,
) -> tuple[Slices, Bools, Longs]:
    """Groups as slices, which of them may move, and their mark: groups of unlike marks share no slice.
    Without `rows` all groups, without `mark` all alike (-1)."""
    groups = snapshot.groups
    some = np.arange(len(groups)) if rows is None else rows
    marks = np.full(len(groups), -1) if mark is None else mark
    able = ~groups.spilled & ~groups.in_flight & (groups.memory_bytes > 0)
    kind = (groups.owner * len(snapshot.operators) + groups.operator) * 2 + able
    kind = kind * (int(marks.max(initial=-1)) + 2) + marks + 1
    order = some[np.lexsort((victims.decayed_productivity(snapshot)[some], kind[some]))]
    rank, among = _ranks(kind[order])
    bucket = kind[order] * most + rank * most // among if len(order) else kind[order]
    fresh = np.r_[True, bucket[1:] != bucket[:-1]] if len(order) else np.zeros(0, dtype=np.bool_)
    number = np.cumsum(fresh) - 1
    head = order[fresh]
    summed = (
        groups.memory_bytes,
        groups.bytes_per_s,
        net_growth(snapshot, horizon_s),
        groups.rows_out_per_s,
    )
    size, beta, net, rho = (node_sums(number, column[order], len(head)) for column in summed)
    owner = groups.owner[head]
    about = snapshot.streams[head], snapshot.window_s[head], owner, np.zeros(len(head), np.bool_)
    made = Slices(owner, size, beta, net, rho, *about)
    sorting = np.lexsort((made.rows_out_per_s / np.maximum(made.bytes, 1.0), made.node))
    return made.take(sorting), able[head][sorting], marks[head][sorting]


def _ranks(sorted_keys: Longs) -> tuple[Longs, Longs]:
    """Place of each row within its key, and how many rows the key has."""
    if not len(sorted_keys):
        return sorted_keys, sorted_keys
    start = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    size = np.diff(np.r_[start, len(sorted_keys)])
    return np.arange(len(sorted_keys)) - np.repeat(start, size), np.repeat(size, size)
