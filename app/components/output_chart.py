"""Output rate over time: results out, rows in, and every action as a range. Whole, or only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import Patch

from app.components import lanes, live
from app.components.charts import (
    Ink,
    at_ms,
    axis,
    layout,
    line,
    note,
    numbers,
    rect,
    rounds,
    stroke,
    time_axis,
    wide_px,
)
from app.components.units import duration, prefixed
from app.pages.page import Seen
from control.ledger import ActionRow
from control.samples import Series
from control.snapshot import Doubles

HEIGHT = 288
POINTS = 240  # means of some seconds each: single ticks are noise
TOP = 0.74  # the lines' share of the height; lanes are above
ABOVE, APART = 0.055, 0.09  # of the ceiling: a name above its line, above the other name
TRACES = (("rows_out_per_s", "results out"), ("rows_in_per_s", "rows in, all streams"))


def whole(seen: Seen, series: Series, rows: Sequence[ActionRow]) -> dict[str, Any]:
    ink = Ink(seen.view.theme, seen.stale)
    x = at_ms(series.time_s, seen.view.zone_min)
    fill: Any = {"fill": "tozeroy", "fillcolor": ink("ink-fill")}
    data = [
        line(x, _values(series, 0), ink("ink-1"), **fill, **_hover(TRACES[0][1])),
        line(x, _values(series, 1), ink("ink-2"), 1.2, **_hover("rows in")),
    ]
    return {"data": data, "layout": layout(ink, **_around(seen, ink, series, rows))}


def grown(seen: Seen, series: Series, fresh: Any, drop: int, rows: Sequence[ActionRow]) -> Patch:
    """Only the new points, and what moves with time: axes, ranges, labels."""
    ink, patch = Ink(seen.view.theme, seen.stale), Patch()
    x = at_ms(series.time_s[fresh], seen.view.zone_min)
    traces = {n: (x, _values(series, n)[fresh]) for n in range(len(TRACES))}
    live.grow(patch, traces, drop, numbers)
    for name, value in _around(seen, ink, series, rows).items():
        patch["layout"][name] = value
    return patch


def _values(series: Series, trace: int) -> Doubles:
    found: Doubles = series.values[TRACES[trace][0]]
    return found


def _hover(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "hoverinfo": "all",
        "hovertemplate": "%{y:.3s}/s<extra>" + name + "</extra>",
    }


def _around(seen: Seen, ink: Ink, series: Series, rows: Sequence[ActionRow]) -> dict[str, Any]:
    now_s = seen.now_s
    since_s, zone = live.since(series, now_s, seen.view.range_s), seen.view.zone_min
    until_s = now_s + (now_s - since_s) / 400
    high = max(
        (
            float(np.nanmax(v))
            for n in (0, 1)
            if len(v := _values(series, n)) and np.isfinite(v).any()
        ),
        default=1.0,
    )
    ticks = rounds(high * 1.04)
    end_s = seen.sample.time_s if seen.stale and seen.sample else now_s
    found = lanes.ranges(rows, since_s, end_s)
    placed = lanes.place(found, since_s, until_s, end_s, wide_px(seen.view.width))
    shapes, notes = lanes.drawn(placed, ink, since_s, until_s, end_s, zone)
    gap_shapes, gap_notes = _gap(seen, ink, since_s)
    return {
        "height": HEIGHT,
        "margin": {"l": 46, "r": 12, "t": 6, "b": 20},
        "xaxis": time_axis(ink, since_s, until_s, zone, _ticks(seen)),
        "yaxis": _rates(ink, ticks),
        "shapes": [*gap_shapes, *shapes],
        "annotations": [*notes, *_names(seen, ink, series, since_s, ticks[-1]), *gap_notes],
    }


def _ticks(seen: Seen) -> int:
    return max(3, min(9, int(wide_px(seen.view.width) / 70)))


def _rates(ink: Ink, ticks: list[float]) -> dict[str, Any]:
    """The unit stands once, at the top."""
    texts = [_tick(value) for value in ticks]
    texts[-1] += "/s"
    return axis(ink, range=[0, ticks[-1] * 1.02], domain=[0, TOP], tickvals=ticks, ticktext=texts)


def _tick(value: float) -> str:
    number, prefix = prefixed(value)
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {prefix}".strip()


def _names(
    seen: Seen, ink: Ink, series: Series, since_s: float, ceiling: float
) -> list[dict[str, Any]]:
    """What each line is, on the line itself: where it begins, above what it does there."""
    if len(series.time_s) < 4:
        return []
    x = float(at_ms(since_s + (seen.now_s - since_s) * 0.012, seen.view.zone_min))
    first = slice(0, max(4, len(series.time_s) // 8))
    heights = []
    for n in (0, 1):
        part = _values(series, n)[first]
        heights.append(float(np.nanmax(part)) if np.isfinite(part).any() else 0.0)
    if abs(heights[0] - heights[1]) < 0.09 * ceiling:  # one above, one below
        low = 1 if heights[1] <= heights[0] else 0
        part = _values(series, low)[first]
        heights[low] = (float(np.nanmin(part)) if np.isfinite(part).any() else 0.0) - 0.16 * ceiling
    low, high = sorted((0, 1), key=lambda n: heights[n])
    at = {low: max(0.0, heights[low]) + ABOVE * ceiling}
    at[high] = max(heights[high] + ABOVE * ceiling, at[low] + APART * ceiling)
    tints = ("text", "text-3")
    under: Any = {"xref": "x", "yref": "y", "bgcolor": ink("bg-surface", 0.7)}
    return [note(x, at[n], TRACES[n][1], ink(tints[n]), **under) for n in (0, 1)]


def _gap(seen: Seen, ink: Ink, since_s: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Since the last tick nothing is known: that is drawn, not bridged."""
    if not seen.stale or seen.sample is None:
        return [], []
    start, end = (float(v) for v in at_ms([seen.sample.time_s, seen.now_s], seen.view.zone_min))
    start = max(start, float(at_ms(since_s, seen.view.zone_min)))
    box = rect(start, end, 0, 1, ink("n-3"), xref="x", yref="y domain")
    edge = stroke(
        start, start, 0, 1, ink("text-3"), xref="x", yref="y domain", line={"dash": "dot"}
    )
    said = note(
        (start + end) / 2, 0.5, f"no data<br>{duration(seen.fresh.age_s)}", ink("text-2"),
        xref="x", yref="y domain", xanchor="center",
    )  # fmt: skip
    return [box, edge], [said] if (end - start) / 1e3 > (seen.now_s - since_s) / 14 else []
