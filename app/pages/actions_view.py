"""The skeleton of Actions: filters, the ledger's columns, the drawer that one action is opened in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import charts, states
from app.components.grid import grid, text
from app.components.kit import button, d, dmc, icon, s
from app.pages import actions_figures
from app.pages.actions_ledger import BY, KINDS, STATES, Wanted

DRAWER = "calc(860px)"  # a plain number would be taken for rem
ROWS_HIGH = 420  # at least; the page's CSS gives it what the window has

LEDGER: Any = {"aria-label": "Ledger"}


def tools(wanted: Wanted) -> Component:
    return d(
        _choice("actions-state", "State", STATES, wanted.state),
        _choice("actions-kind", "Kind", KINDS, wanted.kind),
        _choice("actions-by", "By whom", tuple(BY), wanted.by),
        d(
            dmc.TextInput(
                id="actions-find", value=wanted.find, placeholder="id, node, name, note", size="xs",
                debounce=300, className="ctl ac-find", leftSection=icon("search"),
                **{"aria-label": "Find in actions"},
            ),
            data_filter="",
        ),
        d(c="grow"),
        html.A([icon("download"), "CSV"], id="actions-csv", href="/api/v1/export/actions.csv",
               className="btn", download="actions.csv"),
        c="ac-tools",
    )  # fmt: skip


def _choice(id: str, label: str, values: Sequence[str], value: str) -> Component:
    made: Component = dmc.Select(
        id=id,
        data=[{"value": v, "label": _named(label, v)} for v in values],
        value=value,
        size="xs",
        className="ctl ac-sel",
        allowDeselect=False,
        checkIconPosition="right",
        rightSection=icon("chevron-down"),
        comboboxProps={"width": "max-content", "position": "bottom-start"},
        **{"aria-label": label},
    )
    return made


def _named(label: str, value: str) -> str:
    if label == "By whom":
        return BY[value]
    if value == "all":
        return f"Any {label.lower()}"
    return "clean up" if value == "cleanup" else value


def ledger() -> Component:
    tone = {f"ac-{name}": f"params.data && params.data.tone === '{name}'"
            for name in ("held", "failed", "cancelled", "rejected", "done")}  # fmt: skip
    plain: dict[str, Any] = {"sortable": False}
    right = {**plain, "type": "rightAligned"}
    columns = [
        text("kind", "kind", 88, **plain),
        text("what", "what", 132, **plain),
        text("state", "state", 100, cellClassRules=tone, **plain),
        text("who", "who", 96, tooltipField="who", **plain),
        text("bytes", "bytes", 70, **right),
        text("at", "began", 76, **right),
        text("took", "took", 90, **right),
        text("id", "action", 112, cellClass="mono ac-idc", tooltipField="id", **plain),
    ]
    made: Component = html.Section(
        [
            d(
                html.H2("Ledger", className="p-title"),
                s(id="actions-count", c="p-sub", role="status"),
                d(button("Newest", "bare", id="actions-newest", hidden=True),
                  button("Older", "bare", right="chevron-right", id="actions-older", hidden=True),
                  c="p-right"),
                c="p-head",
            ),
            d(
                grid("actions-grid", columns, "Actions, newest first", height=ROWS_HIGH, select="singleRow"),
                c="ac-grid data",
            ),
        ],
        className="panel ac-ledger",
        **LEDGER,
    )  # fmt: skip
    return made


def opened_drawer(opened: str) -> Component:
    made: Component = dmc.Drawer(
        d(
            d(states.loading(420), id="actions-top"),
            d(
                d(
                    html.H3("What it did", className="p-title"),
                    s("solid = measured, dashed = predicted", c="p-sub"),
                    c="ac-h",
                ),
                charts.graph("actions-effect", actions_figures.HEIGHT,
                             "Memory of the nodes and results around the action"),
                id="actions-effect-box", c="ac-sec", hidden=True,
            ),
            d(id="actions-history"),
            d(id="actions-foot", c="ac-foot"),
            c="ac-drawer",
        ),
        id="actions-drawer",
        title="Action",
        opened=bool(opened),
        position="right",
        size=DRAWER,
        className="ac-dw",
        padding=0,
        zIndex=290,
        lockScroll=False,
        keepMounted=True,
        closeButtonProps={"aria-label": "Close"},
        transitionProps={"duration": 120},
    )  # fmt: skip
    return made
