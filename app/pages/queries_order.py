"""Another join order for the query that is looked at: better ones with what they gain, one that somebody types, its
preview, and the way to a proposal. What is on its way or has just been done stands above the plan.

Priced when it is asked for, not with every poll: what jumps cannot be compared. Applying, cancelling and undoing are
the proposal panel's and the Actions page's, as for any other action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import order_view, reasons, states
from app.components.help import mark as help_mark
from app.components.kit import button, d, dmc, icon_button, label, panel, s
from app.components.units import clock
from app.desk import act, feed, may, role
from app.pages import queries_order_view as shown
from app.pages.page import Seen, look
from control.errors import ControlError
from control.kinds import KINDS
from control.people import Role

BETTER = "better"  # the list alone, no order looked at
ORDER_LENGTH_MAX = 2_000
LOOK = {"type": "queries-look", "order": ALL}
PROPOSE = {"type": "queries-propose", "strategy": ALL}
STORE = {"type": "propose", "page": "queries"}


def layout(order: str = "") -> Component:
    """Closed, unless the address names an order."""
    asked = str(order)[:ORDER_LENGTH_MAX]
    typed = asked if asked != BETTER else ""
    field = dmc.TextInput(
        id="queries-order-text", value=typed, size="xs", debounce=True,  # sent with Enter and on leaving
        className="ctl mg-field mono",
        placeholder="((a b) c)", **label("Join order"),
    )  # fmt: skip
    tools = d(
        s("Or type one", c="k"),
        field,
        button("Preview", "", id="queries-order-try"),
        d(id="queries-order-error", role="alert"),
        c="mg-tools",
    )
    head = panel(
        "Another join order",
        d(states.loading(80), id="queries-order-list"),
        tools,
        sub=s(id="queries-order-sub"),
        right=d(
            button("Price anew", "", "refresh-cw", id="queries-order-again"),
            icon_button("x", "Close the join orders", id="queries-order-close"),
            c="mg-right",
        ),
        help=help_mark("orders"),
    )
    return d(
        d(head, d(id="queries-order-view", c="stack"), c="stack"),
        dcc.Store(id="queries-order", data=asked),
        dcc.Store(id="queries-order-kept"),
        dcc.Store(id=STORE),
        id="queries-order-box",
        hidden=not asked,
    )


def opener() -> Component:
    return button("Propose a better order", "", "git-branch", id="queries-order-find")


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("queries-order", "data"),
        Input("queries-order-find", "n_clicks"),
        Input("queries-order-close", "n_clicks"),
        Input("queries-order-try", "n_clicks"),
        Input("queries-order-text", "n_submit"),
        Input(LOOK, "n_clicks"),
        State("queries-order-text", "value"),
        prevent_initial_call=True,
    )(_asked)
    on.in_browser("asked", Output("queries-order-kept", "data"), Input("queries-order", "data"))
    on.callback(
        Role.VIEWER,
        Output("queries-order-box", "hidden"),
        Output("queries-order-sub", "children"),
        Output("queries-order-list", "children"),
        Output("queries-order-error", "children"),
        Output("queries-order-view", "children"),
        Output("queries-order-text", "placeholder"),
        Input("queries-order", "data"),
        Input("queries-order-again", "n_clicks"),
        Input("view", "data"),
    )(_drawn)
    on.callback(
        Role.OPERATOR,
        Output(STORE, "data"),
        Input(PROPOSE, "n_clicks"),
        State("queries-order", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_propose)


def _asked(*given: Any) -> Any:
    """What is to be looked at: nothing, the better orders, or one order."""
    pressed, typed = ctx.triggered_id, given[-1]
    if not any(one.get("value") for one in ctx.triggered):
        return no_update
    if pressed == "queries-order-close":
        return ""
    if pressed == "queries-order-find":
        return BETTER
    if isinstance(pressed, Mapping):
        return str(pressed.get("order", ""))[:ORDER_LENGTH_MAX]
    text = typed.strip() if isinstance(typed, str) else ""
    return text[:ORDER_LENGTH_MAX] or BETTER


def _drawn(asked: Any, _: Any, raw_view: Any) -> list[Any]:
    if not isinstance(asked, str) or not asked:
        return [True, *[no_update] * 3, [], no_update]
    seen = look(raw_view)
    joins = seen.sample.snapshot.joins if seen.sample else None
    if seen.sample is None or joins is None or not joins.known:
        return [False, "", shown.unknown(seen.stale), None, [], "((a b) c)"]
    try:
        better = feed().orders(seen.sample)
    except ControlError as error:
        return [False, "", reasons.refusals((), str(error)), None, [], joins.order]
    at = f"priced at {clock(seen.now_s, seen.view.zone_min)} on what its ticks told"
    told, wrong = _looked(seen, asked, better)
    listed = shown.listed(better, joins.order, told)
    return [False, at, listed, wrong, _view(seen, told, joins.order), joins.order]


def _looked(
    seen: Seen, asked: str, better: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any] | None, Any]:
    """The order that is asked for, priced; or what is wrong with it."""
    if asked == BETTER:
        return None, None
    found = next((one for one in better if one["join_order"] == asked), None)
    if found is not None:
        return found, None
    assert seen.sample is not None
    try:
        return feed().order(seen.sample, asked), None
    except ControlError as error:
        return None, reasons.refusals((), error.what)


def _view(seen: Seen, told: Mapping[str, Any] | None, running: str) -> list[Component]:
    if told is None:
        return []
    needed = KINDS["propose"].role
    why = "" if may("propose") else states.not_allowed(needed, role())
    if seen.stale:
        why = "What is known of the query is too old to act upon."
    foot = shown.buttons(told, why)
    return order_view.preview(told, running, seen.view.theme, "queries-order-chart", foot)


def _propose(clicks: list[Any], asked: Any, raw_view: Any) -> Any:
    """By the strategy that was pressed, priced once more on what is there now."""
    pressed = ctx.triggered_id
    if not isinstance(pressed, Mapping) or not any(one.get("value") for one in ctx.triggered):
        return no_update
    strategy, order = str(pressed.get("strategy", "")), str(asked or "")
    body = {"do": "migrate", "order": order, "strategy": strategy}
    answer = act("propose", body, look(raw_view).name)
    return {"proposal": answer.id} if answer.accepted else reasons.refused(answer)
