"""Placement's skeleton: the picture, the strip by group id, the table, and the panel that says what would come of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from app.components import grid, states
from app.components.help import mark
from app.components.kit import button, chip, d, dmc, icon, key, panel, s
from app.components.steps import VERBS
from app.pages import placement_data as data
from app.pages import placement_panel as shown
from app.pages import placement_table as table
from app.pages.placement_what import DOES

ORDERS = {"value": "Value", "id": "Group id"}
SHAPES = {"tiles": "Tiles", "scale": "To scale"}
ICONS = {"move": "move-right", "spill": "hard-drive", "cleanup": "archive"}
TEXT_MAX = 200


def layout(**given: Any) -> Component:
    """`operator`, `colour`, `order`, `shape`, `filter` and `groups` as the URL has them."""
    return d(
        d(_tiles(given), _strip(), _chosen(), c="pl-left data"),
        _what_panel(),
        *_stores(given),
        d(d(c="b"), d(), id="placement-tip", c="pl-tip"),
        d(id="placement-box", c="pl-box"),
        d(id="placement-say", c="sr", role="status"),
        c="pl",
    )


def _stores(given: Mapping[str, Any]) -> list[Component]:
    picked = {
        "operator": _text(given, "operator"),
        "groups": table.numbers_in(_text(given, "groups")),
    }
    return [
        dcc.Store(id="placement-tiles"),
        dcc.Store(id="placement-mark"),
        dcc.Store(id="placement-selected", data=picked if picked["groups"] else None),
        dcc.Store(id="placement-doing", data="move"),
        dcc.Store(id="placement-drops"),
        dcc.Store(id="placement-draft"),
        dcc.Store(id="placement-what-mark"),
        dcc.Store(id={"type": "propose", "page": "placement"}),
        *[
            d(id=f"placement-{name}", hidden=True)
            for name in ("drawn", "synced", "found", "cleared", "told")
        ],
    ]


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _choice(given: Mapping[str, Any], name: str, known: Mapping[str, Any]) -> str:
    value = given.get(name)
    return value if isinstance(value, str) and value in known else next(iter(known))


def _switch(id: str, label: str, known: Mapping[str, str], value: str) -> Component:
    items = [{"value": name, "label": text} for name, text in known.items()]
    made = dmc.SegmentedControl(
        id=id, data=items, value=value, size="xs", className="seg-c", **{"aria-label": label}
    )
    return d(s(label.lower(), c="k"), made, c="pl-lab")


def _tiles(given: Mapping[str, Any]) -> Component:
    colours = {name: told.name for name, told in data.COLOURS.items()}
    operator = _text(given, "operator")
    tools = d(
        dmc.Select(
            id="placement-operator", value=operator or None, data=[operator] if operator else [],
            size="xs", className="ctl pl-op", allowDeselect=False, rightSection=icon("chevron-down"),
            **{"aria-label": "Operator"},
        ),
        _switch("placement-colour", "Colour", colours, _choice(given, "colour", colours)),
        _switch("placement-order", "Order", ORDERS, _choice(given, "order", ORDERS)),
        _switch("placement-shape", "Row", SHAPES, _choice(given, "shape", SHAPES)),
        d(c="grow"),
        d(
            dmc.TextInput(
                id="placement-filter", value=_text(given, "filter"), size="xs", debounce=250,
                placeholder="node:3 memory prod:>30", leftSection=icon("filter"), rightSection=key("/"),
                className="ctl pl-filter", **{"aria-label": "Filter groups"},
            ),
            button("Select matches", "bare", id="placement-matches", disabled=True),
            c="pl-find", data_filter="1",
        ),
        c="pl-tools",
    )  # fmt: skip
    picture = d(
        states.loading(240),
        id="placement-map",
        c="pl-map",
        tabIndex=0,
        role="application",
        aria_label="Groups by node. Arrows go over groups, space selects; the table has the same groups.",
    )
    return panel(
        "Groups by node",
        tools,
        d(id="placement-wrong", c="pl-wrong", role="status"),
        picture,
        d(id="placement-legend", c="pl-legend"),
        sub=s(id="placement-sub"),
        help=mark("tiles"),
        right=s(id="placement-counts", c="k num"),
    )


def _strip() -> Component:
    return panel(
        "By group id",
        d(
            html.Canvas(id="placement-ids", className="pl-ids"),
            role="img",
            aria_label="Groups by number and node",
        ),
        sub="a move is a vertical step; a column is a group",
    )


def _chosen() -> Component:
    doing = [
        button(VERBS[do], "", ICONS[do], id={"type": "placement-do", "do": do}, disabled=True)
        for do in DOES
    ]
    bar = d(
        d(id="placement-summary", c="pl-sum"),
        d(c="grow"),
        *doing,
        button("Drain", "", "log-out", id="placement-drain", disabled=True),
        button("Clear", "bare", id="placement-clear", title="Esc"),
        c="pl-selbar",
    )
    rows = grid.grid(
        "placement-table", table.COLUMNS, "Groups as a table", height=260, select="multiRow",
        empty="No group matches the filter",
    )  # fmt: skip
    return d(bar, rows, c="panel", role="region", aria_label="Selected groups")


def _what_panel() -> Component:
    target = d(
        s(id="placement-from", c="pv-node b"),
        icon("arrow-right"),
        dmc.Select(
            id="placement-to", data=[], value=None, size="xs", className="ctl pl-to", searchable=True,
            allowDeselect=False, rightSection=icon("chevron-down"), **{"aria-label": "Receiver"},
        ),
        s(id="placement-to-note", c="k"),
        id="placement-target", c="pl-target", style={"display": "none"},
    )  # fmt: skip
    foot = d(
        d(id="placement-why", c="k fp-n"),
        d(
            button("Preview and apply", "primary wide", right="arrow-right", id="placement-propose", disabled=True),
            button("Add to draft", "", "plus", id="placement-add", disabled=True),
            c="fp-b",
        ),
        d(
            button("Propose draft", "wide", id="placement-propose-draft", disabled=True),
            button("Drop draft", "bare", id="placement-undraft", disabled=True),
            c="fp-b", id="placement-draft-do", style={"display": "none"},
        ),
        c="pv-foot",
    )  # fmt: skip
    return d(
        d(
            d(
                html.H2("What if", className="p-title"),
                chip("nothing has happened yet"),
                c="p-head pl-what-h",
            ),
            d(id="placement-head", c="pl-what-t"),
            target,
            d(*shown.nothing(False), id="placement-what"),
            d(id="placement-draft-list"),
            foot,
            c="pv",
        ),
        c="panel pl-what data",
        role="region",
        aria_label="What if",
    )
