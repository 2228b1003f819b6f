"""Event time: watermarks of inputs, what they mean further up the tree, and which runs they end.

A watermark is a promise: no row to come is older. Per input it is the greatest time seen in earlier
ticks less the stream's delay; rows that break it are late. Pure; the driver calls it between ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from engine.flow import Flow, Op
from engine.operators.multi_join import Limit
from engine.state import ranges
from engine.state.model import Hold, Manifest, Place, Run
from engine.state.ranges import Ranges

NEVER = -(1 << 62)
Fronts = Mapping[
    str, int
]  # event time column -> no row to come is older; missing: nothing is known


def idle(flow: Flow, arrived: Mapping[str, float], now_s: float) -> set[str]:
    """The sources that have been silent for longer than they may hold the others back."""
    patience = {s.mark: s.scan.stream.idle_after_s for s in flow.sources}
    return {
        name
        for name, at in arrived.items()
        if (limit := patience.get(name)) is not None and now_s - at > limit
    }


def watermarks(
    seen: Mapping[str, int], delays_us: Mapping[str, int], quiet: Iterable[str] = ()
) -> dict[str, int]:
    """Each input's watermark. An idle input does not hold the others back: it takes the least of the rest."""
    quiet = set(quiet)
    marks = {alias: at - delays_us.get(alias, 0) for alias, at in seen.items()}
    active = [mark for alias, mark in marks.items() if alias not in quiet]
    missing = [alias for alias in delays_us if alias not in marks and alias not in quiet]
    if not active or missing:
        return marks
    least = min(active)
    return marks | {alias: max(marks.get(alias, least), least) for alias in quiet}


def fronts(
    flow: Flow, marks: Mapping[str, int], manifest: Manifest
) -> dict[tuple[int, int], dict[str, int]]:
    """For each side of each operator: the least time of rows to come, held ones included."""
    out: dict[tuple[int, int], dict[str, int]] = {}
    waiting = [hold for hold in manifest.holds if not _suspended(flow, manifest, hold)]
    unseen = {
        (s.op, s.side) for s in flow.sources if s.mark not in marks
    }  # UNION ALL waits for all its streams
    for source in flow.sources:
        if source.time and (source.op, source.side) not in unseen:
            mine = out.setdefault((source.op, source.side), {})
            mine[source.time] = min(marks[source.mark], mine.get(source.time, marks[source.mark]))
    for op in flow.ops:
        for at, side in enumerate(op.sides):
            mine = out.setdefault((op.number, at), {})
            for hold in waiting:
                if (hold.operator, hold.input) == (op.id, at):
                    for name, (low, _) in zip(side.times, hold.times, strict=False):
                        if name in mine:
                            mine[name] = min(mine[name], low)
        if op.target is not None:
            above = _above(op, [out[op.number, n] for n in range(len(op.sides))])
            for name, low in _owed(op, manifest).items():
                if name in above:
                    above[name] = min(above[name], low)
            out[op.target.op, op.target.side] = above
    return out


def suspended(manifest: Manifest, op: Op) -> set[int]:
    """Groups of window functions that are on disk: their input waits until they are back."""
    if op.grouping is None:
        return set()
    runs = [r for place, some in manifest.disk.items() if place.operator == op.id for r in some]
    return {g for run in runs for g in ranges.members(run.groups)}


def _suspended(flow: Flow, manifest: Manifest, hold: Hold) -> bool:
    """Does it wait for suspended groups only? Then nobody else has to wait for it."""
    op = next(op for op in flow.ops if op.id == hold.operator)
    return op.grouping is not None and set(hold.groups) <= suspended(manifest, op)


def _owed(op: Op, manifest: Manifest) -> dict[str, int]:
    """The least times of results that an operator still owes: of all its rows, where any is on disk."""
    if not any(place.operator == op.id for place in manifest.disk):
        return {}
    out: dict[str, int] = {}
    for place, runs in (*manifest.disk.items(), *manifest.runs.items()):
        if place.operator == op.id:
            for run in runs:
                names = op.sides[place.input].times
                for name, (low, _) in zip(names, run.times, strict=True):
                    out[name] = min(low, out.get(name, low))
    return out


