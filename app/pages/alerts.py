"""Alerts: what is not as it should be now and since when, what to do about it, and what was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import reasons, states
from app.components.alert_texts import advice
from app.components.kit import button, chip, d, icon, link, panel, s, table
from app.components.units import clock, counted, duration, moment
from app.desk import act, feed, may, role
from app.feed import Feed
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.kinds import KINDS
from control.ledger import Alert
from control.people import Role


def _count(found: Feed, _: str) -> Any:
    """Those that nobody looks after yet."""
    new = [
        a for a in found.alerts() if not a.acknowledged_by and a.silenced_until_s <= found.now_s()
    ]
    return chip(str(len(new)), "near") if new else None


PAGE = Page("alerts", "Alerts", "bell", "l", order=90, count=_count)
ACTS = {"type": "alerts-do", "do": ALL, "alert": ALL}
PAST_MAX = 30
SILENCES: Mapping[str, tuple[str, float]] = {
    "1h": ("1 h", 3_600.0),
    "8h": ("8 h", 28_800.0),
    "24h": ("24 h", 86_400.0),
}


def layout(**_: Any) -> Component:
    return d(
        panel("Open", d(states.loading(120), id="alerts-open"),
              d(id="alerts-said", c="form-said al-said", role="status"), sub=s(id="alerts-sub")),
        panel("Past", d(states.loading(120), id="alerts-past"),
              d(button("Newer", id="alerts-newer", disabled=True), button("Older", id="alerts-older", disabled=True),
                s(id="alerts-where"), c="pg-foot"), sub="ended, newest first"),
        dcc.Store(id="alerts-at"), dcc.Store(id="alerts-did"), dcc.Store(id="alerts-before", data=[]),
        id="alerts", c="stack",
    )  # fmt: skip


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("alerts-open", "children"),
        Output("alerts-sub", "children"),
        Output("alerts-past", "children"),
        Output("alerts-newer", "disabled"),
        Output("alerts-older", "disabled"),
        Output("alerts-where", "children"),
        Output("alerts-at", "data"),
        *POLLED,
        Input("alerts-did", "data"),
        Input("alerts-before", "data"),
        State("alerts-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.VIEWER,
        Output("alerts-before", "data"),
        Input("alerts-newer", "n_clicks"),
        Input("alerts-older", "n_clicks"),
        State("alerts-before", "data"),
        State("alerts-at", "data"),
        prevent_initial_call=True,
    )(_turn)
    on.callback(
        Role.OPERATOR,
        Output("alerts-did", "data"),
        Output("alerts-said", "children"),
        Input(ACTS, "n_clicks"),
        prevent_initial_call=True,
    )(_do)


def _refresh(_: int, raw_view: Any, __: Any, cursors: Any, at: Any) -> list[Any]:
    seen = look(raw_view)
    before: Mapping[str, Any] = at if isinstance(at, Mapping) else {}
    found = sorted(
        feed().alerts(),
        key=lambda a: (a.silenced_until_s > seen.now_s, bool(a.acknowledged_by), -a.since_s),
    )
    key = [
        (a.id, a.text, a.acknowledged_by, a.silenced_until_s, duration(seen.now_s - a.since_s))
        for a in found
    ]
    told: dict[str, Any] = {"open": mark(key, seen.view.zone_min)}
    opened: list[Any] = [no_update, no_update]
    if told["open"] != before.get("open"):
        opened = [_open(found, seen), _sub(found)]
    cursor = cursors[-1] if isinstance(cursors, list) and cursors else None
    past, more = _past_rows(cursor)
    told["past"] = mark([a.id for a in past], seen.view.zone_min)
    told["next"] = past[-1].id if past and more else None
    if told["past"] == before.get("past"):
        return [*opened, no_update, not cursor, not more, no_update, told]
    where = f"{counted(len(past), 'alert')} on this page" if past else ""
    return [*opened, _past(past, seen), not cursor, not more, where, told]


def _sub(found: Sequence[Alert]) -> str:
    alone = sum(not a.acknowledged_by for a in found)
    return f"{len(found)} open, {alone} that nobody looks after" if found else "nothing is wrong"


def _past_rows(cursor: Any) -> tuple[list[Alert], bool]:
    """A page of those that have ended; open ones are above."""
    before = cursor if isinstance(cursor, int) else None
    rows = parts().store.alerts.page(before=before, most=PAST_MAX * 2)
    ended = [a for a in rows if a.until_s is not None]
    return ended[:PAST_MAX], len(ended) > PAST_MAX or (len(rows) == PAST_MAX * 2 and bool(ended))


def _open(found: Sequence[Alert], seen: Seen) -> Any:
    if not found:
        return states.empty(
            "Nothing is wrong",
            "Ten conditions are watched; what holds long enough is listed here.",
            "check",
        )
    return [_card(alert, seen) for alert in found]


def _card(alert: Alert, seen: Seen) -> Component:
    told, silent = advice(alert.kind), alert.silenced_until_s > seen.now_s
    grave = "fail" if told.grave else "near"
    ic = "octagon-x" if told.grave else "triangle-alert"
    chips = []
    if alert.acknowledged_by:
        chips.append(chip(f"{alert.acknowledged_by} looks after it", "", "user"))
    if silent:
        chips.append(
            chip(
                f"silent until {clock(alert.silenced_until_s, seen.view.zone_min, seconds=False)}",
                "",
                "pause",
            )
        )
    head = d(
        icon(ic, f"al-i {grave}"), s(told.name, c="b"), s(alert.subject, c="al-sub"), *chips,
        s(f"for {duration(seen.now_s - alert.since_s)}", c="al-d", title=f"since {moment(alert.since_s, seen.view.zone_min)}"),
        c="al-h",
    )  # fmt: skip
    body = d(
        d(alert.text, c="al-text"),
        d(told.means, c="al-m"),
        d(s("Do: ", c="b"), told.do, " ", link(told.page, told.href, "text-link"), c="al-m"),
        c="al-b",
    )
    quiet = " quiet" if silent or alert.acknowledged_by else ""
    return d(head, d(body, _buttons(alert, silent), c="al-row"), c=f"al-card {grave}{quiet}")


def _buttons(alert: Alert, silent: bool) -> Component:
    why = (
        None
        if may("alert.acknowledge")
        else states.not_allowed(KINDS["alert.acknowledge"].role, role())
    )

    def made(word: str, do: str, label: str) -> Component:
        at = {"type": "alerts-do", "do": do, "alert": alert.id}
        return button(
            word,
            id=at,
            disabled=why is not None,
            title=why,
            aria_label=f"{label}: {advice(alert.kind).name}",
        )

    first = None if alert.acknowledged_by else made("I look after it", "ack", "I look after it")
    if silent:
        return d(first, made("Hear it again", "hear", "Hear it again"), c="al-bs")
    silences = [made(text, name, f"Silence for {text}") for name, (text, _) in SILENCES.items()]
    return d(first, d(s("Silence for", c="k"), *silences, c="td-b al-sil"), c="al-bs")


def _past(found: Sequence[Alert], seen: Seen) -> Any:
    if not found:
        return states.empty("None has ended yet", "Alerts that are over are kept here.", "clock")
    heads = [
        ("alert", ""),
        ("of", ""),
        ("what it last said", ""),
        ("began", "r"),
        ("lasted", "r"),
        ("looked after by", ""),
    ]
    rows = [
        [
            s(advice(a.kind).name, c="nowrap"), s(a.subject, c="nowrap"), s(a.text, c="dim"),
            s(moment(a.since_s, seen.view.zone_min), c="nowrap"),
            s(duration((a.until_s or a.since_s) - a.since_s), c="num nowrap"), a.acknowledged_by or s("nobody", c="dim"),
        ]
        for a in found
    ]  # fmt: skip
    return d(table(heads, rows, "wrap"), c="scroll-x")


def _turn(newer: Any, older: Any, cursors: Any, at: Any) -> Any:
    """Cursors of the pages that were turned, the last one on top."""
    stack = [c for c in cursors if isinstance(c, int)] if isinstance(cursors, list) else []
    if ctx.triggered_id == "alerts-newer":
        return stack[:-1]
    following = at.get("next") if isinstance(at, Mapping) else None
    return [*stack, following] if isinstance(following, int) else no_update


def _do(clicks: list[Any]) -> Any:
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not any(one.get("value") for one in ctx.triggered):
        return no_update, no_update
    do, alert = str(pressed.get("do", "")), pressed.get("alert")
    if do == "ack":
        answer = act("alert.acknowledge", {"alert": alert})
    else:
        seconds = SILENCES[do][1] if do in SILENCES else 0.0
        answer = act("alert.silence", {"alert": alert, "seconds": seconds})
    if answer.accepted:
        return feed().now_s(), None
    return no_update, reasons.refusals(answer.refusals, answer.text)
