"""Workload of a demo query: turn rates and skew, make a node slow, take memory away, and watch the system answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dash import ALL, MATCH, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import live, node_card, output_chart, reasons, states
from app.components.charts import blank, graph
from app.components.help import mark as help_mark
from app.components.kit import d, legend, panel, s
from app.components.live import Cursor
from app.components.units import node_name, said_size
from app.desk import act, feed
from app.pages import workload_knobs as knobs
from app.pages import workload_view as shown
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.kinds import Answer
from control.ledger import Command
from control.people import Role
from control.snapshot import NO_LIMIT

PAGE = Page("workload", "Workload", "sliders-horizontal", "w", order=80)
PROPOSE = {"type": "propose", "page": "workload"}
EVERY = {"type": "workload-apply", "stream": ALL}
ALL_RATES = {"type": "workload-all", "factor": ALL}
PAGE_OF_COMMANDS = 40
BUTTONS = ("slow", "fast", "memory", "shift")


def layout(**_: Any) -> Component:
    return d(
        d(id="workload-none"),
        d(
            d(_situations(), _streams(), c="stack"),
            d(_output(), _nodes(), _asked(), c="stack"),
            id="workload-all",
            c="wl",
        ),
        dcc.Store(id="workload-at"),
        dcc.Store(id="workload-made"),
        dcc.Store(id="workload-has"),
        dcc.Store(id="workload-told"),
        dcc.Store(id="workload-did"),
        dcc.Store(id=PROPOSE),
        id="workload",
    )


def _situations() -> Component:
    return panel("Provoke a situation", shown.situations(), d(id="workload-why", c="wl-said"), d(id="workload-said", c="form-said wl-said", role="status"),
                 sub="of the demo query; everything can be taken back")  # fmt: skip


def _streams() -> Component:
    return panel(
        "Streams",
        d(states.loading(180), id="workload-streams"),
        d(d(s("Skew: ", c="k"), shown.WATCH["skew"]), d(s("Join ratio: ", c="k"), shown.WATCH["ratio"]), c="wl-w pad"),
        sub="generated; a mark is the query file's value",
    )  # fmt: skip


def _output() -> Component:
    tones = (("held", "move"), ("disk", "spill"), ("hollow", "clean up"), ("fail", "failed"))
    label = "Results and rows in per second over time, with actions as ranges"
    chart = graph("workload-output", output_chart.HEIGHT, label)
    return panel("Output rate", chart, right=legend(*tones), help=help_mark("output"), c="data")


def _nodes() -> Component:
    return panel("Nodes", d(states.loading(110), id="workload-nodes"), sub="memory against its budget",
                 help=help_mark("memory"), c="data")  # fmt: skip


def _asked() -> Component:
    return panel(
        "What was asked",
        d(states.loading(60), id="workload-log"),
        sub="of the engine, and what it said",
    )


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("workload-none", "children"),
        Output("workload-all", "style"),
        Output("workload-made", "data"),
        Output("workload-told", "data"),
        Output("workload-output", "figure"),
        Output("workload-nodes", "children"),
        Output("workload-log", "children"),
        Output("workload-slow-node", "data"),
        Output("workload-memory-node", "data"),
        Output("workload-slow-now", "children"),
        Output("workload-shift-now", "children"),
        Output("workload-at", "data"),
        *POLLED,
        Input("workload-did", "data"),
        State("workload-at", "data"),
        State("workload-has", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.VIEWER,
        Output("workload-has", "data"),
        Output("workload-streams", "children"),
        Output("workload-slow-node", "value"),
        Output("workload-memory-node", "value"),
        *[Output(f"workload-{name}", "disabled") for name in BUTTONS],
        *[Output(f"workload-{name}", "title") for name in BUTTONS],
        Output("workload-why", "children"),
        Output(ALL_RATES, "disabled"),
        Input("workload-made", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_made)
    on.callback(
        Role.VIEWER,
        Output({"type": "workload-turned", "stream": MATCH}, "children"),
        Output({"type": "workload-apply", "stream": MATCH}, "disabled"),
        Output({"type": "workload-now", "stream": MATCH}, "children"),
        Input({"type": "workload-knob", "stream": MATCH, "knob": ALL}, "value"),
        Input("workload-told", "data"),
        State("view", "data"),
        State({"type": "workload-apply", "stream": MATCH}, "id"),
        polls=True,
    )(_turned)
    on.callback(
        Role.VIEWER,
        Output("workload-memory-now", "children"),
        Input("workload-memory-node", "value"),
        Input("workload-share", "value"),
        State("view", "data"),
    )(_would_be)
    on.callback(
        Role.OPERATOR,
        Output("workload-did", "data"),
        Output("workload-said", "children"),
        Output(PROPOSE, "data"),
        *[Input(f"workload-{name}", "n_clicks") for name in BUTTONS],
        Input(ALL_RATES, "n_clicks"),
        Input(EVERY, "n_clicks"),
        State("workload-slow-node", "value"),
        State("workload-slow-s", "value"),
        State("workload-memory-node", "value"),
        State("workload-share", "value"),
        State({"type": "workload-knob", "stream": ALL, "knob": ALL}, "value"),
        State({"type": "workload-knob", "stream": ALL, "knob": ALL}, "id"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_do)


# -- showing ---------------------------------------------------------------------------------------------


def _refresh(_: int, raw_view: Any, __: Any, at: Any, has: Any) -> list[Any]:
    seen = look(raw_view)
    before: Mapping[str, Any] = at if isinstance(at, Mapping) else {}
    row = seen.query
    if row is None or not row.demo:
        key = mark("none", row.name if row else seen.view.query)
        gone = shown.not_demo(row, seen.view.query) if before.get("none") != key else no_update
        return [gone, {"display": "none"}, *[no_update] * 9, {"none": key}]
    told: dict[str, Any] = {}
    found = knobs.streams_of(row.about)
    count = len(seen.sample.snapshot.nodes) if seen.sample else int(row.about.get("nodes") or 0)
    names = [{"value": str(n), "label": node_name(n)} for n in range(count)]
    told["made"] = mark(row.name, count, [(one.name, [k.name for k in one.knobs]) for one in found])
    told["streams"] = mark(row.name, row.about.get("streams"))
    new = told["made"] != has  # again until the browser says that it has the sliders of just this
    return [
        None,
        {},
        told["made"] if new else no_update,
        told["streams"] if told["streams"] != before.get("streams") else no_update,
        _chart(seen, before, told),
        _node_lines(seen, told, before),
        _log(seen, told, before),
        names if new else no_update,
        names if new else no_update,
        _slow_now(row.about),
        _hot_now(found),
        told,
    ]


def _chart(seen: Seen, before: Mapping[str, Any], told: dict[str, Any]) -> Any:
    if seen.sample is None:
        return blank(output_chart.HEIGHT)
    series = feed().query_series(seen.name, seen.view.range_s, output_chart.POINTS)
    series = live.complete(series, seen.now_s)
    rows = feed().actions(seen.name, seen.view.range_s)
    view = seen.view
    picture = mark(seen.name, view.range, view.zone_min, view.theme, seen.stale)
    cursor = Cursor.of(before.get("output"))
    fresh = live.new_rows(cursor, picture, series)
    if fresh is None or cursor is None:
        told["output"] = live.begin(picture, series).to_json()
        return output_chart.whole(seen, series, rows)
    after, drop = live.after(cursor, series, fresh, round(1.25 * output_chart.POINTS))
    told["output"] = after.to_json()
    return output_chart.grown(seen, series, fresh, drop, rows)


def _node_lines(seen: Seen, told: dict[str, Any], before: Mapping[str, Any]) -> Any:
    if seen.sample is None:
        return states.empty("No node yet", "Nodes appear with the query's first tick.", "server")
    told["nodes"] = mark(seen.name, seen.sample.time_s)
    if told["nodes"] == before.get("nodes"):
        return no_update
    return shown.nodes(node_card.cards_of(seen.sample, ()))


def _log(seen: Seen, told: dict[str, Any], before: Mapping[str, Any]) -> Any:
    page = feed().kept(
        ("workload", seen.name), 0.45,
        lambda: parts().store.commands.page(most=PAGE_OF_COMMANDS, query=seen.name),
    )  # fmt: skip
    rows = [one for one in page if one.kind == "workload" or _of_budget(one)]
    told["log"] = mark([(one.id, one.state) for one in rows], seen.view.zone_min)
    return shown.log(rows, seen.view.zone_min) if told["log"] != before.get("log") else no_update


def _of_budget(command: Command) -> bool:
    steps = command.body.get("plan", {}).get("steps", ()) if command.kind == "apply" else ()
    return bool(steps) and all(step.get("do") == "budget" for step in steps)


def _slow_now(about: Mapping[str, Any]) -> str:
    slow = about.get("slow") or {}
    said = ", ".join(f"{node_name(int(n))} by {float(v):g} s" for n, v in dict(slow).items())
    return f"slow now: {said}" if said else "no node is slow now"


def _hot_now(found: Sequence[knobs.Stream]) -> str:
    hot = [one.name for one in found if one.skewed]
    if not hot:
        return "no stream is skewed: give them skew first, below"
    return f"skewed: {', '.join(hot)}; shifted by {max(one.shift for one in found)} so far"


def _made(made: Any, raw_view: Any) -> list[Any]:
    """Sliders and what may be pressed, anew for another query; what somebody is turning is not touched."""
    seen, why = look(raw_view), shown.why_not()
    row = seen.query
    factors = [why is not None] * len(ctx.outputs_list[-1])
    off, title = [why is not None] * len(BUTTONS), [why] * len(BUTTONS)
    if row is None or not row.demo:
        return [made, [], None, None, *off, *title, None, factors]
    found = knobs.streams_of(row.about)
    body: Any = shown.streams(found) or states.empty(
        "No stream is generated", "There is nothing to turn.", "info"
    )
    said = reasons.line(why) if why else None
    return [made, body, "0", "0", *off, *title, said, factors]


def _turned(values: Sequence[Any], _: Any, raw_view: Any, at: Any) -> tuple[Any, Any, Any]:
    """What pressing the button would change, from what holds now."""
    name = str(at.get("stream", "")) if isinstance(at, dict) else ""
    stream = _stream_named(look(raw_view), name)
    if stream is None:
        return "not known", True, ""
    given = dict(zip([one.name for one in stream.knobs], values or (), strict=False))
    options = knobs.asked(stream, given)
    return (
        shown.turned(stream, options),
        not options or shown.why_not() is not None,
        shown.now_line(stream),
    )


def _stream_named(seen: Seen, name: str) -> knobs.Stream | None:
    row = seen.query
    found = knobs.streams_of(row.about) if row is not None and row.demo else []
    return next((one for one in found if one.name == name), None)


def _would_be(node: Any, share: Any, raw_view: Any) -> str:
    wanted = _budget(look(raw_view), node, share)
    return f"{said_size(wanted[0])} → {said_size(wanted[1])}" if wanted else ""


def _budget(seen: Seen, node: Any, share: Any) -> tuple[int, int] | None:
    """A node's budget now, and that share of it."""
    named = str(node if node is not None else "")[:8]
    if seen.sample is None or not named.isdecimal() or not isinstance(share, int | float):
        return None
    budgets = seen.sample.snapshot.nodes.budget_bytes
    if int(named) >= len(budgets) or not 0 < share <= 300:
        return None
    now = int(np.minimum(budgets[int(named)], NO_LIMIT))
    if now >= NO_LIMIT:  # it has none: what it uses now stands for it
        now = int(seen.sample.snapshot.nodes.memory_bytes[int(named)])
    return now, round(now * share / 100)


