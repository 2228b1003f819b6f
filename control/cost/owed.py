"""Results put off by a spill, and for how long, in closed form.

A group with B bytes in memory makes ρ results/s and gains β bytes/s; x = βt / B. Spilled for t seconds it
owes o(t) = ρ[(1 + x)^n − x^n] a second, n = streams − 1: whole state against whole state, less what the new
state still finds in memory. With a window W it is ρ[1 − (t/W)^n], nothing after W. Owed until T is
∫ o dt; the delay J is ∫ o(t)(T − t) dt. As a sum over k < n of C(n, k) x^k all terms are positive, so
nothing cancels. `before` > 0 starts the clock with B·before bytes gained already (a group spilled earlier).
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from control.snapshot import Doubles, Longs

Floats = npt.ArrayLike


def owed(
    rate: Doubles, growth: Doubles, streams: Longs, window_s: Doubles, elapsed_s: Floats
) -> Doubles:
    """Rows owed after `elapsed_s`; `growth` is β / B per second."""
    return _either(rate, growth, streams, window_s, elapsed_s, delayed=False)


def delay(
    rate: Doubles, growth: Doubles, streams: Longs, window_s: Doubles, elapsed_s: Floats
) -> Doubles:
    """J in row·s: each owed row counts from when it was due until `elapsed_s`."""
    return _either(rate, growth, streams, window_s, elapsed_s, delayed=True)


def owed_rate(rate: Doubles, growth: Doubles, streams: int, elapsed_s: Floats) -> Doubles:
    """o(t) without a window."""
    x = growth * np.asarray(elapsed_s, dtype=np.float64)
    n = streams - 1
    return np.asarray(rate * ((1 + x) ** n - x**n), dtype=np.float64)


def delay_onward(
    rate_now: Doubles,
    growth: Doubles,
    before: Doubles,
    streams: Longs,
    window_s: Doubles,
    more_s: float,
) -> Doubles:
    """∫ o(t)(T − t) dt for groups that owe `rate_now` a second already, having gained `before` × B since
    they were spilled. With a window: as if spilled now, which is never too little."""
    out = np.zeros(np.shape(rate_now))
    for m in np.unique(streams):
        some = (streams == m) & ~np.isfinite(window_s)
        out[some] = _onward(rate_now[some], growth[some], before[some], int(m) - 1, more_s)
    wide = np.isfinite(window_s)
    fresh = delay(rate_now[wide], growth[wide], streams[wide], window_s[wide], more_s)
    out[wide] = fresh
    return out


def _onward(rate_now: Doubles, growth: Doubles, before: Doubles, n: int, more_s: float) -> Doubles:
    base = (1 + before) ** n - before**n
    total = np.zeros(np.shape(rate_now))
    for k in range(n):
        for j in range(k + 1):
            power = comb(k, j) * before ** (k - j) * growth**j * more_s ** (j + 2)
            total += comb(n, k) * power / ((j + 1) * (j + 2))
    return np.asarray(rate_now / np.maximum(base, 1e-12) * total, dtype=np.float64)


def _either(
    rate: Doubles,
    growth: Doubles,
    streams: Longs,
    window_s: Doubles,
    elapsed_s: Floats,
    *,
    delayed: bool,
) -> Doubles:
    shape = np.broadcast_shapes(np.shape(rate), np.shape(elapsed_s))
    out = np.zeros(shape)
    wide = np.broadcast_to(np.asarray(elapsed_s, dtype=np.float64), shape)
    each = [np.broadcast_to(column, shape) for column in (rate, growth, streams, window_s)]
    kinds = np.unique(streams)
    for m in kinds:
        some: Any = slice(None) if len(kinds) == 1 else each[2] == m
        r, g, w, t = each[0][some], each[1][some], each[3][some], wide[some]
        form = _unbounded(r, g, int(m) - 1, t, delayed)
        bounded = np.isfinite(w)
        if bounded.any():
            with np.errstate(invalid="ignore"):
                form = np.where(bounded, _windowed(r, w, int(m) - 1, t, delayed), form)
        out[some] = form
    return out


def _unbounded(rate: Doubles, growth: Doubles, n: int, t: Doubles, delayed: bool) -> Doubles:
    total = np.zeros(np.shape(t))
    for k in range(n):
        if delayed:
            total += comb(n, k) * growth**k * t ** (k + 2) / ((k + 1) * (k + 2))
        else:
            total += comb(n, k) * growth**k * t ** (k + 1) / (k + 1)
    return np.asarray(rate * total, dtype=np.float64)


def _windowed(rate: Doubles, window: Doubles, n: int, t: Doubles, delayed: bool) -> Doubles:
    """`s` is how long rows go on being owed: until the state spilled has left the window."""
    window = np.where(np.isfinite(window), window, 1.0)
    s = np.minimum(t, window)
    part = (s / window) ** n
    if not delayed:
        return np.asarray(rate * s * (1 - part / (n + 1)), dtype=np.float64)
    early = t * s * (1 - part / (n + 1))
    late = s**2 * (0.5 - part / (n + 2))
    return np.asarray(rate * (early - late), dtype=np.float64)
