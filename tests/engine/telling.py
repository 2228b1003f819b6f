"""What the engine tells of a query in tests of it."""

from __future__ import annotations

from engine.reports import TickReport


def made_report() -> TickReport:
    return TickReport(
        query="q",
        version=1,
        tick=0,
        time_s=0.0,
        until_s=0.0,
        seconds=0.1,
        rows_in=0,
        rows_out=0,
        null_key_rows=0,
        late_rows=0,
        held_rows=0,
        nodes=(),
        groups=(),
    )
