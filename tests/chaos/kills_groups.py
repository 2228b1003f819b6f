"""A query with window functions, to be killed."""

from __future__ import annotations

from pathlib import Path

from tests.engine.group_by import feed, one
from tests.engine.oracle import Case

TICKS = 6


def make(root: Path, seed: int) -> Case:
    case = one(root)
    feed(case, range(TICKS), seed, rows=120)
    return case
