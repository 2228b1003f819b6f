"""Placement: which groups are on which node, as tiles; selecting them, what would come of an action, drafts of several."""

from __future__ import annotations

from typing import Any

from dash import Input, Output, State, no_update

from app.callbacks import Callbacks
from app.components import states
from app.components.kit import icon, s
from app.components.units import counted, node_name, rate, said_size
from app.desk import feed
from app.pages import placement_data as data
from app.pages import placement_table as table
from app.pages import placement_try as trying
from app.pages import placement_what as what
from app.pages.page import POLLED, Page, Seen, look, mark
from app.pages.placement_layout import TEXT_MAX, layout
from control.people import Role
from control.samples import Sample
from control.snapshot import ClusterSnapshot, Longs

__all__ = ["PAGE", "layout", "register"]

PAGE = Page("placement", "Placement", "grid-3x3", "p", order=20)
CHOICES = ("placement-operator", "placement-colour", "placement-filter")


def register(on: Callbacks) -> None:
    _register_drawing(on)
    on.callback(
        Role.VIEWER,
        Output("placement-tiles", "data"),
        Output("placement-mark", "data"),
        Output("placement-operator", "data"),
        Output("placement-operator", "value"),
        Output("placement-sub", "children"),
        Output("placement-counts", "children"),
        Output("placement-legend", "children"),
        Output("placement-wrong", "children"),
        Output("placement-matches", "children"),
        Output("placement-matches", "disabled"),
        *POLLED,
        *[Input(name, "value") for name in CHOICES],
        State("placement-mark", "data"),
        polls=True,
    )(_picture)
    on.callback(
        Role.VIEWER,
        Output("placement-summary", "children"),
        Output("placement-table", "rowData"),
        *POLLED,
        *[Input(name, "value") for name in CHOICES],
        Input("placement-selected", "data"),
        polls=True,
    )(_table)
    trying.register(on)


def _register_drawing(on: Callbacks) -> None:
    """What the browser does by itself, in assets/placement.js."""
    on.in_browser(
        "placement",
        Output("placement-drawn", "title"),
        Input("placement-tiles", "data"),
        Input("placement-drops", "data"),
        Input("placement-order", "value"),
        Input("placement-shape", "value"),
        State("placement-selected", "data"),
    )
    on.in_browser(
        "placementSelected",
        Output("placement-synced", "title"),
        Input("placement-selected", "data"),
    )
    on.in_browser(
        "placementMatches",
        Output("placement-found", "title"),
        Input("placement-matches", "n_clicks"),
    )
    on.in_browser(
        "placementClear", Output("placement-cleared", "title"), Input("placement-clear", "n_clicks")
    )
    on.in_browser("placementDo", Output("placement-doing", "data"), Input(trying.DO, "n_clicks"))
    on.in_browser(
        "placementTicked",
        Output("placement-table", "selectedRows"),
        Input("placement-selected", "data"),
        Input("placement-table", "rowData"),
        Input("placement-table", "selectedRows"),
    )
    names = ("operator", "colour", "order", "shape", "filter")
    on.in_browser(
        "placementUrl",
        Output("placement-told", "title"),
        *[Input(f"placement-{name}", "value") for name in names],
        Input("placement-selected", "data"),
    )


def _picture(_: int, view: Any, operator: Any, colour: Any, text: Any, before: Any) -> list[Any]:
    """Made once for everybody who looks at the same; sent when it has changed."""
    seen = look(view)
    if seen.sample is None:
        if before == "none":
            return [no_update] * 10
        return [{"groups": 0}, "none", [], None, "", "", _no_data(seen), "", "Select matches", True]
    wanted = (seen.name, str(operator or ""), _colour(colour), str(text or "")[:TEXT_MAX])
    made = _made(seen, *wanted)
    now = mark(made["mark"], wanted)
    if now == before:
        return [no_update] * 10
    names = [one.name for one in seen.sample.snapshot.operators]
    found = made["matches"]
    words = "Select matches" if found is None else f"Select {counted(found, 'match', 'matches')}"
    told = data.COLOURS[wanted[2]]
    return [
        made,
        now,
        [{"value": name, "label": name} for name in names],
        made["operator"],
        f"one tile per group, {told.order}",
        made["counts"],
        table.legend(made["scale"], len(names)),
        _wrong(made["wrong"]),
        words,
        not found,
    ]


def _colour(raw: Any) -> str:
    return raw if isinstance(raw, str) and raw in data.COLOURS else next(iter(data.COLOURS))


def _made(seen: Seen, query: str, operator: str, colour: str, text: str) -> dict[str, Any]:
    sample, found = seen.sample, feed()
    assert sample is not None
    moves = found.running(query)

    def draw() -> dict[str, Any]:
        made = data.picture(sample, operator, colour, text, moves)
        return {**made, "mark": mark(made)}

    key_ = (
        "tiles",
        query,
        operator,
        colour,
        text,
        sample.version,
        [row.id for row in moves].__repr__(),
    )
    return found.kept(key_, 30.0, draw)


def _wrong(text: str) -> Any:
    return [icon("info"), s(text)] if text else ""


def _no_data(seen: Seen) -> Any:
    if seen.query is None:
        return states.empty(
            "No query", "Register one under Queries & plans; then its groups are here.", "grid-3x3"
        )
    return states.empty("Nothing is recorded yet", f"{seen.name} is {seen.query.state}.", "clock")


def _table(
    _: int, view: Any, operator: Any, colour: Any, text: Any, selected: Any
) -> tuple[Any, Any]:
    seen = look(view)
    if seen.sample is None:
        return "", []
    name, rows = what.selected_rows(seen.sample.snapshot, selected)
    picked = rows if name else rows[:0]
    wanted = (str(operator or ""), _colour(colour), str(text or "")[:TEXT_MAX])
    return _summary(seen.sample.snapshot, picked), _rows(seen.name, seen.sample, wanted, picked)


def _rows(
    query: str, sample: Sample, wanted: tuple[str, str, str], picked: Longs
) -> list[dict[str, Any]]:
    """Of nothing selected, which most look at, made once for everybody."""

    def made() -> list[dict[str, Any]]:
        return table.rows_of(sample, *wanted, picked)

    return made() if len(picked) else feed().kept(("rows", query, sample.time_s, wanted), 5.0, made)


def _summary(snapshot: ClusterSnapshot, rows: Longs) -> list[Any]:
    if not len(rows):
        return [s("Nothing selected", c="k")]
    groups = snapshot.groups
    owners = sorted(set(groups.owner[rows].tolist()))
    where = node_name(owners[0]) if len(owners) == 1 else counted(len(owners), "node")
    size = said_size(float((groups.memory_bytes[rows]).sum()))
    disk = int(groups.disk_bytes[rows].sum())
    made = " ".join(rate(float(groups.rows_out_per_s[rows].sum())))
    on_disk = f" · {said_size(disk)} on disk" if disk else ""
    return [
        s(counted(len(rows), "group"), c="b"),
        s(f" on {where} · {size} in memory{on_disk} · {made} results"),
    ]
