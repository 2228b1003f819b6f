"""How long a migration lasts by Zhu et al. 2004: T_MS (eqs. 1–3) and T_PT (eqs. 4–7), derived again, and as printed.

For nested loops and one window W, with rates as model.py has them: m inputs S joined give m · W^(m−1) · s(S) · ∏λ
results a second, and W^m · s(S) · ∏λ of them can still meet a row to come. docs/papers/zhu2004-costs.md derives all
of it and says where the printed equations go wrong. How long our strategies take is in strategies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from control.errors import PlanError
from control.migration.model import Model
from control.migration.trees import Mask, Tree, below, height, joins, single
from control.snapshot import Doubles

POINTS = (
    513  # of each integral over time; Simpson's rule is exact enough for what are short polynomials
)
FAR = 1e6  # how much larger or smaller than today's a window at the crossover may be


@dataclass(frozen=True, slots=True)
class Times:
    """T_j a pair tried, T_s a row kept or purged, T_m a name compared, T_c a cursor made."""

    join_s: float
    insert_s: float
    match_s: float = 0.0
    cursor_s: float = 0.0


def window_of(model: Model) -> float:
    """W, where all inputs have the same one."""
    off = model.reach[~np.eye(len(model.rates), dtype=bool)]
    if not np.isfinite(off).all() or not np.allclose(off, off[0]):
        raise PlanError("the paper's equations are for one window", where="migration lengths")
    return float(off[0])


def scaled(model: Model, factor: float) -> Model:
    """The same query with windows so many times as long."""
    return replace(model, reach=model.reach * factor, span_s=model.span_s * factor, _kept={})


def matching_s(old: Tree, new: Tree, times: Times) -> float:
    """T_match + T_move: 2N names of one plan against 2M of the other, and a cursor for each pair."""
    n, m = len(list(joins(old))), len(list(joins(new)))
    return 4 * n * m * times.match_s + 2 * min(n, m) * times.cursor_s


def unmatched(old: Tree, new: Tree) -> list[tuple[Mask, Mask]]:
    """The two sides of each result that the new plan keeps and the old one does not, children first."""
    had = {below(parts) for parts in joins(old)}
    root = below(new)
    pairs = [(below(parts[0]), below(parts[1])) for parts in joins(new)]
    return [(a, b) for a, b in pairs if a | b not in had and a | b != root]


def moving_s(model: Model, old: Tree, new: Tree, times: Times) -> float:
    """T_MS: each unmatched state is T_j for every pair of its sides' rows and T_s for every row that it gets."""
    window, total = window_of(model), matching_s(old, new, times)
    for a, b in unmatched(old, new):
        pairs = alive(model, a, window) * alive(model, b, window)
        total += times.join_s * pairs + times.insert_s * alive(model, a | b, window)
    return total


def printed_moving_s(model: Model, old: Tree, new: Tree, times: Times) -> float:
    """The same as printed (eqs. 1, 2, 8): a state is taken to be W times its rate by eq. 2."""
    window, total = window_of(model), matching_s(old, new, times)
    for a, b in unmatched(old, new):
        pairs = printed_rate(model, a, new) * printed_rate(model, b, new) * window**2
        total += pairs * (times.join_s + times.insert_s * _pair_selectivity(model, a, b))
    return total


def printed_rate(model: Model, mask: Mask, tree: Tree) -> float:
    """Eq. 2 applied upwards: twice for each join, whatever the number of inputs."""
    if single(mask):
        return model.rate(mask)
    parts = next(p for p in joins(tree) if below(p) == mask)
    a, b = below(parts[0]), below(parts[1])
    both = printed_rate(model, a, tree) * printed_rate(model, b, tree)
    return 2 * both * window_of(model) * _pair_selectivity(model, a, b)


def _pair_selectivity(model: Model, a: Mask, b: Mask) -> float:
    """Of the join of two sides alone."""
    logs = [model.selectivity(mask).log_value for mask in (a | b, a, b)]
    return float(np.exp(logs[0] - logs[1] - logs[2]))


def alive(model: Model, mask: Mask, window_s: float) -> float:
    """Rows that can still meet one to come: all parts within the last W."""
    return _scale(model, mask) * window_s ** mask.bit_count()


def lingering(model: Model, mask: Mask, window_s: float) -> float:
    """Rows that lemma 2.2 has not purged: W after their *youngest* part, which is W times their rate."""
    return model.rate(mask) * window_s


def _scale(model: Model, mask: Mask) -> float:
    """∏λ · s."""
    count = mask.bit_count()
    return model.rate(mask) / (count * window_of(model) ** (count - 1))


