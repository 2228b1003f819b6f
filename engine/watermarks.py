"""Event time: watermarks of inputs, what they mean further up the tree, and which runs they end.

A watermark is a promise: no row to come is older. Per input it is the greatest time seen in earlier
ticks less the stream's delay; rows that break it are late. Pure; the driver calls it between ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from engine.flow import Flow, Op
from engine.state import ranges
from engine.state.model import Hold, Manifest, Place, Run, Times
from engine.state.ranges import Ranges

NEVER = -(1 << 62)
Front = Mapping[str, int]  # event time column -> no row to come is older; missing: nothing is known
Fronts = tuple[Front, ...]  # ways in which a row may come: each is in one of them, at least


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
) -> dict[tuple[int, int], Fronts]:
    """For each side of each operator: the least times of rows to come, held ones included. A row of several inputs
    is new because one of its parts is, and each of them says something else about how old the others may be."""
    out: dict[tuple[int, int], list[Front]] = {}
    waiting = [hold for hold in manifest.holds if not _suspended(flow, manifest, hold)]
    for source in flow.sources:
        mark = marks.get(source.mark)
        front = {source.time: mark} if source.time and mark is not None else {}
        for to in source.feeds:
            out.setdefault((to.op, to.side), []).append(front)
    for op in flow.ops:
        if op.probe is not None and op.sides[0].fused == op.probe.base:
            out[op.number, 0] = _handed_on(flow, op, out)
        for at, side in enumerate(op.sides):
            mine = out.setdefault((op.number, at), [])
            held = [h for h in waiting if (h.operator, h.input % len(op.sides)) == (op.id, at)]
            if held:
                mine.append(_least((side.times, hold.times) for hold in held))
        if op.target is not None:
            above = out.setdefault((op.target.op, op.target.side), [])
            above += _above(op, [out[op.number, n] for n in range(len(op.sides))])
            if owed := _owing(op, manifest):
                above.append(_least(owed))
    return {side: _distinct(found) for side, found in out.items()}


def _handed_on(flow: Flow, op: Op, known: Mapping[tuple[int, int], list[Front]]) -> list[Front]:
    """Of a probe's rows that a base in the same task hands on."""
    assert op.probe is not None
    base = flow.ops[op.probe.base]
    at = next(n for n, s in enumerate(base.sides) if s.aliases == op.sides[0].aliases)
    return list(known[base.number, at])


def _least(found: Iterable[tuple[Sequence[str], Times]]) -> Front:
    """The least times of some rows."""
    out: dict[str, int] = {}
    for names, times in found:
        for name, (low, _) in zip(names, times, strict=False):
            out[name] = min(low, out.get(name, low))
    return out


def _distinct(found: Iterable[Front]) -> Fronts:
    """Each way once."""
    return tuple({tuple(sorted(front.items())): front for front in found}.values())


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


def _owing(op: Op, manifest: Manifest) -> list[tuple[Sequence[str], Times]]:
    """Times of results that an operator still owes: of all its rows, where any is on disk."""
    if not any(place.operator == op.id for place in manifest.disk):
        return []
    return [
        (op.side_of(place.input).times, run.times)
        for place, runs in (*manifest.disk.items(), *manifest.runs.items())
        if place.operator == op.id
        for run in runs
    ]


def _above(op: Op, below: Sequence[Sequence[Front]]) -> Iterator[Front]:
    """Times of results to come. Each has a new part on some side; seen from there, the windows say how
    old the other parts can be."""
    for at, ways in enumerate(below):
        for front in ways:
            out = dict(front)
            for m in op.limits:
                if m.late_side == at and m.late in front:
                    out[m.early] = max(front[m.late] - m.us, out.get(m.early, NEVER))
            yield out


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
            ends = _ends(op, place.input % len(op.sides), known)
            dead = [run for run in runs if _is_over(op.side_of(place.input).times, run, ends)]
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
            until = min(front.get(op.grouping.time, NEVER) for front in known[op.number, 0])
            out[op.id] = since, max(since, until)
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


def _ends(op: Op, side: int, known: Mapping[tuple[int, int], Fronts]) -> list[dict[str, int]]:
    """When a side's rows are over, for each way in which a row of another side may come: rows older than that."""
    out = []
    for other in range(len(op.sides)):
        if other == side:
            continue
        limits = [m for m in op.limits if (m.early_side, m.late_side) == (side, other)]
        for front in known.get((op.number, other)) or ({},):
            ends: dict[str, int] = {}
            for m in limits:
                if m.late in front:
                    ends[m.early] = max(front[m.late] - m.us, ends.get(m.early, NEVER))
            out.append(ends)
    return out


def _is_over(names: Sequence[str], run: Run, ends: Sequence[Mapping[str, int]]) -> bool:
    """Can no result to come have a part from this run? Such a result has a new part on some other side; the run
    is over once all of its rows are too old for any of them."""
    latest = {name: high for name, (_, high) in zip(names, run.times, strict=True)}
    return bool(ends) and all(
        any(latest[name] < end for name, end in mine.items()) for mine in ends
    )
