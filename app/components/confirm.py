"""Asking before what cannot be taken back: a dialog that says what will happen, and the password again.

As in the API, some kinds of commands want a password that was given lately. A page has one `dialog(page)`, registers
it, and returns into its `<page>-ask` store what is to be done; what came of it goes into `<page>-done`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dash import Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app import desk, guard
from app.auth import Tried
from app.callbacks import Callbacks
from app.components import reasons
from app.components.kit import button, d, dmc, s
from app.components.units import duration
from app.desk import act, feed
from app.parts import parts
from app.plain import again
from control.kinds import Answer, wants_password
from control.people import Role


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be done, and how it is said before. `word`: on the button."""

    kind: str
    title: str
    text: str
    word: str
    body: dict[str, Any] = field(default_factory=dict)
    query: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(raw: Any, kinds: Collection[str]) -> Ask | None:
        """As a browser sends it back; None for what this page does not do."""
        if not isinstance(raw, dict) or str(raw.get("kind")) not in kinds:
            return None
        texts = {
            name: str(raw.get(name, "")) for name in ("kind", "title", "text", "word", "query")
        }
        body = raw.get("body")
        return Ask(**texts, body=body if isinstance(body, dict) else {})


def fault(password: Any) -> str:
    """Why the caller's password must be given (again); empty when it is not needed, or was right."""
    if guard.who().session is None:
        return "A token has no password."
    if desk.confirmed():
        return ""
    if not isinstance(password, str) or not password:
        return "Your sign-in is a while ago: your password is needed again."
    tried = again(parts(), password, "confirm")
    if tried.outcome in (Tried.LOCKED, Tried.BUSY):
        return f"Too many tries: again in {duration(tried.wait_s)}."
    if tried.outcome is not Tried.RIGHT:
        return "The password is not right."
    guard.confirm(parts())
    return ""


def needed(kind: str, body: Mapping[str, Any] | None = None) -> bool:
    """Whether a password must be asked for before this; control/kinds.py says for which kinds and bodies."""
    return wants_password(kind, body or {}) and not desk.confirmed()


def field_of(id: str, label: str = "Your password") -> Component:
    """Where a form takes it; `shown` says when it is to be seen."""
    made: Component = dmc.PasswordInput(
        id=id,
        label=label,
        description="Needed again for what cannot be taken back, 15 minutes after signing in.",
        size="xs",
        className="field",
        autoComplete="current-password",
    )
    return made


def shown(kind: str, body: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The style of the field's box."""
    return {} if needed(kind, body) else {"display": "none"}


def dialog(page: str) -> Component:
    modal = dmc.Modal(
        [
            d(id=f"{page}-confirm-text", c="cf-text"),
            d(field_of(f"{page}-confirm-password"), id=f"{page}-confirm-box", c="cf-pass"),
            d(id=f"{page}-confirm-said", role="alert"),
            d(
                button("Cancel", id=f"{page}-confirm-no", data_autofocus=True),
                button("Do it", "danger", id=f"{page}-confirm-yes"),
                c="cf-b",
            ),
        ],
        id=f"{page}-confirm",
        title="",
        opened=False,
        size=440,
        zIndex=320,
        closeButtonProps={"aria-label": "Close"},
    )
    return d(modal, dcc.Store(id=f"{page}-ask"), dcc.Store(id=f"{page}-done"))


def register(on: Callbacks, page: str, role: Role, kinds: Collection[str]) -> None:
    """`role`: the least that may do any of `kinds`; the dispatcher looks at each."""

    def opened(raw: Any, _: Any, __: Any) -> list[Any]:
        if ctx.triggered_id != f"{page}-ask":
            return [False, *[no_update] * 4]
        ask = Ask.of(raw, kinds)
        if ask is None:
            return [no_update] * 5
        return [True, ask.title, [s(ask.text)], ask.word, shown(ask.kind, ask.body)]

    def answered(_: Any, raw: Any, password: Any) -> list[Any]:
        ask = Ask.of(raw, kinds)
        if ask is None:
            return [no_update] * 3
        wrong = fault(password) if needed(ask.kind, ask.body) else ""
        if wrong:
            return [no_update, reasons.refusals((), wrong), ""]
        answer = act(ask.kind, ask.body, ask.query)
        if not answer.accepted:
            return [no_update, reasons.refusals(answer.refusals, answer.text), ""]
        return [done(answer), None, ""]

    on.callback(
        role,
        Output(f"{page}-confirm", "opened"),
        Output(f"{page}-confirm", "title"),
        Output(f"{page}-confirm-text", "children"),
        Output(f"{page}-confirm-yes", "children"),
        Output(f"{page}-confirm-box", "style"),
        Input(f"{page}-ask", "data"),
        Input(f"{page}-confirm-no", "n_clicks"),
        Input(f"{page}-done", "data"),
        prevent_initial_call=True,
    )(opened)
    on.callback(
        role,
        Output(f"{page}-done", "data"),
        Output(f"{page}-confirm-said", "children"),
        Output(f"{page}-confirm-password", "value"),
        Input(f"{page}-confirm-yes", "n_clicks"),
        State(f"{page}-ask", "data"),
        State(f"{page}-confirm-password", "value"),
        prevent_initial_call=True,
    )(answered)


def done(answer: Answer) -> dict[str, Any]:
    return {"text": answer.text, "id": answer.id, "at": feed().now_s()}
