"""The frame around every page: navigation, top bar, banners, the stores that pages read. A skeleton without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
from dash import dcc, html
from dash.development.base_component import Component

from app.components import help, proposal
from app.components.kit import d, dmc, icon, icon_button, label, s
from app.pages.page import Page
from app.view import RANGE, RANGES, REFRESH, REFRESHES

THEME = {
    "fontFamily": "var(--font-sans)",
    "fontFamilyMonospace": "var(--font-mono)",
    "defaultRadius": 4,
    "cursorType": "pointer",
    "fontSizes": {"xs": "12px", "sm": "13px"},
}
PROCESSES = ("console", "control", "engine")


def layout(pages: Sequence[Page]) -> Component:
    body = d(
        html.A("To the content", href="#content", className="skip"),
        _nav(pages),
        d(
            _banner(),
            _topbar(),
            html.Main(dash.page_container, id="content", className="content"),
            c="col",
        ),
        help.dialog(pages),
        proposal.panel_skeleton(),
        d(id="toast", c="toast", role="status"),
        *_stores(),
        id="frame",
        c="app",
    )
    whole: Component = dmc.MantineProvider(body, id="mantine", theme=THEME, forceColorScheme="dark")
    return whole


def _stores() -> list[Component]:
    return [
        dcc.Location(id="url", refresh=False),
        dcc.Interval(id="poll", interval=2_000),
        dcc.Interval(id="names-poll", interval=30_000),
        dcc.Store(id="view"),  # app/view.py
        dcc.Store(id="theme"),  # set by assets/view.js
        dcc.Store(id="known"),  # names of queries
        dcc.Store(id="beat"),  # age of what is known, and whether it is stale
        dcc.Store(id="shell-mark"),
        dcc.Store(id="hold-done"),
        d(id="live-done", hidden=True),
        d(id="keys-done", hidden=True),
    ]


def _nav(pages: Sequence[Page]) -> Component:
    shown = [page for page in pages if page.listed]
    high = [_nav_item(page) for page in shown if not page.low]
    low = [_nav_item(page) for page in shown if page.low]
    line = [d(c="nv-sep")] if high and low else []
    return html.Div(
        [
            d(icon("waves", "brand"), s("Spillway", c="brand-t"), c="nv-brand"),
            html.Nav([*high, *line, *low], className="nv-list", **label("Pages")),
            d(*[_process(name) for name in PROCESSES], id="nav-procs", c="nv-procs"),
        ],
        className="nav",
    )


def _nav_item(page: Page) -> Component:
    inside = [
        icon(page.icon),
        s(page.name, c="nv-l"),
        s(id={"type": "nav-count", "page": page.path}, c="nv-b"),
    ]
    to = dcc.Link(
        inside,
        href=page.href,
        id={"type": "nav", "page": page.path},
        className="nv",
        title=f"g then {page.key}" if page.key else None,
    )
    return d(to, data_go=page.key or "-")


def _process(name: str) -> Component:
    return d(html.I(className="pdot"), s(name), s("", c="pr-n"), c="pr")


def _banner() -> Component:
    return d(
        icon("triangle-alert"),
        s(c="banner-text"),
        html.A("Sign in", href="/sign-in", className="banner-link text-link"),
        id="banner",
        c="banner",
        role="alert",
    )


def _select(id: str, name: str, ic: str, options: Any, value: str | None, c: str) -> Component:
    made: Component = dmc.Select(
        id=id,
        data=options,
        value=value,
        size="xs",
        className=f"ctl {c}",
        allowDeselect=False,
        checkIconPosition="right",
        leftSection=icon(ic),
        rightSection=icon("chevron-down"),
        comboboxProps={"width": "max-content", "position": "bottom-start"},
        **label(name),
    )
    return made


def _topbar() -> Component:
    ranges = [{"value": name, "label": label} for name, (label, _) in RANGES.items()]
    refreshes = [{"value": name, "label": label} for name, (label, _) in REFRESHES.items()]
    return html.Header(
        [
            _select("tb-query", "Query", "git-branch", [], None, "tb-q"),
            s(id="tb-note", c="tb-note"),
            d(c="grow"),
            _live(),
            _select("tb-range", "Time range", "clock", ranges, RANGE, "tb-r"),
            d(
                _select("tb-refresh", "Refresh every", "refresh-cw", refreshes, REFRESH, "tb-f"),
                icon_button("pause", "Pause refresh", id="tb-pause", aria_pressed="false"),
                c="joinbox",
            ),
            dmc.SegmentedControl(
                id="tb-zone", data=["UTC", "Local"], value="UTC", size="xs", className="seg-c"
            ),
            d(c="tb-div"),
            _hold(),
            d(c="tb-div"),
            icon_button("circle-help", "Keys and help", id="help-open"),
            _user(),
        ],
        className="topbar",
    )


def _live() -> Component:
    """Its text is kept by assets/view.js, which counts on between two polls."""
    return d(
        html.I(className="live"),
        icon("wifi-off"),
        s("Waiting", c="live-word"),
        s("", c="u live-age"),
        id="live",
        c="livebox",
        role="status",
        data_mode="none",
        aria_live="off",
    )


def _hold() -> Component:
    """A switch whose state is the server's: it changes when the answer is there, not when it is clicked."""
    checked: Any = {"aria-checked": "false"}
    return d(
        html.Button(
            [html.I(className="sw-t"), s("Hold automation", c="sw-l")],
            id="hold",
            className="switch",
            type="button",
            role="switch",
            n_clicks=0,
            **checked,
        ),
        s(id="hold-note", c="hold-note"),
        c="holdbox",
    )


def _user() -> Component:
    """Who is signed in, and what is theirs alone: theme, signing out."""
    themes = [
        html.Button(
            [icon(ic), name], id=f"theme-{key}", className="um-i", n_clicks=0, type="button"
        )
        for key, name, ic in (
            ("auto", "As the system", "contrast"),
            ("light", "Light", "sun"),
            ("dark", "Dark", "moon"),
        )
    ]
    out = _item("log-out", "Sign out")
    inside = [
        s("Theme", c="um-k"),
        *themes,
        d(c="um-line"),
        html.A(_item("scroll-text", "API"), href="/api", className="um-i"),
        html.Button(out, id="sign-out", className="um-i", n_clicks=0, type="button"),
    ]
    who = [s(id="user-name", c="u-n"), s(id="user-role", c="u-r")]
    target = html.Summary(who, className="user", **label("You: theme, sign out"))
    return html.Details([target, d(*inside, c="um")], className="pop")


def _item(ic: str, text: str) -> list[Any]:
    return [icon(ic), text]
