"""Actions at certain ticks of a query on Spark, and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from control.policies.none import Nothing
from control.requests import Request
from engine.adapt.policy import Command, Policy
from tests.engine.oracle import Case

THREE = "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


def three(root: Path, ticks: int = 8, rows: int = 200, nodes: int = 2, extra: str = "") -> Case:
    case = Case(
        root, THREE, dict.fromkeys("abc", "k long, v long"), nodes=nodes, groups=16, extra=extra
    )
    case.write()
    rng = np.random.default_rng(5)
    for tick in range(ticks):
        for name in "abc":
            keys, values = rng.integers(0, 150, rows), rng.integers(0, 10**6, rows)
            case.feed(name, tick, pa.table({"k": keys, "v": values}))
    return case


def script(*commands: tuple[int, str, dict[str, Any]], **about: Any) -> Policy:
    """Commands by tick; nothing else is decided."""
    made = [Command(tick, Request(do, **{"node": 0, **what})) for tick, do, what in commands]
    return Policy(**{"kind": Nothing(), **about}, commands=made)


def states(case: Case) -> list[tuple[str, str]]:
    return [(a["course"], a["state"]) for a in case.adapted()["actions"]]
