"""Users, API tokens and sessions: who may do what, and everybody's tokens, for admins; one's own tokens, shown once,
and where one is signed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app import tokens
from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.confirm import Ask
from app.components.kit import button, d, dmc, icon, panel, s
from app.desk import act, feed, role
from app.guard import who
from app.pages import users_own
from app.pages import users_view as shown
from app.pages.page import POLLED, Page, look, mark
from app.parts import parts
from app.password_rules import LENGTH_MIN, password_fault
from control.people import Role

PAGE = Page("users", "Users", "users", "u", order=120, low=True)
ACTS = {"type": "users-do", "kind": ALL, "name": ALL}
ROLES = {"type": "users-role", "name": ALL}
REVOKE = {"type": "users-revoke", "token": ALL}
REVOKE_ANY = {"type": "users-revoke-any", "token": ALL}
DAY_S = 86_400.0
LIVES = {
    "1": "1 day",
    "7": "7 days",
    "30": "30 days",
    "most": "as long as is allowed",
}  # days, or the setting's
ASKED = {
    "user.disable": ("Disable {n}?", "Their sessions end and they cannot sign in. Rules that act in their name fall back to propose.", "Disable"),
    "token.revoke": ("Revoke {n}?", "What works with it gets no answer from the next request on.", "Revoke"),
    "user.enable": ("Enable {n}?", "They can sign in again, with the password that they had.", "Enable"),
    "user.unlock": ("Unlock {n}?", "Wrong passwords are forgotten at every address: they can try again at once.", "Unlock"),
    "user.role": ("Make {n} {role}?", "It holds from their next click on.", "Change"),
}  # fmt: skip


def layout(**_: Any) -> Component:
    return d(
        d(_list(), _add(), users_own.everybodys_tokens(), c="stack"),
        d(users_own.sessions(), _tokens(), _new_token(), users_own.form(), c="stack"),
        confirm.dialog("users"),
        dcc.Store(id="users-at"), dcc.Store(id="users-added"), dcc.Store(id="users-token-done"),
        id="users", c="us",
    )  # fmt: skip


def _list() -> Component:
    return panel("Users", d(states.loading(160), id="users-list"), d(id="users-said", c="form-said us-said", role="status"),
                 sub=s(id="users-sub"))  # fmt: skip


def _add() -> Component:
    roles = [{"value": r.value, "label": r.value} for r in Role]
    fields = d(
        dmc.TextInput(id="users-name", label="Name", size="xs", className="field", autoComplete="off"),
        dmc.Select(id="users-new-role", label="Role", data=roles, value=Role.VIEWER.value, size="xs",
                   className="field", allowDeselect=False, rightSection=icon("chevron-down")),
        dmc.PasswordInput(id="users-password", label="Password", size="xs", className="field", autoComplete="new-password",
                          description=f"At least {LENGTH_MIN} characters."),
        dmc.PasswordInput(id="users-again", label="The same again", size="xs", className="field", autoComplete="new-password",
                          ),
        c="form-row us-add",
    )  # fmt: skip
    own = d(confirm.field_of("users-own"), id="users-own-box", style={"display": "none"})
    form = d(fields, d(*shown.roles(), c="us-roles"), own, d(id="users-add-said", c="form-said", role="alert"),
             d(button("Add the user", "primary", "plus", id="users-add"), c="form-b"), c="form")  # fmt: skip
    return d(
        panel("Add a user", form, sub="who chooses a password of their own at the first sign-in"),
        id="users-add-box",
    )


def _tokens() -> Component:
    return panel(
        "Your API tokens",
        d(states.loading(80), id="users-tokens"),
        sub="for scripts and ctl; a token may never do more than you",
    )


def _new_token() -> Component:
    scopes = [{"value": r.value, "label": r.value} for r in Role]
    lives = [{"value": days, "label": text} for days, text in LIVES.items()]
    fields = d(
        dmc.TextInput(id="users-token-name", label="Name", placeholder="nightly export", size="xs", className="field"),
        dmc.Select(id="users-token-scope", label="May do at most", data=scopes, value=Role.VIEWER.value, size="xs",
                   className="field", allowDeselect=False, rightSection=icon("chevron-down")),
        dmc.Select(id="users-token-life", label="Good for", data=lives, value="30", size="xs", className="field",
                   allowDeselect=False, rightSection=icon("chevron-down")),
        c="form-row",
    )  # fmt: skip
    own = d(
        confirm.field_of("users-token-own"), id="users-token-own-box", style={"display": "none"}
    )
    form = d(fields, own, d(id="users-token-said", c="form-said", role="status"),
             d(button("Make a token", "primary", "plus", id="users-token-add"), c="form-b"), c="form")  # fmt: skip
    return panel("New token", form)


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("users-list", "children"),
        Output("users-sub", "children"),
        Output("users-add-box", "style"),
        Output("users-tokens", "children"),
        Output("users-all-box", "style"),
        Output("users-all-tokens", "children"),
        Output("users-sessions", "children"),
        Output("users-own-box", "style"),
        Output("users-token-own-box", "style"),
        Output("users-at", "data"),
        *POLLED,
        Input("users-confirm", "opened"),
        Input("users-added", "data"),
        Input("users-token-done", "data"),
        Input("users-session-done", "data"),
        State("users-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.ADMIN,
        Output("users-ask", "data"),
        Input(ACTS, "n_clicks"),
        Input(ROLES, "value"),
        Input(REVOKE_ANY, "n_clicks"),
        prevent_initial_call=True,
    )(_ask)
    on.callback(
        Role.ADMIN,
        Output("users-said", "children"),
        Input("users-done", "data"),
        prevent_initial_call=True,
    )(_said)
    on.callback(
        Role.ADMIN,
        Output("users-added", "data"),
        Output("users-add-said", "children"),
        Output("users-name", "value"),
        Output("users-password", "value"),
        Output("users-again", "value"),
        Output("users-own", "value"),
        Input("users-add", "n_clicks"),
        State("users-name", "value"),
        State("users-new-role", "value"),
        State("users-password", "value"),
        State("users-again", "value"),
        State("users-own", "value"),
        prevent_initial_call=True,
    )(_added)
    on.callback(
        Role.VIEWER,
        Output("users-token-done", "data"),
        Output("users-token-said", "children"),
        Output("users-token-own", "value"),
        Input("users-token-add", "n_clicks"),
        Input(REVOKE, "n_clicks"),
        State("users-token-name", "value"),
        State("users-token-scope", "value"),
        State("users-token-life", "value"),
        State("users-token-own", "value"),
        prevent_initial_call=True,
    )(_token)
    users_own.register(on)
    confirm.register(on, "users", Role.ADMIN, ASKED)


def _refresh(_: int, raw_view: Any, *given: Any) -> list[Any]:
    seen = look(raw_view)
    before: Mapping[str, Any] = given[-1] if isinstance(given[-1], Mapping) else {}
    admin = role() is Role.ADMIN
    users = parts().store.users.all() if admin else []
    mine = parts().store.tokens.of(who().user.name)
    every = parts().store.tokens.all() if admin else []
    here, sessions = who().session, parts().sessions.of(who().user.name, seen.now_s)
    minute, zone = round(seen.now_s / 60), seen.view.zone_min
    asks = (confirm.shown("user.add"), confirm.shown("token.add"))
    told = {
        "users": mark(admin, [(u.name, u.role, u.disabled, u.seen_s) for u in users], minute, zone, ctx.triggered_id == "users-confirm"),
        "tokens": mark([(t.id, t.used_s, t.revoked_s) for t in mine], minute, zone),
        "every": mark(admin, [(t.id, t.used_s, t.revoked_s) for t in every], minute, zone),
        "sessions": mark([(one.id_hash, one.active_s) for one in sessions], minute, zone),
    }  # fmt: skip
    listed: list[Any] = [no_update] * 3
    if told["users"] != before.get("users"):
        listed = _users(users, admin, zone, seen.now_s)
    tokens_: Any = no_update
    if told["tokens"] != before.get("tokens"):
        tokens_ = shown.tokens(mine, zone, seen.now_s)
    every_: list[Any] = [no_update] * 2
    if told["every"] != before.get("every"):
        every_ = [{} if admin else {"display": "none"}, shown.all_tokens(every, zone, seen.now_s)]
    sessions_: Any = no_update
    if told["sessions"] != before.get("sessions"):
        id = here.id_hash if here is not None else ""
        sessions_ = shown.sessions(sessions, id, zone, seen.now_s)
    return [*listed, tokens_, *every_, sessions_, *asks, told]


def _users(users: Any, admin: bool, zone: int, now_s: float) -> list[Any]:
    if not admin:
        return [
            states.no_permission(Role.ADMIN, role(), "The list of users"),
            "",
            {"display": "none"},
        ]
    active = sum(not user.disabled for user in users)
    return [
        shown.users(users, who().user.name, zone, now_s),
        f"{len(users)}, {active} can sign in",
        {},
    ]


def _ask(*_: Any) -> Any:
    """What was pressed, or another role that was chosen; a role that is as it was is nothing."""
    pressed = ctx.triggered_id
    value = next((one.get("value") for one in ctx.triggered if one.get("value")), None)
    if not isinstance(pressed, dict) or not value:
        return no_update
    if pressed.get("type") == "users-revoke-any":
        return _ask_revoke(str(pressed.get("token", "")))
    name, body = str(pressed.get("name", "")), {"name": str(pressed.get("name", ""))}
    kind = "user.role" if pressed.get("type") == "users-role" else str(pressed.get("kind", ""))
    if kind not in ASKED:
        return no_update
    if kind == "user.role":
        user = parts().store.users.find(name)
        if user is None or user.role == value:
            return no_update
        body["role"] = str(value)
    title, text, word = ASKED[kind]
    return Ask(kind, title.format(n=name, role=value), text, word, body).to_json()


def _ask_revoke(id: str) -> Any:
    token = parts().store.tokens.named(id)
    if token is None:
        return no_update
    title, text, word = ASKED["token.revoke"]
    name = f"{token.name} of {token.user}"
    return Ask("token.revoke", title.format(n=name), text, word, {"token": id}).to_json()


def _said(done: Any) -> Any:
    return reasons.check(str(done.get("text", ""))) if isinstance(done, dict) else no_update


def _added(_: Any, name: Any, new_role: Any, password: Any, again: Any, own: Any) -> list[Any]:
    """On success the fields are empty again; otherwise nothing that was typed is lost but the password asked again."""
    keep = [no_update] * 3
    fault = _password_fault(password, again, str(name or "").strip()) or (
        confirm.fault(own) if str(name or "").strip() else ""
    )
    if not str(name or "").strip():
        fault = "A user needs a name."
    if fault:
        return [no_update, reasons.refusals((), fault), *keep, ""]
    body = {
        "name": str(name).strip(),
        "role": str(new_role),
        "password_hash": parts().passwords.hash(password),
    }
    answer = act("user.add", body)
    if not answer.accepted:
        return [no_update, reasons.refusals(answer.refusals, answer.text), *keep, ""]
    said = f"{answer.id} is added as {new_role}, and chooses another password at the first sign-in."
    return [feed().now_s(), reasons.check(said), "", "", "", ""]


def _password_fault(password: Any, again: Any, name: str) -> str:
    if not isinstance(password, str) or not password:
        return "A user needs a password."
    if password != again:
        return "The two passwords differ."
    return password_fault(password, name)


def _token(_: Any, __: Any, name: Any, scope: Any, life: Any, own: Any) -> list[Any]:
    pressed = ctx.triggered_id
    if isinstance(pressed, dict):
        if not any(one.get("value") for one in ctx.triggered):
            return [no_update] * 3
        answer = act("token.revoke", {"token": str(pressed.get("token", ""))})
        said = (
            reasons.check("The token is revoked.")
            if answer.accepted
            else reasons.refusals((), answer.text)
        )
        return [feed().now_s(), said, no_update]
    if not isinstance(name, str) or not name.strip():
        return [
            no_update,
            reasons.refusals((), "A token needs a name, so that you know it again."),
            no_update,
        ]
    if fault := confirm.fault(own):
        return [no_update, reasons.refusals((), fault), ""]
    plain, digest = tokens.made()
    body: dict[str, Any] = {"name": name.strip(), "sha256": digest, "scope": str(scope)}
    if life != "most":  # what nobody said is a month
        days = int(life) if str(life) in LIVES else 30
        body["expires_s"] = feed().now_s() + days * DAY_S
    answer = act("token.add", body)
    if not answer.accepted:
        return [no_update, reasons.refusals(answer.refusals, answer.text), ""]
    return [feed().now_s(), shown.made(plain), ""]
