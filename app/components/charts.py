"""Figures as plain dicts with lists (a go.Figure costs a hundred times more): base layout, axes, traces, labels.

Colours come from tokens, resolved for the theme; text from outside is escaped, because Plotly reads tags in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt
from dash import dcc
from dash.development.base_component import Component

from app.components.kit import d
from app.components.tokens import colour
from app.components.units import clock, moment

FONT = "Inter, system-ui, sans-serif"
STALE = {  # what is old has no state colours: they would claim to know
    **dict.fromkeys(("mem", "near", "held", "fail", "disk"), "n-6"),
    **dict.fromkeys(("mem-t", "near-t", "held-t", "fail-t", "disk-t"), "text-2"),
    "ink-1": "text-3",
}
NARROW, MIDDLE = 900, 1_180  # windows: as in assets/*.css
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600,
           43_200, 86_400, 172_800)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours for one theme; of what is stale, without states."""

    theme: str
    stale: bool = False

    def __call__(self, name: str, alpha: float | None = None) -> str:
        return colour(self.theme, STALE.get(name, name) if self.stale else name, alpha)


def graph(id: Any, height: int, label: str, figure: Mapping[str, Any] | None = None) -> Component:
    """An empty chart of this height, to be filled by a callback. `label` says what is in it to who cannot see."""
    config: Any = {
        "displayModeBar": False,
        "doubleClick": False,
        "scrollZoom": False,
        "responsive": True,
    }
    chart = dcc.Graph(
        id=id,
        figure=dict(figure or blank(height)),
        config=config,
        className="chart",
        style={"height": f"{height}px"},
    )
    return d(chart, role="img", aria_label=label)


def blank(height: int) -> dict[str, Any]:
    hidden = {"visible": False, "fixedrange": True}
    clear = "rgba(0,0,0,0)"
    return {
        "data": [],
        "layout": {"height": height, "paper_bgcolor": clear, "plot_bgcolor": clear, "xaxis": hidden,
                   "yaxis": hidden, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}},
    }  # fmt: skip


def layout(ink: Ink, height: int | None = None, **more: Any) -> dict[str, Any]:
    """What all charts have; `more` adds axes, shapes and so on."""
    return {
        **({} if height is None else {"height": height}),
        "margin": {"l": 46, "r": 12, "t": 4, "b": 20},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 11, "color": ink("text-2")},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": ink("bg-raised"), "bordercolor": ink("line-strong"),
                       "font": {"family": FONT, "size": 11, "color": ink("text")}},
        "dragmode": False,
        "uirevision": "keep",
        **more,
    }  # fmt: skip


def axis(ink: Ink, **more: Any) -> dict[str, Any]:
    return {
        "gridcolor": ink("grid"),
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "automargin": False,
        "fixedrange": True,
        "tickfont": {"size": 10, "color": ink("text-3")},
        **more,
    }


def at_ms(time_s: Any, zone_min: int) -> Any:
    """Where a time is on a time axis: Plotly knows no zones, so the axis itself is shifted."""
    return (np.asarray(time_s, dtype=np.float64) + 60.0 * zone_min) * 1e3


def time_axis(
    ink: Ink, since_s: float, until_s: float, zone_min: int, most: int = 9, **more: Any
) -> dict[str, Any]:
    """Ticks at round clock times of the zone that is shown."""
    step = next((s for s in STEPS_S if (until_s - since_s) / s <= most), STEPS_S[-1])
    shift = zone_min * 60
    first = ceil((since_s + shift) / step) * step - shift
    ticks = [float(t) for t in np.arange(first, until_s, step)]
    return axis(
        ink,
        type="date",
        showgrid=False,
        range=at_ms([since_s, until_s], zone_min).tolist(),
        tickvals=at_ms(ticks, zone_min).tolist(),
        ticktext=[tick_text(t, step, zone_min) for t in ticks],
        hoverformat="%H:%M:%S",
        **more,
    )


def tick_text(time_s: float, step_s: float, zone_min: int) -> str:
    text = clock(time_s, zone_min, seconds=step_s < 60)
    if step_s >= 86_400 or (step_s >= 21_600 and text == "00:00"):
        return moment(time_s, zone_min)[5:10]
    return text


def nice_ceiling(value: float) -> float:
    """1, 2, 2.5, 4, 5, 8 or 10 times a power of ten, at least `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value * 0.9999)


def wide_px(window_px: int) -> float:
    """About how wide Overview's charts are, without their margins: what labels must fit into."""
    beside = 80 if window_px <= NARROW else 290 if window_px <= MIDDLE else 690
    return max(200.0, window_px - beside)


def rounds(high: float, most: int = 5) -> list[float]:
    """Round values from 0 to at least `high`, at most so many steps."""
    step = nice_ceiling(max(high, 1e-9) / most)
    return [step * n for n in range(ceil(max(high, 1e-9) / step * 0.9999) + 1)]


def line(x: Any, y: Any, tint: str, width: float = 1.6, **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "line": {"color": tint, "width": width, "shape": "linear", **more.pop("line", {})},
        "connectgaps": False,
        "hoverinfo": "skip",
        **more,
    }


def note(x: Any, y: Any, text: str, tint: str, **more: Any) -> dict[str, Any]:
    """Text on the data; `text` must be escaped where it comes from outside."""
    return {
        "x": x, "y": y, "text": text, "showarrow": False, "xanchor": "left", "yanchor": "middle",
        "font": {"size": 10.5, "color": tint}, **more,
    }  # fmt: skip


def rect(x0: float, x1: float, y0: float, y1: float, fill: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "fillcolor": fill,
        "line": {"width": 0}, "layer": "below", **more,
    }  # fmt: skip


def stroke(x0: float, x1: float, y0: float, y1: float, tint: str, **more: Any) -> dict[str, Any]:
    style = {"color": tint, "width": 1, **more.pop("line", {})}
    return {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": style, **more}


def safe(text: str) -> str:
    return escape(text, quote=False)


def numbers(column: Any) -> list[float | None]:
    """A list that can be extended; gaps are null. Never an array: Plotly packs those, and they cannot grow."""
    values: npt.NDArray[np.float64] = np.asarray(column, dtype=np.float64)
    rounded = np.round(values, 3)
    if np.isfinite(rounded).all():
        whole: list[float | None] = rounded.tolist()
        return whole
    return [value if np.isfinite(value) else None for value in rounded.tolist()]
