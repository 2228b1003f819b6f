"""What every request works with, put together once by make_app: no globals behind the routes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flask import Flask, current_app

from app.auth import Passwords
from app.errors import RegistryError
from app.sessions import Sessions
from app.settings import ConsoleSettings
from control.kinds import Answer
from control.people import Actor, Role
from control.plans import AUTO
from control.ports import Secrets, Store
from control.samples import Sample

EXTENSION = "spillway"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Dispatch(Protocol):
    """The part of the dispatcher that requests need."""

    def dispatch(
        self, kind: str, body: Mapping[str, Any], actor: Actor, query: str = ""
    ) -> Answer: ...


class Advice(Protocol):
    """What is worked out from what is recorded; changes nothing. See advice.py."""

    def menu(self, sample: Sample, now_s: float, most: int) -> list[dict[str, Any]]: ...
    def forecast(self, sample: Sample) -> list[float | None]: ...
    def orders(self, sample: Sample) -> list[dict[str, Any]]: ...
    def order(self, sample: Sample, text: str, strategy: str = AUTO) -> dict[str, Any]: ...
    def rule(self, text: str) -> Mapping[str, Any]: ...
    def interlock(self, rule: str, query: str, now_s: float) -> Mapping[str, Any]: ...
    def backtest(
        self, text: str, query: str, since_s: float, until_s: float
    ) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of whoever calls it. Role None: anybody, signed in or not."""

    role: Role | None
    tokens: bool = True  # bearer tokens will do
    sessions: bool = True  # signed-in browsers will do
    active: bool = False  # calling it means that the user is there: not for polls
    before_change: bool = (
        False  # also for whoever must choose another password before anything else
    )


class Registry:
    """Route → what it needs. A route that is not here is refused."""

    def __init__(self) -> None:
        self._needs: dict[tuple[str, str], Need] = {}

    def add(self, endpoint: str, method: str, need: Need) -> None:
        if (endpoint, method) in self._needs:
            raise RegistryError(f"{method} {endpoint} is registered twice")
        self._needs[endpoint, method] = need

    def need(self, endpoint: str, method: str) -> Need | None:
        return self._needs.get((endpoint, "GET" if method == "HEAD" else method))

    def keys(self) -> frozenset[tuple[str, str]]:
        return frozenset(self._needs)


@dataclass(frozen=True)
class Parts:
    """One for each app."""

    store: Store
    dispatcher: Dispatch
    settings: ConsoleSettings
    clock: Callable[[], float]
    passwords: Passwords
    sessions: Sessions
    advice: Advice
    pause: Callable[[float], None]  # between two looks of a long poll
    waits: threading.Semaphore  # one for each long poll that may run at once
    secrets: Secrets | None = None  # the names of named ones; None: there are none here
    registry: Registry = field(default_factory=Registry)


def parts_of(app: Flask) -> Parts:
    parts: Parts = app.extensions[EXTENSION]
    return parts


def parts() -> Parts:
    """Of the app that serves this request."""
    return parts_of(current_app)
