"""Memory of each node over time, one small chart a node on the same scale: budget dashed, forecast dotted.

Beyond a dozen nodes: those in most trouble, and one chart for all others with their median and range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import Patch

from app.components import live
from app.components.charts import (
    NARROW,
    Ink,
    at_ms,
    axis,
    layout,
    line,
    note,
    numbers,
    rect,
    stroke,
    time_axis,
    wide_px,
)
from app.components.node_card import NEAR, Cards, amount, worst
from app.components.units import clock, node_name, short
from app.pages.page import Seen
from app.view import WIDTH
from control.menu import memory_ahead
from control.samples import Series
from control.snapshot import Doubles

POINTS = 240
AHEAD = 0.5  # of the range, to the right of now
AHEAD_POINTS = 24
ROW_PX, TOP_PX, LOW_PX = 108, 20, 20
TICK_PX = 62  # of the time axis
GAP = 0.02  # of the width, between two charts
LEAST = 0.12  # of what is ahead: nearer, there is no room for the word
HEADROOM = 1.1  # above the highest budget: for the word on it
PER_NODE = 4  # traces: in memory, near its budget, with what is held, forecast


@dataclass(frozen=True, slots=True)
class Grid:
    """Where each small chart is."""

    columns: int
    rows: int

    @staticmethod
    def of(count: int, width: int = WIDTH) -> Grid:
        """On a narrow window two beside each other."""
        columns = count if count <= 3 else 2 if count == 4 else 3 if count <= 9 else 4
        columns = min(columns, 2) if width <= NARROW else columns
        return Grid(max(1, columns), -(-max(1, count) // max(1, columns)))

    @property
    def height(self) -> int:
        return self.rows * (ROW_PX + TOP_PX) + LOW_PX

    def x(self, n: int) -> list[float]:
        wide = (1 - GAP * (self.columns - 1)) / self.columns
        low = (n % self.columns) * (wide + GAP)
        return [low, low + wide]

    def y(self, n: int) -> list[float]:
        whole = self.rows * (ROW_PX + TOP_PX)
        high = 1 - (n // self.columns * (ROW_PX + TOP_PX) + TOP_PX) / whole
        return [max(0.0, high - ROW_PX / whole), high]


@dataclass(frozen=True)
class Picture:
    """Everything that one drawing needs. `nodes`: those with a chart of their own; `rest`: all others."""

    seen: Seen
    series: Series
    cards: Cards
    nodes: Sequence[int]
    rest: Sequence[int]

    @property
    def grid(self) -> Grid:
        return Grid.of(self.count, self.seen.view.width)

    @property
    def since_s(self) -> float:
        return live.since(self.series, self.seen.now_s, self.seen.view.range_s)

    @property
    def ahead_s(self) -> float:
        """How far the forecasts go."""
        return AHEAD * (self.seen.now_s - self.since_s)

    @property
    def count(self) -> int:
        return len(self.nodes) + bool(self.rest)


def picture(seen: Seen, series: Series, cards: Cards) -> Picture:
    chosen = worst(cards)
    there = series.values["memory_bytes"].shape[1] if len(series.time_s) else 0
    nodes = [n for n in chosen if n < there]
    return Picture(seen, series, cards, nodes, sorted(set(range(there)) - set(nodes)))


def whole(drawn: Picture) -> dict[str, Any]:
    ink = Ink(drawn.seen.view.theme, drawn.seen.stale)
    x = at_ms(drawn.series.time_s, drawn.seen.view.zone_min)
    data: list[dict[str, Any]] = []
    for n, node in enumerate(drawn.nodes):
        data += _traces(drawn, ink, n, node, x)
    if drawn.rest:
        data += _others(drawn, ink, len(drawn.nodes), x)
    grid = drawn.grid
    return {"data": data, "layout": layout(ink, **_around(drawn, ink, grid))}


def grown(drawn: Picture, fresh: Any, drop: int) -> Patch:
    """New points for each trace; forecasts, axes and labels as a whole, because they all move."""
    ink, patch = Ink(drawn.seen.view.theme, drawn.seen.stale), Patch()
    x = at_ms(drawn.series.time_s[fresh], drawn.seen.view.zone_min)
    traces: dict[int, tuple[Doubles, Doubles]] = {}
    for n, node in enumerate(drawn.nodes):
        for k, column in enumerate(_columns(drawn, node)):
            traces[PER_NODE * n + k] = (x, column[fresh])
        ahead_x, ahead_y = _ahead(drawn, node)
        ahead = patch["data"][PER_NODE * n + 3]
        ahead["x"], ahead["y"] = ahead_x, ahead_y
        ahead["marker"]["size"] = _dots(drawn, node, ahead_x)
    for k, column in enumerate(_spread(drawn)):
        traces[PER_NODE * len(drawn.nodes) + k] = (x, column[fresh])
    live.grow(patch, traces, drop, numbers)
    for name, value in _around(drawn, ink, drawn.grid).items():
        patch["layout"][name] = value
    return patch


def _columns(drawn: Picture, node: int) -> tuple[Doubles, Doubles, Doubles]:
    """In memory; the part near its budget; with what is held."""
    values = drawn.series.values
    memory, budget = values["memory_bytes"][:, node], values["budget_bytes"][:, node]
    held = values["held_bytes"][:, node]
    near = np.where(memory > NEAR * budget, memory, np.nan)
    return memory, near, np.where(held > 0, memory + held, np.nan)


def _traces(drawn: Picture, ink: Ink, n: int, node: int, x: Any) -> list[dict[str, Any]]:
    memory, near, held = _columns(drawn, node)
    on: Any = _on(n)
    name = node_name(node)
    hover: Any = {"hoverinfo": "all", "hovertemplate": "%{y:.3s}B<extra>" + name + "</extra>"}
    ahead_x, ahead_y = _ahead(drawn, node)
    return [
        line(x, memory, ink("mem"), 1.5, fill="tozeroy", fillcolor=ink("mem", 0.22), **on, **hover),
        line(x, near, ink("near"), 1.8, **on),
        line(x, held, ink("held"), 1.5, **on),
        {
            **line([], [], ink("text-3"), 1.2, line={"dash": "dot"}, **on),
            "mode": "lines+markers",
            "marker": {"color": ink("near"), "opacity": 1, "size": _dots(drawn, node, ahead_x)},
            "x": ahead_x,
            "y": ahead_y,
        },
    ]


def _others(drawn: Picture, ink: Ink, n: int, x: Any) -> list[dict[str, Any]]:
    """The middle and the tenth of the others at each end."""
    low, middle, high = _spread(drawn)
    on: Any = _on(n)
    none: Any = {"width": 0}
    return [
        line(x, low, ink("mem"), line=none, **on),
        line(x, high, ink("mem"), line=none, fill="tonexty", fillcolor=ink("mem", 0.22), **on),
        line(x, middle, ink("mem"), 1.5, **on),
    ]


def _spread(drawn: Picture) -> list[Doubles]:
    if not drawn.rest:
        return []
    columns = drawn.series.values["memory_bytes"][:, list(drawn.rest)]
    known = np.where(np.isfinite(columns), columns, 0.0)
    low, middle, high = np.percentile(known, [10, 50, 90], axis=1)
    return [low, high, middle]


def _on(n: int) -> dict[str, str]:
    suffix = "" if n == 0 else str(n + 1)
    return {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}


def _ahead(drawn: Picture, node: int) -> tuple[list[Any], list[Any]]:
    """Where memory goes if nothing is done, up to where the node spills by itself. None when it is stale."""
    seen = drawn.seen
    if seen.stale or seen.sample is None or not drawn.cards.alive[node]:
        return [], []
    later = np.linspace(0.0, drawn.ahead_s, AHEAD_POINTS)
    curve = memory_ahead(seen.sample.snapshot, later)[node]
    full = drawn.cards.full_s[node]
    keep = later <= (full if full is not None else np.inf)
    if full is not None and full < later[-1]:
        later, curve = (
            np.append(later[keep], full),
            np.append(curve[keep], NODE_FULL * drawn.cards.budget[node]),
        )
    x = at_ms(seen.sample.time_s + later, seen.view.zone_min)
    return numbers(x), numbers(curve)


def _dots(drawn: Picture, node: int, ahead_x: Sequence[Any]) -> list[int]:
    """One dot at the end, where the node is full."""
    if not ahead_x:
        return []
    full = drawn.cards.full_s[node]
    ends = full is not None and full < drawn.ahead_s
    return [0] * (len(ahead_x) - 1) + [6 if ends else 0]


NODE_FULL = 0.9  # of its budget: there it spills by its own rule


def _around(drawn: Picture, ink: Ink, grid: Grid) -> dict[str, Any]:
    seen = drawn.seen
    since_s, until_s = drawn.since_s, seen.now_s + drawn.ahead_s
    out: dict[str, Any] = {"margin": {"l": 46, "r": 12, "t": 0, "b": LOW_PX}, "height": grid.height}
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    most = max(2, int(wide_px(seen.view.width) / grid.columns / TICK_PX))
    for n in range(drawn.count):
        suffix, on = ("" if n == 0 else str(n + 1)), _on(n)
        last = n + grid.columns >= drawn.count
        x = time_axis(ink, since_s, until_s, seen.view.zone_min, most, domain=grid.x(n),
                      anchor=on["yaxis"], showticklabels=last)  # fmt: skip
        out[f"xaxis{suffix}"] = x
        out[f"yaxis{suffix}"] = _bytes(drawn, ink, grid, n, on["xaxis"])
        node = drawn.nodes[n] if n < len(drawn.nodes) else None
        shapes += _lines(drawn, ink, node, on, since_s, until_s)
        notes += _titles(drawn, ink, node, on)
    return {**out, "shapes": shapes, "annotations": notes}


def _bytes(drawn: Picture, ink: Ink, grid: Grid, n: int, anchor: str) -> dict[str, Any]:
    cards = drawn.cards
    high = HEADROOM * cards.scale
    step = _step(high / cards.factor) * cards.factor
    ticks = [step * k for k in range(int(high / step) + 1)]
    texts = [short(v / cards.factor) for v in ticks]
    texts[-1] += f" {cards.unit}"
    return axis(ink, range=[0, high], domain=grid.y(n), anchor=anchor, tickvals=ticks,
                ticktext=texts, showticklabels=n % grid.columns == 0)  # fmt: skip


def _step(high: float) -> float:
    """About three steps, each a round number."""
    for step in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5, 4, 5, 10, 20, 25, 40, 50, 100, 200, 250, 500):
        if high / step < 4.2:
            return step
    return high / 3


def _lines(
    drawn: Picture, ink: Ink, node: int | None, on: dict[str, str], since_s: float, until_s: float
) -> list[dict[str, Any]]:
    """Budget, now, and what is not known since the last tick."""
    seen, zone = drawn.seen, drawn.seen.view.zone_min
    low, now, high = (float(v) for v in at_ms([since_s, seen.now_s, until_s], zone))
    span = {"xref": on["xaxis"], "yref": f"{on['yaxis']} domain"}
    found = [stroke(now, now, 0, 1, ink("line-strong"), **span)]
    budget = float(drawn.cards.budget[node]) if node is not None else np.inf
    if np.isfinite(budget):
        style = {"dash": "dash", "width": 1.2}
        at = {"xref": on["xaxis"], "yref": on["yaxis"]}
        found.append(stroke(low, high, budget, budget, ink("text-2"), line=style, **at))
    if seen.stale and seen.sample is not None:
        last = max(low, float(at_ms(seen.sample.time_s, zone)))
        found.append(rect(last, now, 0, 1, ink("n-3"), **span))
    return found


def _titles(drawn: Picture, ink: Ink, node: int | None, on: dict[str, str]) -> list[dict[str, Any]]:
    cards, seen = drawn.cards, drawn.seen
    at = {
        "xref": f"{on['xaxis']} domain",
        "yref": f"{on['yaxis']} domain",
        "yanchor": "bottom",
        "xshift": 2,
    }
    if node is None:
        text = f"<b>{len(drawn.rest)} others</b>  median, 10–90 %"
        return [note(0, 1, text, ink("text-2"), **at)]
    used, budget = cards.memory[node] + cards.held[node], cards.budget[node]
    of = f" of {amount(cards, float(budget))}" if np.isfinite(budget) else ""
    near = bool(used > NEAR * budget)
    title = f"<b>{node_name(node)}</b>  {amount(cards, float(used))}{of} {cards.unit}"
    found = [note(0, 1, title, ink("near-t" if near else "text-2"), **at)]
    full = cards.full_s[node]
    ahead_s = drawn.ahead_s
    if full is None or seen.stale or seen.sample is None or not LEAST < full / ahead_s < 1:
        return found  # what is full at once is said in its card
    when = seen.sample.time_s + full
    x, zone = float(at_ms(when, seen.view.zone_min)), seen.view.zone_min
    side = "right" if full > 0.7 * ahead_s else "center"
    text = f"full {clock(when, zone, seconds=ahead_s < 600)}"
    on_it = note(x, float(budget), text, ink("near-t"), xref=on["xaxis"], yref=on["yaxis"])
    font = {"size": 10, "color": ink("near-t")}
    found.append({**on_it, "xanchor": side, "yanchor": "bottom", "yshift": 2, "font": font})
    return found
