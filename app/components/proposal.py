"""The panel that shows a proposal before it is carried out, on every page: before and after, cost, checks,
fingerprint; then apply, keep or drop it, and follow what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import proposal_view as shown
from app.components.kit import d, dmc
from app.desk import act, feed, may
from app.pages.page import mark
from app.parts import parts
from app.view import View
from control.kinds import Answer
from control.people import Role
from control.plans import plan_from_json, step_to_json

PROPOSE = {"type": "propose", "page": ALL}
PARTS = (
    "top",
    "course",
    "foot",
)  # each is drawn anew only when it changes: buttons must stay under the mouse
BUTTON = {"type": "proposal-do", "do": ALL}


def panel_skeleton() -> Component:
    drawer = dmc.Drawer(
        d(*[d(id=f"proposal-{part}") for part in PARTS], c="pv"),
        id="proposal",
        title="Proposal",
        opened=False,
        position="right",
        size=460,
        padding=0,
        zIndex=300,
        withOverlay=False,
        lockScroll=False,
        closeOnClickOutside=False,
        trapFocus=False,
        closeButtonProps={"aria-label": "Close"},
    )
    follow = dcc.Interval(id="proposal-poll", interval=1_000, disabled=True)
    return d(
        drawer,
        follow,
        dcc.Store(id="proposal-open"),
        dcc.Store(id="proposal-told"),
        dcc.Store(id="proposal-mark"),
        d(id="proposal-said", hidden=True),
    )


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("proposal", "opened"),
        Output("proposal-open", "data"),
        Input(PROPOSE, "data"),
        Input("proposal-told", "data"),
        prevent_initial_call=True,
    )(_open)
    on.callback(
        Role.VIEWER,
        *[Output(f"proposal-{part}", "children") for part in PARTS],
        Output("proposal-mark", "data"),
        Input("proposal-open", "data"),
        Input("proposal-poll", "n_intervals"),
        State("proposal-mark", "data"),
        State("view", "data"),
        prevent_initial_call=True,
        polls=True,
    )(_parts)
    on.in_browser("saved", Output("proposal-said", "title"), Input("proposal-open", "data"))
    on.in_browser("closed", Output("proposal-poll", "disabled"), Input("proposal", "opened"))
    on.callback(
        Role.OPERATOR,
        Output("proposal-told", "data"),
        Input(BUTTON, "n_clicks"),
        State("proposal-open", "data"),
        prevent_initial_call=True,
    )(_do)


def _open(asked: list[Any], told: Any) -> tuple[Any, Any]:
    """What a page asks to be shown, or what a button has made of what is shown."""
    value = told if ctx.triggered_id == "proposal-told" else _triggered(asked)
    if not isinstance(value, dict):
        return no_update, no_update
    opened = not value.get("close") and not value.get("saved")
    return opened, value


def _triggered(asked: list[Any]) -> Any:
    values = [one.get("value") for one in ctx.triggered]
    return next((value for value in values if value), None)


def _parts(open_: Any, _: int, before: Any, raw_view: Any) -> list[Any]:
    """Polled only while the panel is open: what became of it can change. A poll that overtakes the first
    drawing draws nothing: buttons drawn twice would lose a click in between."""
    nothing = [no_update] * (len(PARTS) + 1)
    if not isinstance(open_, dict) or open_.get("close"):
        return nothing
    name = str(open_.get("proposal", ""))
    known = before if isinstance(before, list) and len(before) == len(PARTS) + 1 else [None]
    if "proposal-open.data" not in ctx.triggered_prop_ids and known[0] != name:
        return nothing
    marks, made = _drawn(open_, raw_view)
    same = known[1:] if known[0] == name else [None] * len(PARTS)
    kept = [no_update if m == k else one() for m, k, one in zip(marks, same, made, strict=True)]
    return [*kept, [name, *marks]]


def _drawn(open_: Mapping[str, Any], raw_view: Any) -> tuple[list[str], list[Callable[[], Any]]]:
    """Of each part: the mark of what it is made of, and how it is made."""
    store, now_s, view = parts().store, feed().now_s(), View.of(raw_view)
    found = store.proposals.find(str(open_.get("proposal", "")))
    if found is None:
        one = shown.refused(open_) if "refused" in open_ else shown.missing()
        return [mark(open_), "", ""], [lambda: one, lambda: None, lambda: None]
    command = store.commands.find(found.command) if found.command else None
    names = list(command.outcome.get("actions", ())) if command else []
    rows = [row for name in names if (row := store.actions.find(name))]
    state, allowed = shown.state_of(found, now_s), may("apply")
    left_min = int((found.expires_s - now_s) // 60)
    going = round(now_s) if any(row.ended_s is None for row in rows) else 0
    marks = [
        mark(found.id, state, open_, view),
        mark(found.id, command, rows, going),
        mark(found.id, state, allowed, left_min),
    ]
    return marks, [
        lambda: shown.top(found, state, open_, view),
        lambda: shown.course(command, rows, now_s),
        lambda: shown.foot(found, state, now_s, allowed),
    ]


def _do(clicks: list[Any], open_: Any) -> Any:
    """A button of the panel. What comes of it goes into the store that the panel is drawn from."""
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not any(clicks) or not isinstance(open_, dict):
        return no_update
    name = str(open_.get("proposal", ""))
    if pressed["do"] == "apply":
        return _told(act("apply", {"proposal": name}), name)
    if pressed["do"] == "dismiss":
        answer = act("dismiss", {"proposal": name})
        return {"close": True} if answer.accepted else _told(answer, name)
    if pressed["do"] == "again":
        return _again(name)
    return {"close": True}


def _told(answer: Answer, proposal: str) -> dict[str, Any]:
    refusals = [dict(one) for one in answer.refusals]
    said = "" if answer.accepted else answer.text
    return {"proposal": proposal, "said": said, "refusals": refusals, "at": feed().now_s()}


def _again(name: str) -> Any:
    """The same steps, priced anew on what is there now."""
    found = parts().store.proposals.find(name)
    if found is None:
        return {"proposal": name}
    steps = [step_to_json(step) for step in plan_from_json(found.plan).steps]
    answer = act("propose.steps", {"steps": steps}, found.query)
    if answer.accepted:
        return {"proposal": answer.id}
    return {"refused": answer.text, "refusals": [dict(one) for one in answer.refusals]}
