"""/health: are the processes alive? For load balancers and supervisors: anybody may ask, little is said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, Response, g

from app.parts import Need, parts_of
from app.problems import RETRY_S
from app.settings import ConsoleSettings
from control.errors import StoreError
from control.ports import Store
from control.samples import Heartbeat

EXPECTED = ("console", "control", "engine")


@dataclass(frozen=True, slots=True)
class Alive:
    """One process as it was last heard of."""

    process: str
    state: str
    age_s: float | None  # None: never heard of
    stale: bool


def processes(store: Store, settings: ConsoleSettings, now_s: float) -> list[Alive]:
    """Each expected process. A beat from the future (the clock was set back) is as good as one from now."""
    beats = {beat.process: beat for beat in store.metrics.heartbeats()}
    return [_alive(name, beats.get(name), settings, now_s) for name in EXPECTED]


def _alive(name: str, beat: Heartbeat | None, settings: ConsoleSettings, now_s: float) -> Alive:
    if beat is None:
        return Alive(name, "unknown", None, True)
    age_s = max(0.0, now_s - beat.beat_s)
    return Alive(name, beat.state, round(age_s, 1), age_s > settings.stale_s)


def install(app: Flask) -> None:
    parts = parts_of(app)

    def health() -> Response:
        try:
            found = processes(parts.store, parts.settings, g.now_s)
        except StoreError:
            return _answer("store not available", [])
        return _answer("ok" if not any(alive.stale for alive in found) else "stale", found)

    app.add_url_rule("/health", "health", health, methods=["GET"], provide_automatic_options=False)
    parts.registry.add("health", "GET", Need(None))


def _answer(status: str, found: list[Alive]) -> Response:
    told = [
        {"process": a.process, "state": a.state, "age_s": a.age_s, "stale": a.stale} for a in found
    ]
    body = json.dumps({"status": status, "processes": told})
    good = status == "ok"
    response = Response(body, 200 if good else 503, content_type="application/json")
    if not good:
        response.headers["Retry-After"] = str(RETRY_S)
    return response


def beater(store: Store, clock: Callable[[], float]) -> Callable[[], None]:
    """Says that the console is alive, each time it is called. A store that is away is not its fault."""
    started_s = clock()

    def beat() -> None:
        try:
            store.metrics.beat(Heartbeat("console", os.getpid(), started_s, clock(), "serving"))
        except StoreError:
            return

    return beat
