"""Queries & plans: what is registered and how it does, the operators of the one that is looked at, its file."""

from __future__ import annotations

from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.confirm import Ask
from app.components.help import mark as help_mark
from app.components.kit import button, d, legend, panel, s
from app.components.plan_tree import operators, title
from app.components.units import clock
from app.desk import act, feed, role
from app.feed import Feed
from app.pages import queries_new, queries_order, queries_order_view
from app.pages import queries_view as shown
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.ledger import QueryRow
from control.people import Role


def _count(found: Feed, _: str) -> Any:
    return len(found.queries()) or None


PAGE = Page("queries", "Queries & plans", "git-branch", "q", order=40, count=_count)
ACTS = {"type": "queries-do", "kind": ALL, "query": ALL}
OPERATORS = {"type": "queries-op", "id": ALL}
AT_ONCE = frozenset({"query.start", "query.pause", "query.resume"})
ASKED = {
    "query.stop": ("Stop {q}?", "It ends after the running tick. Its state stays in the checkpoint; a start goes on from there.", "Stop it"),
    "query.unregister": ("Unregister {q}?", "The console forgets it. Its state and results stay on disk.", "Unregister it"),
}  # fmt: skip


def layout(order: str = "", **_: Any) -> Component:
    one = d(d(_plan(), _nodes(), c="stack"), _beside(), id="queries-one", c="two")
    way = d(id="queries-way", c="mg-ways", role="status")
    return d(_list(), queries_order.layout(order), way, one, queries_new.drawer(), confirm.dialog("queries"),
             *_stores(), id="queries", c="stack")  # fmt: skip


def _stores() -> list[Component]:
    return [
        dcc.Store(id="queries-at"),
        dcc.Store(id="queries-chosen"),
        dcc.Store(id="queries-did"),
        dcc.Store(id="queries-registered"),
    ]


def _list() -> Component:
    return panel(
        "Queries",
        d(states.loading(60), id="queries-list"),
        d(id="queries-did-said", c="form-said qu-said", role="status"),
        sub=s(id="queries-sub"),
        help=help_mark("lag"),
        right=button("Register a query", "", "plus", id="queries-open"),
        c="data",
    )


def _plan() -> Component:
    return panel(
        "Plan",
        d(states.loading(260), id="queries-plan"),
        shown.help_line(),
        sub=s(id="queries-plan-sub"),
        right=d(
            legend(("mem", "in memory"), ("disk", "on disk")), queries_order.opener(), c="mg-right"
        ),
        c="data",
    )


def _nodes() -> Component:
    return panel(
        "By node",
        d(states.loading(120), id="queries-nodes"),
        sub=s(id="queries-nodes-sub"),
        c="data",
    )


