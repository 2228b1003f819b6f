"""Live figures of each operator, and of each operator on each node, from the newest sample. Pure; no drawing here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.components.plan_tree import Node, children, operators
from control.samples import Sample
from control.snapshot import Doubles, Longs

Columns = Mapping[str, Doubles]


@dataclass(frozen=True)
class Figures:
    """One operator: totals, and columns by node. Rates decay with a half-life of 60 s."""

    rows_in_per_s: float
    rows_out_per_s: float
    memory_bytes: float
    disk_bytes: float
    owed_rows: float
    cpu_share: float | None  # of what the plan's operators took in the last ticks
    groups: int
    nodes: Columns

    @property
    def selectivity(self) -> float | None:
        """Results for each row that comes in."""
        return ratio(self.rows_out_per_s, self.rows_in_per_s)


SUMMED = ("rows_in_per_s", "rows_out_per_s", "memory_bytes", "disk_bytes", "owed_rows")


def ratio(out: float, given: float) -> float | None:
    return out / given if given > 0 else None


def figures_of(sample: Sample) -> dict[str, Figures]:
    """By operator."""
    snapshot = sample.snapshot
    cpu = _cpu(sample)
    whole = sum(cpu.values())
    found: dict[str, Figures] = {}
    for number, operator in enumerate(snapshot.operators):
        rows = np.flatnonzero(snapshot.groups.operator == number)
        columns = _by_node(sample, rows)
        share = cpu.get(operator.name, 0.0) / whole if whole > 0 else None
        totals = {name: float(columns[name].sum()) for name in SUMMED}
        found[operator.name] = Figures(
            **totals, cpu_share=share, groups=operator.groups, nodes=columns
        )
    return found


def _by_node(sample: Sample, rows: Longs) -> dict[str, Doubles]:
    groups, count = sample.snapshot.groups, len(sample.snapshot.nodes)
    owner = groups.owner[rows]
    columns: dict[str, Doubles] = {
        name: np.bincount(owner, weights=getattr(groups, name)[rows], minlength=count).astype(
            np.float64
        )
        for name in SUMMED
    }
    columns["groups"] = np.bincount(owner, minlength=count).astype(np.float64)
    return columns


def _cpu(sample: Sample) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in sample.operators:
        name = str(line.get("operator", ""))
        found[name] = found.get(name, 0.0) + float(line.get("cpu_s", 0.0))
    return found


def flows(root: Node, found: Mapping[str, Figures], asked: Mapping[str, float]) -> dict[str, float]:
    """Rows per second that leave each box of the tree, as far as they are known.

    Operators are measured. A stream is what its operator takes in less what comes from below, where only one is
    open; else it has the rate that its generator was asked for (`asked`, by stream).
    """
    rates = {str(op["id"]): found[str(op["id"])].rows_out_per_s for op in operators(root)
             if str(op["id"]) in found}  # fmt: skip
    for op in operators(root):
        mine = [child for child in children(op) if not children(child)]
        for leaf in mine:
            told = [asked[name] for name in leaf.get("streams", ()) if name in asked]
            if told:
                rates[str(leaf["id"])] = sum(told)
        if len(mine) == 1 and str(op["id"]) in found:
            below = sum(rates.get(str(c["id"]), 0.0) for c in children(op) if children(c))
            taken = found[str(op["id"])].rows_in_per_s - below
            rates[str(mine[0]["id"])] = max(0.0, taken)
    return rates


def measured(root: Node) -> frozenset[str]:
    """Streams whose rate is measured, not asked for: the only one that its operator reads."""
    found = set()
    for op in operators(root):
        mine = [child for child in children(op) if not children(child)]
        if len(mine) == 1:
            found.add(str(mine[0]["id"]))
    return frozenset(found)
