"""/api: the routes as a page to read, from the same table as the OpenAPI document."""

from __future__ import annotations

from flask import Flask, Response, render_template

from app.api.all import ROUTES
from app.api.table import PREFIX
from app.parts import Need, parts_of
from app.problems import KINDS
from control.people import Role


def install(app: Flask) -> None:
    def page() -> Response:
        nouns = dict.fromkeys(route.noun for route in ROUTES)
        grouped = {noun: [route for route in ROUTES if route.noun == noun] for noun in nouns}
        text = render_template("api.html", grouped=grouped, prefix=PREFIX, problems=KINDS)
        return Response(text, content_type="text/html; charset=utf-8")

    app.add_url_rule("/api", "api_docs", page, methods=["GET"], provide_automatic_options=False)
    parts_of(app).registry.add("api_docs", "GET", Need(Role.VIEWER, active=True))
