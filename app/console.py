"""The console's pages on the Flask app: Dash with its pages, the callbacks' registry, policy, files, warm-up.

The guard stands before all of it. Of Dash's routes only those are there that the console needs.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import dash
import plotly  # type: ignore[import-untyped]
from dash.exceptions import CallbackException, DependencyException
from dash.fingerprint import build_fingerprint
from flask import Flask, Response, g, redirect, request

from app import desk, packed
from app.callbacks import ENDPOINT, Callbacks, guard_callbacks
from app.components import frame, proposal, shell, states
from app.desk import Desk
from app.feed import Feed
from app.headers import CONSOLE_POLICY, FILES
from app.packed import Packed
from app.pages import all as every
from app.pages.page import Page
from app.parts import Need, parts_of
from app.problems import Problem, respond
from app.sessions import CSRF_HEADER
from control.people import Role

START = "/overview"
SUITES = "/_dash-component-suites/<string:package_name>/<path:fingerprinted_path>"
WANTED = ("_dash-layout", "_dash-dependencies", ENDPOINT[1:], SUITES[1:])  # of Dash's routes
PAGES = "page."  # endpoints
# Beside overview's there is one file for each page that needs one.
STYLES = ("tokens.css", "icons.css", "console.css", "forms.css", "shell.css", "proposal.css")
SCRIPTS = ("steady.js", "fetch.js", "view.js", "keys.js", "urls.js")
HTML = """<!doctype html>
<html lang="en">
<head>
{{%metas%}}
<title>{{%title%}}</title>
<meta name="color-scheme" content="light dark">
<link rel="icon" type="image/svg+xml" href="{icon}">
<link rel="preload" href="{font}" as="font" type="font/woff2" crossorigin>
{styles}
<script src="{theme}"></script>
<script src="{plotly}" async></script>
{{%css%}}
</head>
<body>
{{%app_entry%}}
<footer>
{{%config%}}
{scripts}
{{%scripts%}}
{{%renderer%}}
</footer>
</body>
</html>"""


class Mounted(dash.Dash):
    """Dash with only the routes that are wanted: pages have a route each, nothing answers to every path."""

    def _add_url(self, name: str, view_func: Any, methods: Any = ("GET",)) -> None:
        if name in WANTED:
            super()._add_url(name, view_func, methods)


def mount(app: Flask) -> None:
    """Everything that a browser sees after signing in."""
    parts = parts_of(app)
    files = Packed(Path(str(app.static_folder)))
    server: Any = app
    made = Mounted(
        "app",
        server=server,
        assets_folder=str(app.static_folder),
        include_assets_files=False,
        use_pages=True,
        pages_folder="",
        include_pages_meta=False,
        title="Spillway",
        update_title="",
        serve_locally=True,
        add_log_handler=False,
        enable_mcp=False,
        csrf_token_name=parts.sessions.csrf_cookie,
        csrf_header_name=CSRF_HEADER,
        index_string=_index(files),
    )
    callbacks = Callbacks(made)
    app.extensions[desk.EXTENSION] = Desk(Feed(parts), made, callbacks)
    _pages(made, callbacks)
    shell.register(callbacks)
    proposal.register(callbacks)
    _routes(app, made)
    _ready(app, made, callbacks)
    guard_callbacks(app, callbacks)
    app.register_error_handler(DependencyException, _no_such_file)
    app.register_error_handler(CallbackException, _not_fitting)
    packed.install(app, files, FILES)
    app.extensions["spillway.files"] = files


def _index(files: Packed) -> str:
    styles, scripts = [*STYLES, *_page_files("css")], [*SCRIPTS, *_page_files("js")]
    return HTML.format(
        icon=files.url("icon.svg"),
        font="/assets/fonts/inter.woff2",
        theme=files.url("theme.js"),
        plotly=_plotly(),
        styles="\n".join(f'<link rel="stylesheet" href="{files.url(name)}">' for name in styles),
        scripts="\n".join(f'<script src="{files.url(name)}"></script>' for name in scripts),
    )


def _plotly() -> str:
    """Charts wait for it: asked for at once and by its version, not when the first chart is drawn."""
    path = "package_data/plotly.min.js"
    changed_s = int((Path(plotly.__file__).parent / path).stat().st_mtime)
    mark: Any = build_fingerprint
    marked = mark(path, plotly.__version__, changed_s)
    return f"/_dash-component-suites/plotly/{marked}"


def _page_files(suffix: str) -> list[str]:
    """assets/<page>.css and .js, where there is one."""
    folder = Path(__file__).resolve().parent.parent / "assets"
    names = {f"{module.__name__.rpartition('.')[2]}.{suffix}" for module in every.modules()}
    return sorted(name for name in names if (folder / name).is_file())


def _pages(made: dash.Dash, callbacks: Callbacks) -> None:
    register: Any = dash.register_page
    for module in every.modules():
        page: Page = module.PAGE
        register(
            module.__name__,
            path=page.href,
            title=f"{page.name} – Spillway",
            order=page.order,
            layout=_guarded(module),
        )
        module.register(callbacks)
    made.layout = frame.layout(every.pages())


def _guarded(module: ModuleType) -> Any:
    """The page's skeleton, or why it is not for this role. While Dash asks for all of them, nobody asks."""

    def layout(**given: Any) -> Any:
        asker = g.get("who")
        page: Page = module.PAGE
        if asker is not None and not asker.actor.role.covers(page.role):
            return states.no_permission(page.role, asker.actor.role)
        return module.layout(**given)

    return layout


