"""A node's part of a tick between two shuffles, called by Spark in a Python worker.

A stage takes the rows routed to its node, runs its operators (operator.py), routes their results on to
the next stage, and lets pass what is not for it. Rows with a null key and late rows are written to their
side outputs here. It decides nothing, and nothing counts until the driver commits the reports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from engine import brief
from engine.adapt.tasks import Work as SideWork
from engine.brief import Brief
from engine.columns import concat
from engine.errors import SpillwayError
from engine.exchange import (
    ADDED,
    CONTROL,
    DELTA,
    HELD,
    LATE,
    NULL_KEY,
    REPORT,
    SEEN,
    packed_bytes,
    passed,
    unpack,
)
from engine.flow import Flow, Op
from engine.group_step import GroupStep
from engine.ingest import Layout
from engine.node_step import NodeStep, Tally, staged_file
from engine.parted_step import PartedStep
from engine.probe_step import BaseStep, ProbeStep
from engine.query.model import JoinQuery
from engine.sinks import ResultWriter
from engine.state import files, hosts
from engine.state.files import Tiers
from engine.state.stats import GroupDelta, sparse

SIDE_KINDS = {NULL_KEY: "null_keys", LATE: "late"}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the tasks of every tick have to know; the rest is in the tick's brief."""

    flow: Flow
    tiers: Mapping[str, Tiers]  # by operator
    query: JoinQuery
    layouts: tuple[Layout, ...]
    sink: str
    compression: str
    sides: str  # folder of the side outputs
    nodes: int


Parts = dict[tuple[int, int, int], list[pa.RecordBatch]]  # (operator, side, kind) -> batches


@dataclass(frozen=True, slots=True)
class Stage:
    """The function that Spark maps over each node's partition. `plan`: with which the query was begun."""

    plan: Standing
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            tick = brief.take()
            yield from (replace(self, plan=tick.standing) if tick.standing else self).run(
                batches, tick
            )
        except SpillwayError as error:
            raise RuntimeError(error.encode()) from error
        except OSError as error:
            raise RuntimeError(files.write_error(str(error.filename), error).encode()) from error

    def run(self, batches: Iterator[pa.RecordBatch], tick: Brief) -> Iterator[pa.RecordBatch]:
        parts: Parts = {}
        nodes: set[int] = set()
        for batch in batches:
            passing = []
            for row in range(batch.num_rows):
                _, node, op, side, kind = (batch.column(n)[row].as_py() for n in range(5))
                if not self._for_me(op, kind):
                    passing.append(row)
                    continue
                nodes.add(node)
                if kind == CONTROL:
                    if self.number + 1 < self.plan.flow.stages:
                        passing.append(row)
                    continue
                parts.setdefault((op, side, kind), []).append(unpack(batch.column(5)[row]))
            if passing:
                yield passed(batch, passing)
        if len(nodes) > 1:
            raise SpillwayError(
                f"one partition holds rows of nodes {sorted(nodes)}",
                where="exchange",
                hint="This is a defect: please report it.",
            )
        for node in nodes:
            yield from _Work(self.plan, tick, self.number, node).run(parts)

    def _for_me(self, op: int, kind: int) -> bool:
        if kind in (REPORT, SEEN):
            return False
        return kind == CONTROL or kind in SIDE_KINDS or self.plan.flow.ops[op].stage == self.number


