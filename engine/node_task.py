"""A node's part of a tick: the reduce side of the exchange, called by Spark in a Python worker.

It unpacks the rows routed to the node, joins them with its runs, stages the results, writes the new
runs, keeps rows that have to wait, and hands back one small report. It decides nothing: what to hold,
release or merge into is in the `StepPlan`. Nothing counts until the driver commits the report.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import Longs, concat, row_bytes
from engine.errors import SpillwayError
from engine.exchange import DELTA, HELD, NULL_KEY, Layout, unpack
from engine.hashing import group_of, group_offsets
from engine.operators import multi_join
from engine.operators.multi_join import View, hashes
from engine.query.model import JoinQuery, OutputColumn, key_id
from engine.query.post import evaluate
from engine.query.types import arrow_type
from engine.sinks import ResultWriter
from engine.state import files
from engine.state.files import Fresh, Tiers
from engine.state.model import Change, Hold, Runs, Segment
from engine.state.stats import by_group, sparse

REPORT = "node int, head string, groups binary"
_REPORT = pa.schema([("node", pa.int32()), ("head", pa.string()), ("groups", pa.binary())])
_GROUP = "$g"


@dataclass(frozen=True, slots=True)
class Release:
    """Held rows to take in now: these groups of this file."""

    input: int
    segment: Segment
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """All that a node has to know for one tick."""

    version: int
    operator: str
    tiers: Tiers
    query: JoinQuery
    layouts: tuple[Layout, ...]
    exact_hash: bool
    runs: Mapping[int, tuple[Runs, ...]]  # by node
    sink: str
    compression: str
    sides: tuple[str, ...]  # null-key folder of each input
    releases: Mapping[int, tuple[Release, ...]] = field(default_factory=dict)
    slow: Mapping[int, float] = field(default_factory=dict)  # tests: seconds per 1000 rows

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([(o.name, arrow_type(o.type)) for o in self.query.outputs])


@dataclass(slots=True)
class _Tally:
    """What happened to the node's groups in this tick."""

    rows_in: Longs
    bytes_in: Longs
    rows_out: Longs


@dataclass(frozen=True, slots=True)
class Step:
    """The function that Spark maps over each node's partition."""

    plan: StepPlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            packed = _by_node(batches)
            for node, parts in packed.items():
                yield _report(node, *_NodeStep(self.plan, node).run(parts))
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error
        except OSError as error:
            raise RuntimeError(files.write_error(str(error.filename), error).encode()) from error


Parts = dict[tuple[int, int], list[pa.RecordBatch]]  # (kind, input) -> batches


def _by_node(batches: Iterator[pa.RecordBatch]) -> dict[int, Parts]:
    """Unpack a partition. One node is expected: the exchange's tokens see to that."""
    found: dict[int, Parts] = {}
    for batch in batches:
        _, node, index, kind, body = batch.columns
        rows = zip(node.to_pylist(), index.to_pylist(), kind.to_pylist(), body, strict=True)
        for n, i, k, value in rows:
            pile = found.setdefault(n, {}).setdefault((k, i), [])
            if len(value.as_buffer()):
                pile.append(unpack(value))
    if len(found) > 1:
        raise SpillwayError(f"one partition holds rows of nodes {sorted(found)}",
                            where="exchange", hint="This is a defect: please report it.")
    return found