# -- acting ----------------------------------------------------------------------------------------------


def _do(*given: Any) -> tuple[Any, Any, Any]:
    slow_node, slow_s, memory_node, share, values, ids, raw_view = given[-7:]
    pressed, seen = ctx.triggered_id, look(raw_view)
    if seen.query is None or not any(one.get("value") for one in ctx.triggered):
        return no_update, no_update, no_update
    if pressed == "workload-memory":
        return _taken_away(seen, memory_node, share)
    if pressed in ("workload-slow", "workload-fast"):
        seconds = _float(slow_s) if pressed == "workload-slow" else 0.0
        return _answered([act("workload", {"slow": {str(slow_node or "0"): seconds}}, seen.name)])
    found = knobs.streams_of(seen.query.about)
    if pressed == "workload-shift":
        return _shift(seen, found)
    if isinstance(pressed, dict) and pressed.get("type") == "workload-all":
        factor = _float(pressed.get("factor"))
        return _answered([_change(seen, one.name, knobs.scaled(one, factor)) for one in found])
    return _one(
        seen,
        found,
        str(pressed.get("stream", "")) if isinstance(pressed, dict) else "",
        values,
        ids,
    )


def _one(
    seen: Seen, found: Sequence[knobs.Stream], name: str, values: Any, ids: Any
) -> tuple[Any, Any, Any]:
    stream = next((one for one in found if one.name == name), None)
    pairs = zip(ids or (), values or (), strict=False)
    mine = {
        str(at.get("knob")): v
        for at, v in pairs
        if isinstance(at, dict) and at.get("stream") == name
    }
    options = knobs.asked(stream, mine) if stream else {}
    if not options:
        return no_update, reasons.check("Nothing was turned.", False), no_update
    return _answered([_change(seen, name, options)])


