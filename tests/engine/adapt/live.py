"""Waiting for a query that runs in another thread."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.engine.oracle import Kept


def fed(kept: Kept) -> int:
    return sum(report.rows_in for report in kept.reports)


def until(true: Callable[[], bool], timeout_s: float = 120.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
