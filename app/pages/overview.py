"""Overview: who is in trouble, when, and what would help. Headline, nodes, output with actions, memory, menu, locks.

One poll brings everything; what has not changed since the last one is not sent again, and charts only grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import (
    live,
    locks_view,
    memory_chart,
    menu_view,
    node_card,
    output_chart,
    reasons,
    states,
)
from app.components.charts import blank, graph
from app.components.headline import Headline, headline
from app.components.help import mark as help_mark
from app.components.kit import d, icon, legend, link, num, panel, s, stat
from app.components.live import Cursor
from app.components.units import NONE, duration, prefixed, rate, size
from app.desk import act, feed, may
from app.pages.page import POLLED, Page, Seen, look, mark
from control.people import Role
from control.samples import Series

PAGE = Page("overview", "Overview", "layout-dashboard", "o", order=10)
KEPT = 1.25  # so many times a chart's points are kept before old ones are dropped
PROPOSE = {"type": "propose", "page": "overview"}
ACTS = {"type": "menu-do", "do": ALL, "rank": ALL}
KEYS = (("source lag", "lag"), ("results", "rows_out"), ("in memory", "memory"),
        ("on disk", "disk"), ("owed", "owed"))  # fmt: skip


def layout(**_: Any) -> Component:
    return d(_headline(), _strip(), d(_charts(), _aside(), c="ov"), *_stores(), id="overview")


def _stores() -> list[Component]:
    return [dcc.Store(id="overview-at"), dcc.Store(id="overview-steps"), dcc.Store(id=PROPOSE)]


def _headline() -> Component:
    stats = [
        stat(name, s(NONE, id=f"overview-kv-{key}", c="num"), help_mark(key)) for name, key in KEYS
    ]
    say = d(states.loading(14), id="overview-say", c="hl-say", role="status")
    return d(say, d(*stats, c="hl-kvs data"), c="hl")


def _strip() -> Component:
    empty = [states.loading(140) for _ in range(4)]
    return d(*empty, id="overview-strip", c="strip data")


def _charts() -> Component:
    tones = (("held", "move"), ("disk", "spill"), ("hollow", "clean up"), ("fail", "failed"))
    output = graph(
        "overview-output", output_chart.HEIGHT,
        "Results and rows in per second over time, with actions as ranges",
    )  # fmt: skip
    memory = graph("overview-memory", 276, "Memory of each node over time against its budget")
    states_ = (("mem", "in memory"), ("near", "over 85 % of budget"), ("held", "held in flight"))
    return d(
        panel(
            "Output rate", output, sub="results per second, all nodes; ranges are actions",
            right=legend(*tones), help=help_mark("output"), c="data",
        ),
        panel(
            "Memory per node", memory, sub="dashed = budget; dotted = forecast",
            right=legend(*states_), help=help_mark("full_in"), c="data",
        ),
        c="ov-left",
    )  # fmt: skip


def _aside() -> Component:
    return d(
        panel(
            "What would help now", menu_view.head(),
            d(states.loading(72), id="overview-menu"), sub=s("", id="overview-menu-sub"),
            help=help_mark("menu"),
        ),
        panel(
            "Interlocks", d(states.loading(44), id="overview-locks"), sub="what holds each rule",
            right=s("next eligible", c="k"), help=help_mark("interlock"),
        ),
        panel("Alerts", d(states.loading(28), id="overview-alerts"), right=link("All alerts", "/alerts")),
        c="ov-right",
    )  # fmt: skip


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("overview-say", "children"),
        Output("overview-say", "className"),
        *[Output(f"overview-kv-{key}", "children") for _, key in KEYS],
        Output("overview-strip", "children"),
        Output("overview-output", "figure"),
        Output("overview-memory", "figure"),
        Output("overview-memory", "style"),
        Output("overview-menu", "children"),
        Output("overview-menu-sub", "children"),
        Output("overview-steps", "data"),
        Output("overview-locks", "children"),
        Output("overview-alerts", "children"),
        Output("overview-at", "data"),
        *POLLED,
        State("overview-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.OPERATOR,
        Output(PROPOSE, "data"),
        Input(ACTS, "n_clicks"),
        State("overview-steps", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_propose)


def _refresh(_: int, raw_view: Any, at: Any) -> list[Any]:
    seen = look(raw_view)
    before: Mapping[str, Any] = at if isinstance(at, Mapping) else {}
    told: dict[str, Any] = {}
    full = feed().full_in(seen.sample) if seen.sample else ()
    menu = feed().menu(seen.sample) if seen.sample and not seen.stale else ()
    locks = feed().interlocks(seen.name)
    said = headline(seen, full, feed().running(seen.name), menu or ())
    output, memory, memory_style, strip = _drawn(seen, full, before, told)
    return [
        *_if_new(
            "said", told, before, (said, seen.stale), lambda: (_said(said), f"hl-say {said.tone}")
        ),
        *_figures(seen),
        strip,
        output,
        memory,
        memory_style,
        *_menu(seen, menu, told, before),
        *_if_new("locks", told, before, _locks_shown(seen, locks), lambda: _locks(seen, locks)),
        *_if_new("alerts", told, before, _alerts_shown(seen), lambda: (_alerts(seen),)),
        told,
    ]


def _if_new(
    name: str, told: dict[str, Any], before: Mapping[str, Any], value: Any, make: Any
) -> Any:
    """What `make` gives, unless the browser shows just that already."""
    told[name] = mark(value)
    made = make() if told[name] != before.get(name) else None
    if made is None:
        return [no_update] * WIDTHS[name]
    return made


CARDS_S = 5.0
WIDTHS = {"said": 2, "menu": 3, "locks": 1, "alerts": 1}


def _said(said: Headline) -> list[Any]:
    rest = s(f" {said.rest}") if said.rest else None
    return [icon(said.icon), d(s(said.strong, c="b"), rest)]


def _figures(seen: Seen) -> list[Any]:
    """The key figures of the query as a whole."""
    if seen.sample is None:
        return [NONE] * len(KEYS)
    figures = seen.sample.figures
    owed = float(seen.sample.snapshot.groups.owed_rows.sum())
    lag = figures.get("lag_s")
    told = (
        duration(lag).rpartition(" ")[::2] if lag is not None and lag == lag else (NONE, ""),
        rate(feed().recent(seen.name, "rows_out_per_s")),
        size(figures.get("memory_bytes")),
        size(figures.get("disk_bytes")),
        prefixed(owed),
    )
    return [num(value, unit) for value, unit in told]


def _drawn(
    seen: Seen, full: Sequence[float | None], before: Mapping[str, Any], told: dict[str, Any]
) -> tuple[Any, Any, Any, Any]:
    """Both charts and the strip: they are made from the same series."""
    if seen.sample is None:
        none = [
            states.empty(
                "No node yet", "Nodes appear with the query's first tick.", "server", c="panel"
            )
        ]
        return blank(output_chart.HEIGHT), blank(40), no_update, none
    found = feed()
    series = _ready(found.query_series(seen.name, seen.view.range_s, output_chart.POINTS), seen)
    nodes = _ready(found.node_series(seen.name, seen.view.range_s, memory_chart.POINTS), seen)
    cards = node_card.cards_of(seen.sample, full)
    rows = found.actions(seen.name, seen.view.range_s)
    output = _output(seen, series, rows, before, told)
    memory, style = _memory(memory_chart.picture(seen, nodes, cards), before, told)
    return output, memory, style, _cards(seen, cards, nodes)


def _cards(seen: Seen, cards: node_card.Cards, nodes: Series) -> list[Component]:
    """Made once for everybody who looks at the same."""
    key = ("strip", seen.name, seen.sample and seen.sample.time_s, seen.stale, seen.view.zone_min)
    return feed().kept(
        (*key, seen.view.range), CARDS_S, lambda: node_card.strip(seen, cards, nodes)
    )


def _ready(series: Series, seen: Seen) -> Series:
    """Without what can still change, and with its gaps."""
    return live.with_gaps(live.complete(series, seen.now_s))


def _look(seen: Seen) -> str:
    """Which picture it is: another one is sent as a whole."""
    view = seen.view
    return mark(seen.name, view.range, view.zone_min, view.theme, seen.stale, view.width)


def _output(
    seen: Seen, series: Series, rows: Any, before: Mapping[str, Any], told: dict[str, Any]
) -> Any:
    cursor = Cursor.of(before.get("output"))
    picture = _look(seen)
    fresh = live.new_rows(cursor, picture, series)
    if fresh is None or cursor is None:
        told["output"] = live.begin(picture, series).to_json()
        return output_chart.whole(seen, series, rows)
    after, drop = live.after(cursor, series, fresh, round(KEPT * output_chart.POINTS))
    told["output"] = after.to_json()
    return output_chart.grown(seen, series, fresh, drop, rows)


def _memory(
    drawn: memory_chart.Picture, before: Mapping[str, Any], told: dict[str, Any]
) -> tuple[Any, Any]:
    """The chart, and its height where that changes."""
    cursor = Cursor.of(before.get("memory"))
    picture = mark(_look(drawn.seen), drawn.nodes, len(drawn.rest), drawn.cards.unit)
    fresh = live.new_rows(cursor, picture, drawn.series)
    if fresh is None or cursor is None:
        told["memory"] = live.begin(picture, drawn.series).to_json()
        height = drawn.grid.height
        return memory_chart.whole(drawn), {"height": f"{height}px"}
    after, drop = live.after(cursor, drawn.series, fresh, round(KEPT * memory_chart.POINTS))
    told["memory"] = after.to_json()
    return memory_chart.grown(drawn, fresh, drop), no_update


def _menu(
    seen: Seen,
    menu: Sequence[Mapping[str, Any]] | None,
    told: dict[str, Any],
    before: Mapping[str, Any],
) -> Any:
    """Rows, the line beside the title, and the steps behind the buttons."""

    if menu is None:  # it is being worked out
        return [no_update] * WIDTHS["menu"]

    def made() -> tuple[Any, ...]:
        if seen.stale:
            return [_still_works()], "waits for the engine", {}
        shown = menu_view.rows(menu, may("propose"), seen.now_s, seen.view.zone_min)
        steps = {str(e["rank"]): e["step"] for e in menu if e.get("step")}
        return shown, "ranked by gain over 5 min", steps

    value = (seen.stale, seen.name, seen.view.zone_min, [e["text"] for e in menu])
    return _if_new("menu", told, before, value, made)


def _still_works() -> Component:
    """While nothing can be previewed: what can be done all the same."""
    yes = (
        ("Read", "history, actions, proposals, audit: all that is recorded"),
        ("Decide", "rules, backtests, statistics as CSV"),
    )
    later = (
        ("Preview and apply", "needs the state of a running engine; older proposals are refused"),
        ("Forecasts", "withdrawn: they would be guesses"),
        ("Automation", "rules hold by themselves until the engine answers"),
    )
    return d(
        *[_works("check", *row) for row in yes],
        d("Waits for the engine", c="w-sub"),
        *[_works("clock", *row) for row in later],
    )


def _works(ic: str, name: str, text: str) -> Component:
    return d(icon(ic), d(s(name, c="b"), d(text, c="w-t")), c="w-row")


def _locks_shown(seen: Seen, locks: Any) -> Any:
    """Times in whole seconds: otherwise every look would differ."""
    return round(seen.now_s), seen.name, locks is None, seen.view.zone_min


def _locks(seen: Seen, locks: Any) -> list[Any]:
    if locks is None:
        return [no_update]
    return [locks_view.interlocks(locks, seen.now_s, seen.view.zone_min)]


def _alerts_shown(seen: Seen) -> Any:
    return [
        (a.id, a.text, a.acknowledged_by, a.silenced_until_s > seen.now_s) for a in feed().alerts()
    ], round(seen.now_s / 10)


def _alerts(seen: Seen) -> Any:
    return locks_view.alerts(feed().alerts(), seen.now_s)


def _propose(clicks: Sequence[Any], steps: Any, raw_view: Any) -> Any:
    """Preview or save an option exactly as it stands in the menu."""
    pressed = ctx.triggered_id
    if not isinstance(pressed, Mapping) or not any(one.get("value") for one in ctx.triggered):
        return no_update
    step = steps.get(str(pressed.get("rank"))) if isinstance(steps, Mapping) else None
    seen = look(raw_view)
    if step is None:
        return {"refused": "The menu has moved on: look again, and choose anew."}
    answer = act("propose.steps", {"steps": [step]}, seen.name)
    if (
        not answer.accepted
    ):  # its groups have moved on since it was ranked: as much, of what is there now
        answer = act("propose", _asked(step), seen.name)
    if not answer.accepted:
        return reasons.refused(answer)
    return {"proposal": answer.id, "saved": pressed.get("do") == "save"}


def _asked(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step as somebody would ask for it in words: what, where, how much."""
    if step["do"] == "migrate":
        return {name: step[name] for name in ("do", "order", "strategy")}
    if step["do"] == "move":
        return {"do": "move", "node": step["source"], "to": step["target"], "bytes": step["bytes"]}
    return {"do": step["do"], "node": step["node"], "bytes": step["bytes"]}
