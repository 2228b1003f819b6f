"""How spill debt looks: the sentence, nodes with what they owe and what fits back, what the cost model says of clean-ups,
evicted beside kept, and what is on disk over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from app.components import charts, states
from app.components.charts import Ink
from app.components.help import mark
from app.components.kit import button, d, icon, num, s, stat, table
from app.components.steps import words
from app.components.units import (
    NONE,
    counted,
    duration,
    figure,
    node_name,
    percent,
    prefixed,
    rate,
    said,
    said_size,
    size,
    size_unit,
    whole,
)
from app.pages.debt_data import FILL_MAX, Debt, fitting, smallest
from app.pages.page import Seen
from control.samples import Series
from control.snapshot import NO_LIMIT

NODES_MAX = 40  # rows of the table; those that owe most
PAIRS_MAX = 8
LINES_MAX = 12  # nodes with a line of their own over time
HEIGHT = 168


def headline(debt: Debt | None) -> list[Component]:
    if debt is None or not len(debt.rows):
        return [
            d(
                icon("check"),
                s(
                    s("Nothing is owed", c="b"),
                    ": no group has state on disk, every result is out.",
                ),
                c="hl-say",
            )
        ]
    owed, per_s, nodes = float(debt.owed.sum()), float(debt.owed_per_s.sum()), debt.nodes
    most = nodes[0]
    share = debt.owed[most] / owed if owed else 0.0
    where = (
        f"all of it by {node_name(most)}"
        if len(nodes) == 1
        else f"{percent(float(share))} of it by {node_name(most)}"
    )
    say = d(
        icon("archive"),
        s(
            s(f"{said(owed)} results are owed", c="b"),
            f" by {counted(len(debt.rows), 'group')} on {counted(len(nodes), 'node')}, {where}. "
            f"It grows by {said(per_s)} a second; none of them is lost.",
        ),
        c="hl-say",
    )
    stats = d(
        stat("owed", num(*prefixed(owed)), mark("owed")),
        stat("growing", num(*rate(per_s))),
        stat("on disk", num(*size(float(debt.disk.sum()))), mark("disk")),
        stat("all of it takes", num(f"about {duration(float(debt.seconds.sum()))}")),
        c="hl-kvs",
    )
    return [say, stats]


def nodes(debt: Debt, may: bool, why: str) -> list[Component]:
    """What each owes, whether its memory has room for it, and the button that proposes what fits."""
    if not debt.nodes:
        return [
            states.empty(
                "No node owes anything", "What is spilled from now on stands here.", "check"
            )
        ]
    heads = (("node", ""), ("results owed", "r"), ("growing", "r"), ("on disk", "r"), ("groups", "r"),
             ("room in memory", "r"), ("all takes", "r"), ("clean up what fits", "r"))  # fmt: skip
    rows = [_node(debt, node, may, why) for node in debt.nodes[:NODES_MAX]]
    made = d(
        table(heads, rows, "de-nodes"),
        c="scroll-x de-scroll",
        tabIndex="0",
        role="region",
        aria_label="What each node owes",
    )
    more = len(debt.nodes) - NODES_MAX
    return [made, d(f"and {more} more nodes, which owe less", c="de-note")] if more > 0 else [made]


def _node(debt: Debt, node: int, may: bool, why: str) -> list[Any]:
    fits = fitting(debt, node)
    room = float(debt.room[node])
    size_ = float(debt.snapshot.groups.disk_bytes[fits].sum())
    not_ = why or _why_nothing_fits(debt, node) if not len(fits) or not may else ""
    label = f"{counted(len(fits), 'group')}, {said_size(size_)}" if len(fits) else "nothing fits"
    share = float(debt.owed[node] / max(debt.owed.max(), 1.0))
    bar = html.I(className="de-bar", style={"width": f"{100 * share:.0f}%"})
    return [
        s(node_name(node), c="b"),
        d(s(said(float(debt.owed[node])), c="num"), d(bar, c="de-trk"), c="de-owed"),
        said(float(debt.owed_per_s[node]), "/s"),
        said_size(float(debt.disk[node])),
        whole(float(debt.groups[node])),
        said_size(room) if np.isfinite(room) else "no limit",
        duration(float(debt.seconds[node])),
        d(
            button(label, "", "", id={"type": "debt-clean", "node": node}, disabled=bool(not_), title=not_ or
                   f"Proposes it: up to {percent(FILL_MAX)} of the budget, what owes most for its size first"),
            s(not_, c="k de-why") if not_ and not why else None,
            c="de-do",
        ),
    ]  # fmt: skip


def _why_nothing_fits(debt: Debt, node: int) -> str:
    if debt.snapshot.nodes.budget_bytes[node] >= NO_LIMIT:
        return ""
    return f"smallest group: {said_size(smallest(debt, node))}"


def advice(
    menu: Sequence[Mapping[str, Any]] | None, may: bool, why: str, stale: bool
) -> list[Component]:
    """Clean-ups as the cost model ranks them, each against doing nothing. Of what is old nothing is foretold."""
    if stale:
        return [
            states.empty(
                "Not ranked",
                "The engine is not heard of: what it would bring is not known.",
                "wifi-off",
            )
        ]
    if menu is None:
        return [states.loading(60)]
    found = [entry for entry in menu if entry["do"] == "cleanup" and entry.get("step")]
    if not found:
        return [
            d(
                "The cost model offers none now: nothing is on disk, or no node has room.",
                c="de-note",
            )
        ]
    return [_entry(entry, may, why) for entry in found]


def _entry(entry: Mapping[str, Any], may: bool, why: str) -> Component:
    verb, rest = words(entry["step"])
    gain, cost, chance = entry["gain_row_s"], entry["cost_row_s"], entry["chance"]
    figures = (
        ("lets out", said(-float(entry["owed_rows"]))),
        ("takes", duration(float(entry["duration_s"]))),
        ("gain", f"{said(gain)} row·s"),
        ("cost", f"{said(cost)} row·s"),
        ("sure", percent(chance)),
    )
    return d(
        d(s(s(verb, c="b"), f" {rest}, {said_size(entry['bytes'])}", c="grow clip"),
          button("Preview", "primary" if entry.get("pays") else "", id={"type": "debt-menu", "rank": entry["rank"]},
                 disabled=not may, title=why), c="de-top"),
        d(*[d(s(name, c="k"), s(value, c="num")) for name, value in figures], c="de-fig"),
        d(f"{entry['verdict']}.", c="k"),
        c="de-entry",
    )  # fmt: skip


def productivity(debt: Debt) -> list[Component]:
    """For each node two bars on one scale: what a MB in memory brings, and what a MB on disk is kept from."""
    nodes = debt.nodes[:PAIRS_MAX]
    if not nodes:
        return [states.empty("Nothing was evicted", "", "check")]
    scale = max(float(max(debt.evicted[n], debt.kept[n])) for n in nodes) or 1.0
    rows = [_pair(debt, node, scale) for node in nodes]
    wrong = [n for n in nodes if debt.evicted[n] > debt.kept[n] > 0]
    if wrong:
        names = ", ".join(node_name(n) for n in wrong)
        text = f"On {names} what is on disk would bring more for its size than what was kept: clean up there first."
        said_ = d(icon("triangle-alert"), s(text), c="de-note warn")
    else:
        said_ = d(
            icon("check"),
            s("What was evicted is less productive than what was kept, as it should be."),
            c="de-note",
        )
    return [*rows, said_]


def _pair(debt: Debt, node: int, scale: float) -> Component:
    kept, evicted = float(debt.kept[node]), float(debt.evicted[node])
    bars = d(
        d(html.I(className="sw mem", style={"width": f"{100 * kept / scale:.1f}%"}), s(figure(kept), c="num"), c="de-b"),
        d(html.I(className="sw disk", style={"width": f"{100 * evicted / scale:.1f}%"}), s(figure(evicted), c="num"),
          c="de-b"),
        c="grow",
    )  # fmt: skip
    return d(s(node_name(node), c="b"), bars, c="de-pair data")


def group_rows(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the grid: the figure, and beside it how it is written."""
    texts = {
        "group": lambda v: str(v),
        "node": node_name,
        "owed": said,
        "per_s": lambda v: said(v, "/s"),
        "disk": said_size,
        "memory": lambda v: said_size(v) if v else NONE,
        "times": lambda v: str(v),
        "evicted": figure,
        "seconds": duration,
    }
    return [
        {
            "id": f"{one['operator']}:{one['group']}",
            **one,
            **{f"{name}_text": write(one[name]) for name, write in texts.items()},
        }
        for one in lines
    ]


