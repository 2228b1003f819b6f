"""Audit: who did or was refused what, newest first, by pages and filters. Read only; for operators and above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import states
from app.components.kit import button, chip, d, dmc, icon, panel, s, table
from app.components.units import counted, moment
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.kinds import KINDS
from control.people import AuditLine, Role

PAGE = Page("audit", "Audit", "scroll-text", "t", order=110, role=Role.OPERATOR, low=True)
ROWS = 50
LENGTH_MAX = 200
FILTERS = ("user", "what", "subject")
OTHERS = ("sign-in", "sign-out", "confirm", "token.limit")  # what is noted without a command
HEADS = (
    ("when", ""),
    ("who", ""),
    ("by", ""),
    ("what", ""),
    ("about", ""),
    ("outcome", ""),
    ("said", ""),
)
TONES = {"accepted": ("", "check"), "refused": ("near", "ban"), "failed": ("fail", "octagon-x")}


def layout(user: Any = "", what: Any = "", subject: Any = "", **_: Any) -> Component:
    """The URL may bring filters: `/audit?user=ada`."""
    filters = d(
        _text("user", "Who", user, "a user, or rule NAME (USER)"),
        _what(what),
        _text("subject", "About", subject, "a query, rule, user, action"),
        d(button("Clear", "bare", id="audit-clear"), c="filters-r"),
        c="filters",
        data_filter="audit",
    )
    foot = d(button("Newer", id="audit-newer", disabled=True), button("Older", id="audit-older", disabled=True),
             s(id="audit-where"), c="pg-foot")  # fmt: skip
    return d(
        panel("Audit", filters, d(states.loading(320), id="audit-rows"), foot,
              sub="everything that was done or refused; lines are never changed or deleted"),
        dcc.Store(id="audit-at"), dcc.Store(id="audit-before", data=[]),
        id="audit",
    )  # fmt: skip


def _text(name: str, label: str, value: Any, example: str) -> Component:
    made: Component = dmc.TextInput(
        id=f"audit-{name}", label=label, value=str(value)[:LENGTH_MAX], placeholder=example, size="xs",
        className="field", debounce=400, leftSection=icon("filter") if name == "user" else None,
    )  # fmt: skip
    return made


def _what(value: Any) -> Component:
    names = sorted({*KINDS, *OTHERS})
    made: Component = dmc.Select(
        id="audit-what", label="What", data=names, value=value if value in names else None, clearable=True,
        searchable=True, placeholder="anything", size="xs", className="field",
    )  # fmt: skip
    return made


def register(on: Callbacks) -> None:
    on.callback(
        Role.OPERATOR,
        Output("audit-rows", "children"),
        Output("audit-newer", "disabled"),
        Output("audit-older", "disabled"),
        Output("audit-where", "children"),
        Output("audit-at", "data"),
        *POLLED,
        Input("audit-before", "data"),
        *[Input(f"audit-{name}", "value") for name in FILTERS],
        State("audit-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.OPERATOR,
        Output("audit-before", "data"),
        Input("audit-newer", "n_clicks"),
        Input("audit-older", "n_clicks"),
        *[Input(f"audit-{name}", "value") for name in FILTERS],
        State("audit-before", "data"),
        State("audit-at", "data"),
        prevent_initial_call=True,
    )(_turn)
    on.callback(
        Role.OPERATOR,
        *[Output(f"audit-{name}", "value") for name in FILTERS],
        Input("audit-clear", "n_clicks"),
        prevent_initial_call=True,
    )(_clear)


def _refresh(_: int, raw_view: Any, cursors: Any, *given: Any) -> list[Any]:
    seen, at = look(raw_view), given[-1]
    before: Mapping[str, Any] = at if isinstance(at, Mapping) else {}
    wanted = {name: _filter(value) for name, value in zip(FILTERS, given[:3], strict=True)}
    cursor = cursors[-1] if isinstance(cursors, list) and cursors else None
    rows = parts().store.audit.page(
        before=cursor if isinstance(cursor, int) else None, most=ROWS + 1, **wanted
    )
    more, rows = len(rows) > ROWS, rows[:ROWS]
    shown = mark([r.id for r in rows], wanted, seen.view.zone_min)
    told = {"rows": shown, "next": rows[-1].id if rows and more else None}
    if shown == before.get("rows"):
        return [no_update, not cursor, not more, no_update, told]
    return [_drawn(rows, wanted, seen), not cursor, not more, _where(rows), told]


def _filter(value: Any) -> str:
    return value.strip()[:LENGTH_MAX] if isinstance(value, str) else ""


def _where(rows: Sequence[AuditLine]) -> str:
    if not rows:
        return ""
    return f"{counted(len(rows), 'line')}, numbers {rows[-1].id} to {rows[0].id}"


def _drawn(rows: Sequence[AuditLine], wanted: Mapping[str, str], seen: Seen) -> Component:
    if not rows and any(wanted.values()):
        return states.empty(
            "No line is like that", "Filters take whole names: clear one of them.", "filter"
        )
    if not rows:
        return states.empty(
            "Nothing yet", "Whatever is done or refused is noted here.", "scroll-text"
        )
    return d(table(HEADS, [_row(row, seen) for row in rows], "wrap au"), c="scroll-x")


def _row(line: AuditLine, seen: Seen) -> list[Any]:
    tone, ic = TONES.get(line.outcome, ("", "info"))
    return [
        s(moment(line.time_s, seen.view.zone_min), c="nowrap"),
        s(line.user, c="b nowrap"),
        _by(line),
        s(line.what, c="nowrap", title=KINDS[line.what].help if line.what in KINDS else None),
        s(line.subject, c="au-s"),
        chip(line.outcome, tone, ic),
        s(line.detail, c="dim au-s"),
    ]


def _by(line: AuditLine) -> Component:
    """Which way it came, and the token that it came with."""
    came = s(" ".join(part for part in (line.source, line.address) if part), c="dim nowrap")
    if not line.token:
        return came
    return d(came, s(f"token {line.token}", c="mono dim au-s"))


def _turn(*given: Any) -> Any:
    """Other filters begin at the newest line."""
    cursors, at = given[-2:]
    stack = [c for c in cursors if isinstance(c, int)] if isinstance(cursors, list) else []
    if ctx.triggered_id == "audit-newer":
        return stack[:-1]
    if ctx.triggered_id != "audit-older":
        return [] if stack else no_update
    following = at.get("next") if isinstance(at, Mapping) else None
    return [*stack, following] if isinstance(following, int) else no_update


def _clear(_: Any) -> list[Any]:
    return ["", None, ""]
