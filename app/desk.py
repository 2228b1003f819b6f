"""What callbacks work with: the app's feed and callbacks, who asks, and the one way to do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dash import Dash
from flask import Flask, current_app, g

from app.callbacks import Callbacks
from app.feed import Feed
from app.guard import who
from app.parts import parts
from control.kinds import KINDS, Answer, Status, wants_password
from control.people import Role

EXTENSION = "spillway.desk"


@dataclass(frozen=True)
class Desk:
    """One for each app."""

    feed: Feed
    dash: Dash
    callbacks: Callbacks


def desk_of(app: Flask) -> Desk:
    found: Desk = app.extensions[EXTENSION]
    return found


def feed() -> Feed:
    """Of the app that serves this request."""
    return desk_of(current_app).feed


def role() -> Role:
    """Of who asks."""
    return who().actor.role


def may(kind: str) -> bool:
    """Whether who asks may do this kind of thing at all."""
    return role().covers(KINDS[kind].role)


def confirmed() -> bool:
    """Whether who asks has given their password lately."""
    session = who().session
    return session is not None and parts().sessions.confirmed(session, g.now_s)


def act(kind: str, body: Mapping[str, Any] | None = None, query: str = "") -> Answer:
    """Through the dispatcher, in the name of who asks. Whoever looks next sees what came of it. What wants a password
    that was given lately is refused without one, whatever page it comes from: `components/confirm.py` asks for it."""
    if wants_password(kind, body or {}) and not confirmed():
        return Answer(Status.FORBIDDEN, "this needs your password again")
    answer = parts().dispatcher.dispatch(kind, body or {}, who().actor, query)
    desk_of(current_app).feed.forget()
    return answer
