"""A backtest as figures and a plot: balance, the fullest node, bytes carried; when it would have fired and was held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from app.components import charts, states
from app.components.charts import Ink
from app.components.kit import d, icon, s
from app.components.units import (
    clock,
    counted,
    duration,
    moment,
    percent,
    said,
    said_size,
    size_unit,
    whole,
)
from app.view import View
from control.simulate.course import NEAR

HEIGHT = 470
LANES = ((0.68, 1.0), (0.34, 0.6), (0.0, 0.26))  # of the plot: balance, fullest node, bytes
BLOCKS = {
    "cool_down": "its cool-down",
    "quiet": "quiet hours",
    "budget": "the day's budget",
    "running": "what was on its way",
    "not_due": "its schedule",
}
Told = Mapping[str, Any]


def stats(told: Told, bytes_max: float, pause_max_s: float) -> list[Component]:
    churn, benefit, course = told["churn"], told["benefit"], told["course"]
    blocked = sum(int(n) for n in told["blocked"].values())
    length = max(told["until_s"] - told["from_s"], 1.0)
    share = course["with_near_s"] / length
    return [
        _stat("fires", whole(told["firings"]), f"{counted(blocked, 'turn')} held"),
        _stat(f"over {percent(NEAR)} of budget", duration(course["with_near_s"]) if share else "never",
              f"without it {duration(course['without_near_s'])}"),
        _stat("results owed", said(benefit["with"]["owed_rows"]), f"without it {said(benefit['without']['owed_rows'])}"),
        _stat("carried", said_size(churn["bytes"]), f"{_part(churn['bytes'], bytes_max)} of a day's budget"),
        _stat("input held", duration(churn["pause_s"]), f"{_part(churn['pause_s'], pause_max_s)} of a day's budget"),
        _stat("churn", counted(churn["groups_twice"], "group"), f"of {whole(churn['groups'])} more than once"),
    ]  # fmt: skip


def _part(value: float, most: float) -> str:
    return (
        "none"
        if not value
        else percent(value / most, 0 if value / most >= 0.01 else 2)
        if most
        else ""
    )


def _stat(name: str, value: str, under: str) -> Component:
    return d(s(name, c="k"), s(value, c="sv num"), s(under, c="ss num"), c="stt")


def sub(told: Told, zone_min: int) -> str:
    if not told["snapshots"]:
        return "nothing is recorded of that time"
    from_, until = moment(told["from_s"], zone_min), clock(told["until_s"], zone_min)
    runs = f" in {told['stretches']} stretches" if told["stretches"] > 1 else ""
    return f"recorded {from_} – {until}, {counted(told['snapshots'], 'snapshot')}{runs}, through the same policy"


def verdict(told: Told) -> list[Component]:
    """In words: what it gains by the model, what held it most."""
    benefit = told["benefit"]
    gain = benefit["gain_row_s"]
    word = "gains" if gain > 0 else "loses" if gain < 0 else "changes nothing:"
    text = f"By the model it {word} {said(abs(gain))} row·s against nodes' own spills alone."
    orders = told["orders"]
    if orders["changes"]:
        more = counted(orders["changes"], "change")
        text += (
            f" {more} of the join order: {said(orders['gain_row_s'])} row·s more. {orders['text']}"
        )
    held = sorted(told["blocked"].items(), key=lambda item: -item[1])[:3]
    if held:
        text += f" Held by {', '.join(f'{BLOCKS.get(k, k)} ({n})' for k, n in held)}."
    nothing = list(told["nothing"].items())[:1]
    if nothing and not told["firings"]:
        text += f" Mostly: {nothing[0][0]}."
    return [icon("info"), s(text)]


def none(text: str = "") -> Component:
    return states.empty(text or "Not run yet",
                        "It replays what was recorded through this rule, as if it had been on auto.", "play")  # fmt: skip


def figure(told: Told, view: View, bytes_max: float) -> dict[str, Any]:
    ink, course = Ink(view.theme), told["course"]
    x = charts.at_ms(course["time_s"], view.zone_min)
    made: dict[str, Any] = {"data": [], "layout": _frame(ink, told, view)}
    _balance(made, ink, told, x, view)
    _fullest(made, ink, course, x)
    _carried(made, ink, told, bytes_max, view)
    _fired(made, ink, told, view)
    return made


def _frame(ink: Ink, told: Told, view: View) -> dict[str, Any]:
    since_s, until_s = told["from_s"], max(told["until_s"], told["from_s"] + 1)
    frame = charts.layout(ink, height=HEIGHT, shapes=[], annotations=[], hovermode="closest")
    frame["margin"] = {"l": 44, "r": 12, "t": 18, "b": 20}
    names = ("least / most memory, by share of budget", "fullest node, % of its budget", "carried")
    for number, (domain, name) in enumerate(zip(LANES, names, strict=True), start=1):
        key = "" if number == 1 else str(number)
        shown = number == len(LANES)
        more: dict[str, Any] = {"matches": "x"} if number > 1 else {}
        frame[f"xaxis{key}"] = charts.time_axis(
            ink, since_s, until_s, view.zone_min, anchor=f"y{key}", showticklabels=shown, **more
        )
        frame[f"yaxis{key}"] = charts.axis(ink, domain=list(domain), anchor=f"x{key}")
        frame["annotations"].append(
            charts.note(0, 1, name, ink("text-3"), xref=f"x{key} domain", yref=f"y{key} domain",
                        yanchor="bottom", yshift=2)
        )  # fmt: skip
    return frame


def _balance(made: dict[str, Any], ink: Ink, told: Told, x: Any, view: View) -> None:
    course = told["course"]
    made["data"].append(_line(x, course["without_balance"], ink("ink-2"), 1.2, ""))
    made["data"].append(_line(x, course["with_balance"], ink("ink-1"), 1.6, ""))
    made["layout"]["yaxis"] |= {"range": [-0.06, 1.04], "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    ratio = told.get("ratio")
    if isinstance(ratio, int | float):
        made["layout"]["shapes"].append(
            charts.stroke(
                0, 1, ratio, ratio, ink("text-2"), xref="x domain", yref="y", line={"dash": "dash"}
            )
        )
        made["layout"]["annotations"].append(
            charts.note(
                1,
                ratio,
                f"ratio {ratio:g}",
                ink("text-2"),
                xref="x domain",
                xanchor="right",
                yshift=-8,
            )
        )
    for from_s, until_s in course["held"]:
        a, b = charts.at_ms([from_s, until_s], view.zone_min).tolist()
        made["layout"]["shapes"].append(
            charts.rect(
                a, max(b, a + 1), -0.05, -0.01, ink("ink-2"), xref="x", yref="y", layer="above"
            )
        )


def _fullest(made: dict[str, Any], ink: Ink, course: Told, x: Any) -> None:
    with_, without = _percent(course["with_peak"]), _percent(course["without_peak"])
    near = [None if v is None else max(v, 100 * NEAR) for v in without]
    base = {**_line(x, [100 * NEAR] * len(x), ink("near", 0.0), 0, "2"), "showlegend": False}
    hot = {
        **_line(x, near, ink("near", 0.0), 0, "2"),
        "fill": "tonexty",
        "fillcolor": ink("near", 0.3),
    }
    made["data"] += [base, hot]
    made["data"].append(_line(x, without, ink("ink-2"), 1.2, "2"))
    made["data"].append(_line(x, with_, ink("mem"), 1.6, "2"))
    most = max([v for v in (*with_, *without) if v is not None], default=100.0)
    top = max(112.0, 1.06 * most)
    made["layout"]["yaxis2"] |= {"range": [0, top], "tickvals": [0, 50, 100], "ticksuffix": " %"}
    made["layout"]["shapes"].append(
        charts.stroke(
            0, 1, 100, 100, ink("text-2"), xref="x2 domain", yref="y2", line={"dash": "dash"}
        )
    )
    made["layout"]["annotations"].append(
        charts.note(0.004, 100, "budget", ink("text-2"), xref="x2 domain", yref="y2", yshift=8)
    )


def _carried(made: dict[str, Any], ink: Ink, told: Told, bytes_max: float, view: View) -> None:
    """As steps; the day's budget where it is anywhere near."""
    times, total, sums = [told["from_s"]], 0.0, [0.0]
    for fired in told["fired"]:
        total += fired["bytes"]
        times.append(fired["time_s"])
        sums.append(total)
    times.append(told["until_s"])
    sums.append(total)
    near_budget = 0 < bytes_max <= 8 * max(total, 1.0)
    unit, factor = size_unit([total, bytes_max if near_budget else 0.0])
    trace = _line(
        charts.at_ms(times, view.zone_min), [v / factor for v in sums], ink("held"), 1.6, "3"
    )
    trace["line"]["shape"] = "hv"
    made["data"].append({**trace, "fill": "tozeroy", "fillcolor": ink("held", 0.16)})
    top = max(bytes_max if near_budget else 0.0, total) / factor
    made["layout"]["yaxis3"] |= {
        "range": [0, 1.15 * (top or 1.0)],
        "nticks": 4,
        "ticksuffix": f" {unit}",
    }
    said_ = f"{said_size(total)} in all" if total else "nothing"
    made["layout"]["annotations"].append(
        charts.note(
            1,
            total / factor,
            said_,
            ink("held-t"),
            xref="x3 domain",
            yref="y3",
            xanchor="right",
            yshift=9,
        )
    )
    if near_budget:
        made["layout"]["shapes"].append(
            charts.stroke(0, 1, bytes_max / factor, bytes_max / factor, ink("text-2"), xref="x3 domain",
                          yref="y3", line={"dash": "dash"})
        )  # fmt: skip


