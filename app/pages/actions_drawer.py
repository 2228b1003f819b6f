"""One action, opened: what, who and why, the steps, predicted and actual, receipt, history, undo and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import because, states
from app.components.help import mark
from app.components.kit import button, chip, d, icon, s
from app.components.lanes import LOCAL
from app.components.steps import words
from app.components.units import clock, counted, duration, moment, percent, said_size
from app.pages.actions_figures import STILL, predictions
from app.pages.actions_receipt import receipt
from app.pages.actions_steps import key_of, timeline
from app.view import View
from control import actions, proposals
from control.actions import Action, State
from control.kinds import KINDS
from control.ledger import ActionRow, Command, Learned, Proposal
from control.people import Role
from control.plans import Cleanup, Migrate, SetBudget, Spill

TONES = {
    State.DONE: ("", "check"),
    State.FAILED: ("fail", "octagon-x"),
    State.REJECTED: ("", "ban"),
    State.CANCELLED: ("near", "x"),
}
EVENTS = {
    "accept": "accepted",
    "reject": "rejected",
    "begin": "began",
    "end": "ended",
    "finish": "finished",
    "fail": "failed",
    "cancel": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """An action with what is kept of how it came about."""

    row: ActionRow
    command: Command | None
    proposal: Proposal | None
    lessons: Sequence[Learned]
    view: View
    now_s: float
    role: Role
    told: str = ""  # what came of the last button

    @property
    def action(self) -> Action:
        return actions.from_json(self.row.body)

    @property
    def until_s(self) -> float:
        return self.row.ended_s if self.row.ended_s is not None else self.now_s


def missing(name: str) -> Component:
    return states.empty(f"There is no action {name}", "It may be of another store, or tidied away.")


def top(opened: Opened) -> list[Component]:
    """Everything above the charts."""
    action = opened.action
    steps = d(
        d(
            html.H3("Steps", className="p-title"),
            mark("steps"),
            s(_steps_sub(action), c="p-sub"),
            d(key_of(action), c="p-right"),
            c="ac-h",
        ),
        timeline(action, opened.until_s)
        if action.records
        else d("Nothing has begun.", c="ac-note"),
        c="ac-sec",
    )
    pair = d(
        predictions(opened.row, opened.lessons),
        receipt(opened.row.receipt, action.over),
        c="ac-two",
    )
    return [_head(opened, action), _why(opened, action), steps, pair]


def _steps_sub(action: Action) -> str:
    if action.course.startswith("move"):
        return "the paper's eight; bars where they ran"
    return "bars where they ran"


def state_chip(row: ActionRow, until_s: float) -> Component:
    state = State(row.state)
    if state not in actions.FINAL:
        share = f" {percent(row.progress)}" if row.progress is not None else ""
        return chip(f"{state}{share}, {duration(until_s - row.started_s)}", "held", "play")
    tone, ic = TONES[state]
    return chip(str(state), tone, ic)


def _head(opened: Opened, action: Action) -> Component:
    row = opened.row
    verb, rest = words(row.body["step"])
    zone = opened.view.zone_min
    tools = d(
        button("Copy link", "", "", id="actions-copy", data_copy=f"/actions?action={row.id}"),
        html.A(
            [icon("download"), "As JSON"],
            href=f"/api/v1/actions/{row.id}",
            className="btn",
            download=f"action-{row.id}.json",
        ),
        c="ac-end",
    )
    title = d(
        html.H2([s(verb, c="b"), f" {rest}"], className="ac-ttl"),
        s(f"#{row.id}", c="ac-id mono"),
        state_chip(row, opened.until_s),
        tools,
        c="ac-t",
    )
    facts = [
        f"{moment(row.started_s, zone)} → {clock(row.ended_s, zone) if row.ended_s else 'now'}"
        f" {'UTC' if not zone else 'local'}",
        duration(opened.until_s - row.started_s),
        said_size(row.bytes),
        *_outcome(row),
    ]
    note = d(icon("info"), s(action.note), c="ac-why-not") if action.note else None
    return d(title, d(*[s(fact) for fact in facts], c="ac-sub num"), note, c="ac-head")


def _outcome(row: ActionRow) -> list[str]:
    found = []
    pause = row.actual.get("pause_s")
    if pause is not None and row.body["step"]["do"] == "migrate":
        found.append(f"{STILL} for {duration(float(pause))}" if pause else "without a pause")
    elif pause is not None:
        found.append(f"input held {duration(float(pause))}" if pause else "no input held")
    if row.receipt.get("ok"):
        found.append("no row lost, none twice")
    elif row.receipt:
        found.append("rows do not add up: see the receipt")
    return found


def said_by(row: ActionRow) -> str:
    """Who it was done by, in the ledger's words."""
    if row.rule:
        return row.rule
    if row.id.startswith(LOCAL):
        return f"n{row.by.removeprefix('node ')} itself"
    return row.by


