"""Help on metrics: a mark that opens what a metric is, and the dialog behind the ? key."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from app.components.kit import d, dmc, icon, key, label, s
from app.components.metrics_help import HELP, Help
from app.pages.page import Page


def mark(name: str) -> Component:
    """A small ? beside a metric's name; `name` is one of metrics_help.HELP. The browser's own disclosure: it works
    by mouse and keyboard without a script; assets/keys.js closes it when somebody looks elsewhere."""
    told = HELP[name]
    asked = label(f"What is {told.name.lower()}?")
    button = html.Summary(icon("circle-help"), className="help-mark", **asked)
    return html.Details([button, d(_text(told), c="help-pop")], className="help pop")


def _text(told: Help) -> Component:
    rows = [("How it is computed", told.how), ("What to do", told.do)]
    inside = [item for head, text in rows for item in (html.Dt(head), html.Dd(text))]
    return d(s(told.name, c="b"), d(told.what), html.Dl(inside))


def dialog(pages: Sequence[Page]) -> Component:
    """Keys, and every metric in one place."""
    keys = [(key("?"), "this help"), (key("/"), "to the page's filter"), (key("Esc"), "close")]
    going = [
        (s(key("g"), " ", key(page.key)), page.name) for page in pages if page.key and page.listed
    ]
    listed = [cell for what, text in [*keys, *going] for cell in (d(what), d(text))]
    switch = dmc.Switch(id="keys-on", checked=True, size="xs", label="Keys are on", mt="md")
    left = d(html.H3("Keys", className="p-title"), d(*listed, c="keys"), switch)
    right = d(html.H3("Metrics", className="p-title"), *[_metric(told) for told in HELP.values()])
    made: Component = dmc.Modal(
        d(left, right, c="hd-grid"),
        id="help",
        title="Keys and help",
        size="xl",
        opened=False,
        zIndex=310,
        closeButtonProps={"aria-label": "Close"},
    )
    return made


def _metric(told: Help) -> Component:
    return d(s(told.name, c="b"), s(told.what), s(told.how, c="dim"), s(told.do), c="hd-m")
