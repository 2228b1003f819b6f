"""Nodes: every node's figures in a table, and one of them in detail; draining it, its budget, how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, grid, live, memory_chart, node_card, states
from app.components.charts import graph
from app.components.confirm import Ask
from app.components.help import mark as help_mark
from app.components.kit import button, d, dmc, icon, panel, s
from app.components.live import Cursor
from app.components.node_card import Cards
from app.components.reasons import refused
from app.components.units import counted, node_name
from app.desk import act, feed, may, role
from app.pages import nodes_chart as chart
from app.pages import nodes_data as data
from app.pages import nodes_view as shown
from app.pages.page import POLLED, Page, Seen, look, mark
from control.kinds import KINDS
from control.people import Role

PAGE = Page(
    "nodes", "Nodes", "server", "n", order=30, count=lambda feed, query: _count(feed.newest(query))
)
KEPT = 1.25  # so many times a chart's points are kept before old ones are dropped
ROW_PX, ROWS_MAX = 26, 12
MEMORY_HEIGHT = memory_chart.Grid.of(1).height
MB = 1_000_000
COLUMNS = (
    grid.number("node", "node", 62, type="", sortingOrder=["asc", "desc"]),
    grid.number("memory", "in memory", 84),
    grid.number("share", "of budget", 84, cellStyle={"function": "nodeShare(params)"}),
    grid.number("budget", "budget", 76),
    grid.number("held", "held", 70),
    grid.number("disk", "on disk", 76),
    grid.number("rows_in", "rows in/s", 76),
    grid.number("rows_out", "results/s", 76),
    grid.number("busy", "busy", 60),
    grid.number("groups", "groups", 66),
    grid.number("on_disk", "of these on disk", 96),
    grid.number("full", "full in", 84, sortingOrder=["asc", "desc"]),
)


def _count(sample: Any) -> Any:
    return len(sample.snapshot.nodes) if sample is not None else None


def layout(**given: Any) -> Component:
    """`node`: which is shown in detail."""
    told = given.get("node")
    node = int(told) if isinstance(told, str) and told.isdecimal() and len(told) < 7 else None
    return d(
        _all(),
        _one(),
        dcc.Store(id="nodes-node", data=node),
        dcc.Store(id="nodes-mark"),
        dcc.Store(id="nodes-at"),
        dcc.Store(id="nodes-asked"),
        dcc.Store(id={"type": "propose", "page": "nodes"}),
        confirm.dialog("nodes"),
        c="nd",
    )


def _height(rows: int) -> int:
    """As many rows as there are; beyond a dozen they scroll, so that the chosen one stays in sight."""
    return ROW_PX + 4 + ROW_PX * min(max(rows, 1), ROWS_MAX)


def _all() -> Component:
    change = d(
        button("Add a node", "", "plus", id="nodes-more", disabled=True),
        button("Remove a node", "bare", id="nodes-fewer", disabled=True),
        c="nd-change",
    )
    rows = grid.grid(
        "nodes-table",
        COLUMNS,
        "Table of nodes",
        height=_height(0),
        select="singleRow",
        empty="No node yet",
    )
    return panel("Nodes", d(id="nodes-empty"), rows, sub=s(id="nodes-sub"), right=change, c="data")


def _one() -> Component:
    memory = graph("nodes-memory", MEMORY_HEIGHT, "The node's memory over time against its budget")
    rates = graph(
        "nodes-rates", chart.HEIGHT, "The node's results and rows in per second over time"
    )
    return d(
        d(
            d(id="nodes-title", c="nd-t"),
            d(c="grow"),
            d(
                dmc.NumberInput(
                    id="nodes-budget", size="xs", className="ctl nd-budget", min=1, suffix=" MB", hideControls=True,
                    placeholder="MB", **{"aria-label": "Budget in MB"},
                ),
                button("Propose budget", id="nodes-set", disabled=True),
                c="joinbox",
            ),
            button("Drain", "", "log-out", id="nodes-drain", disabled=True),
            dcc.Link([icon("grid-3x3"), "On Placement"], id="nodes-there", href="/placement", className="btn"),
            c="nd-head",
        ),
        d(id="nodes-why", c="k nd-why"),
        d(states.loading(60), id="nodes-stats", c="nd-stats"),
        d(
            panel("Memory", memory, sub="dashed = budget; dotted = forecast", help=help_mark("full_in")),
            panel("Rows", rates, sub="of this node, per second", help=help_mark("rows_out")),
            panel("By operator", d(id="nodes-operators"), sub="state in memory; hatched = on disk"),
            panel("Largest groups", d(id="nodes-largest"), sub="in memory and on disk"),
            panel("Least productive groups", d(id="nodes-least"), sub="in memory; spilled first", help=help_mark("tiles")),
            c="nd-grid",
        ),
        id="nodes-one",
        c="nd-one data",
        style={"display": "none"},
    )  # fmt: skip


def register(on: Callbacks) -> None:
    on.in_browser("asked", Output("nodes-asked", "data"), Input("nodes-node", "data"))
    on.in_browser(
        "nodesPicked",
        Output("nodes-table", "selectedRows"),
        Input("nodes-table", "rowData"),
        Input("nodes-table", "selectedRows"),
        State("nodes-node", "data"),
    )
    on.callback(
        Role.VIEWER,
        Output("nodes-table", "rowData"),
        Output("nodes-table", "style"),
        Output("nodes-empty", "children"),
        Output("nodes-sub", "children"),
        Output("nodes-more", "disabled"),
        Output("nodes-fewer", "disabled"),
        Output("nodes-more", "title"),
        *POLLED,
        Input("nodes-done", "data"),
        polls=True,
    )(_table)
    on.callback(
        Role.VIEWER,
        Output("nodes-at", "data"),
        Output("nodes-one", "style"),
        Output("nodes-title", "children"),
        Output("nodes-stats", "children"),
        Output("nodes-memory", "figure"),
        Output("nodes-rates", "figure"),
        Output("nodes-operators", "children"),
        Output("nodes-largest", "children"),
        Output("nodes-least", "children"),
        Output("nodes-there", "href"),
        Output("nodes-drain", "disabled"),
        Output("nodes-set", "disabled"),
        Output("nodes-why", "children"),
        *POLLED,
        Input("nodes-node", "data"),
        State("nodes-at", "data"),
        polls=True,
    )(_node)
    on.callback(
        Role.OPERATOR,
        Output({"type": "propose", "page": "nodes"}, "data"),
        Input("nodes-drain", "n_clicks"),
        Input("nodes-set", "n_clicks"),
        State("nodes-budget", "value"),
        State("nodes-node", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_propose)
    on.callback(
        Role.ADMIN,
        Output("nodes-ask", "data"),
        Input("nodes-more", "n_clicks"),
        Input("nodes-fewer", "n_clicks"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_ask)
    confirm.register(on, "nodes", Role.ADMIN, {"nodes"})


def _cards(seen: Seen) -> Cards:
    assert seen.sample is not None
    return node_card.cards_of(seen.sample, feed().full_in(seen.sample))


def _table(_: int, view: Any, __: Any) -> list[Any]:
    seen = look(view)
    if seen.sample is None:
        text = f"{seen.name} is {seen.query.state}." if seen.query else "Register a query first."
        hidden = {"display": "none"}
        return [[], hidden, states.empty("No node yet", text, "server"), "", True, True, ""]
    cards, count = _cards(seen), len(seen.sample.snapshot.nodes)
    why = "" if may("nodes") else states.not_allowed(KINDS["nodes"].role, role())
    return [
        data.rows(seen.sample, cards, seen.stale),
        {"width": "100%", "height": f"{_height(count)}px"},
        None,
        data.headline(seen.sample, cards),
        bool(why),
        bool(why) or count < 2,
        why or f"{counted(count + 1, 'node')}; the query starts again",
    ]


def _node(_: int, view: Any, node: Any, at: Any) -> list[Any]:
    """One node in detail. Charts grow; the rest is sent when a tick has changed it."""
    seen = look(view)
    if seen.sample is None:
        return [no_update, {"display": "none"}, *[no_update] * 11]
    cards, n = _cards(seen), _which(seen, node)
    before: Mapping[str, Any] = at if isinstance(at, dict) else {}
    told: dict[str, Any] = {
        "tick": mark(seen.sample.version, n, seen.stale, seen.name, seen.view.zone_min)
    }
    if told["tick"] == before.get("tick") and ctx.triggered_id == "poll":
        return [no_update] * 13
    memory, rates = _charts(seen, cards, n, before, told)
    snapshot = seen.sample.snapshot
    allowed = may("drain")
    why = "" if allowed else states.not_allowed(KINDS["drain"].role, role())
    why = why or ("What is known is too old to act upon." if seen.stale else "")
    return [
        told,
        {},
        shown.title(seen, cards, n),
        shown.stats(seen, cards, n),
        memory,
        rates,
        shown.operators(snapshot, n),
        shown.groups(seen, data.largest(snapshot, n), "It has no groups"),
        shown.groups(seen, data.least_productive(snapshot, n), "Nothing in memory"),
        f"/placement?filter=node%3A{n}&query={seen.name}",
        bool(why),
        bool(why),
        why,
    ]


def _which(seen: Seen, node: Any) -> int:
    """The one that is chosen; else that which is in most trouble."""
    assert seen.sample is not None
    if type(node) is int and 0 <= node < len(seen.sample.snapshot.nodes):
        return node
    return data.fullest(_cards(seen))


def _charts(
    seen: Seen, cards: Cards, n: int, before: Mapping[str, Any], told: dict[str, Any]
) -> tuple[Any, Any]:
    view = seen.view
    series = feed().node_series(seen.name, view.range_s, memory_chart.POINTS)
    series = live.with_gaps(live.complete(series, seen.now_s))
    there = series.values["memory_bytes"].shape[1] if len(series.time_s) else 0
    drawn = memory_chart.Picture(seen, series, cards, [n] if n < there else [], [])
    picture = mark(
        seen.name, n, view.range, view.zone_min, view.theme, seen.stale, cards.unit, n < there
    )
    cursor = Cursor.of(before.get("charts"))
    fresh = live.new_rows(cursor, picture, series)
    if fresh is None or cursor is None:
        told["charts"] = live.begin(picture, series).to_json()
        return memory_chart.whole(drawn), chart.whole(seen, series, n)
    after, drop = live.after(cursor, series, fresh, round(KEPT * memory_chart.POINTS))
    told["charts"] = after.to_json()
    return memory_chart.grown(drawn, fresh, drop), chart.grown(seen, series, n, fresh, drop)


def _propose(drain: Any, budget: Any, megabytes: Any, node: Any, view: Any) -> Any:
    seen = look(view)
    if seen.sample is None or not ctx.triggered or not ctx.triggered[0].get("value"):
        return no_update
    n = _which(seen, node)
    if ctx.triggered_id == "nodes-drain":
        answer = act("drain", {"node": n}, seen.name)
    else:
        if not isinstance(megabytes, int | float) or not 0 < megabytes < 1e9:
            return {"refused": "A budget is a number of MB, above 0."}
        size = round(megabytes * MB)
        answer = act("propose", {"do": "budget", "node": n, "bytes": size}, seen.name)
    return {"proposal": answer.id} if answer.accepted else refused(answer)


def _ask(more: Any, fewer: Any, view: Any) -> Any:
    seen = look(view)
    if seen.sample is None or not ctx.triggered or not ctx.triggered[0].get("value"):
        return no_update
    count = len(seen.sample.snapshot.nodes)
    wanted = count + 1 if ctx.triggered_id == "nodes-more" else count - 1
    text = (
        f"{seen.name} ends its running tick and starts again on {counted(wanted, 'node')} instead of {count}; "
        "its state is spread over them anew. Results go on where they were, after a pause."
    )
    word = "Add a node" if wanted > count else f"Remove {node_name(count - 1)}"
    return Ask(
        "nodes",
        f"{counted(wanted, 'node')} for {seen.name}?",
        text,
        word,
        {"nodes": wanted},
        seen.name,
    ).to_json()