def _routes(app: Flask, made: dash.Dash) -> None:
    """What each route asks of whoever calls it, and one for each page."""
    registry = parts_of(app).registry
    page = Need(Role.VIEWER, tokens=False, active=True)
    read = Need(Role.VIEWER, tokens=False)
    for endpoint, method, need in (
        ("/_dash-layout", "GET", read),
        ("/_dash-dependencies", "GET", read),
        (ENDPOINT, "POST", read),  # activity is the callback's to say
        (SUITES, "GET", Need(None)),  # libraries, the same for everybody
    ):
        registry.add(endpoint, method, need)
    views = [("/", "home", _home)]
    views += [(p.href, f"{PAGES}{p.path}", made.index) for p in every.pages()]
    for rule, endpoint, view in views:
        app.add_url_rule(rule, endpoint, view, methods=["GET"], provide_automatic_options=False)
        registry.add(endpoint, "GET", page)


def _no_such_file(_: Exception) -> Response:
    return respond(Problem("missing", "There is nothing at this address."))


def _not_fitting(error: Exception) -> Response:
    """What came back does not fit what was asked for: the page is of another version, or somebody plays."""
    logging.getLogger(__name__).warning("a callback's call does not fit: %s", error)
    return respond(Problem("malformed", "The call does not fit its callback: load the page again."))


def _home() -> Response:
    query = request.query_string.decode("ascii", "replace")
    return redirect(START + (f"?{query}" if query else ""), 303)  # type: ignore[return-value]


def _ready(app: Flask, made: dash.Dash, callbacks: Callbacks) -> None:
    """What Dash would do with the first request: its router, all layouts, the list of scripts. Then its policy."""
    hooks = app.before_request_funcs[None]
    own = [hook for hook in hooks if hook.__module__.startswith("dash.")]
    with app.test_request_context(START):
        for hook in own:
            hook()
    callbacks.of_dash(Role.VIEWER)
    policy = CONSOLE_POLICY.format(hashes=" ".join(made.csp_hashes()))

    @app.after_request
    def with_policy(response: Response) -> Response:
        if (request.endpoint or "").startswith(PAGES) and response.status_code == 200:
            response.headers["Content-Security-Policy"] = policy
        return response


def warm(app: Flask) -> None:
    """Before the first visitor: every file of the first page is read and packed."""
    made: Any = desk.desk_of(app).dash
    with app.test_request_context(START):
        index = made.index()
    files: Packed = app.extensions["spillway.files"]
    paths = set(re.findall(r'(?:src|href)="(/[^"]+)"', index))
    client = app.test_client()
    for path in sorted(paths | {f"/assets/{name}" for name in files.assets()}):
        client.get(path, headers={"Host": "localhost"}).close()
