"""One node's rows over time: results out and rows in. Whole, or only what is new."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import Patch

from app.components import live
from app.components.charts import (
    Ink,
    at_ms,
    axis,
    layout,
    line,
    nice_ceiling,
    note,
    numbers,
    rect,
    time_axis,
)
from app.components.units import prefixed
from app.pages.page import Seen
from control.samples import Series
from control.snapshot import Doubles

HEIGHT = 150
TRACES = (("rows_out_per_s", "results out"), ("rows_in_per_s", "rows in"))


def whole(seen: Seen, series: Series, node: int) -> dict[str, Any]:
    ink = Ink(seen.view.theme, seen.stale)
    x = at_ms(series.time_s, seen.view.zone_min)
    fill: Any = {"fill": "tozeroy", "fillcolor": ink("ink-fill")}
    data = [
        line(x, _column(series, 0, node), ink("ink-1"), **fill, **_hover(0)),
        line(x, _column(series, 1, node), ink("ink-2"), 1.2, **_hover(1)),
    ]
    return {"data": data, "layout": layout(ink, **_around(seen, ink, series, node))}


def grown(seen: Seen, series: Series, node: int, fresh: Any, drop: int) -> Patch:
    """Only the new points, and what moves with time."""
    ink, patch = Ink(seen.view.theme, seen.stale), Patch()
    x = at_ms(series.time_s[fresh], seen.view.zone_min)
    traces = {n: (x, _column(series, n, node)[fresh]) for n in range(len(TRACES))}
    live.grow(patch, traces, drop, numbers)
    for name, value in _around(seen, ink, series, node).items():
        patch["layout"][name] = value
    return patch


def _column(series: Series, trace: int, node: int) -> Doubles:
    """Nothing where the node was not there yet."""
    found = series.values.get(TRACES[trace][0])
    if found is None or found.ndim != 2 or node >= found.shape[1]:
        return np.full(len(series.time_s), np.nan)
    column: Doubles = found[:, node]
    return column


def _hover(trace: int) -> dict[str, Any]:
    return {
        "hoverinfo": "all",
        "hovertemplate": "%{y:.3s}/s<extra>" + TRACES[trace][1] + "</extra>",
    }


def _around(seen: Seen, ink: Ink, series: Series, node: int) -> dict[str, Any]:
    since_s, until_s = seen.now_s - seen.view.range_s, seen.now_s
    columns = [_column(series, n, node) for n in range(len(TRACES))]
    highest = max((float(np.nanmax(c)) for c in columns if np.isfinite(c).any()), default=1.0)
    high = nice_ceiling(highest * 1.12)
    ticks = [0.0, high / 2, high]
    texts = ["0", _tick(ticks[1], ""), _tick(high, "/s")]
    shapes = []
    if seen.stale and seen.sample is not None:
        last, now = at_ms([seen.sample.time_s, seen.now_s], seen.view.zone_min).tolist()
        shapes.append(rect(last, now, 0, 1, ink("n-3"), xref="x", yref="paper"))
    return {
        "height": HEIGHT,
        "xaxis": time_axis(ink, since_s, until_s, seen.view.zone_min, 6),
        "margin": {"l": 46, "r": 12, "t": 10, "b": 20},
        "yaxis": axis(ink, range=[0, high * 1.001], tickvals=ticks, ticktext=texts),
        "shapes": shapes,
        "annotations": _labels(ink, series, columns, high),
    }


def _tick(value: float, unit: str) -> str:
    """Round numbers without their zeros: 40 k."""
    text, prefix = prefixed(value, unit)
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{short} {prefix}".strip()


def _labels(ink: Ink, series: Series, columns: list[Doubles], high: float) -> list[dict[str, Any]]:
    """Each line's name and what it is now, above where it begins."""
    found = []
    for column, (_, name), tint in zip(columns, TRACES, ("text", "text-2"), strict=True):
        known = column[np.isfinite(column)]
        if not len(known):
            continue
        value, unit = prefixed(float(known[-1]), "/s")
        text = f"{name} {value} {unit}"
        height = float(np.median(known[: max(1, len(known) // 6)]))
        under: Any = {"bgcolor": ink("bg-surface", 0.7)}  # it stands on the line itself
        at = min(height, 0.9 * high)
        found.append(note(0.01, at, text, ink(tint), xref="paper", yshift=11, **under))
    if len(found) == 2 and abs(found[0]["y"] - found[1]["y"]) < 0.16 * high:
        found[1]["yshift"] = -9
    return found
