"""Groups as a picture: one byte for each group and column, with the scale that says what a byte means.

Ten thousand groups are 50 kB that way and are packed once for everybody who watches. How they are laid out,
drawn and selected is the browser's (assets/placement.js).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from app.components.units import counted, figure, node_name, percent, prefixed, size_unit
from app.pages.placement_filter import Figures, FilterError, figures, matching
from control.ledger import ActionRow
from control.plans import Move, pairs_of, step_from_json
from control.samples import Sample
from control.snapshot import NO_LIMIT, Bools, ClusterSnapshot, Doubles, Longs

Bytes = npt.NDArray[np.uint8]
STEPS = 7  # of the heat
NEAR = 0.85
MEMORY, DISK, FLIGHT, MATCH = 1, 2, 4, 8  # bits of a group's flags; the heat's step is above them
TINY = 1e-9  # what is less shows as that
RANGE = 1e6  # most between the first and the last edge
NICE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


@dataclass(frozen=True, slots=True)
class Colour:
    """What tiles are coloured by."""

    name: str
    unit: str
    order: str  # what stands first


COLOURS: Mapping[str, Colour] = {
    "productivity": Colour("Productivity", "results per MB and second", "most productive first"),
    "size": Colour("Size", "MB", "largest first"),
    "rate": Colour("Rate", "results per second", "most results first"),
    "age": Colour("Age", "s since the last row", "longest without a row first"),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """`edges` part the heat's steps; a byte b > 0 stands for low·(high/low)^((b-1)/254), or linearly."""

    edges: tuple[float, ...]
    low: float
    high: float
    log: bool

    def packed(self, values: Doubles) -> Bytes:
        """0: nothing. Values outside are at the ends."""
        inside = np.clip(values, self.low, self.high)
        if self.log:
            share = np.log(inside / self.low) / np.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return np.where(values > 0, 1 + np.round(254 * share), 0).astype(np.uint8)

    def steps(self, values: Doubles) -> Bytes:
        return np.searchsorted(self.edges, values, side="right").astype(np.uint8)

    def to_json(self) -> dict[str, Any]:
        texts = ["0", *[_short(edge) for edge in self.edges]]
        return {"low": self.low, "high": self.high, "log": self.log, "texts": texts}


def _short(value: float) -> str:
    """Round numbers as they are: 0.2, 15, 1.5 k."""
    if value < 1_000:
        return f"{value:g}"
    return " ".join(prefixed(value, digits=2)).replace(".0 ", " ")


