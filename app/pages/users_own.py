"""Users: another password of one's own, for everybody. It asks for the one that is good now, however new the sign-in."""

from __future__ import annotations

from typing import Any

from dash import Input, Output, State, no_update
from dash.development.base_component import Component
from flask import g

from app import guard
from app.auth import PASSWORD_LENGTH_MAX, PASSWORD_LENGTH_MIN, Tried, password_fault
from app.callbacks import Callbacks
from app.components import reasons
from app.components.kit import button, d, dmc, panel
from app.components.units import duration
from app.desk import act
from app.parts import parts
from app.plain import note
from control.people import Role

SAID = "It is changed, and you are signed out everywhere. Sign in with the new password."


def form() -> Component:
    fields = d(
        _field("own-now", "Password until now", "current-password"),
        _field("own-new", "New password", "new-password"),
        _field("own-again", "The same again", "new-password"),
        c="form-row",
    )  # fmt: skip
    return panel(
        "Your password",
        d(fields, d(id="users-own-said", c="form-said", role="status"),
          d(button("Change my password", "", "lock", id="users-own-change"), c="form-b"), c="form"),
        sub=f"at least {PASSWORD_LENGTH_MIN} characters; ends all your sessions",
    )  # fmt: skip


def _field(name: str, label: str, kind: str) -> Component:
    made: Component = dmc.PasswordInput(
        id=f"users-{name}", label=label, size="xs", className="field", autoComplete=kind,
    )  # fmt: skip
    return made


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("users-own-said", "children"),
        Output("users-own-now", "value"),
        Output("users-own-new", "value"),
        Output("users-own-again", "value"),
        Input("users-own-change", "n_clicks"),
        State("users-own-now", "value"),
        State("users-own-new", "value"),
        State("users-own-again", "value"),
        prevent_initial_call=True,
    )(_changed)


def _changed(clicks: Any, now: Any, new: Any, again: Any) -> list[Any]:
    """The old one is asked again after every try; what was typed as the new one stays."""
    if not clicks:
        return [no_update] * 4
    if text := _new_fault(new, again) or _fault(now):
        return [reasons.refusals((), text), "", no_update, no_update]
    answer = act("password", {"password_hash": parts().passwords.hash(new)})
    if not answer.accepted:
        return [reasons.refusals(answer.refusals, answer.text), "", no_update, no_update]
    return [reasons.check(SAID), "", "", ""]


def _new_fault(new: Any, again: Any) -> str:
    if not isinstance(new, str) or not new:
        return "There is no new password."
    if new != again:
        return "The two new passwords differ."
    return password_fault(new)


def _fault(now: Any) -> str:
    """Of the password that was good until now; counted like any other try."""
    if not isinstance(now, str) or not now:
        return "Your password until now is needed."
    name = guard.who().user.name
    given = now[:PASSWORD_LENGTH_MAX]
    tried = parts().passwords.check(
        parts().store, name, given, guard.address(), g.now_s, renew=False
    )
    if tried.outcome in (Tried.LOCKED, Tried.BUSY):
        return f"Too many tries: again in {duration(tried.wait_s)}."
    note(parts(), name, "password", tried.outcome is Tried.RIGHT, g.now_s)
    return "" if tried.outcome is Tried.RIGHT else "Your password until now is not that."
