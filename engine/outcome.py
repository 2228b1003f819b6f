"""The nodes' reports of one tick, put together, and what follows from them for holds and reports.

Pure; the commit that makes an outcome count is tick.py's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.admission import OPEN, Admission
from engine.brief import Brief, Release
from engine.errors import StateError
from engine.exchange import REPORT
from engine.flow import Flow
from engine.reports import Longs, NodeReport, OperatorReport, TickReport
from engine.sinks import StagedFile
from engine.stage import parse_report
from engine.state.commits import RESULTS, WITHHELD, Commit
from engine.state.model import Change, Hold, Manifest, Place, Run, Runs
from engine.state.stats import GroupDelta, GroupStats, together

Admissions = Mapping[str, Admission]  # by operator


@dataclass(frozen=True, slots=True)
class Outcome:
    """The nodes' reports of one tick, put together. `heads` by operator number and node."""

    heads: dict[tuple[int, int], dict[str, Any]]
    changes: dict[Place, Change]
    holds: list[Hold]
    staged: dict[str, list[list[Any]]]
    deltas: dict[str, GroupDelta]  # by operator
    aside: dict[str, int]  # rows, by kind
    seen: dict[str, int]
    disk: dict[Place, Runs] = field(default_factory=dict)  # what nodes spilled by themselves
    work: dict[int, list[Any]] = field(default_factory=dict)  # what small jobs came to, by node

    def checked(self, flow: Flow, brief: Brief) -> Outcome:
        """The same, after making sure that all who were to take something in have reported."""
        reported = {(flow.ops[op].id, node) for op, node in self.heads}
        missing = [at for at in (*brief.releases, *brief.settle) if at not in reported]
        missing += [("side jobs", node) for node in brief.work if node not in self.work]
        if missing:
            raise StateError(
                f"node {missing[0][1]} did not take in what it was to, for {missing[0][0]}",
                where="tick",
                hint="State is as before. This is a defect: please report it.",
            )
        return self

    def rows_in(self, flow: Flow) -> int:
        """Rows that came in from sources: not those that one operator handed another."""
        sides = {(source.op, source.side) for source in flow.sources}
        return sum(
            rows
            for (op, _), head in self.heads.items()
            for side, rows in enumerate(head["taken"])
            if (op, side) in sides
        )

    def homes(self) -> dict[int, str]:
        """The executor that each node's tasks ran on, as far as they had something to do."""
        return {node: head["executor"] for (_, node), head in self.heads.items()}

    def executors(self) -> dict[int, str]:
        """Spark's names for these; empty where it is the driver itself, or not known."""
        return {node: head["executor_id"] for (_, node), head in self.heads.items()}

    def worked_s(self) -> dict[int, float]:
        """How long each node's steps took."""
        out: dict[int, float] = {}
        for (_, node), head in self.heads.items():
            out[node] = out.get(node, 0.0) + head["wall_s"]
        return out

    def of_node(self, node: int, name: str) -> Any:
        return sum(head[name] for (_, n), head in self.heads.items() if n == node)


def node_reports(
    manifest: Manifest,
    outcome: Outcome,
    held: Mapping[str, Longs],
    owner: Mapping[str, Longs],
    nodes: int,
) -> tuple[NodeReport, ...]:
    """Every node after the tick; `held` and `owner` by operator, indexed by group."""
    homes, executors = outcome.homes(), outcome.executors()
    return tuple(
        NodeReport(
            n,
            outcome.of_node(n, "rows_in"),
            outcome.of_node(n, "rows_out"),
            outcome.of_node(n, "cpu_s"),
            outcome.of_node(n, "wall_s"),
            manifest.memory_bytes(n),
            manifest.disk_bytes(n),
            manifest.durable_bytes(n),
            sum(int(held[op][owner[op] == n].sum()) for op in held),
            homes.get(n, ""),
            executors.get(n, ""),
            outcome.of_node(n, "fetched"),
        )
        for n in range(nodes)
    )


def operator_reports(flow: Flow, outcome: Outcome) -> tuple[OperatorReport, ...]:
    return tuple(
        OperatorReport(flow.ops[op].id, node, h["rows_in"], h["rows_out"], h["cpu_s"], h["wall_s"])
        for (op, node), h in sorted(outcome.heads.items())
    )


