"""Host affinity on a cluster: node n's task runs where node n's segments are.

A small cached table, the *anchor*, has one row per node, partitioned as the exchange is. Every exchange is
joined with it, so that each reduce partition inherits the executor that caches its anchor row; Spark's
scheduler waits a while for that executor (`spark.locality.wait`) and then takes another one. Only speed
depends on it: a task that finds a segment missing fetches it from the checkpoint (state/files.py).
The join is a hash join with one row on its build side and needs no shuffle of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.cluster import executors, wait_for_executors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOME = "home"


class Anchor:
    """Where each node's tasks run. `frame` has a row with its `token` for every node."""

    def __init__(self, frame: DataFrame, nodes: int) -> None:
        self.nodes = nodes
        self._spark = frame.sparkSession
        self._frame = frame.select(frame["token"].alias(HOME)).repartition(nodes, HOME)
        self.executors = wait_for_executors(self._spark)
        self._spread()

    def route(self, packed: DataFrame) -> DataFrame:
        """The exchange: each node's rows in its own partition, on the executor that is its home."""
        routed = packed.repartition(self.nodes, "token")
        home = self._frame.hint("shuffle_hash")
        return routed.join(home, routed["token"] == home[HOME]).select(*packed.columns)

    def settle(self, homes: Mapping[int, str]) -> bool:
        """Between ticks, with the executor that each node was last seen on: if executors have come
        and stand idle while others are crowded, give out homes anew. True if that was done."""
        count = executors(self._spark)
        came, self.executors = count > self.executors, count
        if not (came and crowded(homes, count)):
            return False
        self._spread()
        return True

    def _spread(self) -> None:
        """Cache the anchor anew: all executors are free, so its tasks spread over them."""
        self._frame.unpersist(blocking=True)
        self._frame.persist().foreachPartition(_nothing)


def _nothing(rows: Any) -> None:
    del rows


def crowded(homes: Mapping[int, str], executors: int) -> bool:
    """Has some executor more nodes than it would have if they were spread evenly?"""
    load = [list(homes.values()).count(home) for home in set(homes.values())]
    return bool(load) and max(load) > -(-len(homes) // max(1, executors))
