"""The part of Settings that keeps named secrets: which there are and who uses them, never their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Input, Output, State, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.confirm import Ask
from app.components.kit import button, d, dmc, panel, s, table
from app.components.units import moment
from app.desk import act, feed, role
from app.pages.page import POLLED, look, mark
from app.parts import parts
from control.handling.secrets import users_of
from control.ledger import NamedSecret
from control.people import Role

KIND = "settings-secret-drop"
ASKED = (
    "Drop the secret?",
    "{name} is deleted from this machine; no copy is kept.",
    "Drop it",
)


def section() -> Component:
    form = d(
        dmc.TextInput(id="settings-secret-name", label="Name", placeholder="kafka", size="xs", className="field",
                      description="A query file refers to it: password = \"{secret:kafka}\"", autoComplete="off"),
        dmc.PasswordInput(id="settings-secret-value", label="Value", size="xs", className="field", autoComplete="new-password",
                          description="Nobody sees it again. One of several lines: run.py ctl secret set NAME < FILE"),
        d(confirm.field_of("settings-secret-own"), id="settings-secret-own-box", style={"display": "none"}),
        d(id="settings-secret-said", c="form-said", role="status"),
        d(button("Keep the secret", "", "plus", id="settings-secret-keep"), c="form-b"),
        dcc.Store(id="settings-secrets-at"), dcc.Store(id="settings-secret-kept"),
        c="form",
    )  # fmt: skip
    inside = d(d(states.loading(60), id="settings-secrets"), d(form, id="settings-secret-form"))
    return panel("Secrets", inside, sub="for query files; in no backup")


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("settings-secrets", "children"),
        Output("settings-secret-form", "style"),
        Output("settings-secret-own-box", "style"),
        Output("settings-secrets-at", "data"),
        *POLLED,
        Input("settings-secret-kept", "data"),
        Input("settings-done", "data"),
        State("settings-secrets-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.ADMIN,
        Output("settings-secret-kept", "data"),
        Output("settings-secret-said", "children"),
        Output("settings-secret-name", "value"),
        Output("settings-secret-value", "value"),
        Output("settings-secret-own", "value"),
        Input("settings-secret-keep", "n_clicks"),
        State("settings-secret-name", "value"),
        State("settings-secret-value", "value"),
        State("settings-secret-own", "value"),
        prevent_initial_call=True,
    )(_keep)


def ask(name: str) -> Ask:
    """What the dialog says before a secret is dropped."""
    title, text, word = ASKED
    return Ask("secret.drop", title, text.format(name=name), word, {"name": name})


def _refresh(_: int, raw_view: Any, *given: Any) -> list[Any]:
    admin, zone_min = role() is Role.ADMIN, look(raw_view).view.zone_min
    keeper = parts().secrets
    found = keeper.names() if admin and keeper is not None else []
    queries = parts().store.queries.all() if found else []
    users = {one.name: users_of(one.name, queries) for one in found}
    now = mark(admin, found, users, zone_min)
    return [
        _listed(admin, found, users, zone_min) if now != given[-1] else no_update,
        {} if admin else {"display": "none"},
        confirm.shown("secret.set"),
        now,
    ]


def _listed(
    admin: bool, found: Sequence[NamedSecret], users: Mapping[str, list[str]], zone_min: int
) -> Component:
    if not admin:
        return states.no_permission(Role.ADMIN, role(), "The list of secrets")
    if not found:
        return states.empty(
            "No secret", "Keep passwords here, so that no query file has them.", "lock"
        )
    heads = [("name", ""), ("used by", ""), ("changed", "r"), ("", "r")]
    rows = [
        [
            s(one.name, c="mono b"),
            s(", ".join(users[one.name]) or "no query", c="dim"),
            s(moment(one.changed_s, zone_min), c="nowrap"),
            d(
                button(
                    "Drop", id={"type": KIND, "secret": one.name}, aria_label=f"Drop {one.name}"
                ),
                c="td-b",
            ),
        ]
        for one in found
    ]
    return d(table(heads, rows, "wrap"), c="scroll-x")


def _keep(_: Any, name: Any, value: Any, own: Any) -> list[Any]:
    """The value goes to the dispatcher and nowhere else."""
    body = {"name": str(name or "").strip(), "value": str(value or "")}
    if not body["name"] or not body["value"]:
        return [no_update, reasons.refusals((), "A name and a value are needed."), *[no_update] * 3]
    if fault := confirm.fault(own):
        return [no_update, reasons.refusals((), fault), no_update, no_update, ""]
    answer = act("secret.set", body)
    if not answer.accepted:
        said = reasons.refusals(answer.refusals, answer.text)
        return [no_update, said, no_update, no_update, ""]
    return [feed().now_s(), reasons.check(f"{body['name']}: {answer.text}"), "", "", ""]
