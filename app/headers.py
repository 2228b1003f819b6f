"""Headers that every answer carries."""

from __future__ import annotations

from flask import Flask, Response, request

from app.parts import parts_of

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
FIXED = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer our own forms would send Origin: null
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Of the console's pages: Dash's own inline scripts are named by their hashes; styles are set by scripts.
CONSOLE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' {hashes}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
# Endpoints that serve files, which say themselves how long they may be kept.
FILES = frozenset(
    {"static", "/_dash-component-suites/<string:package_name>/<path:fingerprinted_path>"}
)
HSTS = "max-age=31536000"


def add_headers(app: Flask) -> None:
    """To everything, errors too."""

    @app.after_request
    def add(response: Response) -> Response:
        for name, value in FIXED.items():
            response.headers.setdefault(name, value)
        if parts_of(app).settings.https:
            response.headers.setdefault("Strict-Transport-Security", HSTS)
        if request.endpoint not in FILES or response.status_code >= 400:
            response.headers["Cache-Control"] = "no-store"
        return response
