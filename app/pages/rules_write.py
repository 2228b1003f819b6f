"""Rules written as TOML and checked while they are, saved, and tried on what was recorded."""

from __future__ import annotations

from typing import Any

from dash import Input, Output, State, ctx, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.kit import d, s
from app.desk import act, feed, role
from app.pages import rules_layout, rules_plot, rules_text, rules_view
from app.pages.page import look
from app.pages.rules_data import chosen_of, day, rule_of
from app.parts import parts
from app.problems import Problem
from control.errors import ControlError
from control.kinds import KINDS
from control.people import Role
from control.rules import Mode


def register(on: Callbacks) -> None:
    _writing(on)
    _trying(on)


def _writing(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("rules-text", "value"),
        Output("rules-text", "disabled"),
        Output("rules-pane", "value"),
        Input("rules-rule", "data"),
        Input("rules-begin", "value"),
        Input("rules-new", "n_clicks"),
        State("view", "data"),
    )(_begin)
    on.callback(
        Role.VIEWER,
        Output("rules-check", "children"),
        Output("rules-gutter", "children"),
        Output("rules-save", "disabled"),
        Output("rules-try", "disabled"),
        Output("rules-save-why", "children"),
        Output("rules-run", "disabled"),
        Output("rules-run", "title"),
        Output("rules-own-box", "style"),
        Input("rules-text", "value"),
        prevent_initial_call=True,
    )(_checked)
    on.callback(
        Role.OPERATOR,
        Output("rules-saved", "data"),
        Output("rules-save-said", "children"),
        Output("rules-own", "value"),
        Input("rules-save", "n_clicks"),
        State("rules-text", "value"),
        State("rules-own", "value"),
        prevent_initial_call=True,
    )(_save)


def _trying(on: Callbacks) -> None:
    on.callback(
        Role.OPERATOR,
        Output("rules-result", "data"),
        Output("rules-bt-said", "children"),
        Input("rules-run", "n_clicks"),
        Input("rules-try", "n_clicks"),
        State("rules-rule", "data"),
        State("rules-text", "value"),
        State("rules-span", "value"),
        State("view", "data"),
        prevent_initial_call=True,
        running=[(Output("rules-bt", "className"), "bt busy", "bt")],
    )(_try)
    on.callback(
        Role.VIEWER,
        Output("rules-bt-box", "hidden"),
        Output("rules-bt-none", "hidden"),
        Output("rules-bt-none", "children"),
        Output("rules-bt-sub", "children"),
        Output("rules-stats", "children"),
        Output("rules-verdict", "children"),
        Output("rules-plot", "figure"),
        Input("rules-result", "data"),
        Input("view", "data"),
        Input("rules-rule", "data"),
    )(_plotted)


# -- writing -------------------------------------------------------------------------------------------


def _begin(chosen: Any, policy: Any, _: int, view: Any) -> tuple[Any, Any, Any]:
    """The text of the rule that is chosen, or one to begin with."""
    rows = feed().rules()
    if ctx.triggered_id == "rules-new":
        return rules_text.begun("best_gain", look(view).name), False, "text"
    if ctx.triggered_id == "rules-begin" and policy:
        return rules_text.begun(str(policy), look(view).name), False, no_update
    if ctx.triggered_id == "rules-begin":
        return no_update, False, no_update
    name = chosen_of(rows, chosen, look(view).name)
    return next((row.text for row in rows if row.name == name), ""), False, no_update


def _checked(raw: Any) -> list[Any]:
    text = rules_text.cut(raw)
    found = rules_text.check(text)
    needed = KINDS["rule.save"].role
    barred = not role().covers(needed)
    why = states.not_allowed(needed, role()) if barred else _why_not(found)
    return [
        _said(found),
        rules_view.gutter(text, found.line),
        bool(barred or not found.good or why),
        bool(barred or not found.good),
        why,
        not role().covers(Role.OPERATOR),
        "" if role().covers(Role.OPERATOR) else states.not_allowed(Role.OPERATOR, role()),
        confirm.shown("rule.save", {"text": text}),
    ]


def _why_not(found: rules_text.Checked) -> str:
    if found.good and found.rule["mode"] == Mode.AUTO:
        return rules_view.why_not_auto(role())
    return ""


def _said(found: rules_text.Checked) -> Component:
    if found.good:
        rule = found.rule
        return reasons.check(
            f"Reads well: {rule['name']}, {rule['mode']}, policy {rule['policy']['name']}."
        )
    at = f"line {found.line}: " if found.line else ""
    where = f" ({found.where})" if found.where else ""
    hint = d(s(found.hint), c="ru-hint") if found.hint else None
    return d(reasons.refusals((), f"{at}{found.what}{where}"), hint)


def _save(clicks: int, raw: Any, own: Any) -> list[Any]:
    """A rule that acts by itself wants the password of whoever saves it."""
    if not clicks:
        return [no_update] * 3
    body = {"text": rules_text.cut(raw)}
    if confirm.needed("rule.save", body) and (fault := confirm.fault(own)):
        return [no_update, reasons.refusals((), fault), ""]
    answer = act("rule.save", body)
    if not answer.accepted:
        return [no_update, reasons.refusals(answer.refusals, answer.text), ""]
    text = f"{answer.id} is saved; it acts in your name from now on."
    told = {"text": text, "good": True, "at": feed().now_s(), "rule": answer.id}
    return [told, reasons.check(text), ""]


# -- trying --------------------------------------------------------------------------------------------


def _try(_: int, __: int, chosen: Any, raw: Any, span: Any, view: Any) -> tuple[Any, Any]:
    """What is saved, or the text as it is written now."""
    seen = look(view)
    if seen.query is None:
        return no_update, reasons.refusals((), "There is no query to try it on.")
    rows = feed().rules()
    row = next((row for row in rows if row.name == chosen_of(rows, chosen, seen.name)), None)
    text = rules_text.cut(raw) if ctx.triggered_id == "rules-try" else row.text if row else ""
    length = rules_layout.SPANS.get(str(span), rules_layout.SPANS[rules_layout.SPAN])[1]
    try:
        told = parts().advice.backtest(text, seen.name, seen.now_s - length, seen.now_s)
        rule = rule_of(text)
    except ControlError as error:
        return no_update, reasons.refusals((), str(error))
    except Problem as problem:  # another one is running
        return no_update, reasons.refusals((), problem.detail)
    ratio = next((p["value"] for p in rule["policy"]["parameters"] if p["name"] == "ratio"), None)
    said = (
        None
        if ctx.triggered_id != "rules-try"
        else reasons.check("Of the text as it is written, not saved.")
    )
    return {**told, "ratio": ratio, "span": str(span), "query": seen.name}, said


def _plotted(told: Any, raw_view: Any, chosen: Any) -> list[Any]:
    """Drawn anew for another theme or zone; another rule's result goes."""
    seen = look(raw_view)
    rows = feed().rules()
    if not isinstance(told, dict) or (
        ctx.triggered_id == "rules-rule" and told.get("rule") != chosen_of(rows, chosen, seen.name)
    ):
        return [True, False, rules_plot.none(), "", [], [], no_update]
    if not told.get("snapshots"):
        return [
            True,
            False,
            rules_plot.none("Nothing is recorded of that time"),
            "",
            [],
            [],
            no_update,
        ]
    _, most = day(feed(), seen)
    return [
        False,
        True,
        None,
        f"{told['rule']}: {rules_plot.sub(told, seen.view.zone_min)}",
        rules_plot.stats(told, most.bytes, most.pause_s),
        rules_plot.verdict(told),
        rules_plot.figure(told, seen.view, most.bytes),
    ]