def span_s(old: Tree, window_s: float, *, exact_purge: bool = False) -> float:
    """Eq. 4, the parallel track on a processor that keeps up. No result with an old part is made later than W
    after the start: 2W is how long lemma 2.2 keeps rows that are of no more use."""
    return window_s if exact_purge or height(old) == 1 else 2 * window_s


def parallel_s(
    model: Model, old: Tree, new: Tree, times: Times, *, exact_purge: bool = False
) -> float:
    """T_PT: the span, or the time that both plans' work over it takes, if that is longer."""
    span = span_s(old, window_of(model), exact_purge=exact_purge)
    work = old_work_s(model, old, times, span, exact_purge=exact_purge)
    work += new_work_s(model, new, times, span, exact_purge=exact_purge)
    return max(span, work)


def old_work_s(
    model: Model, old: Tree, times: Times, span: float, *, exact_purge: bool = False
) -> float:
    """Eq. 5 over a span: purge, insert, join in the steady state; the root does not try new with new."""
    window, total = window_of(model), 0.0
    kept = alive if exact_purge else lingering
    for parts in joins(old):
        a, b = below(parts[0]), below(parts[1])
        rates = model.rate(a), model.rate(b)
        pairs = span * (rates[0] * kept(model, b, window) + rates[1] * kept(model, a, window))
        if a | b == below(old):
            pairs -= _pairs_from_nothing(model, a, b, span, exact_purge)
        total += times.join_s * pairs + 2 * times.insert_s * span * sum(rates)
    return total


def new_work_s(
    model: Model, new: Tree, times: Times, span: float, *, exact_purge: bool = False
) -> float:
    """Eqs. 6 and 7 over a span: the plan starts empty and fills for the first W."""
    total = 0.0
    for parts in joins(new):
        masks = below(parts[0]), below(parts[1])
        pairs = _pairs_from_nothing(model, *masks, span, exact_purge)
        total += times.join_s * pairs
        for mask in masks:
            came = _integral(partial(new_rate, model, mask), span)
            left = new_state(model, mask, np.array([span]), exact_purge)[0]
            total += times.insert_s * (2 * came - left)
    return total


def new_rate(model: Model, mask: Mask, t: Doubles) -> Doubles:
    """Eq. 7 put right: m · t^(m−1) while the plan fills, m · W^(m−1) afterwards."""
    count = mask.bit_count()
    at = np.minimum(t, window_of(model))
    return np.asarray(_scale(model, mask) * count * at ** (count - 1), dtype=np.float64)


def new_state(model: Model, mask: Mask, t: Doubles, exact_purge: bool) -> Doubles:
    """Rows of new parts only, a time after the start: t^m until W; then W^m, or by lemma 2.2 on to m · W^m."""
    window, count, scale = window_of(model), mask.bit_count(), _scale(model, mask)
    full = np.minimum(t, window) ** count
    if exact_purge:
        return np.asarray(scale * full, dtype=np.float64)
    over = np.clip(t - window, 0.0, window)
    more = count * window ** (count - 1) * over - over**count
    return np.asarray(scale * (full + more), dtype=np.float64)


def _pairs_from_nothing(model: Model, a: Mask, b: Mask, span: float, exact_purge: bool) -> float:
    """Pairs of new rows tried within a span."""
    return _integral(
        lambda t: (
            new_rate(model, a, t) * new_state(model, b, t, exact_purge)
            + new_rate(model, b, t) * new_state(model, a, t, exact_purge)
        ),
        span,
    )


def _integral(of: Callable[[Doubles], Doubles], span: float) -> float:
    """Simpson's rule; its middle is W where the span is 2W, so that the kink there is between two pieces."""
    t = np.linspace(0.0, span, POINTS)
    weights = np.ones(POINTS)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float((of(t) * weights).sum() * (t[1] - t[0]) / 3) if span > 0 else 0.0


def crossover(
    model: Model, moving: Callable[[Model], float], parallel: Callable[[Model], float]
) -> float:
    """How many times as long windows must be for both to take the same: 0 when moving is longer however short they
    are, infinite when it never is. Moving grows at least as W², the parallel track's span as W: they meet once."""

    def longer(factor: float) -> bool:
        one = scaled(model, factor)
        return moving(one) > parallel(one)

    low, high = 1 / FAR, FAR
    if longer(low):
        return 0.0
    if not longer(high):
        return inf
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if longer(middle) else (middle, high)
    return float((low * high) ** 0.5)
