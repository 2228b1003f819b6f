"""What somebody should look at: about ten fixed conditions, worked out from pictures, beats and actions.

`conditions` is pure and says what holds now; what is open already must get clearly better before it is over.
`settle` turns that into alerts that do not flap: a condition must hold for a while before it is one, and be
gone for a while before it has ended. What is said of an alert in that last while is lulls.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from control.actions import State
from control.ledger import ActionRow, Evaluation, QueryRow, Wanted
from control.redaction import secrets_in_file, without
from control.samples import Heartbeat, Sample, Series
from control.snapshot import Doubles
from control.units import said


@dataclass(frozen=True, slots=True)
class Kind:
    """`hold_s`: so long it must last before it is an alert; `clear_s`: so long be gone before it ends."""

    help: str
    hold_s: float
    clear_s: float


KINDS: Mapping[str, Kind] = {
    "full_soon": Kind("a node is full in less than ten minutes", 10.0, 60.0),
    "over_budget": Kind("a node's memory is over its budget", 15.0, 30.0),
    "spilling": Kind("nodes put state on disk because they overflow", 0.0, 60.0),
    "disk_filling": Kind("a disk or /dev/shm is nearly full", 0.0, 60.0),
    "lag_growing": Kind("the source is ahead of the query, and more and more", 60.0, 60.0),
    "process_stale": Kind("a process has not been heard of", 0.0, 10.0),
    "action_failed": Kind("an action ended with an error", 0.0, 0.0),
    "rule_blocked": Kind("a rule has long been kept from acting, or cannot be read", 0.0, 10.0),
    "late_rows": Kind("rows came after their watermark and were put aside", 0.0, 120.0),
    "query_failed": Kind("a query stopped with an error", 0.0, 10.0),
}
FULL_S, FULL_CLEAR_S = 600.0, 720.0
DISK_SHARE, DISK_CLEAR_SHARE = 0.9, 0.87
LAG_S, LAG_GROWTH_S, LAG_CLEAR_S = 10.0, 5.0, 5.0
STALE_S = 10.0
START_S = 30.0  # so long an engine may take to be heard of first
FAILED_S = 600.0  # so long a failed action is an alert
SPILLED_S = 60.0
BLOCKED_S = 3600.0
# What people set, or what a schedule is made of, keeps a rule from acting on purpose.
ON_PURPOSE = frozenset({"off", "quiet", "cool_down", "not_due", "hold"})
NAMED_MAX = 3


class Condition(NamedTuple):
    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Seen:
    """One query as the alerts see it. `full_s` by node: seconds until it is full; `recent`: two minutes."""

    row: QueryRow
    sample: Sample | None = None
    full_s: Sequence[float | None] = ()
    recent: Series | None = None


@dataclass(frozen=True)
class View:
    """Everything that conditions are worked out from. `disks`: free and whole bytes by path; `rules`: each
    active rule's last evaluation."""

    now_s: float
    queries: Sequence[Seen] = ()
    beats: Sequence[Heartbeat] = ()
    actions: Sequence[ActionRow] = ()
    rules: Mapping[str, Evaluation] = field(default_factory=dict)
    disks: Mapping[str, tuple[int, int]] = field(default_factory=dict)


Open = frozenset[tuple[str, str]]


def conditions(view: View, open: Open = frozenset()) -> list[Condition]:
    """What holds now; `open`: kind and subject of what is an alert already."""
    found: list[Condition] = []
    for seen in view.queries:
        found += _query(view, seen, open)
    found += _processes(view)
    found += _disks(view, open)
    found += _actions(view)
    found += _rules(view)
    return found


def _query(view: View, seen: Seen, open: Open) -> list[Condition]:
    name, found = seen.row.name, []
    if seen.row.state == "failed":
        error = without(seen.row.error, secrets_in_file(seen.row.text))
        found.append(Condition("query_failed", name, error or "it failed"))
    if seen.row.wanted is not Wanted.RUNNING or seen.sample is None:
        return found
    if view.now_s - seen.sample.time_s > 2 * STALE_S:
        return found  # too old to say anything
    return [*found, *_memory(seen, open), *_input(seen, open)]


def _memory(seen: Seen, open: Open) -> list[Condition]:
    assert seen.sample is not None
    name, found = seen.row.name, []
    most = FULL_CLEAR_S if ("full_soon", name) in open else FULL_S
    if soon := full_text(seen.full_s, most):
        found.append(Condition("full_soon", name, soon))
    nodes = seen.sample.snapshot.nodes
    over = np.flatnonzero(nodes.alive & (nodes.memory_bytes > nodes.budget_bytes)).tolist()
    if over:
        parts = [
            f"node {n}: {nodes.memory_bytes[n] / 1e6:,.0f} MB of {nodes.budget_bytes[n] / 1e6:,.0f} MB"
            for n in over
        ]
        found.append(Condition("over_budget", name, _some(parts)))
    return found


def full_text(full_s: Sequence[float | None], most_s: float) -> str:
    """Which nodes are full within so many seconds, the first one first; empty when none is."""
    soon = sorted((s, node) for node, s in enumerate(full_s) if s is not None and s < most_s)
    return _some([f"node {n} {'in ' + said(s) if s > 0 else 'is full'}" for s, n in soon])


