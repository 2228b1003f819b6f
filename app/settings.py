"""What the console can be told: one frozen value. Reading it from file, environment or flags is run.py's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control.handling.base import TOKEN_S

BODY_BYTES_MAX = 1 << 20
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Times in seconds. `hosts`: further names that a Host header may have."""

    port: int = 8050
    hosts: tuple[str, ...] = ()
    https: bool = False  # a proxy in front speaks https: cookies Secure, HSTS
    proxies: int = 0  # how many proxies in front set X-Forwarded-*; 0: ignore these headers
    idle_s: float = 3_600.0  # a session ends so long after the last thing that its user did
    absolute_s: float = 43_200.0  # and so long after sign-in in any case
    confirm_s: float = 900.0  # a password given so lately need not be given again
    token_s: float = TOKEN_S  # the longest that an API token lives
    wait_s_max: float = 20.0  # of a long poll
    waits_max: int = 6  # long polls at once; others are answered at once
    stale_s: float = 10.0  # a process that has not been heard of for so long is stale
    threads: int = 12
    webhook_ports: frozenset[int] = frozenset()  # of this machine, that webhooks may go to
    about: Mapping[str, Any] = field(default_factory=dict)  # for GET /about: versions, data folder
    shown: Mapping[str, Any] = field(default_factory=dict)  # for GET /settings, secrets left out

    @property
    def host_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in (*LOCAL_HOSTS, *self.hosts))