def _why(opened: Opened, action: Action) -> Component:
    row, proposal = opened.row, opened.proposal
    cells: list[Any] = [s("who", c="k"), d(*_who(opened))]
    plan = (
        proposal.plan if proposal else (opened.command.body.get("plan") if opened.command else None)
    )
    cells += because.lines(plan["reasons"]) if plan else []
    if row.id.startswith(LOCAL):
        text = "Its memory was over its budget's threshold at the end of a tick: the engine's own rule."
        cells += [s("why", c="k"), d(text)]
    if opened.command is not None:
        cells += [s("plan", c="k"), _plan(opened)]
    return d(*cells, c="ac-why")


def _who(opened: Opened) -> list[Any]:
    row, command, proposal = opened.row, opened.command, opened.proposal
    if row.id.startswith(LOCAL):
        return [s(said_by(row), c="b"), ", on overflow; nobody was asked"]
    found: list[Any]
    if row.rule:
        found = [
            "rule ",
            s(row.rule, c="b"),
            f" in the name of {command.user if command else row.by}",
        ]
    else:
        found = [s(row.by, c="b")]
        if proposal is not None and proposal.rule:
            found.append(f", as rule {proposal.rule} proposed")
    if command is not None:
        found.append(f", by {command.source}, {clock(command.created_s, opened.view.zone_min)}")
    if proposal is not None and proposal.undo_of:
        found.append(f"; takes back action {proposal.undo_of}")
    return found


def _plan(opened: Opened) -> Component:
    proposal, command = opened.proposal, opened.command
    raw = proposal.fingerprint if proposal else command.body.get("fingerprint") if command else None
    if not raw:
        return d(s(command.id if command else "", c="mono"))
    print_ = proposals.from_json(raw)
    short = proposals.short(print_)
    text = f"{short[:4]}-{short[4:8]}-{short[8:12]}"
    return d(
        s(text, c="mono"),
        s(
            f" · plan {print_.plan[:6]} · {counted(len(print_.touched), 'group')}, unchanged at apply"
        ),
        s(f" · command {command.id}" if command else "", c="dim"),
    )


def history(action: Action, zone_min: int) -> Component:
    lines = [
        d(
            s(clock(one.time_s, zone_min), c="num"),
            s(EVENTS.get(one.event.value, one.event.value)),
            s(one.note, c="clip"),
            s(one.state.value, c="dim"),
            c="ac-hi",
        )
        for one in action.history
    ]
    summary = html.Summary(f"History, {len(lines)} events")
    return html.Details([summary, *lines], className="ac-sec ac-history")


def foot(opened: Opened) -> list[Component]:
    """Undo and cancel, each with why not where it is not possible."""
    action = opened.action
    undo_not, cancel_not = why_no_undo(action), why_no_cancel(action)
    told = d(opened.told, c="ac-told", role="status") if opened.told else None
    undo = _way(
        "Undo" if undo_not else f"Undo: {_back(action)}",
        undo_not or "a new proposal, priced before anything happens",
        ("undo", "Preview undo", "undo-2"),
        undo_not,
        opened.role,
    )
    cancel = _way(
        "Cancel",
        cancel_not or "ends it before its commit; state stays as it was",
        ("cancel", "Cancel", "x"),
        cancel_not,
        opened.role,
    )
    return [*([told] if told is not None else []), d(undo, cancel, c="ac-ways")]


def _way(title: str, text: str, what: tuple[str, str, str], why_not: str, role: Role) -> Component:
    do, label, ic = what
    needed = KINDS[do].role
    barred = "" if role.covers(needed) else states.not_allowed(needed, role)
    said = barred if barred and not why_not else text
    press = button(
        label, "danger" if do == "cancel" else "", ic, disabled=bool(why_not or barred),
        id={"type": "actions-do", "do": do},
    )  # fmt: skip
    return d(d(s(title, c="b"), s(said, c="k"), c="ac-way-t"), press, c="ac-way")


def _back(action: Action) -> str:
    step = action.step
    if isinstance(step, Spill):
        return f"clean up what was spilled of n{step.node}"
    if isinstance(step, Migrate):
        return "change back to the join order from before"
    if isinstance(step, Cleanup | SetBudget):
        return ""
    return f"move the groups back n{step.target} → n{step.source}"


def why_no_undo(action: Action) -> str:
    """Empty where a way back can be proposed; whether it still can be done, the proposal says."""
    if action.state is not State.DONE:
        return f"nothing to take back: it is {action.state}" if action.over else "not while it runs"
    if isinstance(action.step, Cleanup):
        return "a clean-up cannot be taken back: its results are out"
    if isinstance(action.step, SetBudget):
        return "a budget is set again, not taken back"
    return ""


def why_no_cancel(action: Action) -> str:
    if action.over:
        return f"no longer possible: it is {action.state}"
    return "" if action.cancellable else "no longer possible: its commit has begun"
