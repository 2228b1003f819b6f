"""The ranked menu as rows: the same four figures for each option in the same columns; losers say why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import states
from app.components.help import mark
from app.components.kit import button, d, s
from app.components.steps import words
from app.components.units import (
    NONE,
    ahead,
    clock,
    duration,
    node_name,
    percent,
    said,
    said_size,
    signed,
    signed_size,
)
from app.desk import role
from control.kinds import KINDS

TICK_S = 1.0
SHOWN_MAX = 4


def head() -> Component:
    """Above the rows; part of the page's skeleton, because help marks must not be drawn anew."""
    names = (("frees", "frees"), ("puts off", "puts_off"), ("pause", "pause"), ("cost", "cost"))
    cells = [d(s(text), mark(help)) for text, help in names]
    return d(*cells, d(s("sure"), mark("confidence")), c="mi-grid mi-head")


def rows(
    menu: Sequence[Mapping[str, Any]], may: bool, now_s: float, zone_min: int
) -> list[Component]:
    if not menu:
        return [states.empty("Nothing to rank yet", "It needs one tick of a running query.")]
    shown = [entry for n, entry in enumerate(menu) if n < SHOWN_MAX or entry["do"] == "nothing"]
    best = next((e["rank"] for e in menu if e["rank"] == 1 and e.get("step") and e.get("pays")), 0)
    return [_row(entry, entry["rank"] == best, may, now_s, zone_min) for entry in shown]


def _row(entry: Mapping[str, Any], best: bool, may: bool, now_s: float, zone_min: int) -> Component:
    nothing = entry["do"] == "nothing"
    chance = entry.get("chance")
    fill = html.I(className="conf-f", style={"width": f"{100 * (chance or 0):.0f}%"})
    title = _nothing(entry, now_s, zone_min) if nothing else words(entry["step"])
    top = d(
        s(str(entry["rank"]), c="mi-rank n"),
        s(s(title[0], c="mi-verb"), f" {title[1]}", c="mi-title"),
        None if chance is None else s(fill, c="conf"),
        None if chance is None else s(percent(chance), c="mi-conf"),
        c="mi-top",
    )
    cells = [s(text, c="v dim" if quiet else "v") for text, quiet in _cells(entry)]
    why = d(s("Why: " if best else "Why not: ", c="k"), _why(entry, best), c="mi-why")
    if not entry.get("step"):
        return d(top, d(*cells, c="mi-grid"), why, c="mi")
    if not best:
        return d(top, d(*cells, c="mi-grid"), d(why, _glance(entry, may), c="mi-low"), c="mi")
    return d(top, d(*cells, c="mi-grid"), why, _acts(entry, may), c="mi best")


def _nothing(entry: Mapping[str, Any], now_s: float, zone_min: int) -> tuple[str, str]:
    full = entry.get("full") or ()
    if not full:
        return "Do nothing", "no node fills up"
    at = clock(now_s + full[0]["full_s"], zone_min)
    return "Do nothing", f"{node_name(full[0]['node'])} spills itself at {at}"


def _cells(entry: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Text, and whether it is nothing to look at."""
    if entry["do"] == "nothing":
        spilled, owed = float(entry["spilled_bytes"]), float(entry["owed_rows"])
        cost = f"{said_size(spilled)} written" if spilled else "none"
        freed = signed_size(-spilled)
        return [(freed, not spilled), (said(owed), not owed), ("none", True), (cost, not spilled)]
    if entry["do"] == "migrate":
        return _of_order(entry)
    size, owed = float(entry["bytes"]), float(entry["owed_rows"])
    pause = float(entry["pause_s"])
    freed = signed_size(size if entry["do"] == "cleanup" else -size)
    carried = {"move": "sent", "spill": "written", "cleanup": "read"}[entry["do"]]
    cost = f"{said_size(size)} {carried}, {duration(entry['duration_s'])}"
    held = "none" if not pause else "< 1 tick" if pause < TICK_S else duration(pause)
    put_off = signed(said(abs(owed)), owed) if owed < 0 else said(owed)
    return [(freed, False), (put_off, not owed), (held, pause < TICK_S), (cost, False)]


def _of_order(entry: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """A change of the join order: what it frees is state that the new order does not keep."""
    freed = float(entry["before"]["state_bytes"]) - float(entry["after"]["state_bytes"])
    if entry.get("strategy") is None:
        return [(signed_size(freed), False), ("0", True), (NONE, True), ("cannot be done", False)]
    still = float(entry["pause_s"])
    cost = f"{said(entry['rows'])} rows, {duration(entry['duration_s'])}"
    return [(signed_size(freed), False), ("0", True), (duration(still) if still else "none", not still),
            (cost, False)]  # fmt: skip


def _why(entry: Mapping[str, Any], best: bool) -> str:
    if entry["do"] == "nothing":
        return _why_nothing(entry)
    if entry["do"] == "migrate":
        return _why_order(entry, best)
    full = entry.get("full_s")
    then = "then none fills"
    if full is not None:
        then = f"then the first is full in {ahead(full)}" if full > 0 else "one node is full now"
    return f"{_gains(entry, best)}; {then}."


def _gains(entry: Mapping[str, Any], best: bool) -> str:
    gain = float(entry["gain_row_s"])
    gains = f"gains {said(gain)} row·s"
    if gain <= 0:
        return f"loses {said(-gain)} row·s against doing nothing"
    if not entry["pays"]:
        return f"{gains}, less than twice its cost"
    return f"{gains}, {'more than the others' if best else 'less than the first'}"


def _why_order(entry: Mapping[str, Any], best: bool) -> str:
    """By the rows that one join hands to the next."""
    before, after = (float(entry[at]["between_per_s"]) for at in ("before", "after"))
    then = f"then {said(after, '/s')} rows in between, now {said(before, '/s')}"
    if entry.get("strategy") is None:
        barred = [str(one["hindrance"]) for one in entry["strategies"].values()]
        return f"{barred[0] if barred else 'no strategy can be taken'}; {then}."
    return f"{_gains(entry, best)}; {then}."


def _why_nothing(entry: Mapping[str, Any]) -> str:
    if not entry.get("full"):
        return "nothing needs to be done: it is what everything else is measured against."
    owed = float(entry["owed_rows"])
    puts = f"puts off {said(owed)} results" if owed else "puts nothing off"
    return f"each node spills by its own rule when it is full, and that {puts}."


def _acts(entry: Mapping[str, Any], may: bool) -> Component:
    """Of what is advised: the one button that is meant to be pressed, and one for later."""
    verb = words(entry["step"])[0].lower()
    what = "another order" if entry["do"] == "migrate" else verb
    preview = _button(entry, "preview", f"Preview {what}", "primary", may, right="arrow-right")
    save = _button(entry, "save", "Save as proposal", "", may)
    why = None if may else s(_why_not(), c="k")
    return d(preview, save, why, c="mi-act")


def _glance(entry: Mapping[str, Any], may: bool) -> Component:
    """Of the others: a quiet button, because one may know better than the model."""
    return _button(entry, "preview", "Preview", "bare small", may)


def _button(
    entry: Mapping[str, Any], do: str, text: str, kind: str, may: bool, right: str = ""
) -> Component:
    name = {"type": "menu-do", "do": do, "rank": entry["rank"]}
    return button(
        text, kind, right=right, id=name, disabled=not may, title="" if may else _why_not()
    )


def _why_not() -> str:
    return states.not_allowed(KINDS["propose"].role, role())
