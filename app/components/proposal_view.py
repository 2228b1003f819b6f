"""How a proposal looks: title, nodes before and after, effect, checks, fingerprint, buttons, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from dash import html

from app.components import proposal_order, reasons, states
from app.components.help import mark
from app.components.kit import button, chip, d, icon, link, s
from app.components.steps import said_plan, said_step
from app.components.units import (
    NONE,
    ahead,
    clock,
    counted,
    duration,
    node_name,
    percent,
    said,
    said_size,
    signed_size,
)
from app.desk import role
from app.view import View
from control import proposals
from control.companions import TAKES
from control.kinds import KINDS
from control.ledger import ActionRow, Command, CommandState, Proposal, ProposalState

NEAR = 0.85
TONES = {
    ProposalState.OPEN: ("", "nothing has happened yet"),
    ProposalState.APPLIED: ("held", "applied"),
    ProposalState.DISMISSED: ("", "dismissed"),
    ProposalState.STALE: ("near", "stale"),
    ProposalState.EXPIRED: ("", "expired"),
}


def missing() -> Any:
    return states.empty("There is no such proposal", "It may have been tidied away.")


def refused(told: Mapping[str, Any]) -> Any:
    """What was asked for could not even be proposed."""
    return d(
        d(s("Not proposed", c="pv-t b"), c="pv-head"),
        d(reasons.refusals(told.get("refusals") or (), str(told.get("refused", ""))), c="pv-sec"),
        d(d(_button("close", "Close"), c="fp-b"), c="pv-foot"),
    )


def state_of(found: Proposal, now_s: float) -> ProposalState:
    """Nobody settles what has lapsed before somebody looks."""
    lapsed = found.state is ProposalState.OPEN and found.expires_s <= now_s
    return ProposalState.EXPIRED if lapsed else found.state


def top(found: Proposal, state: ProposalState, told: Mapping[str, Any], view: View) -> list[Any]:
    """What it is, and what it would do."""
    preview = found.preview
    head = [_head(found, state, view), _said(told)]
    order = proposal_order.of_preview(preview)
    if order is not None:
        return [*head, proposal_order.effect(order, found.query)]
    return [*head, nodes(preview.get("nodes", ())), _effect(preview)]


def _head(found: Proposal, state: ProposalState, view: View) -> Any:
    tone, word = TONES[state]
    by = f"rule {found.rule}" if found.rule else found.user
    where = f"{found.query} · {by} · {clock(found.created_s, view.zone_min)}"
    return d(
        d(s(where, c="k"), chip(word, tone), c="pv-k"),
        html.H2(said_plan(found.plan), className="pv-t"),
        s(f"takes back action {found.undo_of}", c="k") if found.undo_of else None,
        s(found.note, c="k") if found.note else None,
        *_along(found),
        c="pv-head",
    )


def _along(found: Proposal) -> list[Any]:
    """What moves too because it shares a task with what was asked for."""
    said_ = [
        (text, dict(numbers))
        for _, text, numbers in found.plan.get("reasons", ())
        if str(text).startswith(TAKES)
    ]
    return [
        s(f"{text}, {said_size(float(numbers.get('size_bytes', 0)))}", c="k")
        for text, numbers in said_
    ]


def _said(told: Mapping[str, Any]) -> Any:
    if not told.get("said"):
        return None
    return d(reasons.refusals(told.get("refusals") or (), str(told["said"])), c="pv-sec")


def nodes(told: Sequence[Mapping[str, Any]]) -> Any:
    """Touched nodes; grey above is before, blue below is after, the line is the budget."""
    values = [n[at]["memory_bytes"] for n in told for at in ("before", "after")]
    budgets = [n["after"]["budget_bytes"] or 0 for n in told]
    scale = max([*values, *budgets, 1]) * 1.04
    heads = ("node", "before", "after", "change", "of budget", "")
    top = [s(text, c="" if i in (0, 4) else "r") for i, text in enumerate(heads)]
    return d(d(*top, c="ba ba-h"), *[_node(n, scale) for n in told], c="pv-sec")


def _node(told: Mapping[str, Any], scale: float) -> Any:
    before, after = told["before"]["memory_bytes"], told["after"]["memory_bytes"]
    budget, share = told["after"]["budget_bytes"], told["after"]["share"]
    near = " near" if share is not None and share > NEAR else ""
    bar = d(
        html.I(className="ba-b", style=_wide(before, scale)),
        html.I(className=f"ba-a{near}", style=_wide(after, scale)),
        html.I(className="ba-l", style={"left": _part(budget, scale)}) if budget else None,
        c="ba-bar",
    )
    return d(
        s(node_name(told["node"]), c="b"),
        s(said_size(before), c="r"),
        s(said_size(after), c="r b" if after != before else "r"),
        s(signed_size(after - before), c="r sg" if after != before else "r dim"),
        bar,
        s(percent(share), c=f"r {'warn' if near else 'dim'}"),
        c="ba",
    )


def _wide(value: float, scale: float) -> dict[str, str]:
    return {"width": _part(value, scale)}


def _part(value: float, scale: float) -> str:
    return f"{min(100.0, 100 * value / scale):.2f}%"


def _effect(preview: Mapping[str, Any]) -> Any:
    """What it takes and what it gives, as the model has it."""
    whole = preview.get("whole", {})
    horizon = duration(float(preview.get("horizon_s", 0.0)))
    first = [
        f"> {horizon}" if (full := _full(preview, at)) is None else ahead(full) if full else "now"
        for at in ("before", "after")
    ]
    chance = whole.get("chance")
    rows: list[tuple[str, str, str, str | None]] = [
        ("first full in", first[0], first[1], None),
        ("bytes to carry", "", said_size(whole.get("bytes")), "cost"),
        ("takes about", "", duration(whole.get("duration_s")), "cost"),
        ("input held", "", duration(whole.get("pause_s")), "pause"),
        ("results put off", "", said(whole.get("owed_rows")) or NONE, "puts_off"),
        (f"gain over {horizon}", "", f"{said(whole.get('gain_row_s'))} row·s", "menu"),
        ("confidence", "", percent(chance), "confidence"),
    ]
    top = d(s("effect"), s("before", c="r"), s("after", c="r"), c="kv h")
    return d(top, *[_kv(*row) for row in rows], c="pv-sec")


def _kv(name: str, before: str, after: str, help: str | None) -> Any:
    label = d(name, mark(help) if help else None, c="kv-k")
    return d(label, s(before, c="r dim"), s(after, c="r b"), c="kv")


def _full(preview: Mapping[str, Any], at: str) -> float | None:
    found = [n[at]["full_s"] for n in preview.get("nodes", ()) if n[at].get("full_s") is not None]
    return min(found, default=None)


def course(command: Command | None, actions: Sequence[ActionRow], now_s: float) -> Any:
    """What became of it: the command, then each action and how far it is."""
    if command is None:
        return None
    lines = [_command(command)]
    lines += [_action(row, now_s) for row in actions]
    return d(*lines, c="pv-sec", role="status")


def _command(command: Command) -> Any:
    texts = {
        CommandState.QUEUED: "Waits for the engine",
        CommandState.TAKEN: "Taken by the engine",
        CommandState.DONE: "Accepted by the engine",
    }
    said_ = str(command.outcome.get("text") or "")
    if command.state in texts:
        return reasons.check(texts[command.state], wait=not command.state.over)
    refusals = command.outcome.get("refusals") or ()
    text = said_ or f"The engine says: {command.state}"
    return reasons.refusals(refusals, text) if refusals else reasons.check(text, good=False)


def _action(row: ActionRow, now_s: float) -> Any:
    took = (row.ended_s if row.ended_s is not None else now_s) - row.started_s
    tone = {"done": "", "failed": "fail", "cancelled": "near", "rejected": "fail"}.get(
        row.state, "held"
    )
    share = f" {percent(row.progress)}" if row.progress is not None and row.ended_s is None else ""
    return d(
        icon("list-checks"),
        s(link(said_step(row.body["step"]), f"/actions?action={row.id}", "text-link"), c="clip"),
        chip(f"{row.state}{share}", tone),
        s(duration(took), c="k num"),
        c="st-row",
    )


def foot(found: Proposal, state: ProposalState, now_s: float, may: bool) -> Any:
    print_ = proposals.from_json(found.fingerprint)
    short = proposals.short(print_)
    text = f"{short[:4]}-{short[4:8]}-{short[8:12]}"
    touched = counted(len(print_.touched), "group")
    row = d(
        icon("fingerprint"), s(text, c="mono fp"), mark("fingerprint"),
        s(f"{touched} · plan {print_.plan[:6]}", c="k"), c="fp-row",
    )  # fmt: skip
    return d(row, _note(state, found, now_s), d(*_buttons(state, text, may), c="fp-b"), c="pv-foot")


def _note(state: ProposalState, found: Proposal, now_s: float) -> Any:
    left = duration(
        60.0 * max(1, ceil((found.expires_s - now_s) / 60))
    )  # in minutes: it stands still
    texts = {
        ProposalState.OPEN: f"Applied is exactly what is shown, or nothing: if one of these has "
        f"moved on, it is refused and the drift shown. Lapses in {left}.",
        ProposalState.STALE: "What it was made on has changed. Propose it again to see it priced anew.",
        ProposalState.EXPIRED: "It has lapsed. Propose it again to see it priced anew.",
        ProposalState.DISMISSED: "Somebody has dropped it.",
        ProposalState.APPLIED: "It has been handed to the engine, whose word is final.",
    }
    return d(texts[state], c="k fp-n")


def _buttons(state: ProposalState, text: str, may: bool) -> list[Any]:
    needed = KINDS["apply"].role
    why = "" if may else states.not_allowed(needed, role())
    if state is ProposalState.OPEN:
        return [
            _button("apply", f"Apply {text[:9]}", "primary wide", disabled=not may, title=why),
            _button("close", "Keep for later"),
            _button("dismiss", "Dismiss", disabled=not may, title=why),
            *([s(why, c="k")] if why else []),
        ]
    if state in (ProposalState.STALE, ProposalState.EXPIRED):
        again = _button("again", "Propose again", "primary", disabled=not may, title=why)
        return [again, _button("close", "Close")]
    return [_button("close", "Close")]


def _button(do: str, text: str, kind: str = "", **more: Any) -> Any:
    return button(text, kind, id={"type": "proposal-do", "do": do}, **more)
