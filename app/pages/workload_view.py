"""What Workload shows: a card for each thing that can be provoked, a stream's sliders, nodes in short, what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import states
from app.components.kit import button, chip, d, dmc, icon, num, s
from app.components.node_card import Cards
from app.components.steps import said_step
from app.components.units import clock, node_name, percent, rate, size
from app.desk import may, role
from app.pages.workload_knobs import Knob, Stream
from control.kinds import KINDS
from control.ledger import Command, CommandState, QueryRow

NODES_SHOWN_MAX = 12
ASKED_MAX = 8
# What each of them does to the query, and where it is seen: one table of texts.
WATCH = {
    "rate": "Memory fills faster, “full in” gets shorter. With windows σ grows too, as each row meets more others. Above what "
    "the nodes can join, ticks get longer.",
    "skew": "A few groups take most rows: Placement by rate gets a few bright tiles, and one node is ahead of the others.",
    "ratio": "More results for each row (σ): the same memory becomes more productive, and a spill puts off more.",
    "slow": "The node's busy goes to 100 % and every tick waits for it. A rule may move groups off it; you can.",
    "memory": "At 90 % of the new budget the node spills by itself. Before that the menu offers a move, a rule may act.",
    "shift": "Groups that were hot go cold: what was spilled as least productive may now be what is asked for. Debt grows.",
}


def not_demo(row: QueryRow | None, name: str) -> Component:
    if row is None and name:
        return states.empty(
            f"There is no query {name}",
            "Choose another in the top bar.",
            "sliders-horizontal",
            c="panel page",
        )
    if row is None:
        return states.empty(
            "No query is registered",
            "Its streams would be here.",
            "sliders-horizontal",
            c="panel page",
        )
    text = "Only demo queries have generated streams that can be changed here; this one's streams are its own."
    return states.empty(f"{row.name} is not a demo", text, "sliders-horizontal", c="panel page")


def why_not() -> str | None:
    """The reason beside everything that is switched off."""
    if may("workload"):
        return None
    return states.not_allowed(KINDS["workload"].role, role())


# -- streams ---------------------------------------------------------------------------------------------


def streams(found: Sequence[Stream]) -> list[Component]:
    why = why_not()
    return [_stream(one, why) for one in found]


def _stream(stream: Stream, why: str | None) -> Component:
    at = {"type": "workload-apply", "stream": stream.name}
    head = d(
        s(stream.name, c="b"),
        chip(stream.preset) if stream.preset != stream.name else None,
        s(id={"type": "workload-now", "stream": stream.name}, c="k wl-now"),
        c="wl-h",
    )
    sliders = d(*[_slider(stream, knob, why) for knob in stream.knobs], c="wl-knobs")
    foot = d(
        s("as it is now", id={"type": "workload-turned", "stream": stream.name}, c="k"),
        button("Change", "", id=at, disabled=True, title=why, aria_label=f"Change {stream.name}"),
        c="wl-f",
    )
    return d(head, sliders, foot, c="wl-s")


def _slider(stream: Stream, knob: Knob, why: str | None) -> Component:
    mark = {"value": knob.before}
    told: Any = {"aria-label": f"{knob.label} of {stream.name}"}
    made = dmc.Slider(
        id={"type": "workload-knob", "stream": stream.name, "knob": knob.name},
        value=knob.now,
        min=knob.least,
        max=knob.most,
        step=knob.step,
        marks=[mark],
        label=None,
        size="xs",
        color="var(--accent)",
        disabled=why is not None,
        thumbLabel=f"{knob.label} of {stream.name}, {knob.help}",
        className="slider",
        updatemode="drag",
        **told,
    )
    ends = d(s(knob.said(knob.least)), s(knob.said(knob.most)), c="wl-ends")
    return d(d(s(knob.label, c="wl-l", title=knob.help), c="wl-lh"), made, ends, c="wl-k")


def now_line(stream: Stream) -> str:
    return " · ".join(f"{knob.label.lower()} {knob.said(knob.now)}" for knob in stream.knobs)


def turned(stream: Stream, options: Mapping[str, str]) -> str:
    """What would change: rate 3.20 → 6.40 k/s."""
    parts = [
        f"{knob.label.lower()} {knob.said(knob.now)} → {knob.said(float(options[knob.name]))}"
        for knob in stream.knobs
        if knob.name in options
    ]
    return ", ".join(parts) or "as it is now"


# -- situations ------------------------------------------------------------------------------------------


def situation(title: str, ic: str, watch: str, *controls: Any) -> Component:
    return d(
        d(icon(ic), html.H3(title, className="b"), c="wl-h"),
        d(*controls, c="wl-c"),
        d(s("Watch: ", c="k"), WATCH[watch], c="wl-w"),
        c="wl-card",
    )


def situations() -> Component:
    """The controls are here before anything is known; a poll fills in the nodes."""
    node = _select("workload-slow-node")
    seconds = _number("workload-slow-s", "Seconds per 1 000 rows", 0.5, 0.0, 10.0, 0.1)
    slow = [
        node, seconds, button("Make it slow", id="workload-slow"),
        button("As fast as ever", "bare", id="workload-fast"), s(id="workload-slow-now", c="k wl-note"),
    ]  # fmt: skip
    share = _number("workload-share", "To % of its budget", 60, 10, 300, 5)
    memory = [
        _select("workload-memory-node"), share, button("Preview", id="workload-memory"),
        s(id="workload-memory-now", c="k wl-note"),
    ]  # fmt: skip
    shift = [
        button("Shift the hot keys", id="workload-shift"),
        s(id="workload-shift-now", c="k wl-note"),
    ]
    all_ = [
        button("Half", id={"type": "workload-all", "factor": "0.5"}),
        button("Twice", id={"type": "workload-all", "factor": "2"}),
        button("As in the file", "bare", id={"type": "workload-all", "factor": "0"}),
    ]
    return d(
        situation("Make a node slow", "clock", "slow", *slow),
        situation("Take memory away", "server", "memory", *memory),
        situation("Shift the hot keys", "refresh-cw", "shift", *shift),
        situation("All rates", "waves", "rate", *all_),
        c="wl-cards",
    )


def _select(id: str) -> Component:
    made: Component = dmc.Select(
        id=id, label="Node", data=[], value=None, size="xs", className="field wl-node", allowDeselect=False,
        rightSection=icon("chevron-down"),
    )  # fmt: skip
    return made


def _number(id: str, label: str, value: float, least: float, most: float, step: float) -> Component:
    made: Component = dmc.NumberInput(
        id=id, label=label, value=value, min=least, max=most, step=step, size="xs", className="field wl-num",
        clampBehavior="strict",
    )  # fmt: skip
    return made


# -- what comes of it ------------------------------------------------------------------------------------


def nodes(cards: Cards) -> Component:
    """Each node in one line: memory against its budget, busy, results."""
    count = len(cards.memory)
    rows = [_node(cards, node) for node in range(min(count, NODES_SHOWN_MAX))]
    rest = count - len(rows)
    return d(*rows, d(f"and {rest} more", c="wl-note k") if rest else None)


def _node(cards: Cards, node: int) -> Component:
    fill = float(cards.fill[node])
    tone = "near" if fill > 0.85 else ""
    width = min(100.0, 100.0 * fill)
    bar = d(
        html.I(className=f"seg {'near' if tone else 'mem'}", style={"width": f"{width:.1f}%"}),
        c="mbar",
    )
    return d(
        s(node_name(node), c="b"),
        d(bar, c="bars thin"),
        s(
            num(*size(float(cards.memory[node]))),
            s(f" {percent(fill)}", c=f"wl-p {'warn' if tone else 'u'}"),
        ),
        s(num(percent(float(cards.busy[node]))), s(" busy", c="u")),
        s(num(*rate(float(cards.out[node]))), s(" out", c="u")),
        c="wl-n",
    )


TONES = {CommandState.DONE: ("", "check"), CommandState.REFUSED: ("fail", "ban"), CommandState.FAILED: ("fail", "octagon-x"),
         CommandState.EXPIRED: ("near", "clock")}  # fmt: skip


def log(commands: Sequence[Command], zone_min: int) -> Component:
    """What was asked of the engine here lately, and what it said."""
    if not commands:
        return states.empty(
            "Nothing yet", "What you change is listed here with its outcome.", "list-checks"
        )
    return d(*[_line(one, zone_min) for one in commands[:ASKED_MAX]])


def _line(command: Command, zone_min: int) -> Component:
    tone, ic = TONES.get(command.state, ("held", "clock"))
    said = str(command.outcome.get("text", "")) or {
        "queued": "waits for the engine",
        "taken": "under way",
    }.get(command.state.value, "")
    return d(
        s(clock(command.created_s, zone_min), c="k num"),
        d(
            d(s(what(command), c="wl-a"), s(f" {command.rule or command.user}", c="k")),
            d(said, c="k"),
            c="clip2",
        ),
        chip(command.state.value, tone, ic),
        c="wl-log",
    )


def what(command: Command) -> str:
    """A command in a few words."""
    body = command.body
    if "stream" in body:
        options = ", ".join(
            f"{name} {text}" for name, text in dict(body.get("options", {})).items()
        )
        return f"{body['stream']}: {options}"
    if "slow" in body:
        return ", ".join(
            f"{node_name(int(n))} {'slow: ' + format(float(v), 'g') + ' s for 1 000 rows' if v else 'as fast as ever'}"
            for n, v in dict(body["slow"]).items()
        )
    steps = command.body.get("plan", {}).get("steps", ())
    return "; ".join(said_step(step) for step in steps) or command.kind
