"""How rules look: the list with what holds each, one rule's parameters, blockers and evaluations, the day's budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import because, locks_view, states
from app.components.help import mark as help_mark
from app.components.kit import button, chip, d, dmc, icon, link, s
from app.components.units import (
    NONE,
    clock,
    duration,
    figure,
    moment,
    percent,
    said,
    said_size,
)
from app.desk import role
from app.feed import Hold
from control.handling.plans import DayBudget
from control.kinds import KINDS
from control.ledger import Evaluation, RuleRow, Used
from control.people import Role
from control.policies.registry import KINDS as POLICIES
from control.rules import MODES

Lock = Mapping[str, Any]
OUTCOMES = {
    "acted": ("acc", "play"),
    "proposed": ("", "user"),
    "nothing": ("", "check"),
    "blocked": ("", "lock"),
    "error": ("fail", "octagon-x"),
}
BLOCK_ICONS = {
    "off": "ban",
    "hold": "pause",
    "not_due": "clock",
    "open_proposal": "user",
    "stopped": "user",
}
PRICED = ("best_gain", "better_order")  # policies that are none of the papers'
PARAMETERS_MAX = 8


@dataclass(frozen=True, slots=True)
class Listed:
    """One rule of the list; `help`: its policy in a sentence, or why its text cannot be read."""

    row: RuleRow
    help: str
    bad: bool
    fired: int  # times that it proposed or did something in the last 24 hours


def why_not_auto(who: Role) -> str:
    return "" if who.covers(Role.ADMIN) else states.not_allowed(Role.ADMIN, who)


def listed(found: Sequence[Listed], chosen: str) -> list[Component]:
    if not found:
        text = "A policy, when it is asked, and whether it only proposes or acts."
        return [states.empty("There is no rule yet", text, "scale")]
    return [_listed(one, one.row.name == chosen) for one in found]


def _listed(one: Listed, chosen: bool) -> Component:
    row = one.row
    name = html.Button(
        row.name,
        id={"type": "rules-pick", "rule": row.name},
        className="ru-n",
        type="button",
        n_clicks=0,
        **_pressed(chosen),
    )
    return d(
        d(name, mode_control(row), c="ru-top"),
        d(one.help, c=f"ru-w{' bad' if one.bad else ''}"),
        d(
            s(id={"type": "rules-line", "rule": row.name}, c="ru-l"),
            s(id={"type": "rules-next", "rule": row.name}, c="ru-x num"),
            s(str(one.fired) if one.fired else NONE, c="ru-f num", title="in the last 24 hours"),
            c="ru-i",
        ),
        c=f"ru{' on' if chosen else ''}",
    )


def _pressed(on: bool) -> Any:
    return {"aria-pressed": "true" if on else "false"}


def mode_control(row: RuleRow) -> Component:
    """Who may not switch it sees its mode, and why in the list's foot."""
    who = role()
    if not who.covers(KINDS["rule.mode"].role):
        return chip(row.mode, f"mode-{row.mode}")
    admin = who.covers(Role.ADMIN)
    made: Component = dmc.SegmentedControl(
        id={"type": "rules-mode", "rule": row.name},
        data=[
            {
                "value": mode,
                "label": mode,
                "disabled": mode == "auto" and not admin and row.mode != "auto",
            }
            for mode in MODES
        ],
        value=row.mode,
        size="xs",
        className=f"seg-c ru-mode {row.mode}",
        **{"aria-label": f"Mode of {row.name}"},
    )
    return made


def foot() -> Component | None:
    """Why some of the switches are off."""
    who = role()
    needed = KINDS["rule.mode"].role
    if not who.covers(needed):
        return d(
            icon("lock"), s(f"Switching modes: {states.not_allowed(needed, who)}"), c="ru-foot"
        )
    why = why_not_auto(who)
    return d(icon("lock"), s(f"auto: {why}"), c="ru-foot") if why else None


def line(row: RuleRow, lock: Lock, now_s: float, zone_min: int) -> tuple[list[Any], str]:
    if not lock:
        return [icon("ban"), s("for another query", c="clip")], ""
    ic, text, _, at = locks_view.said(row, lock, now_s, zone_min)
    return [icon(ic), s(text, c="clip", title=text)], at


