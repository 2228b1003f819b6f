"""What an open page asks for by itself: recorded in Chromium, and asked again over HTTP by many sessions at once.

A page's polls carry what the last answer told it to remember (cursors of series, marks of what it shows). So what
answers bring is carried on here as a browser would, and only the rest is sent as it was recorded.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, sign_in

T = TypeVar("T")
POLL = "/_dash-update-component"
PAGE_READY = "#frame.app"
CHARTS = {  # what is there once a page's first chart shows data
    "/overview": "#overview-output .scatterlayer path.js-line",
    "/placement": "canvas.pl-c",
}
SETTLE_S = 6.0  # what a page asks for once, when it is opened, is not a poll
WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Poll:
    """One request: when, counted from the recording's begin, and what was sent."""

    at_s: float
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """What a page asked for in `span_s`; repeated for as long as it is wanted."""

    path: str
    span_s: float
    polls: tuple[Poll, ...]

    @property
    def per_s(self) -> float:
        return len(self.polls) / self.span_s


@dataclass(frozen=True, slots=True)
class Account:
    """Who looks."""

    user: str
    password: str


def record(url: str, who: Account, paths: Sequence[str], span_s: float) -> list[Recording]:
    """All pages at the same time, each in a browser of its own."""
    return apart(lambda: _record(url, who, paths, span_s))


