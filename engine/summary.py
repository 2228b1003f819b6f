"""A finished run in figures, from the ticker's totals and what Structured Streaming reports of its triggers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from engine.progress import RunSummary
from engine.tick import Ticker


def summarise(
    name: str,
    ticker: Ticker,
    progress: Sequence[dict[str, Any]],
    ready_s: float,
    last_commit_s: float,
) -> RunSummary:
    """`ready_s`: from the call to the first tick; `last_commit_s`: when the last commit was made."""
    first = datetime.fromisoformat(progress[0]["timestamp"]).timestamp() if progress else 0.0
    ticks = [
        p["durationMs"].get("triggerExecution", 0) / 1000 for p in progress if p["numInputRows"]
    ]
    totals, nodes = ticker.totals, range(ticker.setup.plan.nodes)
    return RunSummary(
        query=name,
        ticks=len(ticks),
        rows_in=totals.rows_in,
        rows_out=totals.rows_out,
        seconds=round(max(0.0, last_commit_s - first), 3) if last_commit_s else 0.0,
        seconds_startup=round(ready_s, 3),
        tick_seconds=tuple(ticks),
        state_bytes=sum(ticker.manifest.memory_bytes(n) for n in nodes),
        spilled_bytes=0,
        late_rows=totals.late_rows,
        null_key_rows=totals.null_key_rows,
    )