def held(hold: Hold | None, zone_min: int, may: bool) -> Component | None:
    if hold is None:
        return None
    why = states.not_allowed(KINDS["release"].role, role())
    text = f"until {clock(hold.until_s, zone_min, seconds=False)}: no rule acts; what runs goes on."
    return d(
        icon("pause"),
        d(s("Automation is on hold", c="b"), s(f" by {hold.by} {text}"), c="grow"),
        button("Two hours more", "", id={"type": "rules-release", "at": "renew"}, disabled=not may,
               title="The hold ends two hours from now" if may else why),
        button("Let rules act", "", id={"type": "rules-release", "at": "hold"}, disabled=not may,
               title="" if may else why),
        c="ru-hold", role="status",
    )  # fmt: skip


def budget(used: Used, most: DayBudget) -> list[Component]:
    """Rules have half of it; the other half is kept for people."""
    rows = [
        _gauge("carried", used.bytes, used.automatic_bytes, most.bytes, said_size),
        _gauge("input held", used.pause_s, used.automatic_pause_s, most.pause_s, duration),
    ]
    note = "Of the last 24 hours, people and rules together; the darker part is rules', which may use half (the line)."
    return [*rows, d(note, c="ru-note")]


def _gauge(name: str, used: float, ruled: float, most: float, said_: Any) -> Component:
    share, by_rules = (min(100.0, 100 * v / most) if most > 0 else 0.0 for v in (used, ruled))
    text = f"{said_(used)} of {said_(most)}"
    bar = d(
        html.I(className="gg-u", style={"width": f"{share:.1f}%"}),
        html.I(className="gg-r", style={"width": f"{by_rules:.1f}%"}),
        html.I(className="gg-h"),
        c="gg-b",
    )
    return d(d(s(name), s(text, c="num"), c="gg-t"), bar, c="gg")


# -- one rule ------------------------------------------------------------------------------------------


def head(row: RuleRow, now_s: float, zone_min: int) -> list[Component]:
    who = role()
    needed = KINDS["rule.drop"].role
    why = "" if who.covers(needed) else states.not_allowed(needed, who)
    return [
        html.H2(row.name, className="ru-ttl"),
        chip(row.mode, f"mode-{row.mode}"),
        s(f"in the name of {row.editor}, changed {_ago(row.changed_s, now_s, zone_min)}", c="k"),
        d(c="grow"),
        button("Delete", "danger", "trash-2", id={"type": "rules-drop", "rule": row.name}, disabled=bool(why),
               title=why or "Asks before it does"),
    ]  # fmt: skip


def _ago(time_s: float, now_s: float, zone_min: int) -> str:
    ago_s = now_s - time_s
    return f"{duration(max(0.0, ago_s))} ago" if ago_s < 86_400 else moment(time_s, zone_min)


def parameters(rule: Mapping[str, Any]) -> list[Component]:
    """Policy, its parameters, when it is asked, within what limits."""
    policy = rule["policy"]
    cells = [_cell("policy", policy["name"], "cost model" if policy["name"] in PRICED else "of the papers",
                   policy["help"])]  # fmt: skip
    told = [one for one in policy["parameters"] if one["name"] != "seed"]
    for one in told[:PARAMETERS_MAX]:
        name = because.label_of(one["name"])
        cells.append(
            _cell(name, _value(one["value"], one["unit"]), _range(one["range"]), one["help"])
        )
    when = f"every {span(rule['every_s'])}" if rule["every_s"] else str(rule["cron"])
    quiet = f"quiet {', '.join(rule['quiet'])}" if rule["quiet"] else "no quiet hours"
    cells.append(_cell("schedule", when, f"{quiet} · {rule['zone']}", "When it is asked"))
    cells.append(_cell("cool-down", span(rule["cooldown_s"]), "after it did something", ""))
    cells.append(
        _cell("scope", "all queries" if rule["query"] == "*" else rule["query"], _limits(rule), "")
    )
    if rule["needs_gain"]:
        text = f"gain ≥ {figure(rule['least_gain'], 2)} × cost"
        cells.append(
            _cell("acts by itself if", text, f"and {percent(rule['least_confidence'])} sure", "")
        )
    return cells


def _limits(rule: Mapping[str, Any]) -> str:
    limits = rule["limits"]
    found = []
    if "action_bytes_max" in limits:
        found.append(f"at most {said_size(limits['action_bytes_max'])}")
    if "receiver_fill_max" in limits:
        found.append(f"fills receivers to {percent(limits['receiver_fill_max'])}")
    return " · ".join(found) or "no limits of its own"


def _value(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value).replace("_", " ")
    if unit == "bytes":
        return said_size(value)
    return f"{value:g} {unit}".strip()


def _range(text: str) -> str:
    """A range without end says nothing."""
    return text.replace("_", " ") if "e+" not in text else ""