def tick_report(
    query: str,
    flow: Flow,
    manifest: Manifest,
    outcome: Outcome,
    commit: Commit,
    placements: Mapping[str, Sequence[int]],
    stats: Mapping[str, GroupStats],
    batch: int | None,
    until_s: float,
    seconds: float,
    nodes: int,
) -> TickReport:
    """All that a tick did, and how things stand after it."""
    held = {op.id: manifest.held_rows(op.id, op.groups) for op in flow.ops}
    owner = {op: np.array(some, dtype=np.int64) for op, some in placements.items()}
    figures = commit.stats
    return TickReport(
        query=query,
        version=manifest.version,
        tick=batch,
        time_s=figures["time_s"],
        until_s=until_s,
        seconds=seconds,
        rows_in=figures["rows_in"],
        rows_out=figures["rows_out"],
        null_key_rows=figures["null_key_rows"],
        late_rows=figures["late_rows"],
        held_rows=sum(int(rows.sum()) for rows in held.values()),
        nodes=node_reports(manifest, outcome, held, owner, nodes),
        groups=tuple(
            stats[op.id].report(op.id, owner[op.id], *manifest.by_group(op.id, op.groups))
            for op in flow.ops
        ),
        operators=operator_reports(flow, outcome),
    )


def figures_of(outcome: Outcome, flow: Flow, time_s: float) -> dict[str, Any]:
    """What a commit says of its tick in numbers. Results count when they come out."""
    return {
        "time_s": time_s,
        "groups": {op: delta.pack() for op, delta in outcome.deltas.items()},
        "rows_in": outcome.rows_in(flow),
        "late_rows": outcome.aside.get("late", 0),
        "rows_out": sum(rows for _, _, rows, _ in outcome.staged.get(RESULTS, ())),
        "null_key_rows": outcome.aside.get("null_keys", 0),
    }


def promised(
    before: Mapping[str, int],
    marks: Mapping[str, int],
    delays: Mapping[str, int],
    seen: Mapping[str, int],
) -> dict[str, int]:
    """The greatest time seen of each input. A promise made for an idle input is kept after a restart."""
    after = {**before, **{alias: mark + delays[alias] for alias, mark in marks.items()}}
    for alias, stamp in seen.items():
        after[alias] = max(stamp, after.get(alias, stamp))
    return after


def staged_of(commit: Commit, name: str) -> list[StagedFile]:
    """The staged files of one sink."""
    return [StagedFile(*item) for item in commit.staged.get(name, [])]


def releases_of(
    holds: Sequence[Hold],
    admissions: Admissions,
    placements: Mapping[str, Sequence[int]],
) -> dict[tuple[str, int], tuple[Release, ...]]:
    out: dict[tuple[str, int], list[Release]] = {}
    for hold in holds:
        by_node: dict[int, list[int]] = {}
        chosen = set(admissions.get(hold.operator, OPEN).release)
        for group in chosen.intersection(hold.groups):
            by_node.setdefault(placements[hold.operator][group], []).append(group)
        for node, groups in by_node.items():
            release = Release(hold.input, hold.segment, tuple(sorted(groups)))
            out.setdefault((hold.operator, node), []).append(release)
    return {at: tuple(items) for at, items in out.items()}


def remaining(holds: Sequence[Hold], released: Admissions) -> list[Hold]:
    out = []
    for hold in holds:
        gone = set(released.get(hold.operator, OPEN).release)
        kept = [(g, r) for g, r in zip(hold.groups, hold.rows, strict=True) if g not in gone]
        if kept:
            groups, rows = zip(*kept, strict=True)
            out.append(Hold(hold.operator, hold.input, hold.segment, groups, rows, hold.times))
    return out


def outcome_of(flow: Flow, rows: list[tuple[Any, ...]]) -> Outcome:
    found = Outcome({}, {}, [], {}, {}, {}, {})
    deltas: dict[str, list[GroupDelta]] = {}
    for _, node, number, _, kind, body in rows:
        if kind != REPORT:
            alias, stamp = json.loads(bytes(body))
            found.seen[alias] = max(stamp, found.seen.get(alias, stamp))
            continue
        op = flow.ops[number]
        head, delta = parse_report(bytes(body))
        found.heads[number, node] = head
        if "work" in head:
            found.work[node] = head.pop("work")
        for side, (kept, added) in head["changes"].items():
            found.changes[Place(op.id, node, int(side))] = Change(
                kept, tuple(Run.unpack(r) for r in added)
            )
        for side, spilled in head["disk"].items():
            found.disk[Place(op.id, node, int(side))] = tuple(Run.unpack(r) for r in spilled)
        found.holds.extend(Hold.unpack(raw) for raw in head["holds"])
        sink = WITHHELD if op.withholds else RESULTS
        found.staged.setdefault(sink, []).extend(head["staged"])
        for name, alias, size, staged in head["aside"]:
            found.aside[name] = found.aside.get(name, 0) + size
            found.staged.setdefault(f"{name}/{alias}", []).append(staged)
        deltas.setdefault(op.id, []).append(delta)
    groups = {op.id: op.groups for op in flow.ops}
    found.deltas.update({op: together(parts, groups[op]) for op, parts in deltas.items()})
    return found
