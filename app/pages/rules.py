"""Rules: which there are, what holds each, what each came to; written as TOML, tried on what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Input, Output, State, ctx, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons
from app.components.confirm import Ask
from app.components.kit import d
from app.desk import act, feed, may, role
from app.feed import Feed
from app.pages import rules_layout, rules_view, rules_write
from app.pages.page import POLLED, Page, look, mark
from app.pages.rules_data import chosen_of, day, evaluations, fired, rule_of
from app.pages.rules_view import Listed
from app.parts import parts
from control.errors import ControlError
from control.kinds import Answer
from control.ledger import RuleRow
from control.people import Role
from control.rules import Mode

DAY_S = 86_400.0
LOG_MAX = 60
FIRED = ("acted", "proposed")
FIRED_READ_MAX, FIRED_S = 2_000, 15.0
NAME_MAX = 64
PAGE = Page("rules", "Rules", "scale", "r", order=60, count=lambda found, query: _count(found))
MODES = {"type": "rules-mode", "rule": ALL}


def _count(found: Feed) -> str | None:
    count = len(found.rules())
    return str(count) if count else None


def layout(rule: str = "", pane: str = "", **_: Any) -> Component:
    return rules_layout.page(
        str(rule)[:NAME_MAX], pane if pane in rules_layout.PANES else "backtest"
    )


def register(on: Callbacks) -> None:
    on.in_browser(
        "picked", Output("rules-rule", "data"), Input({"type": "rules-pick", "rule": ALL}, "n_clicks"),
        Input("rules-saved", "data"), State("rules-rule", "data"), prevent_initial_call=True,
    )  # fmt: skip
    on.in_browser("asked", Output("rules-panes", "data"), Input("rules-pane", "value"))
    _lists(on)
    _one(on)
    rules_write.register(on)
    confirm.register(on, "rules", Role.OPERATOR, {"rule.drop", "rule.mode"})


def _lists(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("rules-list", "children"),
        Output("rules-sub", "children"),
        Output("rules-foot", "children"),
        Output("rules-hold", "children"),
        Output("rules-budget", "children"),
        Output("rules-said", "children"),
        Output("rules-mark", "data"),
        *POLLED,
        Input("rules-told", "data"),
        Input("rules-saved", "data"),
        Input("rules-done", "data"),
        Input("rules-rule", "data"),
        State("rules-mark", "data"),
        polls=True,
    )(_list)
    on.callback(
        Role.VIEWER,
        Output({"type": "rules-line", "rule": ALL}, "children"),
        Output({"type": "rules-next", "rule": ALL}, "children"),
        *POLLED,
        Input("rules-mark", "data"),
        State({"type": "rules-line", "rule": ALL}, "id"),
        polls=True,
    )(_lines)
    on.callback(
        Role.OPERATOR,
        Output("rules-told", "data"),
        Output("rules-ask", "data"),
        Input(MODES, "value"),
        Input({"type": "rules-release", "at": ALL}, "n_clicks"),
        Input({"type": "rules-drop", "rule": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )(_pressed)


def _one(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("rules-head", "children"),
        Output("rules-pms", "children"),
        Output("rules-blockers", "children"),
        Output("rules-for", "children"),
        Output("rules-log", "children"),
        Output("rules-one-mark", "data"),
        *POLLED,
        Input("rules-rule", "data"),
        Input("rules-mark", "data"),
        State("rules-one-mark", "data"),
        polls=True,
    )(_shown)
    panes = [Output(f"rules-pane-{name}", "hidden") for name in rules_layout.PANES]
    on.callback(Role.VIEWER, *panes, Input("rules-pane", "value"))(_panes)


# -- the list ------------------------------------------------------------------------------------------


def _list(
    _: int, view: Any, told: Any, saved: Any, done: Any, chosen: Any, before: Any
) -> list[Any]:
    seen, found = look(view), feed()
    rows = found.rules()
    listed = [_listed(row, fired(found, seen).get(row.name, 0)) for row in rows]
    used, most = day(found, seen)
    hold, last = found.hold(), _last(told, saved, done)
    now = mark(
        [(one.row.name, one.row.mode, one.help, one.fired) for one in listed], used, most, hold, last,
        chosen_of(rows, chosen, seen.name), str(role()), seen.view.zone_min,
    )  # fmt: skip
    if now == before:
        return [no_update] * 7
    auto = sum(1 for row in rows if row.mode == Mode.AUTO)
    return [
        rules_view.listed(listed, chosen_of(rows, chosen, seen.name)),
        f"{len(rows)}, of which {auto} act{'s' if auto == 1 else ''} by {'itself' if auto == 1 else 'themselves'}",
        rules_view.foot(),
        rules_view.held(hold, seen.view.zone_min, may("release")),
        rules_view.budget(used, most),
        last[1] if last and last[0] > seen.now_s - 20 else None,
        now,
    ]


def _last(*told: Any) -> tuple[float, Any] | None:
    """The newest of what was answered here: when, and how it is said."""
    found = [
        one for one in told if isinstance(one, dict) and isinstance(one.get("at"), int | float)
    ]
    if not found:
        return None
    one = max(found, key=lambda one: float(one["at"]))
    text = str(one.get("text", ""))
    if text == "dropped":
        text = f"{one.get('id', 'The rule')} is deleted."
    if not text:
        return float(one["at"]), None
    said = reasons.check(text) if one.get("good", True) else reasons.refusals((), text)
    return float(one["at"]), d(said, c="ru-said")


def _listed(row: RuleRow, fired: int) -> Listed:
    try:
        rule = rule_of(row.text)
    except ControlError as error:
        return Listed(row, str(error).splitlines()[0], True, fired)
    return Listed(row, str(rule["policy"]["help"]), False, fired)


def _lines(_: int, view: Any, __: Any, ids: Sequence[Mapping[str, str]]) -> list[Any]:
    seen = look(view)
    locks = {row.name: (row, lock) for row, lock in feed().interlocks(seen.name) or ()}
    rows = {row.name: row for row in feed().rules()}
    found = []
    for one in ids:
        row, lock = locks.get(one["rule"], (rows.get(one["rule"]), {}))
        found.append(
            rules_view.line(row, lock, seen.now_s, seen.view.zone_min) if row else ([], "")
        )
    return [[first for first, _ in found], [second for _, second in found]]


def _pressed(*_: Any) -> list[Any]:
    """A mode, the hold, or a rule to be deleted. What needs the password, or cannot be taken back, is asked first."""
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not ctx.triggered or not ctx.triggered[0]["value"]:
        return [no_update, no_update]
    if pressed["type"] == "rules-release":
        return [_told(act("hold" if pressed["at"] == "renew" else "release")), no_update]
    name = str(pressed["rule"])
    if pressed["type"] == "rules-drop":
        return [no_update, _ask_drop(name)]
    return _switched(name, str(ctx.triggered[0]["value"]))


def _switched(name: str, wanted: str) -> list[Any]:
    row = parts().store.rules.find(name)
    if row is None or row.mode == wanted:
        return [no_update, no_update]  # it was only drawn
    body = {"rule": name, "mode": wanted}
    if not confirm.needed("rule.mode", body):
        return [_told(act("rule.mode", body)), no_update]
    text = f"It acts by itself from then on, in your name. Until then it stays on {row.mode}."
    ask = Ask("rule.mode", f"Switch {name} to {wanted}?", text, "Switch", body)
    return [{"text": "", "good": True, "at": feed().now_s()}, ask.to_json()]  # the switch goes back


def _told(answer: Answer) -> dict[str, Any]:
    return {"text": answer.text, "good": answer.accepted, "at": feed().now_s()}


def _ask_drop(name: str) -> Any:
    text = f"{name} is removed with its text; what it did stays in the ledger. It cannot be brought back from here."
    return Ask("rule.drop", f"Delete rule {name}?", text, "Delete", {"rule": name}).to_json()


# -- one rule ------------------------------------------------------------------------------------------


def _shown(_: int, view: Any, chosen: Any, __: Any, before: Any) -> list[Any]:
    seen = look(view)
    rows = feed().rules()
    row = next((row for row in rows if row.name == chosen_of(rows, chosen, seen.name)), None)
    if row is None:
        return [[], [], [], "", [], ""]
    lock = dict(
        next(
            (lock for found, lock in feed().interlocks(seen.name) or () if found.name == row.name),
            {},
        )
    )
    found = evaluations(row)
    now = mark(row, lock, found, role(), seen.view.zone_min, round(seen.now_s / 60))
    if now == before:
        return [no_update] * 6
    zone = seen.view.zone_min
    return [
        rules_view.head(row, seen.now_s, zone),
        _parameters(row),
        rules_view.blockers(lock, seen.now_s, zone),
        row.name,
        rules_view.log(found, zone),
        now,
    ]


def _parameters(row: RuleRow) -> list[Component]:
    try:
        return rules_view.parameters(rule_of(row.text))
    except ControlError as error:
        return [d(reasons.refusals((), str(error)), c="ru-note")]


def _panes(pane: str) -> list[bool]:
    return [name != pane for name in rules_layout.PANES]
