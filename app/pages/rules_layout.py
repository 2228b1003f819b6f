"""The skeleton of Rules: the list, one rule with its panes (backtest, evaluations, text), the day's budget."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from app.components import charts, confirm, states
from app.components.help import mark as help_mark
from app.components.kit import button, d, dmc, icon, panel, s
from app.pages import rules_plot, rules_view

PANES = {"backtest": "Backtest", "log": "Evaluations", "text": "Edit as TOML"}
SPANS = {"1h": ("last hour", 3_600.0), "6h": ("last 6 h", 21_600.0), "24h": ("last 24 h", 86_400.0),
         "7d": ("last 7 days", 604_800.0)}  # fmt: skip
SPAN = "24h"


def page(rule: str, pane: str) -> Component:
    return d(
        html.H1("Rules", className="sr"),
        d(id="rules-hold", c="ru-holds"),
        d(_left(), _right(pane), c="rl"),
        confirm.dialog("rules"),
        dcc.Store(id="rules-rule", data=rule),
        dcc.Store(id="rules-panes"),
        dcc.Store(id="rules-mark"),
        dcc.Store(id="rules-one-mark"),
        dcc.Store(id="rules-told"),
        dcc.Store(id="rules-saved"),
        dcc.Store(id="rules-result"),
    )


def _left() -> Component:
    heads = d(s("rule and what holds it now"), s("next", c="ru-x"), s("24 h", c="ru-f"), c="ru-h")
    rules = panel(
        "Rules",
        heads,
        d(id="rules-said", role="status"),
        d(states.loading(280), id="rules-list"),
        d(id="rules-foot"),
        sub=s(id="rules-sub"),
        help=help_mark("interlock"),
        right=button("New rule", "", "plus", id="rules-new"),
    )
    day = panel(
        "Disruption budget",
        d(states.loading(70), id="rules-budget"),
        help=help_mark("day"),
        c="bud",
    )
    holds = panel(
        "What holds it now",
        d(states.loading(44), id="rules-blockers"),
        sub=s(id="rules-for"),
        c="bud",
    )
    return d(rules, holds, day, c="ru-left")


def _right(pane: str) -> Component:
    shown = dmc.SegmentedControl(
        id="rules-pane",
        data=[{"value": value, "label": label} for value, label in PANES.items()],
        value=pane,
        size="xs",
        className="seg-c",
        **{"aria-label": "What is shown of the rule"},
    )
    made: Component = html.Section(
        [
            d(states.loading(24), id="rules-head", c="rd-t"),
            d(id="rules-pms", c="pms"),
            d(shown, c="rd-p"),
            d(_backtest(), id="rules-pane-backtest", hidden=pane != "backtest"),
            d(d(id="rules-log", c="ev-list"), id="rules-pane-log", hidden=pane != "log"),
            d(_editor(), id="rules-pane-text", hidden=pane != "text"),
        ],
        className="panel rd",
    )
    return made


def _backtest() -> Component:
    span = dmc.Select(
        id="rules-span",
        data=[{"value": value, "label": label} for value, (label, _) in SPANS.items()],
        value=SPAN,
        size="xs",
        className="ctl ru-span",
        allowDeselect=False,
        rightSection=icon("chevron-down"),
        **{"aria-label": "Recorded when"},
    )
    legend = d(
        s(html.I(className="ru-tri"), "fires", c="lg"),
        s(html.I(className="ru-bar"), "held by its interlock", c="lg"),
        s(html.I(className="sw mem"), "with the rule", c="lg"),
        s(html.I(className="sw ink"), "without it", c="lg"),
        c="legend",
    )
    return d(
        d(help_mark("backtest"), s(id="rules-bt-sub", c="p-sub"), d(span, button("Run backtest", "", "play", id="rules-run"), c="p-right"),
          c="p-head"),
        d(id="rules-bt-said", role="status"),
        d(rules_plot.none(), id="rules-bt-none"),
        d(
            d(id="rules-stats", c="stats"),
            d(legend, c="ru-lg"),
            charts.graph("rules-plot", rules_plot.HEIGHT,
                         "What the rule would have done: balance, the fullest node, bytes carried over time"),
            d(id="rules-verdict", c="bt-f"),
            id="rules-bt-box", hidden=True,
        ),
        id="rules-bt", c="bt",
    )  # fmt: skip


def _editor() -> Component:
    area = dmc.Textarea(
        id="rules-text",
        value="",
        disabled=True,  # until its text is there: what is typed before would be lost
        autosize=True,
        minRows=14,
        debounce=350,
        spellCheck=False,
        className="field code ru-area",
        **{"aria-label": "The rule as TOML", "aria-describedby": "rules-check"},
    )
    begin = dmc.Select(
        id="rules-begin",
        data=rules_view.policies(),
        value=None,
        placeholder="Begin with a policy",
        size="xs",
        className="ctl ru-begin",
        rightSection=icon("chevron-down"),
        comboboxProps={"width": "max-content"},
        **{"aria-label": "Begin with a policy"},
    )
    return d(
        d(begin, s("replaces the text below; nothing is saved", c="p-sub"), c="p-head"),
        d(d(id="rules-gutter", c="ru-gut mono", aria_hidden="true"), area, c="ru-ed"),
        d(id="rules-check", role="status", c="ru-check"),
        d(confirm.field_of("rules-own"), id="rules-own-box", style={"display": "none"}),
        d(
            button("Save rule", "primary", "check", id="rules-save"),
            button("Backtest this text", "", "play", id="rules-try"),
            s(id="rules-save-why", c="k"),
            c="ru-act",
        ),
        d(id="rules-save-said", role="status", c="ru-check"),
    )
