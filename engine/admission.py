"""Admission at the exchange: which groups wait in the hold buffer, and which are let in, this tick.

A node that is slower than the others must not hold them up (Flux's transient skew buffer): it is given
what it can do in the time that the others take, the rest of its groups wait, whole groups at a time so
that order inside a group is kept. Pure: figures in, decision out; exchange.py and tick.py carry it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.reports import Doubles, Longs

SLOW_FACTOR = 2.0  # a node may take so many times the median node's time
FLOOR_S = 1.0  # ticks shorter than this are nobody's trouble


@dataclass(frozen=True, slots=True)
class Load:
    """What is known before a tick. Arrays are by group but for `pace_s`, seconds per row by node."""

    owner: Longs
    expected_rows: Doubles  # rows that the next tick is likely to bring
    held_rows: Longs
    held_since: Longs  # version of the oldest held row; large where nothing is held
    pace_s: Doubles


@dataclass(frozen=True, slots=True)
class Admission:
    """`hold`: groups whose new rows wait. `release`: held groups let in with all that waited."""

    hold: tuple[int, ...]
    release: tuple[int, ...]


OPEN = Admission((), ())


def admit(load: Load, *, floor_s: float = FLOOR_S) -> Admission:
    """Let every node in for at most its share of time; oldest held groups first."""
    nodes = len(load.pace_s)
    per_node = np.bincount(load.owner, weights=load.expected_rows, minlength=nodes)
    limit_s = max(floor_s, SLOW_FACTOR * float(np.median(load.pace_s * per_node)))
    hold: list[int] = []
    release: list[int] = []
    for node in range(nodes):
        mine = np.flatnonzero(load.owner == node)
        waits = load.held_rows[mine] > 0
        room = limit_s / load.pace_s[node] if load.pace_s[node] > 0 else np.inf
        if not waits.any() and load.expected_rows[mine].sum() <= room:
            continue
        _fill(load, mine[np.argsort(load.held_since[mine], kind="stable")], room, hold, release)
    return Admission(tuple(sorted(hold)), tuple(sorted(release)))


def _fill(load: Load, ordered: Longs, room: float, hold: list[int], release: list[int]) -> None:
    """Admit groups in order while there is room; the first always, so that none waits for ever."""
    used = 0.0
    for number, group in enumerate(ordered.tolist()):
        cost = float(load.expected_rows[group]) + int(load.held_rows[group])
        if number and used + cost > room:
            hold.append(group)
            continue
        used += cost
        if load.held_rows[group]:
            release.append(group)


def drain(held_rows: Longs, held_since: Longs, rows_max: int) -> Admission:
    """Without input: let held groups in, oldest first, at most `rows_max` rows but at least one group."""
    order = [g for g in np.argsort(held_since, kind="stable").tolist() if held_rows[g]]
    release: list[int] = []
    used = 0
    for group in order:
        if release and used + int(held_rows[group]) > rows_max:
            break
        release.append(group)
        used += int(held_rows[group])
    return Admission((), tuple(sorted(release)))
