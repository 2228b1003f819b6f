"""What Flux's policies share: pairing nodes from both ends inwards, and one group per pair.

Rounds: statistics are collected for δ, then groups move. The next δ is as long as the last move phase,
half of the last δ when nothing moved, never under δmin. Who runs rounds keeps δ in the snapshot's history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from control.plans import Reason, Topic
from control.snapshot import ClusterSnapshot, Doubles, History, Longs

TUNE_UP, TUNE_DOWN, TUNE_MAX = 2.0, 0.9, 64.0


@dataclass(frozen=True, slots=True)
class Pair:
    """One donor and one receiver, and the group (row) that moves; -1 when none does."""

    donor: int
    receiver: int
    row: int
    why: str = ""


def pairs(load: Doubles, alive: Longs) -> Iterator[tuple[int, int]]:
    """Most with least loaded, working inwards; ties by node number."""
    ordered = alive[np.lexsort((alive, -load[alive]))]
    half = len(ordered) // 2
    yield from zip(ordered[:half].tolist(), ordered[::-1][:half].tolist(), strict=True)


def round_over(snapshot: ClusterSnapshot) -> bool:
    """Statistics have been collected for δ."""
    history = snapshot.history
    return snapshot.time_s - history.round_start_s >= history.round_s


def next_round_s(history: History, delta_min_s: float) -> float:
    """The next δ."""
    longer = history.move_phase_s or history.round_s / 2
    return max(longer, delta_min_s)


def tuned_delta_min_s(delta_min_s: float, now_s: float, moved_back: int, moves: int) -> float:
    """δmin by itself, which Flux leaves as future work: thrashing shows as groups that move back to
    where they just were. More than a quarter of them doubles δmin (up to 64 times the setting), none
    lets it shrink by a tenth, down to the setting."""
    if moves and moved_back > moves / 4:
        return min(now_s * TUNE_UP, delta_min_s * TUNE_MAX)
    return max(now_s * TUNE_DOWN, delta_min_s) if not moved_back else now_s


def summary(chosen: list[Pair], stopped: str, considered: int) -> list[Reason]:
    """Chosen and skipped pairs as reasons."""
    said = [Reason.of(Topic.CANDIDATES, "pairs of nodes considered", pairs=considered)]
    for pair in chosen[:20]:
        if pair.row < 0:
            text = f"nodes {pair.donor} and {pair.receiver}: {pair.why}"
            said.append(Reason.of(Topic.SKIPPED, text))
    if stopped:
        said.append(Reason.of(Topic.SKIPPED, stopped))
    return said
