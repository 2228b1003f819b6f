"""Who may call which of Dash's callbacks: registered with a role, found again by its output, checked before each call.

Dash serves all of them at one address; what is not in this registry is refused, so that none can be forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from dash import ClientsideFunction, Dash, no_update
from dash.exceptions import PreventUpdate
from flask import Flask, g, request

from app.errors import RegistryError
from app.guard import Who
from app.parts import parts_of
from app.problems import Problem
from control.people import Role

MANY = frozenset({"ALL", "ALLSMALLER"})  # wildcards that stand for a list
ENDPOINT = "/_dash-update-component"


@dataclass(frozen=True, slots=True)
class Called:
    """What a callback needs. `role` None: the browser runs it, nobody may call it here."""

    role: Role | None
    polls: bool = False


class Callbacks:
    """Registers callbacks with one Dash app. Pages get it in `register(on)`."""

    def __init__(self, dash: Dash) -> None:
        self._dash = dash
        self._called: dict[str, Called] = {}

    def callback(
        self, role: Role, *args: Any, polls: bool = False, **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Like Dash's own. `polls`: it comes by itself, so calling it does not keep a session alive. All that is
        not new is a 204, from which assets/fetch.js sees that an earlier answer is the newest."""

        def add(handler: Callable[..., Any]) -> Callable[..., Any]:
            def made() -> None:
                self._dash.callback(*args, **more)(_saying_nothing_new(handler))

            self._note(made, Called(role, polls))
            return handler

        return add

    def in_browser(self, function: str, *args: Any, **more: Any) -> None:
        """A function of assets/view.js: `dash_clientside.spillway.<function>`."""

        def made() -> None:
            call: Any = self._dash.clientside_callback
            call(ClientsideFunction("spillway", function), *args, **more)

        self._note(made, Called(None))

    def of_dash(self, role: Role | None) -> None:
        """What Dash itself has added meanwhile: its pages' router, and the page's title."""
        for output in set(self._dash.callback_map) - set(self._called):
            server = "callback" in self._dash.callback_map[output]
            self._called[output] = Called(role if server else None)

    def outputs(self) -> frozenset[str]:
        return frozenset(self._called)

    def find(self, output: str) -> Called | None:
        return self._called.get(output)

    def fits(self, output: str, body: Mapping[str, Any]) -> bool:
        """Whether a call has what Dash takes for granted."""
        spec = self._dash.callback_map[output]
        outputs, changed = body.get("outputs", []), body.get("changedPropIds", [])
        several = isinstance(spec["output"], list | tuple)
        return (
            _same(body.get("inputs", []), _of(spec["inputs"]))
            and _same(body.get("state", []), _of(spec["state"]))
            and _same(outputs if several else [outputs], _of(spec["output"]))
            and isinstance(changed, list)
            and all(isinstance(name, str) for name in changed)
        )

    def _note(self, made: Callable[[], None], called: Called) -> None:
        before = set(self._dash.callback_map)
        made()
        added = set(self._dash.callback_map) - before
        if len(added) != 1:
            raise RegistryError("a callback has no output of its own", hint="Another one has it.")
        self._called[added.pop()] = called


def _saying_nothing_new(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def answered(*args: Any, **more: Any) -> Any:
        found = handler(*args, **more)
        parts = found if isinstance(found, list | tuple) and found else [found]
        if all(one is no_update for one in parts):
            raise PreventUpdate
        return found

    return answered


def guard_callbacks(app: Flask, callbacks: Callbacks) -> None:
    """After the guard, which has seen to session and CSRF."""

    def before() -> None:
        if request.endpoint == ENDPOINT and request.method == "POST":
            _check(app, callbacks, g.who)

    app.before_request_funcs[None].insert(1, before)


def _check(app: Flask, callbacks: Callbacks, who: Who) -> None:
    body = request.get_json(silent=True)
    output = body.get("output") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(output, str):
        raise Problem("malformed", "This is not the call of a callback.")
    called = callbacks.find(output)
    if called is None or called.role is None:
        raise Problem("role", "There is no such callback, or it has no role; it is closed.")
    if not who.actor.role.covers(called.role):
        text = f"This needs the role {called.role}; you are {who.actor.role}."
        raise Problem("role", text, needed=called.role.value, role=who.actor.role.value)
    if not callbacks.fits(output, body):
        raise Problem("malformed", "Inputs, state or outputs are not those of this callback.")
    if not called.polls and who.session is not None:
        parts_of(app).sessions.touch(who.session, g.now_s)


def _same(given: Any, wanted: Sequence[tuple[Any, str]]) -> bool:
    """Properties of the same components in the same order; where all of a kind are meant, a list of them."""
    if not isinstance(given, list) or len(given) != len(wanted):
        return False
    return all(_fits(one, *named) for one, named in zip(given, wanted, strict=True))


def _fits(one: Any, id: Any, property: str) -> bool:
    if isinstance(id, dict) and MANY & {
        value[0] for value in id.values() if isinstance(value, list)
    }:
        return isinstance(one, list) and all(_alike(each, id, property) for each in one)
    return _alike(one, id, property)


def _alike(one: Any, id: Any, property: str) -> bool:
    if not isinstance(one, dict) or one.get("property") != property:
        return False
    if not isinstance(id, dict):
        return bool(one.get("id") == id)
    return isinstance(one.get("id"), dict) and one["id"].keys() == id.keys()


def _of(dependencies: Any) -> list[tuple[Any, str]]:
    """Dash keeps some as objects, some as dicts whose ids are JSON."""
    found = dependencies if isinstance(dependencies, list | tuple) else [dependencies]
    return [_pair(one) for one in found]


def _pair(one: Any) -> tuple[Any, str]:
    told = isinstance(one, dict)
    id = one["id"] if told else one.component_id_str()
    property = one["property"] if told else one.component_property
    return json.loads(id) if id.startswith("{") else id, property
