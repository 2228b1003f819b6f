"""Each node as a row of figures, and one node in detail: its operators, its groups. Pure, over one sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.components.node_card import Cards
from app.components.units import (
    NONE,
    counted,
    duration,
    node_name,
    percent,
    prefixed,
    said_size,
    whole,
)
from control.policies import victims
from control.samples import Sample
from control.snapshot import ClusterSnapshot, Longs

GROUPS_SHOWN = 8


def rows(sample: Sample, cards: Cards, stale: bool) -> list[dict[str, Any]]:
    """For the table; figures for sorting, texts for reading. Of what is old, nothing is foretold."""
    owner, spilled = sample.snapshot.groups.owner, sample.snapshot.groups.spilled
    count = len(sample.snapshot.nodes)
    groups = np.bincount(owner, minlength=count)
    on_disk = np.bincount(owner[spilled], minlength=count)
    made = [_row(sample, cards, n, int(groups[n]), int(on_disk[n])) for n in range(count)]
    return [{**row, "full_text": NONE} for row in made] if stale else made


def _row(sample: Sample, cards: Cards, n: int, groups: int, on_disk: int) -> dict[str, Any]:
    nodes = sample.snapshot.nodes
    budget, memory, held = (float(column[n]) for column in (cards.budget, cards.memory, cards.held))
    share = float(cards.fill[n]) if np.isfinite(budget) else None
    full = cards.full_s[n]
    told: dict[str, tuple[float | None, str]] = {
        "memory": (memory, said_size(memory)),
        "share": (share, percent(share)),
        "budget": (budget if share is not None else None, said_size(budget) if share is not None else "none"),
        "held": (held, said_size(held)),
        "disk": (float(cards.disk[n]), said_size(float(cards.disk[n]))),
        "rows_in": _rate(float(nodes.rows_in_per_s[n])),
        "rows_out": _rate(float(nodes.rows_out_per_s[n])),
        "busy": (float(nodes.busy[n]), percent(float(nodes.busy[n]))),
        "groups": (groups, whole(groups)),
        "on_disk": (on_disk, whole(on_disk)),
        "full": (full if full is not None else 1e12, said_full(full)),
    }  # fmt: skip
    pairs = {
        k: v
        for name, (value, text) in told.items()
        for k, v in ((name, value), (f"{name}_text", text))
    }
    return {
        "id": str(n),
        "node": n,
        "node_text": node_name(n),
        "state": state(sample, cards, n),
        **pairs,
    }


def _rate(value: float) -> tuple[float | None, str]:
    if not np.isfinite(value):
        return None, NONE
    return value, " ".join(part for part in prefixed(value) if part)


def said_full(seconds: float | None) -> str:
    if seconds is None:
        return "> 24 h"
    return "full" if seconds <= 0 else duration(seconds)


def state(sample: Sample, cards: Cards, n: int) -> str:
    """In a word, for a class and for reading."""
    if not sample.snapshot.nodes.alive[n]:
        return "not alive"
    full = cards.full_s[n]
    if full is not None and full <= 0:
        return "full"
    return "near" if cards.fill[n] > 0.85 else "fine"


def fullest(cards: Cards) -> int:
    """Which node to show when none is chosen: that which is full first, else the fullest."""
    full = np.array([s if s is not None else np.inf for s in cards.full_s])
    return int(np.lexsort((-cards.fill, full))[0])


@dataclass(frozen=True, slots=True)
class Part:
    """A node's share of one operator's state."""

    operator: str
    groups: int
    memory_bytes: int
    disk_bytes: int
    rows_out_per_s: float


def parts(snapshot: ClusterSnapshot, node: int) -> list[Part]:
    """By operator, in the plan's order; those with nothing here too."""
    groups, mine = snapshot.groups, snapshot.on(node)
    found = []
    for index, operator in enumerate(snapshot.operators):
        some = mine[groups.operator[mine] == index]
        found.append(
            Part(
                operator.name,
                len(some),
                int(groups.memory_bytes[some].sum()),
                int(groups.disk_bytes[some].sum()),
                float(groups.rows_out_per_s[some].sum()),
            )
        )
    return found


def largest(snapshot: ClusterSnapshot, node: int) -> Longs:
    groups, mine = snapshot.groups, snapshot.on(node)
    size = groups.memory_bytes[mine] + groups.disk_bytes[mine]
    return mine[np.lexsort((mine, -size))][:GROUPS_SHOWN]


def least_productive(snapshot: ClusterSnapshot, node: int) -> Longs:
    """Of those in memory: what its own rule would spill first."""
    mine = victims.spillable(snapshot, snapshot.on(node))
    return victims.in_order(snapshot, mine, victims.LEAST_DECAYED)[:GROUPS_SHOWN]


def numbers_of(snapshot: ClusterSnapshot, found: Longs, operator: int) -> str:
    """Groups of one operator for an address: 3,7,9."""
    groups = snapshot.groups
    return ",".join(
        str(int(groups.group[row])) for row in found if groups.operator[row] == operator
    )


def headline(sample: Sample, cards: Cards) -> str:
    """All nodes in a line."""
    alive = sample.snapshot.nodes.alive
    gone = int((~alive).sum())
    known = cards.fill[np.isfinite(cards.fill) & alive]
    words = [counted(len(alive), "node")]
    if len(known):
        words.append(
            f"fullest {percent(float(known.max()))}, median {percent(float(np.median(known)))}"
        )
    return " · ".join([*words, *([f"{gone} not alive"] if gone else [])])
