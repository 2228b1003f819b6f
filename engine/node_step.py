"""One stateful operator on one node in one tick: take rows in, join them, keep them, tell what happened.

Written for every join alike; what a join computes is in operators/. Files are written here through
state/files.py and sinks; which of them count is decided by the driver's commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.adapt.overflow import relieve
from engine.brief import Brief
from engine.columns import Longs, bare, concat, row_bytes
from engine.flow import Op
from engine.hashing import group_of, group_offsets, hash_keys
from engine.operators import multi_join
from engine.operators.multi_join import View, hashes
from engine.operators.owed import owed
from engine.query.model import JoinQuery, OutputColumn
from engine.query.post import evaluate, output_schema
from engine.sinks import ResultWriter, StagedFile
from engine.state import files, hosts
from engine.state.files import Clock, Fresh
from engine.state.model import Change, Hold, Runs
from engine.state.stats import by_group

if TYPE_CHECKING:
    from engine.stage import Standing

_GROUP = "$g"
Staged = list[Any]  # a StagedFile as JSON


@dataclass(slots=True)
class Tally:
    """What happened to the node's groups in this tick."""

    rows_in: Longs
    bytes_in: Longs
    rows_out: Longs


class NodeStep:
    """An operator's step on a node. `run` yields results for the operator above; the root's go to the sink."""

    def __init__(self, plan: Standing, tick: Brief, op: Op, node: int) -> None:
        self.plan, self.tick, self.op, self.node = plan, tick, op, node
        self.tiers, self.fresh = hosts.here(plan.tiers[op.id]), Fresh(tick.version, node)
        self.runs: tuple[Runs, ...] = tick.runs.get((op.id, node), ((),) * op.places)
        self.tally = Tally(*(np.zeros(op.groups, dtype=np.int64) for _ in range(3)))
        self.settle = tick.settle.get((op.id, node))
        self.disk: dict[int, Runs] = {}  # spilled in this tick, by side
        self.head: dict[str, Any] = {}
        self.worked = False
        self.fetched = 0

    def run(
        self, deltas: Mapping[int, list[pa.RecordBatch]], held: Mapping[int, list[pa.RecordBatch]]
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Do it all; `head` and `tally` say what was done. With each batch, whether its rows have new parts only."""
        cpu, wall = time.process_time(), time.perf_counter()
        holds = [h for side, piles in held.items() if piles for h in self._hold(side, piles)]
        ordered = [self._delta(side, deltas.get(side, [])) for side in range(self.op.places)]
        staged: list[Staged] = []
        if self.tick.warm:
            self._fetch()
        if any(ordered) or self._wakes():
            yield from self._results(ordered, staged)
        changes = self._insert(ordered)
        if self.settle:
            changes = {i: self._settled(i, changes.get(i)) for i in range(len(self.op.sides))}
        changes, self.disk = relieve(self, changes)
        rows_in = int(self.tally.rows_in.sum())
        self.worked = bool(
            holds
            or changes
            or staged
            or rows_in
            or self.settle
            or self.tick.releases.get((self.op.id, self.node))
        )
        self._dawdle(rows_in)
        self.head = {
            "taken": self._taken(ordered),
            "rows_in": rows_in,
            "rows_out": int(self.tally.rows_out.sum()),
            "cpu_s": time.process_time() - cpu,
            "wall_s": time.perf_counter() - wall,
            "changes": {i: [c.kept, [r.pack() for r in c.added]] for i, c in changes.items()},
            "disk": {i: [r.pack() for r in runs] for i, runs in self.disk.items()},
            "holds": [hold.pack() for hold in holds],
            "staged": staged,
            "executor": hosts.executor(),
            "executor_id": hosts.executor_id(),
            "fetched": self.fetched,
        }

    def _taken(self, deltas: Sequence[pa.RecordBatch | None]) -> list[int]:
        """Rows that came in, by side."""
        rows, sides = [d.num_rows if d else 0 for d in deltas], len(self.op.sides)
        return [sum(rows[side::sides]) for side in range(sides)]

    def _fetch(self) -> None:
        """Have every run in memory, which is what a start is after."""
        for mine in self.runs:
            for run in mine:
                files.view(run, self.tiers)

    def hashed(self, batch: pa.RecordBatch, above: Op) -> pa.RecordBatch:
        """Results for an operator in this very task: hashed and sorted as an exchange would."""
        nulls, mask = above.grouping is not None, self.tick.routes[above.number].mask
        marks = hash_keys(batch.columns[: above.keys], mask, nulls=nulls)
        names = [multi_join.HASH, *batch.schema.names]
        return files.sort_batch(
            pa.RecordBatch.from_arrays([pa.array(marks), *batch.columns], names=names)
        )

    def _delta(self, side: int, fresh: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        """A side's rows of this tick in hash order, released ones first."""
        piles = [p for p in (*self._released(side), *fresh) if p.num_rows]
        if not piles:
            return None
        delta = piles[0] if len(piles) == 1 else files.sort_batch(concat(piles))
        starts = group_offsets(hashes(delta), self.op.groups)
        self.tally.rows_in += np.diff(starts)
        self.tally.bytes_in += row_bytes(delta, starts)
        return delta

    def _released(self, side: int) -> Iterator[pa.RecordBatch]:
        for release in self.tick.releases.get((self.op.id, self.node), ()):
            if release.side == side:
                files.verify(self.tiers.durable, release.segment)
                batch = files.read(self.tiers.durable, release.segment)
                starts = group_offsets(hashes(batch), self.op.groups)
                for g in release.groups:
                    yield batch.slice(starts[g], starts[g + 1] - starts[g])

    def _wakes(self) -> bool:
        """Is there something to do even without input?"""
        return self.settle is not None

    def _results(
        self, deltas: Sequence[pa.RecordBatch | None], staged: list[Staged]
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """What comes of the tick's rows and state: for the operator above, or into the sink's file."""
        self.fetched = sum(files.ensure(run, self.tiers) for mine in self.runs for run in mine)
        out = (
            Results(self.plan, self.tick.version, self.op, self.node)
            if self.op.target is None
            else None
        )
        try:
            for chunk in self._all_chunks(deltas):
                ids = group_of(chunk.hashes, self.op.groups)
                if out is not None:
                    ids, counts = out.take(chunk, ids)
                    self.tally.rows_out += by_group(ids, counts, self.op.groups)
                else:
                    self.tally.rows_out += by_group(ids, chunk.counts, self.op.groups)
                    yield joined(chunk, self.op), chunk.new
            if out is not None:
                staged += out.close()
        except BaseException:
            if out is not None:
                out.writer.abort()
            raise

    def _all_chunks(self, deltas: Sequence[pa.RecordBatch | None]) -> Iterator[multi_join.Chunk]:
        """What comes of state that settles, then what comes of the tick's rows."""
        views = [[files.view(run, self.tiers) for run in mine] for mine in self.runs]
        if self.settle:
            back = [[files.view(run, self.tiers) for run in mine] for mine in self.settle.runs]
            yield from self._meet(back, views)
            views = [old + new for old, new in zip(back, views, strict=True)]
        yield from self._chunks(deltas, views)

    def _meet(self, back: list[list[View]], have: list[list[View]]) -> Iterator[multi_join.Chunk]:
        """Results that returning state and the rows that have come since owe each other."""
        assert self.settle is not None
        groups = self.settle.groups
        old = [[b for view in mine for b in view.segments] for mine in back]
        new = [
            [p for v in mine for b in v.segments for p in files.slices(b, groups, self.op.groups)]
            for mine in have
        ]
        yield from owed(
            [merged(old), merged(new)],
            keys=self.op.keys,
            exact_hash=self.op.exact_hash,
            wanted=self.op.wanted,
            limits=self.op.limits,
        )

    def _chunks(
        self, deltas: Sequence[pa.RecordBatch | None], views: list[list[View]]
    ) -> Iterator[multi_join.Chunk]:
        """Each side's delta against the others' runs, and the deltas of the sides before it."""
        for source, delta in enumerate(deltas):
            if delta is not None:
                yield from self._probe(delta, source, views)
                views[source].append(View([delta]))

    def _probe(
        self, delta: pa.RecordBatch, source: int, views: list[list[View]]
    ) -> Iterator[multi_join.Chunk]:
        return multi_join.probe(
            delta,
            source,
            views,
            keys=self.op.keys,
            exact_hash=self.op.exact_hash,
            wanted=self.op.wanted,
            limits=self.op.limits,
        )

    def _insert(self, deltas: Sequence[pa.RecordBatch | None]) -> dict[int, Change]:
        sides = [self.op.side_of(place) for place in range(self.op.places)]
        clocks = [Clock(side.times, side.span_us) for side in sides]
        frozen = self.tick.frozen.get((self.op.id, self.node), (0,) * len(clocks))
        return {
            i: files.insert(
                self.runs[i], delta, self.tiers, self.fresh, clocks[i], frozen=frozen[i]
            )
            for i, delta in enumerate(deltas)
            if delta is not None
        }

    def _settled(self, side: int, change: Change | None) -> Change:
        """A side's runs with those that came back before them."""
        assert self.settle is not None
        mine = change.apply(self.runs[side]) if change else self.runs[side]
        return Change(
            0, files.in_order((*self.settle.runs[side], *mine), self.op.sides[side].span_us)
        )

    def _hold(self, side: int, piles: list[pa.RecordBatch]) -> Iterator[Hold]:
        """Write rows that have to wait into the hold buffer."""
        batch, clock = files.sort_batch(concat(piles)), Clock(self.op.side_of(side).times)
        yield files.hold(self.op.id, side, batch, clock, self.tiers, self.fresh)

    def _dawdle(self, rows: int) -> None:
        """A node made slow on purpose (experiments) sleeps here."""
        if pace := self.tick.slow.get(self.node):
            time.sleep(pace * rows / 1000)


def merged(sides: Sequence[Sequence[pa.RecordBatch]]) -> list[list[pa.RecordBatch]]:
    """Each side's batches as one sorted batch."""
    return [
        [pile[0] if len(pile) == 1 else files.sort_batch(concat(list(pile)))] if pile else []
        for pile in sides
    ]


def joined(chunk: multi_join.Chunk, op: Op) -> pa.RecordBatch:
    """A chunk's columns, by their ids in the joined row."""
    arrays = [column for batch in chunk.columns for column in batch.columns]
    names = [name for mine in op.wanted for name in mine]
    return pa.RecordBatch.from_arrays(arrays, names=names) if names else bare(chunk.rows)


class Results:
    """The root's results: projected, filtered, and written to a staged file."""

    def __init__(self, plan: Standing, version: int, op: Op, node: int) -> None:
        self.op = op  # window functions see only what WHERE let through already
        self.query = plan.query if op.grouping is None else replace(plan.query, where=None)
        self.schema = output_schema(plan.query)
        self.plain = self.query.where is None and all(o.source for o in self.query.outputs)
        self.counted = _counted(self.query)
        # Each root's files have names of their own: those of a second plan's go on counting after the nodes.
        number = node + plan.nodes * [one.id for one in plan.flow.roots].index(op.id)
        self.writer = ResultWriter(
            plan.sink, version, number, self.schema, compression=plan.compression
        )

    def take(self, chunk: multi_join.Chunk, ids: Longs) -> tuple[Longs, Longs]:
        """Write a chunk; how many rows of it each group has in the end (groups may repeat)."""
        rows = joined(chunk, self.op)
        if self.plain:
            arrays = [rows.column(o.source) for o in self.query.outputs]
            self.writer.write(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
            return ids, chunk.counts
        group = pa.array(np.repeat(ids, chunk.counts).astype(np.int32))
        table = pa.Table.from_arrays([*rows.columns, group], names=[*rows.schema.names, _GROUP])
        done = evaluate(table, self.counted)
        counts = pc.value_counts(done.column(_GROUP).combine_chunks())
        ids, totals = (
            counts.field(i).to_numpy(zero_copy_only=False).astype(np.int64) for i in (0, 1)
        )
        self.writer.write(done.drop_columns([_GROUP]).cast(self.schema))
        return ids, totals

    def close(self) -> list[Staged]:
        return [s for s in [staged_file(self.writer.close())] if s]


def _counted(query: JoinQuery) -> JoinQuery:
    """The query with one more output: the group of each result."""
    return replace(query, outputs=(*query.outputs, OutputColumn(_GROUP, "int", source=_GROUP)))


def staged_file(file: StagedFile | None) -> Staged | None:
    return [file.tmp, file.final, file.rows, file.bytes] if file else None