def _fired(made: dict[str, Any], ink: Ink, told: Told, view: View) -> None:
    """A line through all three, a mark on the balance, and its words for the mouse."""
    fired: Sequence[Told] = told["fired"]
    if not fired:
        return
    at = charts.at_ms([one["time_s"] for one in fired], view.zone_min).tolist()
    for x in at:
        made["layout"]["shapes"].append(
            charts.stroke(x, x, 0, 1, ink("accent", 0.3), xref="x", yref="paper", layer="below")
        )
    texts = [
        f"{_what(one)}, {said_size(one['bytes'])}, gain {said(one['gain_row_s'])} row·s"
        for one in fired
    ]
    made["data"].append({
        "type": "scatter", "mode": "markers", "x": at, "y": [0.03] * len(at), "xaxis": "x", "yaxis": "y",
        "marker": {"symbol": "triangle-up", "size": 9, "color": ink("accent"),
                   "line": {"color": ink("bg-surface"), "width": 1}},
        "text": texts, "hovertemplate": "%{x|%H:%M:%S} %{text}<extra></extra>",
    })  # fmt: skip


def _what(one: Told) -> str:
    if one["do"] == "migrate":
        return f"join order {one['order']}"
    return f"{one['do']} n{' → n'.join(map(str, one['nodes']))}, {counted(one['groups'], 'group')}"


def _line(x: Any, y: Sequence[float | None], tint: str, width: float, key: str) -> dict[str, Any]:
    values = [float("nan") if v is None else v for v in y]
    return {**charts.line(x, values, tint, width), "xaxis": f"x{key}", "yaxis": f"y{key}"}


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else 100 * v for v in values]
