"""A change of the join order in the proposal's panel: what becomes of state, figures before and after, each strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from dash.development.base_component import Component

from app.components.help import mark
from app.components.kit import d, icon, link, s
from app.components.order_tree import FATES, Pair, fates
from app.components.order_view import by, written
from app.components.steps import STRATEGIES
from app.components.units import percent, said, said_size

Told = Mapping[str, Any]


def of_preview(preview: Told) -> Told | None:
    """What is told of the order, if the plan changes one and its joins are known."""
    for step in preview.get("steps") or ():
        found: Told | None = step.get("migration")
        if found:
            return found
    return None


def effect(told: Told, query: str) -> Component:
    """In the place of nodes before and after: the plan changes, nodes keep what they have."""
    return d(_states(told), _figures(told), _strategies(told, query))


def _states(told: Told) -> Component:
    """Per fate: how many states, rows and bytes."""
    found = fates(Pair.of(told["trees"]))
    lines = [
        d(
            s(s(icon(FATES[name][1]), c=f"st lgd {FATES[name][0]}"), f" {FATES[name][2]}"),
            s(str(count), c="r"),
            s(said(rows), c="r"),
            s(said_size(size), c="r b" if name != "dropped" else "r dim"),
            c="mo",
        )
        for name, (count, rows, size) in found.items()
        if count
    ]
    top = d(s("state"), s("states", c="r"), s("rows", c="r"), s("bytes", c="r"), c="mo h")
    return d(top, *lines, c="pv-sec")


def _figures(told: Told) -> Component:
    before, after = told["before"], told["after"]
    rows: list[tuple[str, str, Callable[[float], str], str | None]] = [
        ("rows in between", "between_per_s", lambda x: said(x, "/s"), "between"),
        ("state", "state_bytes", said_size, None),
    ]
    lines = [
        _kv(name, show(before[key]), f"{show(after[key])}", by(before[key], after[key]), help)
        for name, key, show, help in rows
    ]
    cpu = after["cpu_s"] / before["cpu_s"] if before["cpu_s"] > 0 else None
    lines.append(_kv("CPU of the joins", percent(1.0), percent(cpu), "", None))
    top = d(s("effect"), s("before", c="r"), s("after", c="r"), s("change", c="r"), c="mo h")
    return d(top, *lines, c="pv-sec")


def _kv(name: str, before: str, after: str, change: str, help: str | None) -> Component:
    label = d(name, mark(help) if help else None, c="kv-k")
    return d(label, s(before, c="r dim"), s(after, c="r b"), s(change, c="r sg"), c="mo")


def _strategies(told: Told, query: str) -> Component:
    """By the strategy of this proposal."""
    name = str(told.get("strategy") or "")
    one = told["strategies"].get(name)
    if one is None:
        return d(s("No strategy can be taken now.", c="k"), c="pv-sec")
    keys = (("takes about", "duration_s"), ("results stand still", "pause_s"),
            ("more memory", "bytes"), ("CPU", "cpu_s"), ("gain", "gain_row_s"),
            ("sure", "chance"))  # fmt: skip
    rows = [d(s(text), s(written(key, one[key]), c="r b"), c="mo two") for text, key in keys]
    barred = d(icon("ban"), s(one["hindrance"]), c="ck no") if one["hindrance"] else None
    other = told.get("recommended")
    advised = (
        d(icon("info"), s(f"Advised is {STRATEGIES.get(str(other), other)}."), c="ck")
        if other and other != name
        else None
    )
    href = f"/queries?query={quote(query)}&order={quote(str(told['join_order']))}"
    top = d(s("by"), s(STRATEGIES.get(name, name), c="r b"), c="mo two h")
    return d(top, *rows, barred, advised, link("Both plans side by side", href), c="pv-sec")
