"""State for another number of nodes: at a restart each node gathers the groups that are now its own.

Runs in tasks, reading the durable copies; the driver commits what comes back as one version. Moving
groups while a query runs is another matter and not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.columns import concat, take_rows
from engine.errors import SpillwayError
from engine.hashing import group_of
from engine.operators.multi_join import hashes
from engine.state import files, hosts
from engine.state.files import Clock, Fresh, Tiers
from engine.state.model import Run, Runs

REHOMED = "node int, runs string"
_REHOMED = pa.schema([("node", pa.int32()), ("runs", pa.string())])


@dataclass(frozen=True, slots=True)
class RehomePlan:
    """All runs of each input, and where each group belongs from now on."""

    version: int
    tiers: Tiers
    placement: tuple[int, ...]
    runs: tuple[Runs, ...]
    times: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Rehome:
    """The function that Spark maps over each node's partition."""

    plan: RehomePlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                for node in batch.column(1).to_pylist():
                    pairs = zip(self.plan.runs, self.plan.times, strict=True)
                    made = [self._gather(node, runs, Clock(times)) for runs, times in pairs]
                    text = json.dumps([run.pack() if run else None for run in made])
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([node], pa.int32()), pa.array([text])], schema=_REHOMED
                    )
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error

    def _gather(self, node: int, runs: Runs, clock: Clock) -> Run | None:
        """One run with the node's rows of all runs."""
        tiers, owner = hosts.here(self.plan.tiers), np.array(self.plan.placement)
        parts = []
        for run in runs:
            for segment in run.durable:
                files.verify(tiers.durable, segment)
                whole = files.read(tiers.durable, segment)
                for batch in files.slices(whole, run.groups, tiers.groups):
                    mine = np.flatnonzero(owner[group_of(hashes(batch), tiers.groups)] == node)
                    if len(mine):
                        parts.append(take_rows(batch, mine))
        if not parts:
            return None
        whole, fresh = files.sort_batch(concat(parts)), Fresh(self.plan.version, node)
        return files.written(whole, tiers, fresh, clock)[0]
