"""Errors as they go out: problem+json (RFC 9457) for the API, a small page for people. Never a traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from control.errors import ControlError, StoreConflict, StoreError, StoreInvalid
from control.kinds import Answer, Status

JSON_PROBLEM = "application/problem+json"
RETRY_S = 1

# What `type` may be: /api#<kind> explains it. Status and title belong to the kind.
KINDS: Mapping[str, tuple[int, str, str]] = {
    "malformed": (400, "Malformed request", "The body is not JSON, or the request is not HTTP."),
    "odd": (400, "Not a value to be kept", "A number is too large, or a text is none."),
    "host": (400, "Host not allowed", "The Host header names a host that is not configured."),
    "signed-out": (401, "Sign in first", "No session and no token, or one that has ended."),
    "wrong-password": (401, "Wrong user or password", "The password given was not right."),
    "role": (403, "Not allowed", "The role, or the token's scope, does not cover it."),
    "change-password": (
        403,
        "Another password first",
        "The one signed in with was chosen by somebody else: POST /api/v1/session/password.",
    ),
    "csrf": (403, "Not from this console", "The CSRF header is missing or wrong."),
    "confirm": (403, "Password needed again", "POST /api/v1/session/confirm first."),
    "missing": (404, "Not found", "There is no such thing."),
    "method": (405, "Method not allowed", "The address knows other methods."),
    "refused": (409, "Refused", "It cannot be done now; `refusals` say why, with numbers."),
    "conflict": (409, "Conflict", "The name is taken, or somebody was faster."),
    "too-large": (413, "Too large", "A body may have 1 MiB."),
    "media-type": (415, "Not JSON", "Bodies are application/json."),
    "invalid": (422, "Invalid", "A parameter or the body is not as its schema says."),
    "locked": (429, "Too many wrong passwords", "Try again after Retry-After seconds."),
    "busy": (429, "Too much at once", "Try again after Retry-After seconds."),
    "failed": (500, "Internal error", "A fault of ours; the log has it."),
    "unavailable": (503, "Not available now", "Try again after Retry-After seconds."),
}
OF_STATUS = {400: "malformed", 404: "missing", 405: "method", 413: "too-large", 415: "media-type"}
OF_ANSWER = {
    Status.INVALID: "invalid",
    Status.MISSING: "missing",
    Status.FORBIDDEN: "role",
    Status.REFUSED: "refused",
    Status.CONFLICT: "conflict",
}


class Problem(Exception):
    """Ends a request. `kind` is one of KINDS; `more` goes into the body as it is."""

    def __init__(
        self, kind: str, detail: str, *, retry_s: float | None = None, **more: Any
    ) -> None:
        self.kind, self.detail, self.retry_s, self.more = kind, detail, retry_s, more
        super().__init__(kind, detail)

    @property
    def status(self) -> int:
        return KINDS[self.kind][0]

    @property
    def title(self) -> str:
        return KINDS[self.kind][1]

    def body(self) -> dict[str, Any]:
        head = {"type": f"/api#{self.kind}", "title": self.title, "status": self.status}
        return {**head, "detail": self.detail, **self.more}

    def headers(self) -> dict[str, str]:
        extra = {"Retry-After": str(max(1, math.ceil(self.retry_s)))} if self.retry_s else {}
        return {**extra, **({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})}


def of_answer(answer: Answer) -> Problem:
    """What the dispatcher did not accept."""
    refusals: Sequence[Any] = [dict(refusal) for refusal in answer.refusals]
    more: dict[str, Any] = {"refusals": refusals} if refusals else {}
    if answer.body:
        more["found"] = dict(answer.body)
    return Problem(OF_ANSWER[answer.status], answer.text or answer.status.value, **more)


def of_store(error: StoreError) -> Problem:
    if isinstance(error, StoreConflict):
        return Problem("conflict", error.what)
    if isinstance(error, StoreInvalid):
        return Problem(
            "odd", f"A value in it {error.what}" if error.what.startswith("cannot") else error.what
        )
    return Problem("unavailable", error.what, retry_s=RETRY_S if error.again else 30)


def is_for_programs(path: str) -> bool:
    return path.startswith(("/api/", "/metrics", "/health", "/_dash-"))


def respond(problem: Problem) -> Response:
    """As JSON or as a page, by what was asked for."""
    if is_for_programs(request.path):
        text = json.dumps(problem.body(), ensure_ascii=False)
        response = Response(text, problem.status, content_type=JSON_PROBLEM)
    else:
        page = render_template("problem.html", problem=problem)
        response = Response(page, problem.status, content_type="text/html; charset=utf-8")
    response.headers.update(problem.headers())
    return response


def handle_errors(app: Flask) -> None:
    """Everything that can go wrong in a request ends here."""

    @app.errorhandler(Problem)
    def problem(error: Problem) -> Response:
        return respond(error)

    @app.errorhandler(StoreError)
    def store(error: StoreError) -> Response:
        app.logger.warning("store: %s", error)
        return respond(of_store(error))

    @app.errorhandler(ControlError)
    def control(error: ControlError) -> Response:
        return respond(Problem("invalid", str(error)))

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> Response:
        return respond(_of_http(error))

    @app.errorhandler(Exception)
    def anything(error: Exception) -> Response:
        app.logger.error("%s %s", request.method, request.path, exc_info=error)
        return respond(Problem("failed", "An error that should not be; the console's log has it."))


def _of_http(error: HTTPException) -> Problem:
    code = error.code or 500
    kind = OF_STATUS.get(code, "malformed" if code < 500 else "failed")
    if code == 404:
        return Problem(kind, "There is nothing at this address.")
    if code == 405:
        problem = Problem(kind, f"{request.method} is not for this address.")
        allowed = getattr(error, "valid_methods", None) or ()
        problem.more["allowed"] = sorted(set(allowed) - {"HEAD", "OPTIONS"})
        return problem
    return Problem(kind, KINDS[kind][2])
