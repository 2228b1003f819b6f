"""A tree of window joins with late rows, to be killed, and what should come of it."""

from __future__ import annotations

from pathlib import Path

from tests.engine.chains import ALL, accepted, chain, feed_chain, near
from tests.engine.oracle import Case

TICKS = 6


def make(root: Path, seed: int, order: str = "") -> Case:
    case = chain(root, order)
    feed_chain(case, TICKS, seed=seed, rows=110, late=0.05)
    return case


def wanted(case: Case) -> str:
    """The batch join over what was not set aside as late, once all of it is."""
    return f"{accepted(case)}{case.sql} WHERE {near(*ALL)}"