def _beside() -> Component:
    file = [html.Summary("Query file"), html.Pre(id="queries-file", className="code-box")]
    return d(
        panel(
            "Operator",
            d(states.loading(80), id="queries-operator"),
            sub=s(id="queries-operator-sub"),
        ),
        panel(
            "Query",
            d(states.loading(80), id="queries-facts"),
            html.Details(file, className="details"),
        ),
        c="stack",
    )


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("queries-list", "children"),
        Output("queries-sub", "children"),
        Output("queries-one", "style"),
        Output("queries-plan", "children"),
        Output("queries-plan-sub", "children"),
        Output("queries-nodes", "children"),
        Output("queries-nodes-sub", "children"),
        Output("queries-operator", "children"),
        Output("queries-operator-sub", "children"),
        Output("queries-facts", "children"),
        Output("queries-file", "children"),
        Output("queries-way", "children"),
        Output("queries-at", "data"),
        *POLLED,
        Input("queries-chosen", "data"),
        Input("queries-did", "data"),
        Input("queries-done", "data"),
        Input("queries-registered", "data"),
        State("queries-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.VIEWER,
        Output("queries-chosen", "data"),
        Input(OPERATORS, "n_clicks"),
        prevent_initial_call=True,
    )(_choose)
    on.callback(
        Role.OPERATOR,
        Output("queries-did", "data"),
        Output("queries-ask", "data"),
        Input(ACTS, "n_clicks"),
        prevent_initial_call=True,
    )(_do)
    on.callback(
        Role.VIEWER,
        Output("queries-did-said", "children"),
        Input("queries-did", "data"),
        Input("queries-done", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_said)
    confirm.register(on, "queries", Role.OPERATOR, ASKED)
    queries_new.register(on)
    queries_order.register(on)


def _refresh(_: int, raw_view: Any, chosen: Any, *rest: Any) -> list[Any]:
    seen, before = look(raw_view), rest[-1] if isinstance(rest[-1], dict) else {}
    rows = feed().queries()
    newest = {row.name: feed().newest(row.name) for row in rows}
    told: dict[str, Any] = {}
    picked = chosen if isinstance(chosen, str) else ""
    listed = [
        shown.listed(rows, newest, seen.name),
        f"{sum(row.state == 'running' for row in rows)} of {len(rows)} running" if rows else "",
        {} if rows else {"display": "none"},
    ]
    ticks = [(q.name, q.state, q.wanted, q.error, s.version if s else 0) for q, s in
             ((q, newest[q.name]) for q in rows)]  # fmt: skip
    look_is = (seen.name, seen.view.zone_min, seen.stale)
    return [
        *_if_new("list", told, before, (ticks, look_is), listed),
        *_if_new("plan", told, before, (_plan_is(seen), picked, look_is), _planned(seen, picked)),
        *_if_new(
            "query",
            told,
            before,
            (seen.query, look_is, role(), round(seen.now_s / 30)),
            _of_query(seen),
        ),
        *_if_new("way", told, before, *_way(seen)),
        told,
    ]


def _if_new(
    name: str, told: dict[str, Any], before: dict[str, Any], value: Any, made: list[Any]
) -> list[Any]:
    """`made`, unless the browser shows just that already."""
    told[name] = mark(value)
    return made if told[name] != before.get(name) else [no_update] * len(made)


def _way(seen: Seen) -> tuple[Any, list[Any]]:
    """Changes of the join order: what is said of them, and by what it is known whether that is new."""
    found = [
        row
        for row in feed().actions(seen.name, queries_order_view.DONE_S)
        if row.body["step"]["do"] == "migrate"
    ]
    going = {row.id: row for row in (*found, *feed().running(seen.name))}
    rows = [row for row in going.values() if row.body["step"]["do"] == "migrate"]
    shown_ = queries_order_view.way(sorted(rows, key=lambda row: row.started_s), seen.now_s)
    every = 1 if any(row.ended_s is None for row in rows) else 10
    return (rows, round(seen.now_s / every)), [shown_]


def _plan_is(seen: Seen) -> Any:
    sample = seen.sample
    return sample.version if sample else None, sample.time_s if sample else None, seen.query


def _planned(seen: Seen, picked: str) -> list[Any]:
    """The tree, the line beside it, and the chosen operator by node."""
    row = seen.query
    if row is None:
        none = states.empty("No such query", "Choose one above, or register one.", "git-branch")
        return [none, "", none, "", None, ""]
    name = shown.operator_named(row, picked)
    root = shown.root_of(row)
    count = len(list(operators(root))) if root else 0
    what = f"{row.name}: {title(root)}" if root else row.name
    sub = f"{what} · {count} operator{'' if count == 1 else 's'}" if count else what
    if (other := shown.beside(row)) is not None:
        sub += f"; beside it {title(other)}"
    return [
        shown.plan(row, seen.sample, name),
        sub,
        shown.by_node(seen.sample, name),
        f"{name}: state and rates where its groups are now" if name else "",
        shown.definition(row, name),
        name,
    ]


def _of_query(seen: Seen) -> list[Any]:
    row = seen.query
    if row is None:
        return [states.empty("No such query", "", "info"), ""]
    return [shown.facts(row, seen.view.zone_min, seen.now_s), _file(row)]


def _file(row: QueryRow) -> str:
    """The query's file; its passwords are for admins."""
    whole = parts().store.queries.find(row.name) if role() is Role.ADMIN else None
    return row.text if whole is None else whole.text


def _choose(clicks: list[Any]) -> Any:
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not any(one.get("value") for one in ctx.triggered):
        return no_update
    return str(pressed.get("id", ""))


def _do(clicks: list[Any]) -> Any:
    """At once what can be taken back; what cannot is asked first."""
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not any(one.get("value") for one in ctx.triggered):
        return no_update, no_update
    kind, query = str(pressed.get("kind", "")), str(pressed.get("query", ""))
    if kind in ASKED:
        heads, text, word = ASKED[kind]
        return no_update, Ask(kind, heads.format(q=query), text, word, query=query).to_json()
    if kind not in AT_ONCE:
        return no_update, no_update
    answer = act(kind, {}, query)
    said = {"text": f"{query}: {answer.text}", "good": answer.accepted, "at": feed().now_s()}
    return said, no_update


def _said(did: Any, done: Any, raw_view: Any) -> Any:
    told = did if ctx.triggered_id == "queries-did" else done
    if not isinstance(told, dict):
        return no_update
    text = str(told.get("text", ""))
    if told.get("good") is False:
        return reasons.refusals((), text)
    return reasons.check(f"{clock(told.get('at'), look(raw_view).view.zone_min)}  {text}")
