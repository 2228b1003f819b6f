"""Groups as a table: what is selected, then what matches the filter; and the legend of the tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dash import html

from app.components import grid
from app.components.kit import d, s
from app.components.units import NONE, duration, figure, node_name, prefixed, said_size, whole
from app.pages import placement_data as data
from app.pages.placement_filter import Figures, figures
from control.samples import Sample
from control.snapshot import ClusterSnapshot, Longs

ROWS_MAX = 200
NUMBERS_MAX = 20_000
PART_MAX = 21  # two numbers of ten digits
COLUMNS = (
    grid.text("name", "group", 72),
    grid.text("node", "node", 54),
    grid.text("tier", "state", 92),
    grid.number("size", "in memory", 82),
    grid.number("disk", "on disk", 74),
    grid.number("productivity", "results / MB·s", 96),
    grid.number("rate", "results/s", 76),
    grid.number("share", "input share", 80),
    grid.number("age", "last row, ago", 84),
    grid.number("generations", "spilled", 64),
)


def numbers_in(text: str) -> list[int]:
    """`3,7-9` as the URL has it; what is not a number is left out."""
    found: list[int] = []
    for part in text.split(",") if text.isascii() else ():
        low, _, high = part.partition("-")
        if len(part) <= PART_MAX and low.isdecimal() and (not high or high.isdecimal()):
            first, last = int(low), int(high or low)
            found += range(first, min(last, first + NUMBERS_MAX) + 1)
    return sorted(set(found[:NUMBERS_MAX]))


def rows_of(
    sample: Sample, operator: str, colour: str, text: str, picked: Longs
) -> list[dict[str, Any]]:
    """Selected groups first, then those that match, by what they are coloured by; at most ROWS_MAX."""
    snapshot = sample.snapshot
    found = figures(snapshot)
    rows = data.rows_of(snapshot, data.operator_of(snapshot, operator))
    keep, _wrong = data.matching_or_all(text, snapshot, found)
    values = data.values_of(found, colour)
    chosen = np.isin(rows, picked)
    shown = rows[keep[rows] | chosen]
    first = np.isin(shown, picked)
    order = np.lexsort((shown, -values[shown], ~first))[:ROWS_MAX]
    total = max(float(snapshot.groups.rows_in_per_s.sum()), 1e-9)
    return [_row(snapshot, found, int(row), total) for row in shown[order]]


def _row(snapshot: ClusterSnapshot, found: Figures, row: int, total: float) -> dict[str, Any]:
    groups = snapshot.groups
    memory, disk = int(groups.memory_bytes[row]), int(groups.disk_bytes[row])
    age = float(found.age[row])
    known = age < 1e9
    share = 100 * float(groups.rows_in_per_s[row]) / total
    told: dict[str, tuple[float | None, str]] = {
        "size": (memory, said_size(memory)),
        "disk": (disk, said_size(disk)),
        "productivity": (float(found.productivity[row]), figure(float(found.productivity[row]))),
        "rate": (float(found.rate[row]), " ".join(prefixed(float(found.rate[row]))).strip()),
        "share": (share, f"{share:.2f} %"),
        "age": (age if known else None, duration(age) if known else NONE),
        "generations": (int(groups.generations[row]), whole(int(groups.generations[row]))),
    }
    number = int(groups.group[row])
    figures_ = {
        k: v
        for name, (value, text) in told.items()
        for k, v in ((name, value), (f"{name}_text", text))
    }
    return {
        "id": str(number),
        "group": number,
        "name": f"g{number}",
        "node": node_name(int(groups.owner[row])),
        "tier": tier(snapshot, row),
        **figures_,
    }


def tier(snapshot: ClusterSnapshot, row: int) -> str:
    groups = snapshot.groups
    if groups.in_flight[row]:
        return "in flight"
    if groups.spilled[row]:
        return "part on disk" if groups.memory_bytes[row] else "on disk"
    return "in memory" if groups.memory_bytes[row] else "empty"


def legend(scale: Mapping[str, Any], operators: int) -> list[Any]:
    """The heat's steps with their lower edges, then what outlines and hatches mean."""
    last = len(scale["texts"]) - 1
    steps = [
        d(html.I(className=f"t h{n}"), s(f"{text}+" if n == last else text), c="pl-step-l")
        for n, text in enumerate(scale["texts"])
    ]
    marks = (("disk", "on disk"), ("h3 both", "partly on disk"), ("h3 held", "in flight"),
             ("ghost", "arriving"), ("h4 sel", "selected"), ("drop", "would land"))  # fmt: skip
    other = (
        s(html.I(className="t other"), "other operators", c="lg pl-other")
        if operators > 1
        else None
    )
    return [
        s(scale["unit"], c="k"),
        d(*steps, c="pl-heat"),
        d(
            *[s(html.I(className=f"t {tone}"), text, c="lg") for tone, text in marks],
            other,
            c="legend",
        ),
    ]
