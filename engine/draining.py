"""Letting in rows that wait at the exchange, without input to come along with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import admission

if TYPE_CHECKING:
    from engine.tick import Ticker

ROWS_MAX = 1_000_000  # let in at once


def drain(ticker: Ticker) -> None:
    """A tick with the oldest of what waits."""
    manifest = ticker.manifest
    admissions = {
        op.id: admission.drain(
            manifest.held_rows(op.id, op.groups), manifest.held_since(op.id, op.groups), ROWS_MAX
        )
        for op in ticker.setup.flow.ops
    }
    ticker.tick(None, None, admissions)


def held_bytes(ticker: Ticker) -> int:
    return sum(hold.segment.bytes for hold in ticker.manifest.holds)
