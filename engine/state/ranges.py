"""Sets of groups as ranges of their numbers: how a run says which of its rows count. None stands for all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Ranges = tuple[tuple[int, int], ...]  # half-open, ascending, apart
Bools = npt.NDArray[np.bool_]


def of(groups: Iterable[int]) -> Ranges:
    """The set of these groups."""
    out: list[tuple[int, int]] = []
    for group in sorted(set(groups)):
        if out and out[-1][1] == group:
            out[-1] = (out[-1][0], group + 1)
        else:
            out.append((group, group + 1))
    return tuple(out)


def members(ranges: Ranges | None) -> list[int]:
    """The groups of a set that is not all."""
    return [group for low, high in ranges or () for group in range(low, high)]


def mask(ranges: Ranges | None, groups: int) -> Bools:
    """For each group whether it is in the set."""
    if ranges is None:
        return np.ones(groups, dtype=bool)
    out = np.zeros(groups, dtype=bool)
    for low, high in ranges:
        out[low:high] = True
    return out


def of_mask(have: Bools) -> Ranges:
    edges = np.flatnonzero(np.diff(np.r_[False, have, False].astype(np.int8)))
    return tuple((int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def both(one: Ranges | None, two: Ranges | None) -> Ranges | None:
    """Groups in both sets."""
    if one is None or two is None:
        return two if one is None else one
    top = max([high for _, high in (*one, *two)], default=0)
    return of_mask(mask(one, top) & mask(two, top))


def minus(one: Ranges | None, two: Ranges, groups: int) -> Ranges:
    """Groups of the first set that are not in the second."""
    return of_mask(mask(one, groups) & ~mask(two, groups))


def unpack(raw: Iterable[Iterable[int]] | None) -> Ranges | None:
    return None if raw is None else tuple((low, high) for low, high in raw)