class _NodeStep:
    def __init__(self, plan: StepPlan, node: int) -> None:
        self.plan, self.node = plan, node
        self.fresh = Fresh(plan.version, node)
        groups = plan.tiers.groups
        self.tally = _Tally(*(np.zeros(groups, dtype=np.int64) for _ in range(3)))
        self.staged: dict[str, list[list[Any]]] = {}
        self.null_rows = [0] * len(plan.layouts)

    def run(self, parts: Parts) -> tuple[dict[str, Any], _Tally]:
        """The head of the report and the groups' figures."""
        cpu, wall = time.process_time(), time.perf_counter()
        holds = self._hold(parts)
        self._set_aside(parts)
        deltas = self._deltas(parts)
        rows_in = sum(d.num_rows for d in deltas if d)
        rows_out = self._join(deltas)
        changes = self._insert(deltas)
        self._idle(rows_in)
        head = {
            "rows_in": rows_in, "rows_out": rows_out, "null_rows": self.null_rows,
            "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall,
            "changes": {i: [c.kept, [r.pack() for r in c.added]] for i, c in changes.items()},
            "holds": [hold.pack() for hold in holds], "staged": self.staged,
        }
        return head, self.tally

    def _deltas(self, parts: Parts) -> list[pa.RecordBatch | None]:
        """Each input's rows of this tick in hash order, released ones first."""
        out: list[pa.RecordBatch | None] = []
        for layout in self.plan.layouts:
            piles = [*self._released(layout.input), *parts.get((DELTA, layout.input), [])]
            piles = [p for p in piles if p.num_rows]
            if not piles:
                out.append(None)
                continue
            delta = piles[0] if len(piles) == 1 else files.sort_batch(concat(piles))
            self._count_in(delta)
            out.append(delta)
        return out

    def _released(self, index: int) -> Iterator[pa.RecordBatch]:
        for release in self.plan.releases.get(self.node, ()):
            if release.input == index:
                files.verify(self.plan.tiers.durable, release.segment)
                batch = files.read(self.plan.tiers.durable, release.segment)
                starts = group_offsets(hashes(batch), self.plan.tiers.groups)
                for g in release.groups:
                    yield batch.slice(starts[g], starts[g + 1] - starts[g])

    def _count_in(self, delta: pa.RecordBatch) -> None:
        starts = group_offsets(hashes(delta), self.plan.tiers.groups)
        self.tally.rows_in += np.diff(starts)
        self.tally.bytes_in += row_bytes(delta, starts)

    def _join(self, deltas: Sequence[pa.RecordBatch | None]) -> int:
        """Each input's delta against the others' runs, and the deltas of the inputs before it."""
        runs = self.plan.runs.get(self.node, ((),) * len(deltas))
        views = [[files.view(run, self.plan.tiers) for run in mine] for mine in runs]
        if not any(deltas):
            return 0  # the state is in memory now, which is what a start is after
        writer = ResultWriter(self.plan.sink, self.plan.version, self.node, self.plan.result_schema,
                              compression=self.plan.compression)
        project = _Projection(self.plan)
        try:
            rows = 0
            for source, delta in enumerate(deltas):
                if delta is not None:
                    rows += self._probe(delta, source, views, project, writer)
                    views[source].append(View([delta]))
            staged = writer.close()
        except BaseException:
            writer.abort()
            raise
        if staged is not None:
            self.staged["results"] = [_staged(staged)]
        return rows

    def _probe(self, delta: pa.RecordBatch, source: int, views: list[list[View]],
               project: _Projection, writer: ResultWriter) -> int:
        rows, groups = 0, self.plan.tiers.groups
        chunks = multi_join.probe(delta, source, views, keys=len(self.plan.layouts[0].keys),
                                  exact_hash=self.plan.exact_hash, wanted=project.wanted(source))
        for chunk in chunks:
            table, ids, counts = project(chunk, source, groups)
            writer.write(table)
            rows += table.num_rows
            self.tally.rows_out += by_group(ids, counts, groups)
        return rows

    def _insert(self, deltas: Sequence[pa.RecordBatch | None]) -> dict[int, Change]:
        runs = self.plan.runs.get(self.node, ((),) * len(deltas))
        return {
            i: files.insert(runs[i], delta, self.plan.tiers, self.fresh)
            for i, delta in enumerate(deltas)
            if delta is not None
        }

    def _hold(self, parts: Parts) -> list[Hold]:
        """Write rows that have to wait into the hold buffer."""
        out = []
        for (kind, index), piles in parts.items():
            if kind != HELD or not piles:
                continue
            batch = files.sort_batch(concat(piles))
            tiers = replace(self.plan.tiers, segment_bytes_max=1 << 40)
            (segment,) = files.write_run(batch, tiers, self.fresh, [tiers.durable])
            counts = np.diff(group_offsets(hashes(batch), tiers.groups))
            at = np.flatnonzero(counts)
            held = tuple(counts[at].tolist())
            out.append(Hold(self.plan.operator, index, segment, tuple(at.tolist()), held))
        return out

    def _set_aside(self, parts: Parts) -> None:
        """Rows whose key has a null part join nothing: they go to the side output."""
        for (kind, index), piles in parts.items():
            if kind != NULL_KEY or not piles:
                continue
            batch = concat(piles)
            names = _side_names(self.plan, index)
            table = pa.Table.from_batches([batch]).rename_columns(names)
            os.makedirs(self.plan.sides[index], exist_ok=True)
            writer = ResultWriter(self.plan.sides[index], self.plan.version, self.node, table.schema)
            writer.write(table)
            staged = writer.close()
            self.null_rows[index] += batch.num_rows
            if staged is not None:
                self.staged[f"null_keys/{index}"] = [_staged(staged)]

    def _idle(self, rows: int) -> None:
        """A node made slow on purpose (experiments) sleeps here."""
        if pace := self.plan.slow.get(self.node):
            time.sleep(pace * rows / 1000)