def _above(op: Op, below: list[dict[str, int]]) -> dict[str, int]:
    """Times of results to come. Each has a new part on some side; seen from there, the windows say how
    old the other parts can be."""
    out: dict[str, int] = {}
    for at, front in enumerate(below):
        for name, own in front.items():
            reach = [own]
            for other in range(len(below)):
                if other != at:
                    known = [
                        below[other][m.late] - m.us
                        for m in op.limits
                        if (m.early_side, m.early, m.late_side) == (at, name, other)
                        and m.late in below[other]
                    ]
                    reach.append(max(known, default=NEVER))
            out[name] = min(reach)
    return {name: front for name, front in out.items() if front > NEVER // 2}


def expired(
    flow: Flow, manifest: Manifest, marks: Mapping[str, int]
) -> dict[Place, dict[str, Ranges]]:
    """Runs in which no row can meet a row to come, with the groups that must stay all the same because they
    owe results."""
    known = fronts(flow, marks, manifest)
    out: dict[Place, dict[str, Ranges]] = {}
    ops = {op.id: op for op in flow.ops}
    for place, runs in manifest.runs.items():
        op = ops[place.operator]
        dead: list[Run] = []
        if op.limits:
            dead = [run for run in runs if _is_over(op, place.input, run, known)]
        elif op.grouping is not None and not op.grouping.rows:
            over = manifest.fronts.get(op.id, NEVER) - op.grouping.us
            dead = [run for run in runs if run.times[0][1] < over]
        if dead:
            owing = manifest.owing(op.id, place.node)
            kept = {run.id: ranges.both(run.groups, owing) or () for run in dead}
            if found := {run.id: kept[run.id] for run in dead if kept[run.id] != run.groups}:
                out[place] = found
    return out


def waiting(manifest: Manifest) -> str:
    """What to tell whoever expects all results now, where rows wait for the watermark."""
    for op, until in manifest.fronts.items():
        runs = [r for place, some in manifest.runs.items() if place.operator == op for r in some]
        if any(run.times[0][1] >= until for run in runs):
            at = (
                datetime.fromtimestamp(until // 10**6, UTC).isoformat(" ")
                if until > 0
                else "none yet"
            )
            return (
                f"rows younger than the watermark ({at}) wait for more input; "
                "their results come with it"
            )
    return ""


def due(
    flow: Flow, manifest: Manifest, marks: Mapping[str, int]
) -> tuple[dict[str, tuple[int, int]], bool]:
    """Of each operator with window functions, from which time to which its results are out after this
    tick; and whether there are such results. What is out stays out, whatever is held meanwhile."""
    known = fronts(flow, marks, manifest)
    out: dict[str, tuple[int, int]] = {}
    for op in flow.ops:
        if op.grouping is not None:
            since = manifest.fronts.get(op.id, NEVER)
            out[op.id] = since, max(since, known[op.number, 0].get(op.grouping.time, NEVER))
    return out, any(
        _waits(run, *out[place.operator])
        for place, runs in manifest.runs.items()
        if place.operator in out
        for run in runs
    )


def _waits(run: Run, since: int, until: int) -> bool:
    """May the run have rows of that time?"""
    ((least, greatest),) = run.times
    return since < until and greatest >= since and least < until


def _is_over(op: Op, side: int, run: Run, known: Mapping[tuple[int, int], Fronts]) -> bool:
    """Can no result to come have a part from this run? Such a result has a new part on some other side;
    the run is over once a new part on any of them is too late for all of its rows."""
    times = dict(zip(op.sides[side].times, run.times, strict=True))
    others = [other for other in range(len(op.sides)) if other != side]
    return all(
        _too_late(op.limits, side, other, times, known.get((op.number, other), {}))
        for other in others
    )


def _too_late(
    limits: Iterable[Limit],
    side: int,
    other: int,
    times: Mapping[str, tuple[int, int]],
    front: Fronts,
) -> bool:
    return any(
        front.get(m.late, NEVER) - times[m.early][1] > m.us
        for m in limits
        if (m.early_side, m.late_side) == (side, other)
    )
