"""A route as one declarative value, and how it becomes a Flask route: parameters and body checked, the
handler called, its answer sent. Handlers know nothing of Flask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import BadRequest

from app.api.schema import ANY_OBJECT, Fault, Schema, checked, from_text, obj, text, whole
from app.api.shapes import plain
from app.guard import Who, who
from app.parts import SAFE_METHODS, Need, Parts, parts_of
from app.problems import Problem, of_answer
from control.kinds import wants_password
from control.people import Actor, Role
from control.ports import Store

PREFIX = "/api/v1"
JSON = "application/json"
CSV = "text/csv; charset=utf-8"
LIMIT, LIMIT_MAX = 100, 500


@dataclass(frozen=True)
class Call:
    """One request as handlers see it: everything in it is checked."""

    parts: Parts
    who: Who
    now_s: float
    path: Mapping[str, Any]
    params: Mapping[str, Any]
    body: Mapping[str, Any]

    @property
    def store(self) -> Store:
        return self.parts.store

    @property
    def actor(self) -> Actor:
        return self.who.actor

    @property
    def limit(self) -> int:
        return int(self.params.get("limit", LIMIT))

    def do(
        self, kind: str, body: Mapping[str, Any] | None = None, query: str = ""
    ) -> dict[str, Any]:
        """Through the dispatcher; what it does not accept ends the request."""
        asked = body or {}
        if wants_password(kind, asked):
            confirmed(self)
        answer = self.parts.dispatcher.dispatch(kind, asked, self.actor, query)
        if not answer.accepted:
            raise of_answer(answer)
        return {"id": answer.id, "text": answer.text, "result": plain(answer.body)}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is not 200 with JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON


DONE: Schema = obj({"id": text(200), "text": text(4_000), "result": ANY_OBJECT})
WHERE: Mapping[str, Schema] = {
    "query": text(64, 1),
    "name": text(64, 1),
    "rule": text(64, 1),
    "operator": text(200, 1),
    "id": text(200, 1),
    "node": whole(0, 1_000_000),
    "group": whole(0, 10_000_000),
    "number": whole(0),
}
PAGED: Mapping[str, Schema] = {
    "cursor": text(200, 1, help="`next` of the page before"),
    "limit": whole(1, LIMIT_MAX, help=f"items of a page; {LIMIT} without"),
}


@dataclass(frozen=True, slots=True)
class Route:
    """`path` is below /api/v1, with {names} of WHERE. `confirm`: from a browser, the password must have been given
    lately; for some bodies at least. Which ones control/kinds.py says, and `Call.do` asks for it; this is told in the
    API's description, and a test holds the two together. `before_change`: also for whoever must choose another password
    before anything else."""

    method: str
    path: str
    name: str
    role: Role
    help: str
    handle: Callable[[Call], Any]
    answer: Schema
    params: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    status: int = 200
    confirm: bool = False
    produces: str = JSON
    tokens: bool = True
    before_change: bool = False

    @property
    def noun(self) -> str:
        return self.path.split("/")[1]

    @property
    def changes(self) -> bool:
        return self.method not in SAFE_METHODS

    @property
    def places(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def rule(self) -> str:
        return PREFIX + self.path.replace("{", "<").replace("}", ">")


def install(app: Flask, routes: Sequence[Route]) -> None:
    """All of them into the app and its registry."""
    parts = parts_of(app)
    for route in routes:
        endpoint = f"api.{route.name}"
        app.add_url_rule(
            route.rule,
            endpoint,
            _view(parts, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
        need = Need(
            route.role,
            tokens=route.tokens,
            active=route.changes,
            before_change=route.before_change,
        )
        parts.registry.add(endpoint, route.method, need)


def _view(parts: Parts, route: Route) -> Callable[..., Response]:
    def view(**places: str) -> Response:
        call = Call(
            parts,
            who(),
            g.now_s,
            _places(places),
            _params(route),
            _body(route) if route.changes else {},
        )
        return _sent(route, route.handle(call))

    return view


def _places(raw: Mapping[str, str]) -> dict[str, Any]:
    """What is in the path. What cannot be one is not there."""
    found: dict[str, Any] = {}
    for place, value in raw.items():
        found[place], faults = from_text(value, WHERE[place], place)
        if faults:
            raise Problem("missing", f"There is no {place} {value[:80]!r}.")
    return found


def _params(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, values in request.args.lists():
        where = f"parameter {key[:40]}"
        if key not in route.params:
            faults.append((where, f"is not known; known: {', '.join(route.params) or 'none'}"))
        elif len(values) > 1:
            faults.append((where, "is given twice"))
        else:
            found[key], wrong = from_text(values[0], route.params[key], where)
            faults += wrong
    _refuse(faults)
    return found


def _body(route: Route) -> Mapping[str, Any]:
    raw = request.get_data()
    if route.body is None:
        if raw.strip() not in (b"", b"{}"):
            raise Problem("invalid", "This route takes no body.")
        return {}
    if raw and request.mimetype != JSON:
        raise Problem("media-type", f"The body must be {JSON}.")
    value = _parsed(raw) if raw or route.body.get("required") else {}
    found, faults = checked(value, route.body)
    _refuse(faults)
    return found  # type: ignore[no-any-return]


def _parsed(raw: bytes) -> Any:
    try:
        value = json.loads(raw, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair can be kept nowhere
    except (ValueError, RecursionError, BadRequest):
        raise Problem("malformed", "The body is not JSON in UTF-8.") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        where, what = faults[0]
        found = [{"where": place, "text": fault} for place, fault in faults[:20]]
        raise Problem("invalid", f"{where}: {what}", faults=found)


def confirmed(call: Call) -> None:
    """Re-authentication: of browsers, where a session may be left open on a desk."""
    session = call.who.session
    if session is not None and not call.parts.sessions.confirmed(session, call.now_s):
        raise Problem("confirm", "This needs your password again.", at=f"{PREFIX}/session/confirm")


def _sent(route: Route, result: Any) -> Response:
    reply = result if isinstance(result, Reply) else Reply(result, route.status)
    if reply.content_type == JSON:
        body = json.dumps(reply.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    else:
        body = reply.body
    return Response(body, reply.status, dict(reply.headers), content_type=reply.content_type)


def paged(rows: Sequence[Any], limit: int, key: str, show: Callable[[Any], Any]) -> dict[str, Any]:
    """A page of `limit` from `limit + 1` rows, and where the next begins."""
    shown_rows = rows[:limit]
    more = len(rows) > limit
    return {
        "items": [show(row) for row in shown_rows],
        "next": str(getattr(shown_rows[-1], key)) if more else None,
    }


def whole_cursor(call: Call) -> int | None:
    """The cursor of pages by number."""
    cursor = call.params.get("cursor")
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise Problem("invalid", "parameter cursor: is not one of ours")
    return int(cursor)
