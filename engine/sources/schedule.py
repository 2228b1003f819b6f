"""Which key the generator gives the row at an offset: a pure function, computed for whole columns.

Offsets are laid out in turns (of the skewed class), a turn in blocks, and within a block each class
has its fixed number of rows, in a seeded order. So the place of a row within its class is
arithmetic, and no row depends on the one before it. From that place follows the key:

- with a tuple range, the class's places are cut into ranges; within one, a seeded permutation
  deals out each of the class's keys `join ratio` times; the next range deals the same keys anew
  (or, if asked for, fresh ones: then results keep a steady rate while state grows);
- without, the key is drawn, uniformly or by Zipf's law, from the class's keys.

Fresh keys may be skewed too: the first ones of each range by Zipf's law, or those of the class whose turn it
is, are dealt more often. Streams turn to new ranges together, so they agree on which are hot.

Keys are whole numbers 0, 1, 2…; a number belongs to the class of the group that its hash falls into
(a preset hashes the symbol that it turns the number into). Not here: columns and times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import QueryFileError
from engine.hashing import I64, U64, group_of, hash_keys
from engine.plan.placement import even, weighted
from engine.sources.knobs import MAX_KEYS, Knobs

F64 = npt.NDArray[np.float64]
DEFAULT_KEYS = 10_000
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_SHARE_PARTS = 1000  # shares of classes are rounded to so many parts of the whole
Labels = Callable[[I64], pa.Array]


# -- seeded randomness by position ----------------------------------------------------------------


def mix(x: U64) -> U64:
    """splitmix64's finaliser: neighbouring numbers become unrelated ones."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def sub_seed(*parts: int | str) -> int:
    """One 64-bit seed from several parts."""
    texts = [pa.array([str(part)]) for part in parts]
    return int(hash_keys(texts)[0])


def noise(seed: int, at: I64) -> U64:
    """64 random bits for each position."""
    return mix(at.view(np.uint64) * np.uint64(_GOLDEN) + np.uint64(seed & _MASK))


