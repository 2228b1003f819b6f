"""Spill debt: which results are still owed and by whom, what a clean-up would take, and proposing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import charts, states
from app.components.grid import grid, number, text
from app.components.help import mark as help_mark
from app.components.kit import button, d, legend, panel, s
from app.components.reasons import refused
from app.components.units import counted, said
from app.desk import act, feed, may, role
from app.feed import Feed
from app.pages import debt_data, debt_view
from app.pages.debt_data import Debt, debt_of, fitting, group_lines, rows_named, steps_for
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.cost.coefficients import Coefficients
from control.kinds import KINDS, Answer
from control.learn import numbers
from control.people import Role

NUMBERS_S = 10.0
POINTS = 240
LISTED_S = 4.0  # so often the groups are listed anew: rows that jump cannot be chosen
GRID_HIGH = 330
PAGE = Page(
    "debt", "Spill debt", "archive", "d", order=70, count=lambda found, query: _count(found, query)
)


def _count(found: Feed, query: str) -> str | None:
    sample = found.newest(query) if query else None
    if sample is None:
        return None
    groups = sample.snapshot.groups
    owed = float(groups.owed_rows[groups.spilled].sum())
    return said(owed) if owed >= 1 else None


def layout(**_: Any) -> Component:
    return d(
        html.H1("Spill debt", className="sr"),
        d(states.loading(40), id="debt-headline", c="hl data"),
        d(
            d(
                panel(
                    "By node",
                    d(states.loading(120), id="debt-nodes", c="data"),
                    sub="room is what the budget leaves; a clean-up brings state back into memory",
                ),
                _groups(),
                c="stack",
            ),
            d(
                panel(
                    "Would a clean-up pay?",
                    d(states.loading(80), id="debt-advice"),
                    sub="by the cost model, against doing nothing",
                    help=help_mark("menu"),
                ),
                panel(
                    "Evicted and kept",
                    d(states.loading(80), id="debt-pairs"),
                    sub="results/s for each MB",
                    help=help_mark("evicted"),
                    right=legend(("mem", "in memory"), ("disk", "on disk")),
                    c="data",
                ),
                panel(
                    "On disk over time",
                    d(
                        charts.graph(
                            "debt-disk", debt_view.HEIGHT, "Bytes on disk by node over time"
                        ),
                        c="data",
                    ),
                    sub="by node",
                ),
                c="stack",
            ),
            c="de",
        ),
        dcc.Store(id="debt-mark"),
        dcc.Store(id={"type": "propose", "page": "debt"}),
    )


def _groups() -> Component:
    columns = [
        text("operator", "operator", 76),
        number("group", "group", 58),
        number("node", "node", 52),
        number("owed", "results owed", 92),
        number("per_s", "growing", 74),
        number("disk", "on disk", 74),
        number("times", "spilled", 60, headerTooltip="times since its last clean-up"),
        number(
            "evicted",
            "results/s·MB",
            92,
            headerTooltip="results put off each second, for each MB on disk",
        ),
        number("seconds", "clean-up", 72),
    ]
    right = d(
        s(id="debt-chosen", c="k", role="status"),
        button("Propose clean-up", "", id="debt-propose", disabled=True),
        c="de-right",
    )
    return panel(
        "Groups that owe",
        d(grid("debt-groups", columns, "Groups with state on disk, those that owe most first", height=GRID_HIGH,
               select="multiRow"), c="data de-grid"),
        sub=s(id="debt-count"),
        right=right,
    )  # fmt: skip


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("debt-headline", "children"),
        Output("debt-nodes", "children"),
        Output("debt-advice", "children"),
        Output("debt-pairs", "children"),
        Output("debt-disk", "figure"),
        Output("debt-groups", "rowData"),
        Output("debt-count", "children"),
        Output("debt-mark", "data"),
        *POLLED,
        State("debt-mark", "data"),
        polls=True,
    )(_page)
    on.callback(
        Role.VIEWER,
        Output("debt-chosen", "children"),
        Output("debt-propose", "disabled"),
        Output("debt-propose", "title"),
        Input("debt-groups", "selectedRows"),
    )(_chosen)
    on.callback(
        Role.OPERATOR,
        Output({"type": "propose", "page": "debt"}, "data"),
        Input("debt-propose", "n_clicks"),
        Input({"type": "debt-clean", "node": ALL}, "n_clicks"),
        Input({"type": "debt-menu", "rank": ALL}, "n_clicks"),
        State("debt-groups", "selectedRows"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_propose)


def _page(_: int, view: Any, before: Any) -> list[Any]:
    seen = look(view)
    if seen.sample is None:
        text_ = (
            "There is no query."
            if seen.query is None
            else "Nothing is known of it yet: it needs one tick."
        )
        nothing = [states.empty("Nothing to show", text_)]
        return [nothing, nothing, nothing, nothing, charts.blank(debt_view.HEIGHT), [], "", None]
    debt, found = _debt(seen), feed()
    why = not_allowed()
    menu = found.menu(seen.sample)
    series = found.node_series(seen.name, seen.view.range_s, POINTS)
    bucket = int(seen.now_s / LISTED_S)
    now = {
        "tick": mark(seen.name, seen.sample.version, why, seen.stale),
        "menu": mark([entry.get("text") for entry in menu or ()], menu is None, why, seen.stale),
        "chart": mark(seen.name, seen.view, seen.stale, series.time_s[-1:].tolist()),
        "groups": mark(seen.name, seen.sample.version if not before else bucket),
    }
    kept: Mapping[str, Any] = before if isinstance(before, dict) else {}
    fresh = {name for name in now if now[name] != kept.get(name)}
    return [
        debt_view.headline(debt) if "tick" in fresh else no_update,
        debt_view.nodes(debt, not why, why) if "tick" in fresh else no_update,
        debt_view.advice(menu, not why, why, seen.stale) if "menu" in fresh else no_update,
        debt_view.productivity(debt) if "tick" in fresh else no_update,
        debt_view.over_time(seen, series, debt) if "chart" in fresh else no_update,
        debt_view.group_rows(group_lines(debt, _numbers())) if "groups" in fresh else no_update,
        _listed(debt) if "groups" in fresh else no_update,
        now if fresh else no_update,
    ]


def not_allowed() -> str:
    return "" if may("propose") else states.not_allowed(KINDS["propose"].role, role())


def _debt(seen: Seen) -> Debt:
    assert seen.sample is not None
    sample = seen.sample
    return feed().kept(
        ("debt", sample.query, sample.time_s), 60.0, lambda: debt_of(sample.snapshot, _numbers())
    )


def _numbers() -> Coefficients:
    return feed().kept("numbers", NUMBERS_S, lambda: numbers(parts().store))


def _listed(debt: Debt) -> str:
    count = len(debt.rows)
    more = f", the {debt_data.ROWS_MAX} that owe most" if count > debt_data.ROWS_MAX else ""
    return f"{counted(count, 'group')} with state on disk{more}"


def _chosen(rows: Any) -> tuple[str, bool, str]:
    count = len(rows) if isinstance(rows, list) else 0
    why = not_allowed()
    text_ = why or (f"{counted(count, 'group')} chosen" if count else "choose groups to clean up")
    return text_, bool(why) or not count, why


def _propose(_: Any, __: Any, ___: Any, rows: Any, view: Any) -> Any:
    pressed = ctx.triggered_id
    if not ctx.triggered or not ctx.triggered[0]["value"]:
        return no_update
    seen = look(view)
    if seen.sample is None:
        return {"refused": "Nothing is known of the query.", "refusals": []}
    return _shown(_asked(pressed, rows, seen))


def _asked(pressed: Any, rows: Any, seen: Seen) -> Answer | str:
    assert seen.sample is not None
    snapshot = seen.sample.snapshot
    if isinstance(pressed, dict) and pressed["type"] == "debt-menu":
        entries = [
            e
            for e in feed().menu(seen.sample) or ()
            if e["rank"] == pressed["rank"] and e.get("step")
        ]
        if not entries or entries[0]["do"] != "cleanup":
            return "The ranking has changed meanwhile: look again."
        return act("propose.steps", {"steps": [dict(entries[0]["step"])]}, seen.name)
    if isinstance(pressed, dict):
        chosen = fitting(_debt(seen), int(pressed["node"]))
    else:
        named = (
            [one.get("id") for one in rows if isinstance(one, dict)]
            if isinstance(rows, list)
            else []
        )
        chosen = rows_named(snapshot, named)
    steps = steps_for(snapshot, chosen)
    if not steps:
        return "None of these groups has state on disk any more."
    return act("propose.steps", {"steps": steps}, seen.name)


def _shown(answer: Answer | str) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"refused": answer, "refusals": []}
    return {"proposal": answer.id} if answer.accepted else refused(answer)
