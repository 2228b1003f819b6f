"""An action's figures: predicted beside actual, what the model learned from it, and what it did to the nodes' memory
and the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from app.components import charts
from app.components.charts import Ink
from app.components.kit import d, s
from app.components.lanes import LOCAL, TONES
from app.components.units import (
    MINUS,
    NONE,
    counted,
    duration,
    figure,
    node_name,
    percent,
    said,
    said_size,
    size_unit,
)
from app.pages.actions_receipt import title
from control.learn import compared
from control.ledger import ActionRow, Learned
from control.plans import Cleanup, Move, SetBudget, Spill, Step, nodes_of, step_from_json
from control.samples import Series

# What each figure is called, and how it is written.
FIGURES: Mapping[str, tuple[str, str]] = {
    "bytes": ("bytes", "bytes"),
    "seconds": ("time", "s"),
    "pause_s": ("input held", "s"),
    "tick_s": ("a tick", "s"),
    "spill_cpu_s": ("CPU to write", "s"),
    "move_cpu_s": ("CPU to send", "s"),
    "cleanup_read_cpu_s": ("CPU to read", "s"),
    "cleanup_join_cpu_s": ("CPU to join", "s"),
    "cleanup_rows": ("results let out", "rows"),
    "move_bandwidth": ("transfer", "bytes/s"),
    "recompute_rows": ("computed anew", "rows"),
    "recompute_cpu_s": ("CPU to compute", "s"),
    "sort_rows": ("sorted anew", "rows"),
    "sort_cpu_s": ("CPU to sort", "s"),
    "job_s": ("each job besides", "s"),
    "swap_s": ("plan in place", "s"),
}
STILL = "results stood still"  # while a join order is changed; the input is not held
LEARNED = {
    "write_s_per_byte": "writing",
    "read_s_per_byte": "reading",
    "join_s_per_row": "joining",
    "transfer_s_per_byte": "sending",
    "bandwidth_bytes_per_s": "transfer",
    "owed_factor": "results owed",
    "tick_s": "a tick",
    "recompute_s_per_row": "computing",
    "sort_s_per_row": "sorting",
    "side_cores": "side jobs' cores",
    "job_s": "a side job",
    "swap_s": "plan in place",
}
OFF_MAX = 4.0  # the track goes from a quarter to four times what was predicted
CLOSE = 0.25  # within a quarter of what was predicted
HEIGHT = 132
PAD_MIN_S, PAD_MAX_S, PAD_SHARE = 60.0, 900.0, 1.0
RECORDED_S = 30.0  # by then what the engine told of a tick is in the store


def written(value: float, how: str) -> str:
    if how == "bytes":
        return said_size(value)
    if how == "bytes/s":
        return f"{said_size(value)}/s"
    return duration(value) if how == "s" else said(value)


def off(predicted: float, actual: float) -> str:
    """How far it was off: −0.9 %, +8 %; beyond four times as a factor."""
    if predicted == actual:
        return "exact"
    if predicted <= 0 or actual <= 0:
        return NONE
    ratio = actual / predicted
    if ratio > OFF_MAX:
        return f"× {figure(ratio, 2)}"
    if ratio < 1 / OFF_MAX:
        return f"÷ {figure(1 / ratio, 2)}"
    change = 100 * (ratio - 1)
    return f"{'+' if change > 0 else MINUS}{figure(abs(change), 2)} %"


def place_of(predicted: float, actual: float) -> float | None:
    """Where the outcome lies on the track, in per cent; the middle is what was predicted."""
    if predicted == actual:
        return 50.0
    if predicted <= 0 or actual <= 0:
        return None
    share = log2(actual / predicted) / log2(OFF_MAX)
    return 50.0 + 50.0 * min(1.0, max(-1.0, share))


def predictions(row: ActionRow, lessons: Sequence[Learned]) -> Component:
    found = [one for one in compared(row) if one["figure"] in FIGURES and _something(one)]
    if not found:
        local = row.id.startswith(LOCAL)
        text = (
            "A node's own spill is not priced beforehand."
            if local
            else "Nothing was predicted, or nothing is measured."
        )
        return d(title("Predicted and actual", "predicted"), d(text, c="ac-note"), c="ac-sec")
    heads = [
        s(""),
        s("predicted", c="r"),
        s("actual", c="r"),
        s("off by", c="r"),
        s("÷4 … ×4", c="ac-mid"),
    ]
    migrates = row.body["step"]["do"] == "migrate"
    rows = [_figure(one, STILL if migrates and one["figure"] == "pause_s" else "") for one in found]
    return d(
        title("Predicted and actual", "predicted"),
        d(*heads, c="ac-pa h"),
        *rows,
        _lesson(found, lessons),
        c="ac-sec",
    )


def _something(one: Mapping[str, Any]) -> bool:
    """Nothing predicted and nothing taken is not a prediction that came true."""
    return bool(one["predicted"] or one["actual"])


def _figure(one: Mapping[str, Any], called: str = "") -> Component:
    name, how = FIGURES[one["figure"]]
    predicted, actual = float(one["predicted"]), float(one["actual"])
    place = place_of(predicted, actual)
    dot = html.I(className="ac-dot", style={"left": f"{place:.1f}%"}) if place is not None else None
    edge = 50 * log2(1 + CLOSE) / log2(OFF_MAX)
    zone = html.I(
        className="ac-zone", style={"left": f"{50 - edge:.1f}%", "width": f"{2 * edge:.1f}%"}
    )
    track = d(html.I(className="ac-line"), zone, html.I(className="ac-is"), dot, c="ac-blt")
    return d(
        s(called or name),
        s(written(predicted, how), c="r dim"),
        s(written(actual, how), c="r b"),
        s(off(predicted, actual), c="r"),
        track,
        c="ac-pa",
    )


def _lesson(found: Sequence[Mapping[str, Any]], lessons: Sequence[Learned]) -> Component:
    """How many were close, and what the model made of it."""
    close = sum(_close(one) for one in found)
    text = f"{close} of {counted(len(found), 'figure')} within {percent(CLOSE)}."
    told = [
        f"{LEARNED.get(one.coefficient, one.coefficient)} {_coefficient(one.coefficient, one.before)}"
        f" → {_coefficient(one.coefficient, one.after)}"
        for one in lessons
    ]
    if told:
        text += f" Model recalibrated: {'; '.join(told)}."
    return d(text, c="ac-note")


def _close(one: Mapping[str, Any]) -> bool:
    predicted, actual = float(one["predicted"]), float(one["actual"])
    return abs(actual - predicted) <= CLOSE * abs(predicted)


def _coefficient(name: str, value: float) -> str:
    if name == "bandwidth_bytes_per_s":
        return f"{said_size(value)}/s"
    if name.endswith("_per_byte"):
        return f"{figure(value * 1e9)} s/GB"
    if name.endswith("_per_row"):
        return f"{figure(value * 1e6)} s/M rows"
    return duration(value) if name.endswith("_s") else figure(value)


# -- what it did ---------------------------------------------------------------------------------------


def _pad(length_s: float) -> float:
    return min(PAD_MAX_S, max(PAD_MIN_S, PAD_SHARE * length_s))


def window_of(row: ActionRow, now_s: float) -> tuple[float, float]:
    """What is shown around an action: as long again before and after, at least a minute."""
    ended_s = row.ended_s if row.ended_s is not None else now_s
    pad_s = _pad(ended_s - row.started_s)
    return row.started_s - pad_s, min(now_s, ended_s + 1.5 * pad_s)


def settled(row: ActionRow, now_s: float) -> bool:
    """Nothing that is shown around it can change any more."""
    if row.ended_s is None:
        return False
    return now_s > row.ended_s + 1.5 * _pad(row.ended_s - row.started_s) + RECORDED_S


def effect(row: ActionRow, nodes: Series, query: Series, now_s: float, ink: Ink) -> dict[str, Any]:
    """Memory of the nodes that it was about, and the results; solid as measured, dashed as predicted."""
    step = step_from_json(row.body["step"])
    ended_s = row.ended_s if row.ended_s is not None else now_s
    since_s, until_s = window_of(row, now_s)
    found = [_memory(step, node, row, nodes, ink) for node in nodes_of(step)]
    panels = [*(panel for panel in found if panel is not None), _results(query, ink)]
    figure_: dict[str, Any] = {
        "data": [],
        "layout": charts.layout(ink, height=HEIGHT, shapes=[], annotations=[]),
    }
    figure_["layout"]["margin"] = {"l": 36, "r": 10, "t": 18, "b": 18}
    figure_["layout"]["hovermode"] = False
    gap = 0.075
    width = (1 - gap * (len(panels) - 1)) / len(panels)
    for at, (name, top, traces) in enumerate(panels):
        left = at * (width + gap)
        _panel(
            figure_,
            at + 1,
            (left, left + width),
            (since_s, until_s),
            name,
            top,
            traces,
            row.started_s,
            ink,
        )
        figure_["layout"]["shapes"].append(_span(at + 1, row, ended_s, ink))
    return figure_


def _panel(
    figure_: dict[str, Any], number: int, domain: tuple[float, float], span: tuple[float, float],
    title: str, top: tuple[float, float], traces: list[dict[str, Any]], began_s: float, ink: Ink,
) -> None:  # fmt: skip
    key = "" if number == 1 else str(number)
    start_s = next(iter(span))
    for trace in traces:
        trace["x"] = [None if x is None else x - start_s for x in trace["x"]]
        figure_["data"].append({**trace, "xaxis": f"x{key}", "yaxis": f"y{key}"})
    ticks, texts = _ticks(span, began_s)
    figure_["layout"][f"xaxis{key}"] = charts.axis(
        ink, domain=list(domain), range=[0, span[1] - start_s], showgrid=False, tickvals=ticks,
        ticktext=texts, tickangle=0, anchor=f"y{key}",
    )  # fmt: skip
    low, high = top
    figure_["layout"][f"yaxis{key}"] = charts.axis(
        ink, range=[low, high], anchor=f"x{key}", nticks=4, tickformat="~g"
    )
    figure_["layout"]["annotations"].append(
        charts.note(0, 1, charts.safe(title), ink("text-2"), xref=f"x{key} domain",
                    yref=f"y{key} domain", yanchor="bottom")
    )  # fmt: skip


def _ticks(span: tuple[float, float], began_s: float) -> tuple[list[float], list[str]]:
    """Counted from where the action began; few, so that three charts fit beside each other."""
    length = span[1] - span[0]
    step = next((x for x in charts.STEPS_S if length / x <= 4), charts.STEPS_S[-1])
    first = -int((began_s - span[0]) // step)
    counts = range(first, int((span[1] - began_s) // step) + 1)
    values = [began_s - span[0] + n * step for n in counts]
    return values, [_from_start(n * step) for n in counts]


def _from_start(seconds: float) -> str:
    if not seconds:
        return "start"
    text = f"{abs(seconds) / 60:g} min" if abs(seconds) >= 60 else f"{abs(seconds):g} s"
    return f"{'+' if seconds > 0 else MINUS}{text}"


def _span(number: int, row: ActionRow, ended_s: float, ink: Ink) -> dict[str, Any]:
    key = "" if number == 1 else str(number)
    since_s = window_of(row, ended_s)[0]
    tone = "fail" if row.state == "failed" else TONES.get(row.body["step"]["do"], "ink-2")
    from_s, until_s = row.started_s - since_s, max(ended_s, row.started_s + 0.5) - since_s
    return charts.rect(
        from_s, until_s, 0, 1, ink(tone, 0.16), xref=f"x{key}", yref=f"y{key} domain"
    )


Panel = tuple[str, tuple[float, float], list[dict[str, Any]]]


def _memory(step: Step, node: int, row: ActionRow, nodes: Series, ink: Ink) -> Panel | None:
    values = nodes.values.get("memory_bytes")
    if values is None or values.ndim != 2 or node >= values.shape[1]:
        return None
    measured = np.asarray(values[:, node], dtype=np.float64)
    unit, factor = size_unit(measured.tolist())
    traces = []
    dashed = _predicted(step, node, row, nodes.time_s, measured)
    if dashed is not None:
        style = {"dash": "dash"}
        traces.append(charts.line(dashed[0], dashed[1] / factor, ink("ink-2"), 1.2, line=style))
    traces.append(charts.line(nodes.time_s, measured / factor, ink("mem")))
    shown = [measured] + ([dashed[1]] if dashed is not None else [])
    return f"{node_name(node)} memory, {unit}", _range(np.concatenate(shown) / factor), traces


def _predicted(step: Step, node: int, row: ActionRow, time_s: Any, measured: Any) -> Any:
    """From where it was when the action began: by the predicted bytes, after the predicted time."""
    size, seconds = row.predicted.get("bytes"), row.predicted.get("duration_s")
    before = measured[time_s <= row.started_s]
    if not size or seconds is None or not len(before) or isinstance(step, SetBudget):
        return None
    start, change = float(before[-1]), _change(step, node, float(size))
    at = row.started_s + float(seconds)
    last = max(at, float(time_s[-1]))
    if isinstance(step, Move) and node == step.target:
        x, y = [row.started_s, at, last], [start, start + change, start + change]
    else:
        x, y = [row.started_s, at, at, last], [start, start, start + change, start + change]
    return np.array(x), np.array(y)


def _change(step: Step, node: int, size: float) -> float:
    if isinstance(step, Move):
        return -size if node == step.source else size
    return -size if isinstance(step, Spill) else size if isinstance(step, Cleanup) else 0.0


def _results(query: Series, ink: Ink) -> Panel:
    found = query.values.get("rows_out_per_s")
    values = np.asarray(found if found is not None else [], dtype=np.float64)
    largest = float(np.nanmax(values)) if len(values) and np.isfinite(values).any() else 0.0
    factor, unit = (
        (1e6, "M/s") if largest >= 1e6 else (1e3, "k/s") if largest >= 1e3 else (1.0, "/s")
    )
    trace = charts.line(query.time_s, values / factor, ink("ink-1"))
    return f"results out, {unit}", _range(values / factor), [trace]


def _range(values: Any) -> tuple[float, float]:
    """With some air; from 0 only when the data goes near it."""
    finite = np.asarray(values)[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    air = max(0.08 * (high - low), 0.02 * high, 1e-9)
    return (0.0 if low < 0.35 * high else low - air), high + air
