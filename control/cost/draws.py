"""How sure a gain is: the same comparison under 200 log-normal draws of rates and coefficients.

Nothing and the option are drawn alike (the same factors on both sides), so that only what differs between
them counts. Which is which is decided by the seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from control.cost.options import Option, Scene, draw
from control.cost.outlook import Outlook
from control.cost.roll import Picture, Slices, roll
from control.snapshot import Doubles, Longs

DRAWS = 200


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations in logs: how well each figure is known."""

    rows_out: float = 0.25  # ρ, by node
    growth: float = 0.25  # β, by node
    cpu: float = 0.4  # all κ together
    pause: float = 0.3  # p, and with it w


@dataclass(frozen=True, slots=True)
class Confidence:
    """Quantiles of the gain in row·s, and how likely there is one."""

    p10: float
    p50: float
    p90: float
    chance: float  # P(gain > 0)


@dataclass(frozen=True)
class Compared:
    """Nothing and an option as two pictures of the same nodes."""

    before: Picture
    after: Picture
    real: Longs  # which real node each imagined one stands for
    fixed_row_s: float
    saved_row_s: float


def confidence(
    outlook: Outlook, option: Option, seed: int, spread: Spread | None = None, draws: int = DRAWS
) -> Confidence:
    """The option against nothing, `draws` times."""
    return confidence_of(gain_draws(outlook, option, seed, spread or Spread(), draws))


def confidence_of(gains: Doubles) -> Confidence:
    p10, p50, p90 = np.quantile(gains, (0.1, 0.5, 0.9)).tolist()
    return Confidence(p10, p50, p90, float((gains > 0).mean()))


def gain_draws(outlook: Outlook, option: Option, seed: int, spread: Spread, draws: int) -> Doubles:
    """The gain in each draw."""
    after = draw(outlook, [option])
    fixed, saved = float(after.fixed_row_s[0]), float(after.saved_row_s[0])
    pair = Compared(_before(outlook, after), after.picture, after.real, fixed, saved)
    return compare(outlook, pair, seed, spread, draws)


def compare(outlook: Outlook, pair: Compared, seed: int, spread: Spread, draws: int) -> Doubles:
    """The gain in each draw of whatever was drawn as a pair of pictures."""
    random = np.random.default_rng(seed)
    nodes = len(pair.after)
    rho, beta = (
        np.exp(random.normal(0.0, sigma, (draws, nodes)))
        for sigma in (spread.rows_out, spread.growth)
    )
    cpu = np.exp(random.normal(0.0, spread.cpu, draws))
    pause = np.exp(random.normal(0.0, spread.pause, draws))
    ends = [
        _total(outlook, picture, pair.real, rho, beta, cpu) for picture in (pair.before, pair.after)
    ]
    fixed = pair.fixed_row_s * np.maximum(cpu, pause**2)
    saved = pair.saved_row_s * rho.mean(axis=1)
    return np.asarray(ends[0] - ends[1] - fixed + saved, dtype=np.float64)


def _before(outlook: Outlook, after: Scene) -> Picture:
    """The same nodes with nothing done."""
    parts = [
        outlook.of(node)[0].at(np.full(len(outlook.of(node)[0]), place, dtype=np.int64))
        for place, node in enumerate(after.real.tolist())
    ]
    joined = Slices.joined(*parts)
    return outlook.picture(joined, after.real.tolist(), [0.0] * len(parts))


def _total(
    outlook: Outlook, picture: Picture, real: Longs, rho: Doubles, beta: Doubles, cpu: Doubles
) -> Doubles:
    """Row·s of a picture in each draw; a slice follows the draw of the node it comes from."""
    draws, nodes = rho.shape
    slices, count = picture.slices, len(picture.slices)
    which = np.repeat(np.arange(draws), count)
    tiled = slices.take(np.tile(np.arange(count), draws))
    source = np.tile((slices.origin[:, None] == real[None, :]).argmax(axis=1), draws)
    faster, busier = beta[which, source], rho[which, source]
    tiled = replace(
        tiled,
        node=tiled.node + which * nodes,
        bytes_per_s=tiled.bytes_per_s * faster,
        net_bytes_per_s=tiled.net_bytes_per_s * faster,
        rows_out_per_s=tiled.rows_out_per_s * busier,
    )
    columns = {
        name: np.tile(value, draws) for name, value in vars(picture).items() if name != "slices"
    }
    columns["price"] = columns["price"] * np.repeat(cpu, nodes)
    ordered = tiled.sorted() if _mixed(slices) else tiled
    about = outlook.numbers, outlook.horizon, outlook.rule
    rolled = roll(Picture(ordered, **columns), *about)
    return np.asarray(rolled.row_s.reshape(draws, nodes).sum(axis=1), dtype=np.float64)


def _mixed(slices: Slices) -> bool:
    """Has a node slices of several real nodes? Only then does a draw change their order."""
    same = slices.node[1:] == slices.node[:-1]
    return bool((same & (slices.origin[1:] != slices.origin[:-1])).any())