def span(seconds: float) -> str:
    """Of what was written: 2 min, not 2 min 00 s."""
    if seconds >= 60 and seconds % 60 == 0 and seconds < 3_600:
        return f"{seconds / 60:g} min"
    return f"{seconds:g} s" if seconds < 60 else duration(seconds)


def _cell(name: str, value: str, hint: str, title: str) -> Component:
    return d(
        s(name, c="k"),
        s(value, c="pm-v clip"),
        s(hint, c="pm-h clip", title=hint),
        c="pm",
        title=title,
    )


def blockers(lock: Lock, now_s: float, zone_min: int) -> list[Component]:
    """Everything that keeps it from acting now, and until when."""
    if not lock:
        return [d("It is not for this query.", c="ru-note")]
    if lock.get("error"):
        return [d(icon("octagon-x"), s(str(lock["error"])), c="ck no")]
    rows = [_blocker(one, now_s, zone_min) for one in lock["blockers"]]
    if lock.get("fallback"):
        rows.append(d(icon("triangle-alert"), s(lock["fallback"]), c="ck"))
    if not rows:
        rows = [d(icon("check"), s("Nothing: it is asked at its next turn."), c="ck")]
    at = lock.get("next_eligible_s")
    next_ = (
        f"May act again at {clock(at, zone_min)}."
        if at is not None
        else "When it may act again is not known."
    )
    return [*rows, d(next_, c="ru-note")]


def _blocker(one: Mapping[str, Any], now_s: float, zone_min: int) -> Component:
    until = one.get("until_s")
    text = f"until {clock(until, zone_min)}" if until is not None and until > now_s else ""
    return d(
        icon(BLOCK_ICONS.get(one["why"], "lock")),
        s(str(one["text"]), c="grow"),
        link("see it", "/actions") if one["why"] == "open_proposal" else None,
        s(text, c="k num"),
        c="ck",
    )


def log(found: Sequence[Evaluation], zone_min: int) -> list[Component]:
    """Newest first; the same again and again is one line."""
    if not found:
        return [states.empty("It has not been asked yet", "What it comes to stands here, also when that is nothing.",
                             "scale")]  # fmt: skip
    return [_evaluation(one, zone_min) for one in found]


def _evaluation(one: Evaluation, zone_min: int) -> Component:
    tone, ic = OUTCOMES.get(one.outcome, ("", "info"))
    times = f"× {one.times}" if one.times > 1 else ""
    since = f"{clock(one.first_s, zone_min)} – " if one.times > 1 else ""
    why = str(one.said.get("why") or "")
    rest = _details(one.said)
    line_ = [
        s(f"{since}{clock(one.until_s, zone_min)}", c="ev-k num"),
        chip(one.outcome, tone, ic),
        s(times, c="k num"),
        s(why, c="ev-t"),
        _made(one.said),
    ]
    if not rest:
        return d(*line_, c="ev")
    return html.Details([html.Summary(line_, className="ev"), d(*rest, c="ev-more")])


def _made(told: Mapping[str, Any]) -> Component | None:
    if told.get("command"):
        return link("its actions", f"/actions?by=rules&find={told['command']}")
    return s("a proposal", c="k") if told.get("proposal") else None


def _details(told: Mapping[str, Any]) -> list[Component]:
    rows: list[Component] = []
    gain = told.get("gain")
    if gain:
        text = (
            f"gain {said(gain['gain_row_s'])} row·s against cost {said(gain['cost_row_s'])} row·s"
        )
        rows.append(d(text, help_mark("menu"), c="ev-g"))
    reasons = told.get("reasons") or ()
    if reasons:
        rows.append(d(*because.lines(reasons), c="ev-r"))
    for refusal in told.get("refusals") or ():
        text = str(refusal.get("text") if isinstance(refusal, Mapping) else refusal)
        rows.append(d(icon("ban"), s(text), c="ck no"))
    blocked = told.get("blockers") or ()
    return rows + [d(icon("lock"), s(str(one["text"])), c="ck") for one in blocked]


# -- the editor ----------------------------------------------------------------------------------------


def gutter(text: str, bad: int | None) -> list[Component]:
    """Line numbers; the line that is meant is marked."""
    count = text.count("\n") + 1
    return [
        d(str(n) if n != bad else f"▸{n}", c="bad" if n == bad else "") for n in range(1, count + 1)
    ]


def policies() -> list[dict[str, str]]:
    return [{"value": name, "label": name} for name in POLICIES]
