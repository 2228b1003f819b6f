"""Who may do what: roles, users, sessions, tokens, and the actor that a command carries.

Values only: passwords and tokens are checked in app/auth.py, kept in db/.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Each may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Source(StrEnum):
    """How a command came in."""

    CONSOLE = "console"
    API = "api"
    CLI = "cli"
    RULE = "rule"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. A rule asks in its last editor's name, with that user's role. `token`: the id of the API token that
    the request came with; empty for a browser, a rule and the command line on the machine itself."""

    user: str
    role: Role
    source: Source
    rule: str = ""
    address: str = ""
    token: str = ""

    @property
    def automatic(self) -> bool:
        return self.source is Source.RULE

    def __str__(self) -> str:
        return f"rule {self.rule} ({self.user})" if self.rule else self.user


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    password_hash: str
    disabled: bool
    created_s: float
    seen_s: float | None = None
    must_change: bool = (
        False  # a password that others know or knew: good for nothing but changing it
    )


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser. `id_hash` is the SHA-256 of what its cookie holds; `agent` is what the browser calls itself."""

    id_hash: str
    user: str
    csrf: str
    created_s: float
    active_s: float  # of the last thing that its user did; polls do not count
    confirmed_s: float  # when the password was last given
    address: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """An API token: its SHA-256, what it may do at most, and until when. `local`: the one that `run.py up` leaves
    in the data folder for this machine's ctl; a new password of its owner does not end it."""

    id: str
    user: str
    name: str
    sha256: str
    scope: Role
    created_s: float
    expires_s: float | None = None
    used_s: float | None = None
    revoked_s: float | None = None
    local: bool = False


@dataclass(frozen=True, slots=True)
class Lockout:
    """Wrong passwords: of one user from one address; of one user from one known browser (`device`, and no address);
    or from one address, whoever was named (no user)."""

    user: str
    address: str
    failures: int
    last_s: float
    until_s: float = 0.0
    device: str = ""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One thing that somebody did or was refused. Never changed, never deleted."""

    time_s: float
    user: str
    source: Source
    address: str
    what: str  # the command's kind, or sign-in, sign-out, …
    subject: str  # query, rule, user, action it was about
    outcome: str  # accepted, refused, failed
    detail: str = ""
    id: int = 0
    token: str = ""  # id of the API token that it was done with
