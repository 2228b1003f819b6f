"""What stays the same from tick to tick of one run, and its running totals. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.flow import Flow
from engine.ingest import Union
from engine.plan.tree import Plan
from engine.query.model import JoinQuery
from engine.state.files import Tiers


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same from tick to tick."""

    plan: Plan
    query: JoinQuery
    flow: Flow
    union: Union
    tiers: Mapping[str, Tiers]  # by operator
    tokens: tuple[int, ...]
    slots: int  # tasks at once
    hash_mask: int
    side_folder: str
    slow: Mapping[int, float] = field(default_factory=dict)

    @property
    def folders(self) -> Tiers:
        """Any operator's tiers: they share their folders."""
        return next(iter(self.tiers.values()))

    def delays_us(self) -> dict[str, int]:
        """The allowed lateness of each source whose time matters."""
        return {s.mark: round(s.scan.stream.watermark_s * 1e6) for s in self.flow.sources if s.time}


@dataclass(slots=True)
class Totals:
    """Counts over the query's life."""

    rows_in: int = 0
    rows_out: int = 0
    null_key_rows: int = 0
    late_rows: int = 0
