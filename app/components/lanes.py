"""Actions as ranges in lanes above a chart's lines, each with its words, so that labels never cross a line.

What nodes spill by themselves comes often: neighbours become one range that says how many they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.components.charts import Ink, at_ms, note, rect, safe, stroke
from app.components.steps import groups_in
from app.components.units import node_name, said_size
from control.ledger import ActionRow

TONES = {"move": "held", "spill": "disk", "cleanup": "ink-2", "budget": "ink-2", "migrate": "held"}
LOCAL = "local-"
NAMED_MAX = 3  # nodes
LANES_MAX = 3
RANGES_MAX = 30
LETTER_PX, PAD_PX = 5.7, 12.0  # of a label
LEAST = 0.0035  # of the chart's width: the shortest range that is seen
LANE_TOP, LANE_STEP, LANE_HIGH = 0.985, 0.085, 0.06


@dataclass(frozen=True, slots=True)
class Range:
    """One action, or several of a kind; `end_s` None: it runs. `quiet`: no band through the lines."""

    start_s: float
    end_s: float | None
    tone: str
    label: str
    quiet: bool = False
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A range with its lane, and whether its label is left of it, right of it, or left out."""

    range: Range
    lane: int
    side: str


def ranges(rows: Sequence[ActionRow], since_s: float, now_s: float) -> list[Range]:
    """Oldest first; what failed is red whatever it was."""
    own = [row for row in rows if not row.id.startswith(LOCAL)]
    local = [row for row in rows if row.id.startswith(LOCAL) and (row.ended_s or 0) >= since_s]
    found = [_range(row) for row in own if row.state != "rejected"]
    merged = _together(local, (now_s - since_s) / 12)
    return sorted([*found[-RANGES_MAX:], *merged], key=lambda r: r.start_s)


def _range(row: ActionRow) -> Range:
    step = row.body["step"]
    do = str(step["do"])
    tone = "fail" if row.state == "failed" else TONES.get(do, "ink-2")
    if do == "move":
        what = f"{groups_in(step)} groups {node_name(step['source'])} → {node_name(step['target'])}"
    elif do == "migrate":
        what = str(step["order"])
    else:
        size = row.bytes or step.get("bytes", 0)
        what = f"{node_name(step['node'])} · {said_size(size)}"
    word = {"cleanup": "clean up", "migrate": "join order"}.get(do, do)
    state = f" {row.state}" if row.state in ("failed", "cancelled") else ""
    by = f" · {row.rule}" if row.rule else ""
    return Range(
        row.started_s, row.ended_s, tone, f"{word}{state} · {what}{by}", hollow=do == "cleanup"
    )


def _together(rows: Sequence[ActionRow], gap_s: float) -> list[Range]:
    """Local spills that follow each other closely, as one bar; what is said is said of all of them."""
    ordered = sorted(rows, key=lambda r: r.started_s)
    runs: list[list[ActionRow]] = []
    for row in ordered:
        if runs and row.started_s - (runs[-1][-1].ended_s or row.started_s) <= gap_s:
            runs[-1].append(row)
        else:
            runs.append([row])
    label = _said_of(ordered) if ordered else ""
    return [_bar(run, label) for run in runs]


def _said_of(rows: Sequence[ActionRow]) -> str:
    nodes = sorted({int(row.body["step"]["node"]) for row in rows})
    names = ", ".join(map(node_name, nodes)) if len(nodes) <= NAMED_MAX else f"{len(nodes)} nodes"
    times = f" {len(rows)}×" if len(rows) > 1 else ""
    return f"{names} spilled by own rule{times} · {said_size(sum(row.bytes for row in rows))}"


def _bar(run: Sequence[ActionRow], label: str) -> Range:
    end_s = run[-1].ended_s or run[-1].started_s
    return Range(run[0].started_s, end_s, "disk", label, quiet=True)


def place(
    found: Sequence[Range], since_s: float, until_s: float, now_s: float, wide_px: float
) -> list[Placed]:
    """What people and rules did: the newest first, each in the first lane in which bar and label have room, or
    without its label. What nodes did by themselves has the lowest lane for itself, and one label."""
    span = until_s - since_s
    quiet = [one for one in found if one.quiet]
    lanes = LANES_MAX - 1 if quiet else LANES_MAX
    taken: list[list[tuple[float, float]]] = [[] for _ in range(lanes)]
    out = []
    for one in sorted(found, key=lambda r: (r.end_s is not None, -r.start_s)):
        if not one.quiet:
            x0, x1 = _extent(one, since_s, span, now_s)
            out.append(_placed(one, x0, x1, taken, wide_px))
    kept = _uncovered(out, since_s, span, now_s, wide_px)
    return kept + _own_lane(quiet, since_s, span, now_s, wide_px)