def uniform(seed: int, at: I64) -> F64:
    """A number in [0, 1) for each position."""
    return (noise(seed, at) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permute(places: I64, size: int, seeds: U64) -> I64:
    """A permutation of 0 … size − 1, another one for each seed, evaluated at `places`.

    Four Feistel rounds over a grid a little larger than `size`; who lands outside walks on.
    """
    width = math.isqrt(size - 1) + 1
    height = -(-size // width)
    out = _feistel(places, width, height, seeds)
    outside = np.flatnonzero(out >= size)
    while outside.size:
        out[outside] = _feistel(out[outside], width, height, seeds[outside])
        outside = outside[out[outside] >= size]
    return out


def _feistel(places: I64, width: int, height: int, seeds: U64) -> I64:
    left, right = (part.view(np.uint64) for part in np.divmod(places, height))
    for turn in range(4):
        key = seeds + np.uint64((2 * turn + 1) * _GOLDEN & _MASK)
        left = (left + _below(right + key, width)) % np.uint64(width)
        right = (right + _below(left + (key ^ np.uint64(_GOLDEN)), height)) % np.uint64(height)
    return (left * np.uint64(height) + right).view(np.int64)


def _below(x: U64, bound: int) -> U64:
    return (mix(x) >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)


# -- turns, blocks, classes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Places:
    """The class of each row, and the how-manieth row of that class it is in its stream."""

    classes: I64
    index: I64


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows fall to classes. One turn for each class that is hot; one endless turn without skew."""

    block: I64  # [turn, class] rows in a block
    blocks: I64  # [turn] blocks in a turn

    @property
    def size(self) -> I64:
        """[turn] rows in a block."""
        rows: I64 = self.block.sum(axis=1)
        return rows

    def rows_before(self, turn: int) -> int:
        """Rows of the turns before that one."""
        return int((self.blocks * self.size)[: turn % len(self.blocks)].sum())

    def places(self, offsets: I64, seed: int) -> Places:
        """The class of the row at each offset, and its index within the class."""
        if self.block.size == 1:
            return Places(np.zeros_like(offsets), offsets)
        turn, before, left = self._turns(offsets)
        size = self.size[turn]
        block, place = np.divmod(left, size)
        slot = self._shuffled(turn, place, offsets - place, seed)
        ends = self.block.cumsum(axis=1)
        classes = (slot[:, None] >= ends[turn]).sum(axis=1)
        share = self.block[turn, classes]
        first = ends[turn, classes] - share
        return Places(classes, before[np.arange(turn.size), classes] + block * share + slot - first)

    def _turns(self, offsets: I64) -> tuple[I64, I64, I64]:
        """Each row's turn, the rows of each class before that turn, the row's place within it."""
        if len(self.blocks) == 1:
            zeros = np.zeros((offsets.size, self.block.shape[1]), np.int64)
            return np.zeros_like(offsets), zeros, offsets
        ends = (self.blocks * self.size).cumsum()
        cycle, place = np.divmod(offsets, ends[-1])
        turn = np.searchsorted(ends, place, side="right")
        per_class = (self.block * self.blocks[:, None]).cumsum(axis=0)
        earlier = np.vstack([np.zeros_like(per_class[:1]), per_class])
        starts = np.concatenate([[0], ends])
        return turn, cycle[:, None] * per_class[-1] + earlier[turn], place - starts[turn]

    def _shuffled(self, turn: I64, place: I64, block_start: I64, seed: int) -> I64:
        slot = np.empty_like(place)
        for t, size in enumerate(self.size.tolist()):
            rows = np.flatnonzero(turn == t)
            slot[rows] = permute(place[rows], size, noise(seed, block_start[rows]))
        return slot


def layout_of(knobs: Knobs) -> Layout:
    """The blocks that the classes' shares and the skew ask for."""
    weights = _whole_shares(knobs.class_shares)
    if knobs.skew == 1:
        return Layout(weights[None, :], np.ones(1, np.int64))
    hot = 1 + np.eye(knobs.classes) * (knobs.skew - 1)
    block = np.array([_whole(weights * row) for row in hot], dtype=np.int64)
    rows = knobs.rate * knobs.skew_period
    return Layout(block, np.maximum(1, np.rint(rows / block.sum(axis=1))).astype(np.int64))


def _whole_shares(shares: tuple[float, ...]) -> I64:
    parts = np.array(shares) / sum(shares)
    if np.ptp(parts) < 1e-9:
        return np.ones(len(shares), np.int64)
    return _whole(np.maximum(1, np.rint(parts * _SHARE_PARTS)))


def _whole(weights: npt.NDArray[np.float64]) -> I64:
    """The weights in smallest whole numbers, to two decimals."""
    hundredths = np.rint(weights * 100).astype(np.int64)
    smallest: I64 = hundredths // np.gcd.reduce(hundredths)
    return smallest


# -- keys ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deal:
    """Fresh keys: how a range of them is dealt."""

    knobs: Knobs
    labels: Labels
    size: int  # rows of a range
    keys: int  # distinct keys in it
    stride: int  # numbers from the first key of a range to that of the next
    seconds: float  # that a range lasts

    def keys_of(self, turns: I64, places: I64, seed: int) -> I64:
        """The keys at some places of some ranges."""
        place = permute(places, self.size, noise(sub_seed(seed, "range", 0), turns))
        if not self.knobs.zipf and self.knobs.skew == 1:
            return place % self.keys + turns * self.stride
        out = np.empty_like(place)
        for turn in np.unique(turns).tolist():
            rows = np.flatnonzero(turns == turn)
            share = (place[rows] + 0.5) / self.size
            out[rows] = np.searchsorted(_dealt(self, turn), share, side="right")
        return out + turns * self.stride

    def weights(self, turn: int) -> F64:
        """How often the keys of a range are dealt, against each other."""
        knobs, numbers = self.knobs, np.arange(self.keys, dtype=np.int64)
        rank = 1 + (numbers - knobs.shift) % self.keys
        weight: F64 = rank.astype(np.float64) ** -knobs.zipf
        if knobs.skew > 1:
            each = max(1, round(knobs.skew_period / self.seconds))  # ranges that a class is hot
            hot = (turn // each + knobs.shift) % knobs.classes
            classes = class_of_key(knobs, self.labels(numbers + turn * self.stride))
            weight[classes == hot] *= knobs.skew
        return weight


@lru_cache(maxsize=16)
def _dealt(deal: Deal, turn: int) -> F64:
    """Up to which share of a range's rows each of its keys has them."""
    ends = np.cumsum(deal.weights(turn))
    shares: F64 = ends / ends[-1]
    shares[-1] = 1.0
    return shares


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that decides the key at an offset, worked out once."""

    layout: Layout
    slots: tuple[int, ...]  # rows of each class within one tuple range; 0 when keys are drawn
    key_counts: tuple[int, ...]  # distinct keys of each class
    numbers: tuple[I64, ...]  # those keys; empty when the class's keys are 0 … count − 1
    cumulated: tuple[F64, ...]  # Zipf's distribution over each class's keys; empty when uniform
    seed: int
    shift: int = 0  # the hottest key's number, and the turn that comes first
    deal: Deal | None = None  # of fresh keys

    def keys(self, offsets: I64) -> I64:
        """The key number of the row at each offset."""
        if len(self.slots) == 1:
            return self._of_class(0, offsets)
        ahead = self.layout.rows_before(self.shift)
        places = self.layout.places(offsets + ahead, sub_seed(self.seed, "block"))
        out = np.empty_like(offsets)
        for c in range(len(self.slots)):
            rows = np.flatnonzero(places.classes == c)
            out[rows] = self._of_class(c, places.index[rows])
        return out

    def _of_class(self, c: int, index: I64) -> I64:
        key = self._dealt(c, index) if self.slots[c] else self._drawn(c, index)
        return self.numbers[c][key] if self.numbers[c].size else key

    def _dealt(self, c: int, index: I64) -> I64:
        turn, place = np.divmod(index, self.slots[c])
        if self.deal is not None:
            return self.deal.keys_of(turn, place, self.seed)
        seeds = noise(sub_seed(self.seed, "range", c), turn)
        return permute(place, self.slots[c], seeds) % self.key_counts[c]

    def _drawn(self, c: int, index: I64) -> I64:
        u = uniform(sub_seed(self.seed, "draw", c), index)
        if self.cumulated[c].size:
            rank = np.searchsorted(self.cumulated[c], u, side="right").astype(np.int64)
            return (rank + self.shift) % self.key_counts[c]
        return (u * self.key_counts[c]).astype(np.int64)


def schedule_of(knobs: Knobs, labels: Labels) -> Schedule:
    """Work the knobs out; `labels` turns key numbers into the column that the query joins on."""
    layout = layout_of(knobs)
    slots, counts = _sizes(knobs)
    numbers = tuple(_numbers(knobs, counts, labels))
    drawn = not knobs.tuple_range
    cumulated = tuple(_zipf(count, knobs.zipf if drawn else 0.0) for count in counts)
    seed = sub_seed(knobs.seed, knobs.stream_seed)
    deal = None
    if knobs.fresh_keys:
        (size,), (count,) = slots, counts
        deal = Deal(knobs, labels, size, count, count, size / knobs.rate)
    return Schedule(layout, slots, counts, numbers, cumulated, seed, knobs.shift, deal)


def _sizes(knobs: Knobs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows per tuple range and distinct keys, for each class.

    A tuple range is rounded down (up, if need be) until every class holds a whole number of keys.
    """
    shares, ratios = _whole_shares(knobs.class_shares).tolist(), knobs.join_ratios
    if not knobs.tuple_range:
        total = knobs.keys or DEFAULT_KEYS
        return (0,) * knobs.classes, tuple(max(1, total * s // sum(shares)) for s in shares)
    if knobs.fresh_keys:
        shares, ratios = [1], (knobs.join_ratio,)
    pairs = list(zip(shares, ratios, strict=True))
    step = math.lcm(*(ratio // math.gcd(ratio, share) for share, ratio in pairs))
    blocks = max(1, knobs.tuple_range // (sum(shares) * step)) * step
    slots = tuple(share * blocks for share in shares)
    return slots, tuple(n // ratio for n, ratio in zip(slots, ratios, strict=True))


def _zipf(count: int, exponent: float) -> F64:
    if not exponent:
        return np.empty(0)
    cumulated = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -exponent)
    scaled: F64 = cumulated / cumulated[-1]
    scaled[-1] = 1.0
    return scaled


def class_of_key(knobs: Knobs, keys: pa.Array) -> I64:
    """The class of each key: of the group that its hash falls into."""
    return class_of_group(knobs)[group_of(hash_keys([keys]), knobs.groups)]


def class_of_group(knobs: Knobs) -> I64:
    """The class of each group."""
    shares = _whole_shares(knobs.class_shares)
    if knobs.class_of == "contiguous":
        bounds = -(-np.cumsum(shares)[:-1] * knobs.groups // shares.sum())
        return np.searchsorted(bounds, np.arange(knobs.groups), side="right").astype(np.int64)
    if np.ptp(shares) == 0:
        return np.array(even(knobs.groups, knobs.classes), np.int64)
    return np.array(weighted(knobs.groups, dict(enumerate(knobs.class_shares))), np.int64)


def _numbers(knobs: Knobs, counts: tuple[int, ...], labels: Labels) -> list[I64]:
    """For each class the first numbers that belong to it, as many as it has keys."""
    if knobs.classes == 1 or knobs.fresh_keys:
        return [np.empty(0, np.int64)]
    found = [np.empty(0, np.int64)] * knobs.classes
    start, step = 0, max(1024, sum(counts))
    while any(have.size < want for have, want in zip(found, counts, strict=True)):
        if start > 2 * MAX_KEYS:
            raise QueryFileError(
                f"no {max(counts)} keys found for each of {knobs.classes} classes",
                where="generator option classes",
                hint="use fewer classes, more groups or a smaller tuple_range",
            )
        numbers = np.arange(start, start + step, dtype=np.int64)
        classes = class_of_key(knobs, labels(numbers))
        found = [np.append(have, numbers[classes == c]) for c, have in enumerate(found)]
        start += step
    return [have[:want] for have, want in zip(found, counts, strict=True)]