class _Work:
    """One node in one stage."""

    def __init__(self, plan: Standing, tick: Brief, number: int, node: int) -> None:
        self.plan, self.tick, self.number, self.node = plan, tick, number, node
        self.fused: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        self.bases: dict[int, BaseStep] = {}

    def run(self, parts: Parts) -> Iterator[pa.RecordBatch]:
        """Results for the stages to come, and a report for each operator."""
        plan = self.plan
        besides: dict[str, Any] = {}
        if self.number == 0:
            hosts.tidy(plan.tiers[plan.flow.root.id], self.tick)
            if orders := self.tick.work.get(self.node):
                work = SideWork(plan, self.tick, self.node)
                besides = {"work": [work.do(order) for order in orders]}
        aside = self._set_aside(parts)
        for op in plan.flow.ops:
            if op.stage != self.number:
                continue
            step = self._step(op, parts)
            deltas = {
                n: [*parts.get((op.number, n, DELTA), []), *self.fused.get((op.number, n), [])]
                for n in range(op.places)
            }
            held = {n: parts.get((op.number, n, HELD), []) for n in range(op.places)}
            for batch, new in step.run(deltas, held):
                yield from self._send(step, batch, new=new)
            if isinstance(step, BaseStep):
                yield from self._handed_on(step)
            if step.worked or aside or besides:
                head = step.head | {"aside": aside} | besides
                yield self._report(op.number, head, step.tally)
                aside, besides = [], {}

    def _step(self, op: Op, parts: Parts) -> NodeStep:
        """What an operator does, by its kind."""
        if op.probe is not None:
            about, base = (self.plan, self.tick, op, self.node), self.bases.get(op.probe.base)
            return ProbeStep(*about, base, parts.get((op.number, 0, ADDED), []))
        return _kind(op)(self.plan, self.tick, op, self.node)

    def _handed_on(self, base: BaseStep) -> Iterator[pa.RecordBatch]:
        """A base's new rows, to the probes that begin with them; to others, which runs have come of them."""
        self.bases[base.op.number] = base
        at = {side.aliases: n for n, side in enumerate(base.op.sides)}
        for op in self.plan.flow.ops:
            first = op.sides[0]
            if op.probe is not None and first.fused == base.op.number and base.deltas:
                delta = base.deltas[at[first.aliases]]
                if delta is not None:
                    self.fused.setdefault((op.number, 0), []).append(delta)
        yield from base.told()

    def _send(
        self, step: NodeStep, batch: pa.RecordBatch, *, new: bool
    ) -> Iterator[pa.RecordBatch]:
        """An operator's results to the side that they are for: in this task, or over the next exchange."""
        target = step.op.target
        assert target is not None
        above = self.plan.flow.ops[target.op]
        side = above.sides[target.side]
        ordered = batch.select([f.name for f in side.columns])
        place = above.place(target.side, new=new)
        if side.fused is not None:
            self.fused.setdefault((target.op, place), []).append(step.hashed(ordered, above))
            return
        nulls = above.grouping is not None
        yield from self.tick.routes[target.op].send(
            place, ordered, above.keys, side.schema(), nulls=nulls
        )

    def _set_aside(self, parts: Parts) -> list[list[Any]]:
        """Rows that join nothing, or came too late, go to their side outputs: [kind, input, rows, files]."""
        out = []
        for (number, side, kind), piles in parts.items():
            if kind not in SIDE_KINDS or not piles:
                continue
            layout, batch = self.plan.layouts[number], concat(piles)
            folder = os.path.join(self.plan.sides, SIDE_KINDS[kind], layout.alias)
            os.makedirs(folder, exist_ok=True)
            ids, plain = zip(*layout.plain, strict=True)
            table = pa.Table.from_batches([batch.select(ids)]).rename_columns(list(plain))
            name = self.node * len(self.plan.layouts) + number
            writer = ResultWriter(folder, self.tick.version, name, table.schema)
            writer.write(table)
            out.append(
                [SIDE_KINDS[kind], layout.alias, batch.num_rows, staged_file(writer.close())]
            )
            del side
        return out

    def _report(self, op: int, head: dict[str, Any], tally: Tally) -> pa.RecordBatch:
        delta = sparse(tally.rows_in, tally.bytes_in, tally.rows_out)
        arrays = np.concatenate(
            [delta.groups, delta.rows_in, delta.bytes_in, delta.rows_out]
        ).tobytes()
        body = json.dumps(head).encode() + b"\0" + arrays
        token = self.tick.routes[op].tokens[self.node]
        return packed_bytes(token, self.node, op, 0, REPORT, pa.py_buffer(body))


def _kind(op: Op) -> type[NodeStep]:
    if op.grouping is not None:
        return GroupStep
    if op.base:
        return BaseStep
    return PartedStep if op.parted else NodeStep


def parse_report(body: bytes) -> tuple[dict[str, Any], GroupDelta]:
    """What `_report` packed."""
    head, _, arrays = body.partition(b"\0")
    return json.loads(head), GroupDelta(*np.frombuffer(arrays, dtype=np.int64).reshape(4, -1))
