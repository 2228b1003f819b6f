"""Settings: what holds and from where it may be set, what runs here and how large it is, secrets, webhooks, what
was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.confirm import Ask
from app.components.help import mark as help_mark
from app.components.kit import button, d, dmc, panel, s
from app.desk import act, feed, role
from app.errors import AddressError
from app.pages import settings_secrets
from app.pages import settings_view as shown
from app.pages.page import POLLED, Page, look, mark
from app.parts import parts
from app.webhooks import check_port, target_of
from control.handling.upkeep import EVENTS
from control.learn import estimates
from control.people import Role

PAGE = Page("settings", "Settings", "settings", "s", order=130, low=True)
DROP = {"type": "settings-drop", "webhook": ALL}
DROP_SECRET = {"type": settings_secrets.KIND, "secret": ALL}
LEARNED_MAX = 20
ASKED = {
    "webhook.drop": (
        "Drop the webhook?",
        "{url} gets no more events; what is on its way is not sent.",
        "Drop it",
    )
}
SLOW_S = 10.0  # sizes of files, and what was learned, are looked at so often


def layout(**_: Any) -> Component:
    return d(
        d(_about(), _learning(), c="stack"),
        d(_settings(), settings_secrets.section(), _webhooks(), c="stack"),
        confirm.dialog("settings"),
        dcc.Store(id="settings-at"), dcc.Store(id="settings-hooked"),
        id="settings", c="se",
    )  # fmt: skip


def _about() -> Component:
    return panel("About", d(states.loading(200), id="settings-about"), sub="what runs here")


def _learning() -> Component:
    return panel(
        "What was learned",
        d(states.loading(160), id="settings-learned"),
        d(
            s("Predicted and actual, newest first", c="se-h"),
            d(states.loading(80), id="settings-lines"),
        ),
        sub="coefficients of the cost model, corrected by every action that ends",
        help=help_mark("confidence"),
    )


def _settings() -> Component:
    return panel(
        "Settings",
        d(states.loading(300), id="settings-table"),
        sub="file < environment < flag; read at the start",
    )


def _webhooks() -> Component:
    events = [{"value": name, "label": name} for name in sorted(EVENTS)]
    form = d(
        dmc.TextInput(id="settings-url", label="Address", placeholder="https://example.org/hook", size="xs", className="field",
                      description="https, or http on this machine. Events are signed; redirects are not followed."),
        dmc.MultiSelect(id="settings-events", label="Events", data=events, value=["alert.raised"], size="xs", className="field"),
        d(confirm.field_of("settings-own"), id="settings-own-box", style={"display": "none"}),
        d(id="settings-said", c="form-said", role="status"),
        d(button("Add a webhook", "", "plus", id="settings-add"), c="form-b"),
        c="form",
    )  # fmt: skip
    inside = d(d(states.loading(60), id="settings-hooks"), d(form, id="settings-form"))
    return panel("Webhooks", inside, sub="where events are sent")


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("settings-about", "children"),
        Output("settings-learned", "children"),
        Output("settings-lines", "children"),
        Output("settings-table", "children"),
        Output("settings-hooks", "children"),
        Output("settings-form", "style"),
        Output("settings-own-box", "style"),
        Output("settings-at", "data"),
        *POLLED,
        Input("settings-hooked", "data"),
        Input("settings-done", "data"),
        State("settings-at", "data"),
        polls=True,
    )(_refresh)
    on.callback(
        Role.ADMIN,
        Output("settings-hooked", "data"),
        Output("settings-said", "children"),
        Output("settings-url", "value"),
        Output("settings-own", "value"),
        Input("settings-add", "n_clicks"),
        State("settings-url", "value"),
        State("settings-events", "value"),
        State("settings-own", "value"),
        prevent_initial_call=True,
    )(_added)
    on.callback(
        Role.ADMIN,
        Output("settings-ask", "data"),
        Input(DROP, "n_clicks"),
        Input(DROP_SECRET, "n_clicks"),
        prevent_initial_call=True,
    )(_drop)
    confirm.register(on, "settings", Role.ADMIN, {*ASKED, "secret.drop"})
    settings_secrets.register(on)


def _refresh(_: int, raw_view: Any, *given: Any) -> list[Any]:
    seen = look(raw_view)
    before: Mapping[str, Any] = given[-1] if isinstance(given[-1], Mapping) else {}
    admin, store, zone = role() is Role.ADMIN, parts().store, seen.view.zone_min
    about = feed().kept("about", SLOW_S, lambda: shown.facts(parts().settings.about))
    known = feed().kept("estimates", SLOW_S, lambda: estimates(store))
    lines = feed().kept("learned", SLOW_S, lambda: store.learning.page(most=LEARNED_MAX))
    hooks = store.webhooks.all() if admin else []
    told: dict[str, Any] = {}

    def new(name: str, value: Any, make: Any) -> Any:
        told[name] = mark(value)
        return make() if told[name] != before.get(name) else no_update

    return [
        new("about", (about, [(p.process, p.state, p.stale) for p in feed().processes()]),
            lambda: shown.about(about, feed().processes(), feed().beats(), seen.now_s)),
        new("known", sorted(known.items()), lambda: shown.coefficients(known)),
        new("lines", ([one.id for one in lines], zone), lambda: shown.lines(lines, zone)),
        new("settings", admin, lambda: _table(admin)),
        new("hooks", (admin, [h.id for h in hooks]), lambda: _hooks(admin, hooks, zone)),
        {} if admin else {"display": "none"},
        confirm.shown("webhook.add"),
        told,
    ]  # fmt: skip


def _table(admin: bool) -> Any:
    if not admin:
        return states.no_permission(Role.ADMIN, role(), "The list of settings")
    return shown.settings(parts().settings.shown)


def _hooks(admin: bool, hooks: Any, zone_min: int) -> Any:
    if not admin:
        return states.no_permission(Role.ADMIN, role(), "The list of webhooks")
    return shown.hooks(hooks, zone_min)


def _added(_: Any, url: Any, events: Any, own: Any) -> list[Any]:
    """The secret is in this answer and nowhere else."""
    address = str(url or "").strip()
    if fault := _address_fault(address) or confirm.fault(own):
        return [no_update, reasons.refusals((), fault), no_update, ""]
    answer = act(
        "webhook.add", {"url": address, "events": events if isinstance(events, list) else []}
    )
    if not answer.accepted:
        return [no_update, reasons.refusals(answer.refusals, answer.text), no_update, ""]
    return [feed().now_s(), shown.secret(str(answer.body.get("secret", ""))), "", ""]


def _address_fault(address: str) -> str:
    try:
        check_port(target_of(address), parts().settings.webhook_ports)
    except AddressError as error:
        return str(error)
    return ""


def _drop(clicks: Any, _: Any) -> Any:
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not any(one.get("value") for one in ctx.triggered):
        return no_update
    if pressed.get("type") == settings_secrets.KIND:
        return settings_secrets.ask(str(pressed.get("secret", ""))).to_json()
    id = str(pressed.get("webhook", ""))
    found = next((hook for hook in parts().store.webhooks.all() if hook.id == id), None)
    if found is None:
        return no_update
    title, text, word = ASKED["webhook.drop"]
    return Ask("webhook.drop", title, text.format(url=found.url), word, {"webhook": id}).to_json()
