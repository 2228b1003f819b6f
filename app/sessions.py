"""Signed-in browsers: session and CSRF cookies, idle and absolute expiry, renewal at sign-in; and browsers that are
known because a user has signed in with them before.

The store has the SHA-256 of what the session's cookie holds. A known browser has a cookie with a number and its HMAC for
that user: it lets nobody in, but wrong passwords are counted for it alone (auth.py). Cookies are not kept apart by port,
so their names are.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace

from flask import Request, Response

from app.settings import ConsoleSettings
from control.people import Session
from control.ports import Store

TOUCH_S = 60.0  # activity is noted at most so often
CSRF_HEADER = "X-CSRF-Token"
FORM_SECRET = "sign_in_form_secret"
DEVICE_S = 365 * 86_400.0  # a browser is known for so long
AGENT_LENGTH_MAX = 300


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Sessions:
    """Stateless but for its store and settings."""

    def __init__(self, store: Store, settings: ConsoleSettings) -> None:
        self._store, self._settings = store, settings
        prefix = "__Host-" if settings.https else ""
        self.cookie = f"{prefix}spillway_session_{settings.port}"
        self.csrf_cookie = f"{prefix}spillway_csrf_{settings.port}"
        self.form_cookie = f"{prefix}spillway_form_{settings.port}"
        self.device_cookie = f"{prefix}spillway_device_{settings.port}"

    def begin(self, request: Request, user: str, address: str, now_s: float) -> tuple[str, Session]:
        """A new session in place of the one that the request came with: what its cookie holds, and it."""
        self.end(request)
        held = secrets.token_urlsafe(32)
        csrf = secrets.token_urlsafe(32)
        agent = request.headers.get("User-Agent", "")[:AGENT_LENGTH_MAX]
        session = Session(sha256(held), user, csrf, now_s, now_s, now_s, address, agent)
        oldest_s = now_s - self._settings.absolute_s
        self._store.sessions.drop_before(now_s - self._settings.idle_s, oldest_s)
        self._store.sessions.add(session)
        return held, session

    def find(self, request: Request, now_s: float) -> Session | None:
        """The request's session, unless it has ended."""
        held = request.cookies.get(self.cookie, "")
        session = self._store.sessions.find(sha256(held)) if held else None
        if session is None:
            return None
        if self.over(session, now_s):
            self._store.sessions.end(session.id_hash)
            return None
        return session

    def of(self, user: str, now_s: float) -> list[Session]:
        """The user's, without those that are over."""
        return [one for one in self._store.sessions.of(user) if not self.over(one, now_s)]

    def over(self, session: Session, now_s: float) -> bool:
        return (
            now_s - session.active_s > self._settings.idle_s
            or now_s - session.created_s > self._settings.absolute_s
        )

    def touch(self, session: Session, now_s: float) -> Session:
        """The user did something: not a poll."""
        if now_s - session.active_s < TOUCH_S:
            return session
        self._store.sessions.touch(session.id_hash, now_s)
        return replace(session, active_s=now_s)

    def confirmed(self, session: Session, now_s: float) -> bool:
        return 0 <= now_s - session.confirmed_s <= self._settings.confirm_s

    def confirm(self, session: Session, now_s: float) -> Session:
        """The password was given just now: the session as it is then."""
        self._store.sessions.confirm(session.id_hash, now_s)
        return replace(session, confirmed_s=now_s)

    def end(self, request: Request) -> None:
        if held := request.cookies.get(self.cookie, ""):
            self._store.sessions.end(sha256(held))

    def csrf_matches(self, request: Request, session: Session) -> bool:
        """Header (or a form's field) = cookie = session."""
        sent = request.headers.get(CSRF_HEADER, "") or request.form.get("csrf", "")
        cookie = request.cookies.get(self.csrf_cookie, "")
        return same(sent, session.csrf) and same(cookie, session.csrf)

    def device(self, request: Request, user: str) -> str:
        """By what a browser is counted with which this user has signed in before; empty when it is not known."""
        number, _, sign = request.cookies.get(self.device_cookie, "").partition(".")
        return sha256(number) if number and same(sign, self._of_device(user, number)) else ""

    def set_cookies(self, response: Response, held: str, session: Session) -> None:
        """What a browser gets when a user has signed in with it; from now on it is known."""
        number = secrets.token_urlsafe(24)
        device = f"{number}.{self._of_device(session.user, number)}"
        self._set(response, self.device_cookie, device, script=False, life_s=DEVICE_S)
        self._set(response, self.cookie, held, script=False)
        self._set(response, self.csrf_cookie, session.csrf, script=True)
        response.delete_cookie(self.form_cookie, path="/", secure=self._settings.https)

    def clear_cookies(self, response: Response) -> None:
        for name in (self.cookie, self.csrf_cookie, self.form_cookie):
            response.delete_cookie(name, path="/", secure=self._settings.https, samesite="Lax")

    def form_token(self, request: Request, response_cookie: list[str]) -> str:
        """For a form that is shown before there is a session: a cookie, and its HMAC in the form."""
        held = request.cookies.get(self.form_cookie, "") or secrets.token_urlsafe(24)
        response_cookie.append(held)
        return self._signed(held)

    def set_form_cookie(self, response: Response, held: str) -> None:
        self._set(response, self.form_cookie, held, script=False)

    def form_matches(self, request: Request) -> bool:
        held = request.cookies.get(self.form_cookie, "")
        return bool(held) and same(request.form.get("csrf", ""), self._signed(held))

    def _signed(self, held: str) -> str:
        return hmac.new(self._secret(), held.encode(), hashlib.sha256).hexdigest()

    def _of_device(self, user: str, number: str) -> str:
        return self._signed(f"device {len(user)} {user} {number}")

    def _secret(self) -> bytes:
        """Kept in the store: a form that was open over a restart can still be sent."""
        kept = self._store.kept.get(FORM_SECRET)
        if not isinstance(kept, str):
            kept = secrets.token_hex(32)
            self._store.kept.put(FORM_SECRET, kept)
        return bytes.fromhex(kept)

    def _set(
        self,
        response: Response,
        name: str,
        value: str,
        *,
        script: bool,
        life_s: float | None = None,
    ) -> None:
        """`script`: the page's own script may read it, to send it back as a header. It lives as long as a session does
        where nothing else is said."""
        end_s = self._settings.absolute_s if life_s is None else life_s
        response.set_cookie(
            name,
            value,
            path="/",
            httponly=not script,
            secure=self._settings.https,
            samesite="Lax",
            max_age=None if name == self.form_cookie else int(end_s),
        )


def same(one: str, other: str) -> bool:
    """In constant time; an empty one is never the same."""
    return bool(one) and bool(other) and hmac.compare_digest(one.encode(), other.encode())