def _shift(seen: Seen, found: Sequence[knobs.Stream]) -> tuple[Any, Any, Any]:
    wanted = knobs.shifted(found)
    if not wanted:
        text = "No keys are hotter than others: give the streams skew first."
        return no_update, reasons.refusals((), text), no_update
    return _answered([_change(seen, name, options) for name, options in wanted.items()])


def _taken_away(seen: Seen, node: Any, share: Any) -> tuple[Any, Any, Any]:
    """A budget is a proposal like any other: its panel opens."""
    wanted = _budget(seen, node, share)
    if wanted is None:
        return no_update, reasons.refusals((), "Nothing is known of that node yet."), no_update
    answer = act("propose", {"do": "budget", "node": int(node), "bytes": wanted[1]}, seen.name)
    told = {"proposal": answer.id} if answer.accepted else reasons.refused(answer)
    return feed().now_s(), None, told


def _change(seen: Seen, stream: str, options: Mapping[str, str]) -> Answer:
    return act("workload", {"stream": stream, "options": dict(options)}, seen.name)


def _answered(answers: Sequence[Answer]) -> tuple[Any, Any, Any]:
    wrong = next((one for one in answers if not one.accepted), None)
    if wrong is not None:
        return feed().now_s(), reasons.refusals(wrong.refusals, wrong.text), no_update
    text = "On its way to the engine; what it says of it is listed under “What was asked”."
    return feed().now_s(), reasons.check(text), no_update


def _float(value: Any) -> float:
    """Of a field; what is not a number is nothing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