def _side_names(plan: StepPlan, index: int) -> list[str]:
    source = plan.query.inputs[index]
    names = [part.column or f"key_{n}" for n, part in enumerate(source.keys)]
    taken = set(names)
    return [*names, *(f.name if f.name not in taken else f"{f.name}_" for f in source.payload)]


class _Projection:
    """From joined chunks to result rows."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan, query = plan, plan.query
        self.schema = plan.result_schema
        self.plain = query.where is None and all(o.source for o in query.outputs)
        keys = {key_id(n) for n in range(len(plan.layouts[0].keys))}
        used = {o.source for o in query.outputs if o.source} if self.plain else None
        self.keys = sorted(keys if used is None else keys & used)
        self.payload = [
            [f.name for f in s.payload if used is None or s.column_id(f.name) in used]
            for s in query.inputs
        ]
        self.counted = replace(query, outputs=(*query.outputs, OutputColumn(_GROUP, "int", source=_GROUP)))

    def wanted(self, source: int) -> list[list[str]]:
        """Columns of each input to expand; the key comes with the probing input."""
        return [[*(self.keys if i == source else []), *names] for i, names in enumerate(self.payload)]

    def __call__(self, chunk: multi_join.Chunk, source: int, groups: int) -> tuple[pa.Table, Longs, Longs]:
        """Result rows, and how many of them each group has (groups may repeat)."""
        columns = self._columns(chunk, source)
        ids = group_of(chunk.hashes, groups)
        if self.plain:
            arrays = [columns[o.source] for o in self.plan.query.outputs if o.source]
            return pa.Table.from_arrays(arrays, schema=self.schema), ids, chunk.counts
        columns[_GROUP] = pa.array(np.repeat(ids, chunk.counts).astype(np.int32))
        done = evaluate(pa.table(columns), self.counted)
        counts = pc.value_counts(done.column(_GROUP).combine_chunks())
        ids, counts = (counts.field(i).to_numpy(zero_copy_only=False) for i in (0, 1))
        return done.drop_columns([_GROUP]).cast(self.schema), ids.astype(np.int64), counts

    def _columns(self, chunk: multi_join.Chunk, source: int) -> dict[str, pa.Array]:
        out: dict[str, pa.Array] = {}
        for i, (batch, names) in enumerate(zip(chunk.columns, self.wanted(source), strict=True)):
            of = self.plan.query.inputs[i]
            for name, column in zip(names, batch.columns, strict=True):
                out[name if name in self.keys and i == source else of.column_id(name)] = column
        return out


def _staged(file: Any) -> list[Any]:
    return [file.tmp, file.final, file.rows, file.bytes]


def _report(node: int, head: dict[str, Any], tally: _Tally) -> pa.RecordBatch:
    delta = sparse(tally.rows_in, tally.bytes_in, tally.rows_out)
    body = np.concatenate([delta.groups, delta.rows_in, delta.bytes_in, delta.rows_out]).tobytes()
    return pa.RecordBatch.from_arrays(
        [pa.array([node], pa.int32()), pa.array([json.dumps(head)]), pa.array([body], pa.binary())],
        schema=_REPORT)
