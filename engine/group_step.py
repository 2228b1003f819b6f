"""`group_by` on one node in one tick: results that have become due, then the tick's rows into state.

A kind of NodeStep. What is due comes from state alone: the rows of this tick are not older than the
watermark that it began with. What is computed is in operators/group_by.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from engine.flow import Op
from engine.node_step import NodeStep
from engine.operators import group_by, multi_join
from engine.operators.group_by import Grouping
from engine.operators.multi_join import View
from engine.query.model import JoinQuery, OutputColumn
from engine.query.post import evaluate
from engine.state import files
from engine.state.files import Clock
from engine.state.model import Change

_KEPT = "WHERE"


class GroupStep(NodeStep):
    """The step of an operator with a grouping."""

    def _wakes(self) -> bool:
        return self.tick.wake or self.settle is not None

    def _all_chunks(self, deltas: Sequence[pa.RecordBatch | None]) -> Iterator[multi_join.Chunk]:
        """Results that are due; and those of groups that come back, with the input that waited for them."""
        yield from self._chunks(deltas, [[files.view(run, self.tiers) for run in self.runs[0]]])
        if self.settle is None or self.settle.until is None:
            return
        views = [files.view(run, self.tiers) for run in self.settle.runs[0]]
        rows = accepted(self.plan.query, deltas[0]) if deltas[0] is not None else None
        if rows is not None:
            mine = files.slices(rows, self.settle.groups, self.op.groups)
            views += [View([part]) for part in mine]
        until = self.tick.fronts[self.op.id][1]
        prepare = partial(with_arguments, self.plan.query)
        yield from group_by.step(
            views, self.settle.until, until, grouping_of(self.op), prepare=prepare
        )

    def _chunks(
        self, deltas: Sequence[pa.RecordBatch | None], views: list[list[View]]
    ) -> Iterator[multi_join.Chunk]:
        since, until = self.tick.fronts[self.op.id]
        if since < until:
            prepare = partial(with_arguments, self.plan.query)
            yield from group_by.step(views[0], since, until, grouping_of(self.op), prepare=prepare)

    def _insert(self, deltas: Sequence[pa.RecordBatch | None]) -> dict[int, Change]:
        (delta,) = deltas
        rows = accepted(self.plan.query, delta) if delta is not None else None
        if rows is None or not rows.num_rows:
            return {}
        clock = Clock(self.op.sides[0].times, self.op.sides[0].span_us)
        _, until = self.tick.fronts[self.op.id]
        trim = partial(group_by.trim, grouping=grouping_of(self.op), until=until)
        frozen = self.tick.frozen.get((self.op.id, self.node), (0,))[0]
        return {0: files.insert(self.runs[0], rows, self.tiers, self.fresh, clock, trim, frozen)}


def grouping_of(op: Op) -> Grouping:
    """What an operator with window functions computes."""
    assert op.grouping is not None
    return op.grouping


def accepted(query: JoinQuery, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that WHERE lets through: as SQL says, before window functions see them."""
    if query.where is None:
        return batch
    outputs = (OutputColumn(_KEPT, "boolean", expr=query.where),)
    found = evaluate(pa.Table.from_batches([batch]), JoinQuery((), outputs))
    keep = pc.fill_null(found.column(_KEPT).combine_chunks(), False)
    return batch.filter(keep)


def with_arguments(query: JoinQuery, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the expressions over which aggregates go, row by row."""
    if query.group is None or not query.group.arguments:
        return batch
    arguments = query.group.arguments
    found = evaluate(pa.Table.from_batches([batch]), JoinQuery((), arguments))
    names = [argument.name for argument in arguments]
    columns = [_one(found.column(name)) for name in names]
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *columns], names=[*batch.schema.names, *names]
    )


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
