"""Steps of the plan without intermediate state: a base keeps rows, a probe joins rows with a base's and keeps nothing.

Of two rows that come in the same tick one must meet the other, and no more: a probe meets the tick's own rows where it
belongs to the later of the two inputs. Those of its stage it is handed in the task; to later stages the base tells, in
the shuffle, which runs it has made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.brief import Brief
from engine.exchange import ADDED, packed
from engine.flow import Op
from engine.node_step import NodeStep, Staged
from engine.operators.multi_join import Chunk, View
from engine.state import files
from engine.state.model import Change, Run, Runs

if TYPE_CHECKING:
    from engine.stage import Standing


class BaseStep(NodeStep):
    """Rows in, nothing out. `deltas`: this tick's, by side, once it has run."""

    def __init__(self, plan: Standing, tick: Brief, op: Op, node: int) -> None:
        super().__init__(plan, tick, op, node)
        self.deltas: Sequence[pa.RecordBatch | None] = ()

    def _results(
        self, deltas: Sequence[pa.RecordBatch | None], staged: list[Staged]
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        self.fetched = sum(files.ensure(run, self.tiers) for mine in self.runs for run in mine)
        self.deltas = deltas
        yield from ()

    def told(self) -> Iterator[pa.RecordBatch]:
        """For probes of later stages: what was added to the rows that they meet."""
        for op in self.plan.flow.ops:
            met = op.probe
            if met is None or met.base != self.op.number or not met.fresh or not op.stage:
                continue
            raw = self.head["changes"].get(met.side)
            if raw is not None:
                token = self.tick.routes[op.number].tokens[self.node]
                body = pa.record_batch({"change": [json.dumps(raw)]})
                yield packed(token, self.node, op.number, 0, ADDED, body)


class ProbeStep(NodeStep):
    """`base`: that of the same task, if the base's rows come in at this stage; else `added` says what has come."""

    def __init__(
        self,
        plan: Standing,
        tick: Brief,
        op: Op,
        node: int,
        base: BaseStep | None = None,
        added: Sequence[pa.RecordBatch] = (),
    ) -> None:
        super().__init__(plan, tick, op, node)
        self.base, self.added = base, added

    def _chunks(
        self, deltas: Sequence[pa.RecordBatch | None], views: list[list[View]]
    ) -> Iterator[Chunk]:
        del views  # it keeps nothing itself
        (delta,) = deltas
        if delta is not None:
            yield from self._probe(delta, 0, [[], self._met()])

    def _met(self) -> list[View]:
        """The rows to be met: those from before, and the tick's own if it is to meet them."""
        met = self.op.probe
        assert met is not None
        base = self.plan.flow.ops[met.base]
        runs: Runs = self.tick.runs.get((base.id, self.node), ((),) * base.places)[met.side]
        more: list[View] = []
        if met.fresh:
            for change in self._changes():
                runs = change.apply(runs)
            delta = self.base.deltas[met.side] if self.base and self.base.deltas else None
            more = [View([delta])] if delta is not None else []
        self.fetched += sum(files.ensure(run, self.tiers) for run in runs)
        return [files.view(run, self.tiers) for run in runs] + more

    def _changes(self) -> Iterator[Change]:
        for batch in self.added:
            for text in batch.column(0).to_pylist():
                kept, added = json.loads(text)
                yield Change(kept, tuple(Run.unpack(raw) for raw in added))

    def _insert(self, deltas: Sequence[pa.RecordBatch | None]) -> dict[int, Change]:
        return {}