def _own_lane(
    quiet: Sequence[Range], since_s: float, span: float, now_s: float, wide_px: float
) -> list[Placed]:
    """One label for all: left of the first bar, or else on the longest."""
    if not quiet:
        return []
    extents = [_extent(one, since_s, span, now_s) for one in quiet]
    wide = (LETTER_PX * len(quiet[0].label) + PAD_PX) / wide_px
    longest = max(range(len(quiet)), key=lambda n: extents[n][1] - extents[n][0])
    out = []
    for n, one in enumerate(quiet):
        side = "none"
        if extents[0][0] >= wide:
            side = "left" if n == 0 else "none"
        elif extents[-1][1] + wide <= 1:
            side = "right" if n == len(quiet) - 1 else "none"
        elif n == longest:
            side = "inside"
        out.append(Placed(one, LANES_MAX - 1, side))
    return out


def _extent(one: Range, since_s: float, span: float, now_s: float) -> tuple[float, float]:
    end = one.end_s if one.end_s is not None else now_s
    x0 = max(0.0, (one.start_s - since_s) / span)
    return x0, min(1.0, max((end - since_s) / span, x0 + LEAST))


def _placed(
    one: Range, x0: float, x1: float, taken: list[list[tuple[float, float]]], wide_px: float
) -> Placed:
    """Without room anywhere it goes into the lowest lane, and what is there loses its label (`_uncovered`)."""
    wide = (LETTER_PX * len(one.label) + PAD_PX) / wide_px
    for lane, spans in enumerate(taken):
        for side, low, high in (("right", x0, x1 + wide), ("left", x0 - wide, x1)):
            if low >= -0.001 and high <= 1.001 and _free(spans, low, high):
                spans.append((low, high))
                return Placed(one, lane, side)
    wide_one = x1 - x0 > wide
    for lane, spans in enumerate(taken):
        if _free(spans, x0, x1):
            spans.append((x0, x1))
            return Placed(one, lane, "inside" if wide_one else "none")
    return Placed(one, len(taken) - 1, "none")


def _uncovered(
    placed: Sequence[Placed], since_s: float, span: float, now_s: float, wide_px: float
) -> list[Placed]:
    """No label lies on another action's bar: such a one is left out; the bar still says it is there."""
    bars = [_extent(one.range, since_s, span, now_s) for one in placed]

    def hidden(number: int) -> bool:
        one, (x0, x1) = placed[number], bars[number]
        wide = (LETTER_PX * len(one.range.label) + PAD_PX) / wide_px
        low, high = {"right": (x1, x1 + wide), "left": (x0 - wide, x0)}.get(one.side, (x0, x0))
        return any(
            other != number and placed[other].lane == one.lane and low < b1 and b0 < high
            for other, (b0, b1) in enumerate(bars)
        )

    sided = ("left", "right")
    return [
        replace(one, side="none") if one.side in sided and hidden(n) else one
        for n, one in enumerate(placed)
    ]


def _free(spans: Sequence[tuple[float, float]], low: float, high: float) -> bool:
    return all(high < a or low > b for a, b in spans)


def drawn(
    placed: Sequence[Placed], ink: Ink, since_s: float, until_s: float, now_s: float, zone_min: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Shapes and annotations: a bar in its lane, a band with edges through the lines below."""
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    span = until_s - since_s
    for one in placed:
        x0, x1 = _extent(one.range, since_s, span, now_s)
        at = [float(v) for v in at_ms([since_s + x0 * span, since_s + x1 * span], zone_min)]
        shapes += _shapes(one, ink, at)
        if one.side != "none":
            notes.append(_label(one, ink, at))
    return shapes, notes


def _shapes(one: Placed, ink: Ink, at: Sequence[float]) -> list[dict[str, Any]]:
    tone, running = one.range.tone, one.range.end_s is None
    top = LANE_TOP - LANE_STEP * one.lane
    faint = running or one.range.hollow or one.range.quiet
    bar = rect(
        at[0], at[1], top - LANE_HIGH, top, ink(tone, 0.28 if faint else 1.0), xref="x",
        yref="paper", line={"color": ink(tone), "width": 1}, layer="above",
    )  # fmt: skip
    if one.range.quiet:
        return [bar]
    band = rect(at[0], at[1], 0, 1, ink(tone, 0.13), xref="x", yref="y domain")
    edges = [
        stroke(x, x, 0, 1, ink(tone, 0.65), xref="x", yref="y domain")
        for x in (at[:1] if running else at)
    ]
    return [band, *edges, bar]


def _label(one: Placed, ink: Ink, at: Sequence[float]) -> dict[str, Any]:
    tone = one.range.tone
    tint = ink("text-2" if tone in ("ink-2", "disk") else f"{tone}-t")
    y = LANE_TOP - LANE_STEP * one.lane - LANE_HIGH / 2
    where: dict[str, Any] = {
        "right": {"x": at[1], "xanchor": "left", "xshift": 5},
        "left": {"x": at[0], "xanchor": "right", "xshift": -5},
        "inside": {"x": at[0], "xanchor": "left", "xshift": 5},
    }[one.side]
    if one.side == "inside":
        tint = ink("text")
    return {**note(at[0], y, safe(one.range.label), tint, xref="x", yref="paper"), **where}
