"""The client's side of the API: urllib, one answer for each call, problems as errors. No redirects, no proxies."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from app.errors import ClientError, UnreachableError

PREFIX = "/api/v1"
PLACE = "ctl.json"
TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 << 20


class RefusedError(ClientError):
    """The console said no: it understood, but will not, or cannot now."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the console is, and the token for it."""

    url: str
    token: str


def read_token(path: Path) -> str:
    """A file with nothing but a token in it; `-` is stdin. A command line can be read by every process (ps)."""
    try:
        text = sys.stdin.readline() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"cannot be read: {error}", where=str(path)) from None
    token = text.strip()
    if not token or any(c.isspace() or not c.isprintable() for c in token):
        raise ClientError("there is no token in it", where=str(path), hint="One line: spw_…")
    return token


def find_place(folder: Path, url: str | None, token: str | None) -> Place:
    """From the command line, the environment, or what `run.py up` left."""
    url = url or os.environ.get("SPILLWAY_URL")
    token = token or os.environ.get("SPILLWAY_TOKEN")
    kept: Mapping[str, Any] = {}
    file = folder / PLACE
    if not (url and token) and file.exists():
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot be read: {error}", where=str(file)) from None
    found = Place(str(url or kept.get("url", "")), str(token or kept.get("token", "")))
    if not found.url or not found.token:
        missing = "address" if not found.url else "token"
        hint = "Start the console with `run.py up`, or give --url and --token-file."
        raise ClientError(f"no {missing} of a console is known", where=str(file), hint=hint)
    if url and not token and kept.get("url", url).rstrip("/") != url.rstrip("/"):
        hint = "Give --token-file too: the token that is kept belongs to another address."
        raise ClientError(f"no token is known for {url}", hint=hint)
    return found


class _Nowhere(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Client:
    """Calls of one console."""

    def __init__(self, place: Place) -> None:
        scheme = urllib.parse.urlsplit(place.url).scheme
        if scheme not in ("http", "https"):
            raise ClientError(f"not an address: {place.url}", hint="http://127.0.0.1:8050")
        self.place = place
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Nowhere())

    def get(self, path: str, **params: Any) -> Any:
        return self._json("GET", path, None, params)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._json("POST", path, body or {}, {})

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path, None, {})

    def text(self, path: str, **params: Any) -> str:
        return self._call("GET", path, None, params).decode("utf-8")

    def every(self, path: str, most: int, **params: Any) -> list[Any]:
        """Items of as many pages as it takes, `most` at most."""
        items: list[Any] = []
        cursor: str | None = None
        while len(items) < most:
            page = self.get(path, limit=min(500, most - len(items)), cursor=cursor, **params)
            items += page["items"]
            cursor = page.get("next")
            if not cursor:
                break
        return items

    def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None, params: Mapping[str, Any]
    ) -> Any:
        raw = self._call(method, path, body, params)
        try:
            return json.loads(raw)
        except ValueError:
            raise UnreachableError(
                "what answers is not a console of Spillway", where=self.place.url
            ) from None

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None, params: Mapping[str, Any]
    ) -> bytes:
        given = {name: _param(value) for name, value in params.items() if value is not None}
        query = f"?{urllib.parse.urlencode(given)}" if given else ""
        base = "" if path == "/health" else PREFIX
        request = urllib.request.Request(
            self.place.url.rstrip("/") + base + path + query,
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self.place.token}",
                "X-Spillway-Client": "ctl",
                **({} if body is None else {"Content-Type": "application/json"}),
            },
            method=method,
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                found: bytes = answer.read(ANSWER_BYTES_MAX)
                return found
        except urllib.error.HTTPError as error:
            raise self._problem(error) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            hint = "Is it running? Start it with `run.py up`."
            raise UnreachableError(
                f"no console answers: {reason}", where=self.place.url, hint=hint
            ) from None

    def _problem(self, error: urllib.error.HTTPError) -> ClientError:
        """What the console said, in words."""
        with error:
            raw = error.read(1 << 20)
        try:
            body = json.loads(raw)
            kind = str(body["type"]).rpartition("#")[2]
        except (ValueError, TypeError, KeyError):
            return UnreachableError(f"answered {error.code}", where=self.place.url)
        said = str(body.get("detail", body.get("title", error.code)))
        return of_problem(kind, error.code, said, body)


def of_problem(kind: str, status: int, said: str, body: Mapping[str, Any]) -> ClientError:
    """Refused (exit code 1), or a mistake or trouble (2)."""
    if kind in ("refused", "conflict", "role"):
        reasons = [_reason(refusal) for refusal in body.get("refusals", ())]
        more = [reason for reason in reasons if reason not in said]
        return RefusedError(said, hint="\n  ".join(more))
    if kind == "signed-out":
        return ClientError(
            "the token is not valid (any more)",
            hint="Give another with --token-file or SPILLWAY_TOKEN.",
        )
    if kind == "unavailable":
        return UnreachableError(said, hint="Try again in a moment.")
    faults = [f"{fault['where']}: {fault['text']}" for fault in body.get("faults", ())]
    return ClientError(said, hint="\n  ".join(faults[1:]))


def _reason(refusal: Mapping[str, Any]) -> str:
    found, limit = refusal.get("found"), refusal.get("limit")
    figures = [f"{found:,.10g}"] if isinstance(found, int | float) else []
    figures += [f"limit {limit:,.10g}"] if isinstance(limit, int | float) else []
    text = str(refusal.get("text", refusal.get("why", "")))
    return f"{text} ({', '.join(figures)})" if figures else text


def _param(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def quoted(part: Any) -> str:
    """One part of a path."""
    return urllib.parse.quote(str(part), safe="")