def over_time(seen: Seen, series: Series, debt: Debt | None) -> dict[str, Any]:
    """On disk by node; beyond a dozen those with most, and all together."""
    ink, now_s = Ink(seen.view.theme, seen.stale), seen.now_s
    since_s = now_s - seen.view.range_s
    values = series.values.get("disk_bytes")
    made: dict[str, Any] = {"data": [], "layout": charts.layout(ink, height=HEIGHT, annotations=[])}
    made["layout"]["margin"] = {"l": 48, "r": 34, "t": 8, "b": 20}
    made["layout"]["xaxis"] = charts.time_axis(ink, since_s, now_s, seen.view.zone_min, 5)
    if values is None or values.ndim != 2 or not values.shape[0]:
        made["layout"]["yaxis"] = charts.axis(ink, range=[0, 1], visible=False)
        return made
    last = np.nan_to_num(values[-1])
    shown = [int(n) for n in np.argsort(-last)[:LINES_MAX]]
    top = float(np.nanmax(values[:, shown])) if np.isfinite(values[:, shown]).any() else 0.0
    unit, factor = size_unit([top])
    x = charts.at_ms(series.time_s, seen.view.zone_min)
    ends: list[float] = []
    for n in shown:
        column = values[:, n] / factor
        made["data"].append(charts.line(x, column, ink("disk"), 1.4))
        _end(made, ink, node_name(n), float(column[-1]), float(x[-1]), top / factor, ends)
    made["layout"]["yaxis"] = charts.axis(
        ink, range=[0, 1.1 * (top / factor or 1.0)], nticks=4, ticksuffix=f" {unit}"
    )
    return made


def _end(
    made: dict[str, Any], ink: Ink, name: str, y: float, x: float, top: float, ends: list[float]
) -> None:
    """Its name at its end, where there is room for one more."""
    if not np.isfinite(y) or any(abs(y - other) < 0.09 * max(top, 1e-9) for other in ends):
        return
    ends.append(y)
    made["layout"]["annotations"].append(charts.note(x, y, name, ink("text-2"), xshift=4))
