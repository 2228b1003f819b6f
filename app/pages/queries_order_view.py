"""What Queries & plans says of join orders: the list of better ones, the way to propose one, what is on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import states
from app.components.kit import button, chip, d, link, num, s, table
from app.components.order_view import by
from app.components.steps import STRATEGIES as NAMES
from app.components.units import NONE, duration, percent, said, size
from control.actions import FINAL, State
from control.ledger import ActionRow

Told = Mapping[str, Any]
HEADS = (("join order", ""), ("rows in between", "r"), ("", "r"), ("state", "r"), ("", "r"),
         ("CPU", "r"), ("takes", "r"), ("stands still", "r"), ("gain", "r"), ("sure", "r"), ("", "r"))  # fmt: skip
DONE_S = 600.0  # so long what has been done stands above the plan


def unknown(stale: bool) -> Component:
    if stale:
        return states.empty(
            "Nothing new is known", "Orders are priced on what a running query tells.", "clock"
        )
    text = "Rates and selectivities are known after some seconds of a running join."
    return states.empty("Nothing known yet", text, "clock")


def listed(better: Sequence[Told], running: str, looked_at: Told | None) -> Component:
    """The running order, and below it those that are better by rows or by state."""
    every = [*better]
    if looked_at is not None and all(one["join_order"] != looked_at["join_order"] for one in every):
        every.append(looked_at)
    if not every:
        text = "No other order makes fewer rows in between or keeps less state."
        return states.empty(f"{running} is the best order", text, "check")
    now = every[0]["before"]
    rows = [_running(running, now)]
    at = looked_at["join_order"] if looked_at is not None else ""
    rows += [_order(one, one["join_order"] == at) for one in every]
    heads = [(text or s("change", c="sr"), c) for text, c in HEADS[:-1]]
    heads.append((s("what to do", c="sr"), "r"))
    return d(table(heads, rows, "mg-list"), c="scroll-x")  # type: ignore[arg-type]


def _running(order: str, now: Told) -> list[Any]:
    return [
        d(s(order, c="mono"), chip("runs"), c="qu-n"),
        num(*_parts(said(now["between_per_s"], "/s"))),
        "",
        num(*size(now["state_bytes"])),
        "",
        percent(1.0),
        *[s(NONE, c="dim") for _ in range(4)],
        "",
    ]


def _parts(text: str) -> tuple[str, str]:
    value, _, unit = text.partition(" ")
    return value, unit


def _order(one: Told, chosen: bool) -> list[Any]:
    before, after = one["before"], one["after"]
    offered = one.get("strategy") is not None
    share = after["cpu_s"] / before["cpu_s"] if before["cpu_s"] > 0 else None
    gain = float(one["gain_row_s"]) if offered else None
    still = one.get("pause_s")
    look = button(
        "Shown" if chosen else "Preview", "bare small", disabled=chosen,
        id={"type": "queries-look", "order": one["join_order"]},
        aria_label=f"Preview {one['join_order']}",
    )  # fmt: skip
    return [
        d(s(one["join_order"], c="mono b" if chosen else "mono"), s(one["shape"], c="k"), c="qu-n"),
        num(*_parts(said(after["between_per_s"], "/s"))),
        s(by(before["between_per_s"], after["between_per_s"]), c="sg"),
        num(*size(after["state_bytes"])),
        s(by(before["state_bytes"], after["state_bytes"]), c="sg"),
        percent(share),
        duration(one.get("duration_s")) if offered else NONE,
        duration(still) if still else s("none", c="dim"),
        s(f"{said(gain)} row·s", c="b" if gain is not None and gain > 0 else "dim"),
        percent(one.get("chance")) if offered else NONE,
        look,
    ]


def buttons(told: Told, why_not: str) -> Component:
    """To propose it: by the strategy that is advised, or by another that can be."""
    chosen = told.get("recommended", told.get("strategy"))
    able = [name for name, one in told["strategies"].items() if not one["hindrance"]]
    if not able:
        return d(s("Nothing can be proposed: see what speaks against it.", c="k"), c="rc-b")
    ordered = sorted(able, key=lambda name: name == chosen)
    made = [
        button(
            f"Propose {NAMES.get(name, name)}" if name == chosen else NAMES.get(name, name).capitalize(),
            "primary" if name == chosen else "", "", "arrow-right" if name == chosen else "",
            id={"type": "queries-propose", "strategy": name}, disabled=bool(why_not), title=why_not,
            aria_label=f"Propose {told['join_order']} by {NAMES.get(name, name)}",
        )
        for name in ordered
    ]  # fmt: skip
    return d(s(why_not, c="k") if why_not else None, d(c="grow"), *made, c="rc-b")


# -- what is on its way, and what has been done --------------------------------------------------------


def way(rows: Sequence[ActionRow], now_s: float) -> list[Component]:
    """Changes of the order that run, and the last one for some minutes."""
    found = [row for row in rows if row.body["step"]["do"] == "migrate"]
    running = [row for row in found if State(row.state) not in FINAL]
    if running:
        return [_on_its_way(row, now_s) for row in running]
    ended = [row for row in found if row.ended_s is not None and now_s - row.ended_s < DONE_S]
    return [_done(ended[-1], now_s)] if ended else []


def _on_its_way(row: ActionRow, now_s: float) -> Component:
    records = row.body.get("records") or ()
    step = (
        str(records[-1][0] if isinstance(records[-1], list) else records[-1]["name"])
        if records
        else ""
    )
    share = row.progress if row.progress is not None else 0.0
    bar = d(html.I(style={"width": f"{100 * share:.0f}%"}), c="mg-bar", aria_hidden="true")
    predicted = row.predicted.get("duration_s")
    took = duration(now_s - row.started_s)
    of = f"{took} of about {duration(predicted)}" if predicted else took
    return d(
        chip("on its way", "held", "play"),
        s("Change to ", s(row.body["step"]["order"], c="mono b")),
        s(step, c="k"),
        bar,
        s(percent(share), c="num"),
        s(of, c="k num"),
        d(c="grow"),
        link("Steps, cancel", f"/actions?action={row.id}"),
        c="mg-way",
    )


def _done(row: ActionRow, now_s: float) -> Component:
    good = row.state == State.DONE.value
    tone, ic = (
        ("", "check") if good else ("fail", "octagon-x") if row.state == "failed" else ("near", "x")
    )
    took = duration((row.ended_s or now_s) - row.started_s)
    still = row.actual.get("pause_s")
    told = [f"took {took}"]
    if (predicted := row.predicted.get("duration_s")) is not None:
        told[0] += f", predicted {duration(predicted)}"
    if good and still is not None:
        told.append(f"results stood still for {duration(float(still))}")
    if not good and row.body.get("note"):
        told.append(str(row.body["note"]))
    ago = duration(now_s - (row.ended_s or now_s))
    word = "Predicted and actual, undo" if good else "What happened"
    return d(
        chip(row.state, tone, ic),
        s("Change to ", s(row.body["step"]["order"], c="mono b")),
        s("; ".join(told), c="k num clip"),
        d(c="grow"),
        s(f"{ago} ago", c="k num"),
        link(word, f"/actions?action={row.id}"),
        c="mg-way",
    )