def scale_of(values: Doubles) -> Scale:
    """Round edges around where most values are, so that they seldom change from tick to tick."""
    some = np.maximum(values[values > 0], TINY)
    if not len(some):
        return Scale((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 0.5, 12.0, False)
    low, high = (float(v) for v in np.quantile(some, (0.08, 0.92)))
    if high / low > 4:
        edges = _geometric(max(low, high / RANGE), high)
        return Scale(edges, edges[0] / 16, edges[-1] * 16, True)
    edges = _linear(low, high)
    return Scale(edges, 0.0, 2 * edges[-1], False)


def _geometric(low: float, high: float) -> tuple[float, ...]:
    first, last = log10(_nice(low)), log10(_nice(high))
    edges = [_nice(10**power) for power in np.linspace(first, last, STEPS - 1)]
    if len(set(edges)) < len(edges):  # too close for round ones
        return tuple(float(f"{10**power:.2g}") for power in np.linspace(first, last, STEPS - 1))
    return tuple(edges)


def _linear(low: float, high: float) -> tuple[float, ...]:
    wide = max(high - low, 0.02 * high)
    step = _nice(wide / (STEPS - 2))
    first = max(step, floor(low / step) * step)
    return tuple(float(f"{first + step * n:.9g}") for n in range(STEPS - 1))


def _nice(value: float) -> float:
    """The nearest round number."""
    power = 10.0 ** floor(log10(value))
    found = min(NICE, key=lambda n: abs(log10(n * power / value))) * power
    return float(f"{found:.6g}")


def values_of(found: Figures, colour: str) -> Doubles:
    column: Doubles = getattr(found, colour)
    return column


def operator_of(snapshot: ClusterSnapshot, name: str) -> int:
    """Its number; the first one where the name is none (any more)."""
    return snapshot.operator_index.get(name, 0)


def rows_of(snapshot: ClusterSnapshot, operator: int) -> Longs:
    """An operator's rows in the order of their groups' numbers."""
    mine = np.flatnonzero(snapshot.groups.operator == operator)
    order = np.argsort(snapshot.groups.group[mine], kind="stable")
    return np.asarray(mine[order], dtype=np.int64)


def picture(
    sample: Sample, operator: str, colour: str, text: str, running: Sequence[ActionRow]
) -> dict[str, Any]:
    """Everything that is drawn of one operator, as JSON. A filter that is wrong shows all, and says why."""
    snapshot, found = sample.snapshot, figures(sample.snapshot)
    number = operator_of(snapshot, operator)
    rows = rows_of(snapshot, number)
    keep, wrong = matching_or_all(text, snapshot, found)
    values = values_of(found, colour)[rows]
    groups = snapshot.groups
    here = np.where(groups.memory_bytes > 0, groups.memory_bytes, groups.disk_bytes)[rows] / 1e6
    scale, sizes = scale_of(values), scale_of(here)
    flags = _flags(snapshot, rows, keep) | (scale.steps(values) << 4).astype(np.uint8)
    told = COLOURS[colour]
    name = snapshot.operators[number].name
    return {
        "query": snapshot.query,
        "operator": name,
        "first": snapshot.operators[0].name,
        "groups": len(rows),
        "ids": _ids(groups.group[rows]),
        "node": _b64(groups.owner[rows].astype("<u2")),
        "value": _b64(scale.packed(values)),
        "size": _b64(sizes.packed(here)),
        "flags": _b64(flags.astype(np.uint8)),
        "scale": {**scale.to_json(), "unit": told.unit},
        "sizes": sizes.to_json(),
        **bands(sample, rows),
        "moving": moving(running, name),
        "matches": int(keep[rows].sum()) if text.strip() else None,
        "wrong": wrong,
        "counts": counts(snapshot, rows),
    }


def matching_or_all(text: str, snapshot: ClusterSnapshot, found: Figures) -> tuple[Bools, str]:
    """Rows that match; of a filter that is wrong all, and why."""
    try:
        return matching(text, snapshot, found), ""
    except FilterError as error:
        return np.ones(len(snapshot.groups), dtype=np.bool_), str(error)


def _flags(snapshot: ClusterSnapshot, rows: Longs, keep: Bools) -> npt.NDArray[np.int64]:
    groups = snapshot.groups
    flags = (
        MEMORY * (groups.memory_bytes[rows] > 0)
        + DISK * groups.spilled[rows]
        + FLIGHT * groups.in_flight[rows]
        + MATCH * keep[rows]
    )
    return np.asarray(flags, dtype=np.int64)


def _ids(numbers: Longs) -> list[int] | None:
    """None: they are 0, 1, 2 …"""
    return None if np.array_equal(numbers, np.arange(len(numbers))) else numbers.tolist()


def _b64(column: npt.NDArray[Any]) -> str:
    return base64.b64encode(column.tobytes()).decode("ascii")


def counts(snapshot: ClusterSnapshot, rows: Longs) -> str:
    groups = snapshot.groups
    parts = [counted(len(rows), "group")]
    disk, flight = int(groups.spilled[rows].sum()), int(groups.in_flight[rows].sum())
    parts += [f"{disk} on disk"] if disk else []
    parts += [f"{flight} in flight"] if flight else []
    return " · ".join(parts)


def bands(sample: Sample, rows: Longs) -> dict[str, Any]:
    """What stands before each node's row: all of the node's state against its budget, on one scale (`full`, MB)."""
    snapshot = sample.snapshot
    nodes, mine = snapshot.nodes, snapshot.groups.owner[rows]
    held = held_of(sample)
    budget = np.where(nodes.budget_bytes < NO_LIMIT, nodes.budget_bytes, 0)
    used = nodes.memory_bytes + held
    unit, factor = size_unit([*used.tolist(), *budget.tolist()])
    full = max(float(np.maximum(used, budget).max()), 1.0) * 1.05
    groups = np.bincount(mine, minlength=len(nodes))
    state = snapshot.by_node(snapshot.groups.memory_bytes)
    here = np.bincount(mine, snapshot.groups.memory_bytes[rows].astype(float), len(nodes))
    found = []
    for n in range(len(nodes)):
        limit = int(budget[n])
        share = float(used[n]) / limit if limit else None
        found.append(
            {
                "n": n,
                "name": node_name(n),
                "groups": counted(int(groups[n]), "group"),
                "used": figure(float(used[n]) / factor),
                "of": f" of {figure(limit / factor)} {unit}" if limit else f" {unit}, no budget",
                "share": percent(share) if share is not None else "",
                "tone": _tone(bool(nodes.alive[n]), share),
                "memory": round(100 * float(nodes.memory_bytes[n]) / full, 2),
                "near": round(100 * NEAR * limit / full, 2) if limit else 100.0,
                "held": round(100 * float(held[n]) / full, 2),
                "budget": round(100 * limit / full, 2) if limit else None,
                "fill": round(float(here[n]) / full, 5),
                "other": round(max(0.0, float(state[n] - here[n])) / full, 5),
            }
        )
    return {"nodes": found, "full": full / 1e6}


def _tone(alive: bool, share: float | None) -> str:
    if not alive:
        return "gone"
    return "near" if share is not None and share > NEAR else ""


def held_of(sample: Sample) -> Doubles:
    """Copies in flight by node; nothing where it is not told."""
    held = sample.nodes.get("held_bytes")
    count = len(sample.snapshot.nodes)
    if held is None or len(held) != count:
        return np.zeros(count)
    return np.nan_to_num(np.asarray(held, dtype=np.float64))


def moving(running: Sequence[ActionRow], operator: str) -> list[dict[str, Any]]:
    """Moves that are on their way: which groups, from where to where."""
    found = []
    for row in running:
        step = step_from_json(row.body["step"])
        if isinstance(step, Move):
            groups = [group for name, group in pairs_of(step) if name == operator]
            if groups:
                found.append({"from": step.source, "to": step.target, "groups": groups})
    return found
