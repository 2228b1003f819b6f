"""What stays the same from tick to tick of one run; a tick's routes from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.admission import Admission
from engine.exchange import CONTROL, Route, route_of
from engine.flow import Flow
from engine.ingest import Union, same_rows
from engine.plan.tree import Plan
from engine.query.model import JoinQuery, QuerySpec
from engine.state.files import Tiers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    spec: QuerySpec | None = None  # for another plan of the same query

    def goes_on(self, planned: Setup) -> bool:
        """Can this plan's ticks go on in a streaming query that was begun with another? The same rows come in, and
        there are as many exchanges; what else there is to know, tasks are told with each tick."""
        return self is planned or (
            self.flow.stages == planned.flow.stages and same_rows(self.union, planned.union)
        )

    @property
    def folders(self) -> Tiers:
        """Any operator's tiers: they share their folders."""
        return next(iter(self.tiers.values()))

    def delays_us(self) -> dict[str, int]:
        """The allowed lateness of each source whose time matters."""
        return {s.mark: round(s.scan.stream.watermark_s * 1e6) for s in self.flow.sources if s.time}

    def control(self, spark: SparkSession) -> DataFrame:
        """One empty row for every node, so that each runs even without input."""
        tokens = ",".join(str(t) for t in self.tokens)
        return spark.range(0, self.plan.nodes, 1, 1).selectExpr(
            f"element_at(cast(split('{tokens}', ',') as array<int>), cast(id as int) + 1) as token",
            "cast(id as int) as node",
            "0 as op",
            "0 as side",
            f"{CONTROL} as kind",
            "cast('' as binary) as body",
        )

    def route(self, op: int, placement: Sequence[int], admission: Admission) -> Route:
        """Rows of held groups are written down by a node that has no group on hold."""
        busy = {placement[g] for g in admission.hold}
        writer = next((n for n in range(self.plan.nodes) if n not in busy), 0)
        return route_of(op, placement, self.tokens, admission.hold, writer, self.hash_mask)
