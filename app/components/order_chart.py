"""What each strategy costs at windows of another length, and where they cross: a small chart on two logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from app.components import charts
from app.components.charts import Ink
from app.components.steps import STRATEGIES
from app.components.units import duration, prefixed

HEIGHT = 262
SPAN = 16.0  # so many times shorter and longer windows are shown
CLOSE = 0.2  # of the axis: names of markers nearer to each other would cover one another
DECADES_MAX = 8  # of cost: beyond, lines leave the chart
LEAST_ROW_S, MOST_ROW_S = 1.0, 1e14
TICKS_S = (0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
Label = tuple[str, str, float, float, str]  # colour, text, x, y, marker


def crossover(told: Mapping[str, Any], theme: str) -> dict[str, Any] | None:
    """None where there is no window to compare with."""
    window_s, points = told.get("window_s"), _shown(told.get("curve") or ())
    if not window_s or len(points) < 2:
        return None
    ink = Ink(theme)
    x = [window_s * float(point["factor"]) for point in points]
    names = [name for name in STRATEGIES if name in points[0]]
    costs = {name: [_cost(point, name) for point in points] for name in names}
    low, high = _span(costs, now_at(points))
    tints = {name: ink("accent" if name == told.get("strategy") else "ink-2") for name in names}
    traces = [charts.line(x, costs[name], tints[name], 1.8) for name in names]
    labels = _labels(told, costs, points, tints, ink)
    for tint, text, at_x, at_y, marker in labels:
        traces.append(_marker(at_x, at_y, tint, marker, text))
    notes = _notes(labels, x, (low, high))
    return {
        "data": traces,
        "layout": charts.layout(
            ink,
            HEIGHT,
            margin={"l": 54, "r": 12, "t": 8, "b": 22},
            hovermode=False,
            shapes=[_now(window_s, ink)],
            annotations=[*notes, _note_now(window_s, ink)],
            xaxis=_axis(ink, x[0], x[-1]),
            yaxis=_rows_axis(ink, low, high),
        ),
    }


def _shown(curve: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in curve if 1 / SPAN * 0.99 <= float(one["factor"]) <= SPAN * 1.01]


def _cost(point: Mapping[str, Any], name: str) -> float:
    """On a logarithmic axis what costs nothing lies at its lower edge, and what never pays at its upper."""
    return min(MOST_ROW_S, max(LEAST_ROW_S, float(point[name]["cost_row_s"])))


def now_at(points: Sequence[Mapping[str, Any]]) -> int:
    """The point of today's windows."""
    return min(range(len(points)), key=lambda n: abs(log10(float(points[n]["factor"]))))


def _span(costs: Mapping[str, Sequence[float]], now: int) -> tuple[float, float]:
    """Decades around today's costs."""
    today = [column[now] for column in costs.values()]
    every = [value for column in costs.values() for value in column]
    low, high = floor(log10(min(every))), ceil(log10(max(every)) + 0.15)
    middle = (log10(min(today)) + log10(max(today))) / 2
    half = DECADES_MAX / 2
    least, most = (floor(log10(min(today))), ceil(log10(max(today)) + 0.15))
    return max(low, min(least, floor(middle - half))), min(high, max(most, ceil(middle + half)))


def _labels(
    told: Mapping[str, Any],
    costs: Mapping[str, Sequence[float]],
    points: Sequence[Mapping[str, Any]],
    tints: Mapping[str, str],
    ink: Ink,
) -> list[Label]:
    """Each strategy today, and where they cross if that can be seen."""
    window_s, now = float(told["window_s"]), now_at(points)
    found = [
        (tints[name], STRATEGIES[name], window_s, column[now], "circle")
        for name, column in costs.items()
    ]
    factor = told.get("crossover")
    if factor and float(points[0]["factor"]) < factor < float(points[-1]["factor"]):
        text = f"equal at {duration(window_s * factor)}"
        column = costs["moving"]
        at_y = _between(points, column, factor)
        found.append((ink("text"), text, window_s * factor, at_y, "diamond-open"))
    return found


def _between(points: Sequence[Mapping[str, Any]], column: Sequence[float], factor: float) -> float:
    """On the line from point to point, as it is drawn."""
    last = next(n for n, point in enumerate(points) if float(point["factor"]) >= factor)
    first = max(0, last - 1)
    a, b = (log10(float(points[n]["factor"])) for n in (first, last))
    share = (log10(factor) - a) / (b - a) if b > a else 0.0
    return float(column[first] ** (1 - share) * column[last] ** share)


def _marker(x: float, y: float, tint: str, symbol: str, text: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [y], "name": text, "hoverinfo": "skip",
        "marker": {"size": 8, "symbol": symbol, "color": tint, "line": {"width": 1.5}},
    }  # fmt: skip


def _notes(
    labels: Sequence[Label], x: Sequence[float], rows: tuple[float, float]
) -> list[dict[str, Any]]:
    """Lines rise to the right: the dearer one's name is left above its marker, the other's right below; so is the
    crossing's, where there is room, and above the dearer one's where both are close together."""
    today = sorted((one for one in labels if one[4] == "circle"), key=lambda one: one[3])
    found = [_note(one, bool(place), 9 if place else -9) for place, one in enumerate(today)]
    cross = next((one for one in labels if one[4] != "circle"), None)
    if cross is not None:
        across = _share(log10(cross[2]), log10(x[0]), log10(x[-1]))
        left = across > 0.4
        below = not left and _share(log10(cross[3]), *rows) > 0.2
        now = _share(log10(today[0][2]), log10(x[0]), log10(x[-1]))
        high = 28 if left and abs(across - now) < CLOSE else 13
        found.append(_note(cross, left, -13 if below else high))
    return found


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _note(one: Label, left: bool, up: int) -> dict[str, Any]:
    tint, text, at_x, at_y, _ = one
    made = charts.note(log10(at_x), log10(at_y), charts.safe(text), tint)
    side = {"xanchor": "right", "xshift": -9} if left else {"xshift": 9}
    return {**made, "yshift": up, **side}


def _now(window_s: float, ink: Ink) -> dict[str, Any]:
    return charts.stroke(
        window_s, window_s, 0, 1, ink("text-2"), yref="paper", line={"dash": "dot"}
    )


def _note_now(window_s: float, ink: Ink) -> dict[str, Any]:
    text = f"now: {duration(window_s)}"
    made = charts.note(log10(window_s), 0, text, ink("text"), yref="paper")
    return {**made, "yanchor": "bottom", "xshift": 5}


def _axis(ink: Ink, low: float, high: float) -> dict[str, Any]:
    ticks = [tick for tick in TICKS_S if low <= tick <= high]
    return charts.axis(
        ink, type="log", range=[log10(low), log10(high)], tickvals=ticks, showgrid=False,
        ticktext=[duration(tick).replace(".0 s", " s") for tick in ticks],
    )  # fmt: skip


def _rows_axis(ink: Ink, low: float, high: float) -> dict[str, Any]:
    step = 1 if high - low <= 5 else 2
    powers = range(int(low), int(high) + 1, step)
    ticks = [10.0**power for power in powers]
    return charts.axis(
        ink,
        type="log",
        range=[low, high],
        tickvals=ticks,
        ticktext=[_power(tick) for tick in ticks],
    )


def _power(value: float) -> str:
    return " ".join(part for part in prefixed(value, digits=1) if part)
