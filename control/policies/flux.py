"""What Flux's policies share: pairing nodes from both ends inwards, and one group per pair.

Rounds: statistics are collected for δ, then groups move. The next δ is as long as the last move phase,
half of the last δ when nothing moved, never under δmin. Who runs rounds (the engine's desk, simulators) tells of them in
the snapshot's history; policies that decide by rounds have a `delta_min_s`, and decide once for each round's number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from control.plans import Reason, Topic
from control.snapshot import ClusterSnapshot, Doubles, Longs

DELTA_MIN_S = 10.0  # where no policy says another


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


def next_round_s(round_s: float, move_phase_s: float, delta_min_s: float) -> float:
    """The next δ: as long as the move phase, or half of the last δ where nothing moved; at least δmin."""
    return max(move_phase_s or round_s / 2, delta_min_s)


def by_rounds(policy: object) -> bool:
    """Whether a policy decides when a round ends, once for each."""
    return hasattr(policy, "delta_min_s")


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
