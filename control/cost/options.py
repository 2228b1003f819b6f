"""What there is to choose from, and what each option costs and gains against nothing.

Gain = roll(nothing) − [cost + roll(after)], over the nodes that an option touches: the others are as they
are. All options are rolled in one call. Negative gains are kept: the menu shows what does not pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from control.cost.coefficients import Coefficients
from control.cost.outlook import Outlook
from control.cost.owed import delay_onward
from control.cost.price import load_change
from control.cost.roll import Picture, Slices, roll
from control.snapshot import Doubles, Longs

Kind = Literal["nothing", "spill", "move", "cleanup"]


@dataclass(frozen=True, slots=True)
class Option:
    """An amount of bytes: of a node, and for a move to another one."""

    kind: Kind
    node: int = -1
    target: int = -1
    bytes: float = 0.0
    hold: bool = False  # a move in the paper's way, input held while state is copied


@dataclass(frozen=True, slots=True)
class Priced:
    """An option with its figures in row·s. `full_s`: when the first touched node is full afterwards."""

    option: Option
    cost_row_s: float
    gain_row_s: float
    full_s: float
    pause_s: float = 0.0

    @property
    def pays(self) -> bool:
        """Worth doing without a person: gain at least twice the cost."""
        return self.gain_row_s > 0 and self.gain_row_s >= 2 * self.cost_row_s


NOTHING = Option("nothing")


@dataclass(frozen=True)
class Scene:
    """Options drawn as one picture: nodes of option i are `first[i]` up to `first[i + 1]`."""

    picture: Picture
    real: Longs  # which real node each imagined one stands for
    first: Longs
    fixed_row_s: Doubles  # direct cost of each option
    saved_row_s: Doubles  # what a cleanup no longer owes
    pause_s: Doubles


def moved_share(slices: Slices, movable: np.ndarray, amount: float) -> Doubles:
    """How much of each slice a move of `amount` takes: most productive first."""
    size = np.where(movable, slices.bytes, 0.0)[::-1]
    before = np.cumsum(size) - size
    wanted = np.clip(amount - before, 0.0, size)
    share = np.divide(wanted, size, out=np.zeros_like(size), where=size > 0)
    return np.asarray(share[::-1], dtype=np.float64)


def move_seconds(
    bytes: float, bytes_per_s: float, numbers: Coefficients, hold: bool
) -> tuple[float, float]:
    """Transfer time and pause: t = B / (w − β), p = τ + βt/w, or τ + t when input is held."""
    speed = max(numbers.bandwidth_bytes_per_s - bytes_per_s, numbers.bandwidth_bytes_per_s * 0.01)
    seconds = bytes / speed
    caught = bytes_per_s * seconds / numbers.bandwidth_bytes_per_s
    return seconds, numbers.tick_s + (seconds if hold else caught)


class _Sketch:
    """One option drawn: its imagined nodes, slices and direct cost."""

    def __init__(self, outlook: Outlook, option: Option) -> None:
        self.outlook, self.option = outlook, option
        self.nodes: list[int] = []
        self.slices: list[Slices] = []
        self.spill_first: list[float] = []
        self.fixed_row_s = self.saved_row_s = self.pause_s = 0.0
        {"move": self._move, "spill": self._spill, "cleanup": self._cleanup}[option.kind]()

    def _add(self, node: int, *slices: Slices, spill_first: float = 0.0) -> None:
        place = len(self.nodes)
        self.nodes.append(node)
        self.slices += [one.at(np.full(len(one), place, dtype=np.int64)) for one in slices]
        self.spill_first.append(spill_first)

    def _spill(self) -> None:
        slices, _ = self.outlook.of(self.option.node)
        self._add(self.option.node, slices, spill_first=self.option.bytes)

    def _move(self) -> None:
        option, look = self.option, self.outlook
        mine, movable = look.of(option.node)
        share = moved_share(mine, movable, option.bytes)
        going = mine.scaled(share)
        self._add(option.node, mine.scaled(1 - share))
        self._add(option.target, look.of(option.target)[0], going)
        self.fixed_row_s, _, self.pause_s = move_cost(
            look, option.node, option.target, going, float(mine.bytes_per_s.sum()), option.hold
        )

    def _cleanup(self) -> None:
        rows = cleanup_rows(self.outlook, self.option.node, self.option.bytes)
        self.saved_row_s = float(saved_by_cleanup(self.outlook, rows).sum())
        self.fixed_row_s = cleanup_cost(self.outlook, rows)
        self._add(
            self.option.node,
            self.outlook.of(self.option.node)[0],
            back_in_memory(self.outlook, rows),
        )


def move_cost(
    outlook: Outlook, source: int, target: int, going: Slices, sender_per_s: float, hold: bool
) -> tuple[float, float, float]:
    """What a move costs directly in row·s, how long it takes, and its pause; `sender_per_s` is β of the
    whole sender."""
    size, beta, numbers = float(going.bytes.sum()), float(going.bytes_per_s.sum()), outlook.numbers
    seconds, pause_s = move_seconds(size, beta, numbers, hold)
    waits = float(going.rows_out_per_s.sum()) * pause_s**2 / 2
    price = float(outlook.price[source] + outlook.price[target])
    nodes, horizon_s = outlook.snapshot.nodes, outlook.horizon.seconds
    share = beta / max(sender_per_s, 1e-12)
    load = load_change(nodes, numbers, horizon_s, source, target, share)
    return waits + numbers.transfer_s_per_byte * size * price + load, seconds + pause_s, pause_s


def cleanup_cpu_s(outlook: Outlook, rows: Longs) -> tuple[float, float]:
    """CPU of reading what is on disk, and of joining what is owed."""
    groups, numbers = outlook.snapshot.groups, outlook.numbers
    read = numbers.read_s_per_byte * float(groups.disk_bytes[rows].sum())
    return read, numbers.join_s_per_row * float(groups.owed_rows[rows].sum())


def cleanup_cost(outlook: Outlook, rows: Longs) -> float:
    """Of the groups at `rows`, all of which are on the node that owns the first."""
    if not len(rows):
        return 0.0
    price = float(outlook.price[outlook.snapshot.groups.owner[rows[0]]])
    return price * sum(cleanup_cpu_s(outlook, rows))


def back_in_memory(outlook: Outlook, rows: Longs) -> Slices:
    """What a cleanup brings back: state that grows no faster, and gives the results that it owed."""
    groups, snapshot = outlook.snapshot.groups, outlook.snapshot
    none = np.zeros(len(rows))
    return Slices(
        groups.owner[rows],
        groups.disk_bytes[rows].astype(np.float64),
        none,
        none,
        groups.owed_rows_per_s[rows],
        snapshot.streams[rows],
        snapshot.window_s[rows],
        groups.owner[rows],
        np.zeros(len(rows), dtype=np.bool_),
    )


def cleanup_rows(outlook: Outlook, node: int, amount: float) -> Longs:
    """Spilled groups of a node, most row·s saved per byte first, as many as fit `amount`."""
    groups = outlook.snapshot.groups
    rows = outlook.snapshot.on(node)
    rows = rows[groups.spilled[rows] & ~groups.in_flight[rows]]
    worth = saved_by_cleanup(outlook, rows) / np.maximum(groups.disk_bytes[rows], 1)
    rows = rows[np.lexsort((rows, -worth))]
    return rows[np.cumsum(groups.disk_bytes[rows]) <= amount]


def saved_by_cleanup(outlook: Outlook, rows: Longs) -> Doubles:
    """κo [owed · T′ + ∫ o(t)(T′ − t) dt], T′ the horizon; by group."""
    snapshot, groups = outlook.snapshot, outlook.snapshot.groups
    horizon = outlook.horizon.seconds
    disk = np.maximum(groups.disk_bytes[rows].astype(np.float64), 1.0)
    onward = delay_onward(
        groups.owed_rows_per_s[rows],
        groups.bytes_per_s[rows] / disk,
        groups.memory_bytes[rows] / disk,
        snapshot.streams[rows],
        snapshot.window_s[rows],
        horizon,
    )
    return outlook.numbers.owed_factor * (groups.owed_rows[rows] * horizon + onward)


def draw(outlook: Outlook, options: Sequence[Option]) -> Scene:
    """All options in one picture."""
    sketches = [_Sketch(outlook, option) for option in options]
    counts = np.array([len(sketch.nodes) for sketch in sketches])
    first = np.r_[0, np.cumsum(counts)]
    slices = Slices.joined(
        *(
            one.at(one.node + start)
            for sketch, start in zip(sketches, first.tolist(), strict=False)
            for one in sketch.slices
        )
    )
    nodes = [node for sketch in sketches for node in sketch.nodes]
    spills = [amount for sketch in sketches for amount in sketch.spill_first]
    return Scene(
        outlook.picture(slices.sorted(), nodes, spills),
        np.array(nodes),
        first,
        np.array([sketch.fixed_row_s for sketch in sketches]),
        np.array([sketch.saved_row_s for sketch in sketches]),
        np.array([sketch.pause_s for sketch in sketches]),
    )


def price(outlook: Outlook, options: Sequence[Option]) -> list[Priced]:
    """Figures for each option, in the order given."""
    if not options:
        return []
    scene = draw(outlook, options)
    rolled = roll(scene.picture, outlook.numbers, outlook.horizon, outlook.rule)
    starts = scene.first[:-1]
    after = np.add.reduceat(rolled.row_s, starts)
    cost = scene.fixed_row_s + np.add.reduceat(rolled.first_row_s, starts)
    nothing = np.add.reduceat(outlook.nothing.row_s[scene.real], starts) + scene.saved_row_s
    gain = nothing - after - scene.fixed_row_s
    full = np.minimum.reduceat(rolled.full_s, starts)
    columns = (cost, gain, full, scene.pause_s)
    figures = zip(*(column.tolist() for column in columns), strict=True)
    return [Priced(option, *row) for option, row in zip(options, figures, strict=True)]
