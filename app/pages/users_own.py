"""Users: what is one's own, for everybody: another password, which asks for the one that is good now however new the
sign-in, and the sessions with "end the others". And the box of everybody's tokens, which admins see."""

from __future__ import annotations

from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.auth import Tried
from app.callbacks import Callbacks
from app.components import reasons, states
from app.components.kit import button, d, dmc, panel
from app.components.units import duration
from app.desk import act, feed
from app.guard import who
from app.parts import parts
from app.password_rules import LENGTH_MIN
from app.plain import again, own_fault
from control.people import Role

END = {"type": "users-session-end", "session": ALL}
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
        sub=f"at least {LENGTH_MIN} characters; ends all your sessions and API tokens",
    )  # fmt: skip


def sessions() -> Component:
    end = d(button("End the others", "", "log-out", id="users-session-others"), c="form-b")
    return panel(
        "Where you are signed in",
        d(states.loading(60), id="users-sessions"),
        d(d(id="users-session-said", c="form-said", role="status"), end, c="form"),
        dcc.Store(id="users-session-done"),
        sub="one that you do not know: end it and change your password",
    )


def everybodys_tokens() -> Component:
    inside = d(states.loading(80), id="users-all-tokens")
    box = panel("Everybody's API tokens", inside, sub="good ones; revoke what nobody knows")
    return d(box, id="users-all-box", style={"display": "none"})


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
    on.callback(
        Role.VIEWER,
        Output("users-session-done", "data"),
        Output("users-session-said", "children"),
        Input(END, "n_clicks"),
        Input("users-session-others", "n_clicks"),
        prevent_initial_call=True,
    )(_ended)


def _ended(*_: Any) -> list[Any]:
    """One session, or all but this one."""
    if not any(one.get("value") for one in ctx.triggered):
        return [no_update] * 2
    pressed, here = ctx.triggered_id, who().session
    if isinstance(pressed, dict):
        answer = act("session.end", {"session": str(pressed.get("session", ""))})
    else:
        answer = act("session.others", {"session": here.id_hash if here is not None else ""})
    if not answer.accepted:
        return [no_update, reasons.refusals(answer.refusals, answer.text)]
    return [feed().now_s(), reasons.check(f"{answer.text[:1].upper()}{answer.text[1:]}.")]


def _changed(clicks: Any, now: Any, new: Any, repeated: Any) -> list[Any]:
    """The old one is asked again after every try; what was typed as the new one stays."""
    if not clicks:
        return [no_update] * 4
    text = own_fault(who().user.name, str(now or ""), str(new or ""), str(repeated or ""))
    if text := (f"{text[:1].upper()}{text[1:]}." if text else _fault(now)):
        return [reasons.refusals((), text), "", no_update, no_update]
    answer = act("password", {"password_hash": parts().passwords.hash(new)})
    if not answer.accepted:
        return [reasons.refusals(answer.refusals, answer.text), "", no_update, no_update]
    return [reasons.check(SAID), "", "", ""]


def _fault(now: Any) -> str:
    """Of the password that was good until now; counted like any other try."""
    tried = again(parts(), str(now), "password")
    if tried.outcome in (Tried.LOCKED, Tried.BUSY):
        return f"Too many tries: again in {duration(tried.wait_s)}."
    return "" if tried.outcome is Tried.RIGHT else "Your password until now is not that."
