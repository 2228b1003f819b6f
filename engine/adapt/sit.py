"""A desk for a run of a query, after noting how the actions of an earlier life ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from engine.adapt import kinds
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records

if TYPE_CHECKING:
    from engine.tick import Ticker


def sit(
    ticker: Ticker,
    policy: Policy,
    budgets: Mapping[int, int],
    report: Path | None,
    asked: bool,
) -> Desk:
    """The desk of a run, after noting how the actions of an earlier life ended. `asked`: somebody will want to
    know how this life's end."""
    records = Records(Path(ticker.setup.folders.durable).with_name("actions"), report)
    records.somebody_asks = asked
    records.restart(ticker.carried_out, time.time(), kinds.doing(ticker))
    if minute := policy.minute_s:
        ticker.wall = lambda: minute * (2 + ticker.manifest.tick)
    return Desk(ticker, policy, budgets, records, ticker.wall)