def _input(seen: Seen, open: Open) -> list[Condition]:
    """Lag that grows, and rows that came too late, over the last two minutes."""
    name = seen.row.name
    found: list[Condition] = []
    if seen.recent is None or not len(seen.recent.time_s):
        return found
    lag = known(seen.recent.values.get("lag_s"))
    if len(lag) >= 2:
        last, half = float(lag[-1]), len(lag) // 2
        growth = float(lag[half:].mean() - lag[:half].mean())
        is_open = ("lag_growing", name) in open
        if last > (LAG_CLEAR_S if is_open else LAG_S) and growth > (0 if is_open else LAG_GROWTH_S):
            text = f"{last:,.0f} s behind its source, {growth:+,.0f} s within the last minutes"
            found.append(Condition("lag_growing", name, text))
    late = known(seen.recent.values.get("late_rows"))
    if len(late) and late.sum() > 0:
        text = f"{late.sum():,.0f} rows came too late within the last two minutes"
        found.append(Condition("late_rows", name, text))
    return found


def _processes(view: View) -> list[Condition]:
    found = []
    for beat in view.beats:
        age = view.now_s - beat.beat_s
        if beat.process == "console" or age <= STALE_S:
            continue
        found.append(Condition("process_stale", beat.process, heard_text(beat, view.now_s)))
    up_s = max(
        (view.now_s - b.started_s for b in view.beats if b.process == "control"), default=0.0
    )
    if up_s > START_S and not any(beat.process == "engine" for beat in view.beats):
        found.append(Condition("process_stale", "engine", "never heard of"))
    return found


def heard_text(beat: Heartbeat, now_s: float) -> str:
    return f"{beat.state}, last heard of {said(now_s - beat.beat_s)} ago"


def _disks(view: View, open: Open) -> list[Condition]:
    found = []
    for path, (free, whole) in view.disks.items():
        share = _used(free, whole)
        most = DISK_CLEAR_SHARE if ("disk_filling", path) in open else DISK_SHARE
        if share > most:
            found.append(Condition("disk_filling", path, disk_text(free, whole)))
    return found


def _used(free: int, whole: int) -> float:
    return 1 - free / whole if whole > 0 else 0.0


def disk_text(free: int, whole: int) -> str:
    return f"{_used(free, whole):.0%} full, {free / 1e9:,.1f} GB left"


def _actions(view: View) -> list[Condition]:
    failed: dict[str, list[str]] = {}
    spilled: dict[str, int] = {}
    for row in view.actions:
        ended = row.ended_s
        if ended is None or ended > view.now_s:
            continue
        if row.state == State.FAILED and view.now_s - ended < FAILED_S:
            failed.setdefault(row.query, []).append(f"{row.id}: {row.body.get('note') or 'failed'}")
        if row.id.startswith("local-") and view.now_s - ended < SPILLED_S:
            spilled[row.query] = spilled.get(row.query, 0) + row.bytes
    found = [Condition("action_failed", q, _some(texts)) for q, texts in failed.items()]
    return found + [
        Condition("spilling", q, f"{size / 1e6:,.0f} MB put on disk within the last minute")
        for q, size in spilled.items()
    ]


def _rules(view: View) -> list[Condition]:
    found = []
    for name, last in view.rules.items():
        if last.outcome == "error":
            found.append(Condition("rule_blocked", name, str(last.said.get("why", "error"))))
        if last.outcome != "blocked" or last.until_s - last.first_s < BLOCKED_S:
            continue
        why = [b for b in last.said.get("blockers", ()) if b["why"] not in ON_PURPOSE]
        if why:
            text = f"for {said(last.until_s - last.first_s)}: {_some([b['text'] for b in why])}"
            found.append(Condition("rule_blocked", name, text))
    return found


def known(column: Doubles | None) -> Doubles:
    """What is not NaN."""
    return np.zeros(0) if column is None else column[~np.isnan(column)]


def _some(parts: Sequence[str]) -> str:
    more = f", and {len(parts) - NAMED_MAX} more" if len(parts) > NAMED_MAX else ""
    return ", ".join(parts[:NAMED_MAX]) + more


@dataclass(frozen=True, slots=True)
class Standing:
    """One condition between rounds: since when it holds, when it held last and what was said of it then,
    whether it is an alert."""

    since_s: float
    seen_s: float
    open: bool
    text: str


@dataclass(frozen=True)
class Change:
    """What a round changes: alerts to raise or to keep; alerts whose condition is gone, but not for long
    enough; alerts that have ended, with what was last said of them."""

    raised: tuple[Condition, ...]
    lulls: tuple[tuple[str, str], ...]
    ended: tuple[Condition, ...]


Standings = Mapping[tuple[str, str], Standing]


def settle(
    before: Standings, found: Sequence[Condition], now_s: float
) -> tuple[dict[tuple[str, str], Standing], Change]:
    """The next standings, and what changes. A clock that was set back makes nothing older than it is."""
    now: dict[tuple[str, str], Standing] = {}
    raised: list[Condition] = []
    lulls: list[tuple[str, str]] = []
    ended: list[Condition] = []
    for one in found:
        key = (one.kind, one.subject)
        was = before.get(key)
        since = min(was.since_s, now_s) if was else now_s
        is_open = bool(was and was.open) or now_s - since >= KINDS[one.kind].hold_s
        now[key] = Standing(since, now_s, is_open, one.text)
        if is_open:
            raised.append(one)
    for key, was in before.items():
        if key in now or not was.open:
            continue
        seen = min(was.seen_s, now_s)
        if now_s - seen < KINDS[key[0]].clear_s:
            now[key] = Standing(was.since_s, seen, True, was.text)
            lulls.append(key)
        else:
            ended.append(Condition(*key, was.text))
    return now, Change(tuple(raised), tuple(lulls), tuple(ended))
