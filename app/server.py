"""The console's server: the Flask app with all its routes, and waitress to serve it on this machine only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from waitress.server import create_server
from werkzeug.middleware.proxy_fix import ProxyFix

from app import console, docs, guard, headers, health, lean, plain, problems, prometheus
from app.advice import RecordedAdvice
from app.api.all import ROUTES
from app.api.table import install
from app.auth import Passwords
from app.errors import AppError, PortError
from app.meter import Meter
from app.parts import EXTENSION, Advice, Dispatch, Need, Parts, parts_of
from app.sessions import Sessions
from app.settings import BODY_BYTES_MAX, ConsoleSettings
from control.ports import Secrets, Store

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "127.0.0.1"
CONNECTIONS_MAX = 1_000
LOOP_S = 0.25
BEAT_S = 2.0


def make_app(
    store: Store,
    dispatcher: Dispatch,
    settings: ConsoleSettings,
    clock: Callable[[], float],
    *,
    advice: Advice | None = None,
    passwords: Passwords | None = None,
    pause: Callable[[float], None] = time.sleep,
    secrets: Secrets | None = None,
) -> Flask:
    """The app. `advice`, `passwords` and `pause` are for tests and for run.py to give others."""
    app = Flask(
        "app",
        root_path=str(ROOT / "app"),
        static_folder=str(ROOT / "assets"),
        static_url_path="/assets",
    )
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
    app.config["MAX_FORM_MEMORY_SIZE"] = BODY_BYTES_MAX
    app.jinja_options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    app.extensions[EXTENSION] = Parts(
        store,
        dispatcher,
        settings,
        clock,
        passwords or Passwords(),
        Sessions(store, settings),
        advice or RecordedAdvice(store, Meter(clock), guard.asker),
        pause,
        threading.Semaphore(settings.waits_max),
        secrets,
    )
    _routes(app)
    if settings.proxies:
        count = settings.proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count, x_host=count)  # type: ignore[method-assign]
    return app


def _routes(app: Flask) -> None:
    guard.guard(app)
    headers.add_headers(app)
    problems.handle_errors(app)
    for rule in app.url_map.iter_rules("static"):
        for method in (rule.methods or set()) - {"HEAD"}:
            parts_of(app).registry.add("static", method, Need(None))
    health.install(app)
    plain.install(app)
    docs.install(app)
    prometheus.install(app)
    install(app, ROUTES)
    console.mount(app)


def serve(
    app: Flask,
    port: int,
    stop: threading.Event,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve on 127.0.0.1 until `stop` is set; `ready` hears the address. Port 0: any that is free."""
    lean.settle()
    parts = parts_of(app)
    console.warm(app)
    channels: dict[int, object] = {}
    server = _listen(app, port, channels, parts.settings)
    beat = health.beater(parts.store, parts.clock)

    def loop() -> None:
        while not stop.is_set():
            server.asyncore.loop(timeout=LOOP_S, map=channels, use_poll=True, count=1)

    serving = threading.Thread(target=loop, name="waitress", daemon=True)
    serving.start()
    if ready is not None:
        ready(f"http://{ADDRESS}:{server.effective_port}")
    try:
        beat()
        while serving.is_alive() and not stop.wait(BEAT_S):
            beat()
        if not stop.is_set():
            raise AppError("the console's server loop ended by itself", hint="Its log says why.")
    finally:
        stop.set()
        serving.join(timeout=5.0)
        server.task_dispatcher.shutdown(timeout=1.0)
        server.asyncore.close_all(channels, ignore_all=True)


def _listen(app: Flask, port: int, channels: dict[int, object], settings: ConsoleSettings) -> Any:
    try:
        return create_server(
            app,
            channels,
            host=ADDRESS,
            port=port,
            threads=settings.threads,
            connection_limit=CONNECTIONS_MAX,
            max_request_body_size=8 * BODY_BYTES_MAX,  # over 1 MiB the app itself says no, properly
            max_request_header_size=1 << 16,
            clear_untrusted_proxy_headers=not settings.proxies,
            ident=None,
            expose_tracebacks=False,
        )
    except OSError as error:
        raise PortError(
            f"port {port} cannot be listened on: {error.strerror or error}",
            where=ADDRESS,
            hint="Another console may be running. Choose another port with --port.",
        ) from None