def apart(work: Callable[[], T]) -> T:
    """In a thread of its own: Playwright may be at work in this one already, as in the browser tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def _record(url: str, who: Account, paths: Sequence[str], span_s: float) -> list[Recording]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM or None, args=FLAGS)
        try:
            return _recorded(browser, url, who, paths, span_s)
        finally:
            browser.close()


def _recorded(
    browser: Browser, url: str, who: Account, paths: Sequence[str], span_s: float
) -> list[Recording]:
    heard: list[list[tuple[float, str]]] = []
    pages = []
    for path in paths:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        sent: list[tuple[float, str]] = []
        sign_in(page, url, path, who.user, who.password)
        page.wait_for_selector(PAGE_READY)
        page.on("request", lambda asked, sent=sent: _note(asked, sent))
        heard.append(sent)
        pages.append(page)
    pages[0].wait_for_timeout(1000 * SETTLE_S)
    begun_s = time.monotonic()
    pages[0].wait_for_timeout(1000 * span_s)
    return [
        Recording(path, span_s, _polls(sent, begun_s, begun_s + span_s))
        for path, sent in zip(paths, heard, strict=True)
    ]


def _note(asked: Any, sent: list[tuple[float, str]]) -> None:
    if asked.method == "POST" and urlsplit(asked.url).path == POLL:
        sent.append((time.monotonic(), asked.post_data or ""))


def _polls(sent: Sequence[tuple[float, str]], begun_s: float, until_s: float) -> tuple[Poll, ...]:
    return tuple(
        Poll(at_s - begun_s, json.loads(body)) for at_s, body in sent if begun_s <= at_s < until_s
    )


@dataclass(slots=True)
class Tally:
    """What one session met."""

    taken_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)  # sent so much after its time
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


class Session:
    """One signed-in browser, as the server sees it: one connection, one request at a time."""

    def __init__(self, url: str, who: Account) -> None:
        self._to = urlsplit(url)
        self._line = self._open()
        self._cookies: dict[str, str] = {}
        self._carried: dict[tuple[str, str], Any] = {}
        self.tally = Tally()
        self._sign_in(who)

    def _open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._to.hostname or "", self._to.port, timeout=WAIT_S)

    def _ask(self, method: str, path: str, body: bytes | None, kind: str) -> tuple[int, bytes]:
        headers = {"Content-Type": kind, "Accept-Encoding": "gzip", "Cookie": self._cookie()}
        csrf = [value for name, value in self._cookies.items() if "_csrf_" in name]
        if csrf:
            headers["X-CSRF-Token"] = csrf[0]
        self._line.request(method, path, body, headers)
        answer = self._line.getresponse()
        found = answer.read()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                self._keep(value)
        if answer.getheader("Content-Encoding") == "gzip":
            self.tally.bytes += len(found)
            return answer.status, gzip.decompress(found)
        self.tally.bytes += len(found)
        return answer.status, found

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    def _keep(self, told: str) -> None:
        name, _, rest = told.partition("=")
        value = rest.partition(";")[0]
        if value:
            self._cookies[name] = value
        else:
            self._cookies.pop(name, None)

    def _sign_in(self, who: Account) -> None:
        _, page = self._ask("GET", "/sign-in", None, "text/html")
        found = re.search(r'name="csrf" value="([^"]+)"', page.decode())
        assert found, "the sign-in page has no token"
        sent = {"user": who.user, "password": who.password, "csrf": found.group(1), "next": "/"}
        kind = "application/x-www-form-urlencoded"
        status, _ = self._ask("POST", "/sign-in", urlencode(sent, quote_via=quote).encode(), kind)
        assert status == 303, f"{who.user} cannot sign in: {status}"

    def run(self, recording: Recording, begin_s: float, until_s: float) -> None:
        """The recording again and again, each request at its time; from `begin_s` by the monotonic clock."""
        turn_s = begin_s
        while turn_s < until_s:
            for poll in recording.polls:
                at_s = turn_s + poll.at_s
                if at_s >= until_s:
                    return
                time.sleep(max(0.0, at_s - time.monotonic()))
                self._poll(poll.body, at_s)
            turn_s += recording.span_s

    def _poll(self, body: Mapping[str, Any], at_s: float) -> None:
        sent = json.dumps(self._filled(body)).encode()
        started_s = time.monotonic()
        try:
            status, answer = self._ask("POST", POLL, sent, "application/json")
        except (OSError, http.client.HTTPException) as error:
            self.tally.errors.append(f"{type(error).__name__}: {error}")
            self._line = self._open()
            return
        self.tally.taken_s.append(time.monotonic() - started_s)
        self.tally.late_s.append(max(0.0, started_s - at_s))
        if status not in (200, 204):
            self.tally.errors.append(f"{status} for {body.get('output')}: {answer[:200]!r}")
        elif status == 200:
            self._carry(json.loads(answer)["response"])

    def _filled(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """With what earlier answers said, where the page would send that."""
        parts = ("inputs", "state")
        return {
            **body,
            **{part: [self._given(one) for one in body.get(part, ())] for part in parts},
        }

    def _given(self, one: Any) -> Any:
        if not isinstance(one, Mapping) or not isinstance(one.get("id"), str):
            return one
        key = (one["id"], one["property"])
        return {**one, "value": self._carried[key]} if key in self._carried else one

    def _carry(self, answer: Mapping[str, Mapping[str, Any]]) -> None:
        for id, values in answer.items():
            for name, value in values.items():
                if name == "data":  # of stores; what is drawn is not sent back
                    self._carried[id, name] = value


def replay(
    sessions: Sequence[Session], recordings: Sequence[Recording], seconds: float, seed: int = 1
) -> Tally:
    """Each session has one of the pages open, and began to watch at a moment of its own."""
    chance = random.Random(seed)
    now_s = time.monotonic()
    threads = []
    for number, session in enumerate(sessions):
        recording = recordings[number % len(recordings)]
        begin_s = now_s + chance.random() * min(2.0, recording.span_s)
        given = (recording, begin_s, now_s + seconds)
        threads.append(threading.Thread(target=session.run, args=given, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 2 * WAIT_S)
    whole = Tally()
    for session in sessions:
        whole.taken_s += session.tally.taken_s
        whole.late_s += session.tally.late_s
        whole.errors += session.tally.errors
        whole.bytes += session.tally.bytes
    return whole


def first_charts(url: str, who: Account, paths: Sequence[str]) -> list[float]:
    """Seconds until a page's first chart is drawn, each in a browser that has loaded nothing before."""
    return apart(lambda: _first_charts(url, who, paths))


def _first_charts(url: str, who: Account, paths: Sequence[str]) -> list[float]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM or None, args=FLAGS)
        try:
            state = _signed_in(browser, url, who)
            return [_first_chart(browser, state, url, path) for path in paths]
        finally:
            browser.close()


def _signed_in(browser: Browser, url: str, who: Account) -> Any:
    """The cookies of somebody who has signed in, and nothing else."""
    context = browser.new_context()
    sign_in(context.new_page(), url, "/status", who.user, who.password)
    state = context.storage_state()
    context.close()
    return state


def _first_chart(browser: Browser, state: Any, url: str, path: str) -> float:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, storage_state=state)
    page = context.new_page()
    started_s = time.monotonic()
    page.goto(url + path, wait_until="commit")
    page.wait_for_selector(CHARTS[path], state="attached", timeout=1000 * WAIT_S)
    taken_s = time.monotonic() - started_s
    context.close()
    return taken_s
