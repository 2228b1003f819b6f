"""What a snapshot knows of its query's joins: keys and windows, the tree that runs, what its ticks told.

A value, as small as its JSON; the model is worked out where somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from control.cost.coefficients import Coefficients
from control.cost.price import BUSY_MAX
from control.migration.calibrate import BESIDE_CPU_S, ORDER_CPU_S
from control.migration.model import Model, load_of
from control.migration.statistics import QueryShape, Statistics
from control.migration.strategies import Pace
from control.migration.trees import Tree, show

CORES = 2.0  # that ticks get, where nobody says
UNTOLD = 2.0  # times what T_j and T_s say: so much a tick takes for its rows, with what passes between tasks


@dataclass(frozen=True)
class Joins:
    """`told`: Statistics.pack(). `delay_s`: how late rows may be. `since_s`: when this tree began to run, where a
    migration put it in place. `cores`: that all nodes share; 0 where each is a machine of its own."""

    shape: QueryShape
    running: Tree
    told: Mapping[str, Any]
    delay_s: float = 0.0
    since_s: float | None = None
    cores: float = 0.0

    @cached_property
    def statistics(self) -> Statistics:
        """Not to be added to: it is everybody's."""
        return Statistics.unpack(self.shape, self.told)

    @cached_property
    def model(self) -> Model:
        return self.statistics.model(self.delay_s)

    @property
    def known(self) -> bool:
        """Has anything come yet?"""
        return all(rate > 0 for rate in self.model.rates)

    @property
    def order(self) -> str:
        return show(self.running, self.shape.names)

    @property
    def spans(self) -> list[frozenset[int]]:
        return [frozenset(span) for span in self.shape.classes]

    def pace(self, numbers: Coefficients, nodes: int) -> Pace:
        """What migrations took, with T_j and T_s as ticks told."""
        prices = self.statistics.prices
        pace = Pace(
            prices.join_s,
            prices.insert_s,
            numbers.recompute_s_per_row,
            numbers.sort_s_per_row,
            numbers.side_cores,
            numbers.cores or self.cores or CORES,
            self.statistics.tick_s or numbers.tick_s,
            numbers.swap_s,
            delay_s=self.model.delay_s,
            job_ticks=numbers.job_ticks,
            nodes=nodes,
            order_s=ORDER_CPU_S,
            beside_s=BESIDE_CPU_S,
        )
        running = load_of(self.model, self.running).cpu(pace.join_s, pace.insert_s)
        return replace(
            pace, least_s=pace.tick_s * (1 - min(UNTOLD * running / pace.cores, BUSY_MAX))
        )

    def pack(self) -> dict[str, Any]:
        """As JSON."""
        shape = self.shape
        return {
            "names": list(shape.names),
            "classes": [list(span) for span in shape.classes],
            "bounds": [list(bound) for bound in shape.bounds],
            "tree": self.running,
            "told": dict(self.told),
            "delay_s": self.delay_s,
            "since_s": self.since_s,
            "cores": self.cores,
        }

    @staticmethod
    def unpack(raw: Mapping[str, Any] | None) -> Joins | None:
        """None where there is nothing: an older snapshot, or a query that joins nothing."""
        if raw is None:
            return None
        classes = tuple(tuple(span) for span in raw["classes"])
        bounds = tuple((early, late, seconds) for early, late, seconds in raw["bounds"])
        shape = QueryShape(tuple(raw["names"]), classes, bounds)
        about = raw["told"], raw["delay_s"], raw["since_s"], raw.get("cores", 0.0)
        return Joins(shape, _tree(raw["tree"]), *about)


def _tree(raw: Any) -> Tree:
    return raw if isinstance(raw, int) else tuple(_tree(part) for part in raw)
