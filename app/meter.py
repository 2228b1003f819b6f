"""How much of the processor one asker, and all of them together, may use up with readings that have to be worked out.

Each has a balance of seconds of CPU that fills up with time. Whoever has used more than there was is told to come
back later (429 with Retry-After). What is worked out only once for everybody who watches costs nothing again, so
that ordinary watching stays far below.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.problems import Problem

EVERYBODY = ""
ASKERS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds of CPU: how fast a balance fills up, and how full it gets."""

    per_s: float
    most_s: float


OF_ONE = Allowance(0.5, 10.0)
OF_ALL = Allowance(0.75, 20.0)


@dataclass(slots=True)
class Balance:
    """What is left, as of a time. Below 0 after something that took longer than there was."""

    left_s: float
    at_s: float


class Meter:
    """Thread-safe. `cpu` is what the asking thread has used so far."""

    def __init__(
        self,
        clock: Callable[[], float],
        cpu: Callable[[], float] = time.thread_time,
        of_one: Allowance = OF_ONE,
        of_all: Allowance = OF_ALL,
    ) -> None:
        self._clock, self._cpu = clock, cpu
        self._of_one, self._of_all = of_one, of_all
        self._balances: dict[str, Balance] = {}
        self._lock = threading.Lock()

    @contextmanager
    def metered(self, asker: str) -> Iterator[None]:
        """Around what is worked out for somebody; Problem when too much was already."""
        names = (EVERYBODY, asker)
        with self._lock:
            wait_s = max(self._wait_s(name) for name in names)
        if wait_s > 0:
            text = (
                f"Too much was asked for that takes long to work out; try again in {wait_s:.0f} s."
            )
            raise Problem("busy", text, retry_s=wait_s)
        begun_s = self._cpu()
        try:
            yield
        finally:
            used_s = self._cpu() - begun_s
            with self._lock:
                for name in names:
                    self._balance(name).left_s -= used_s
                self._forget()

    def _allowance(self, name: str) -> Allowance:
        return self._of_all if name == EVERYBODY else self._of_one

    def _balance(self, name: str) -> Balance:
        """As of now. A clock that was set back fills nothing and takes nothing."""
        now_s, allowance = self._clock(), self._allowance(name)
        balance = self._balances.setdefault(name, Balance(allowance.most_s, now_s))
        more_s = max(0.0, now_s - balance.at_s) * allowance.per_s
        balance.left_s = min(allowance.most_s, balance.left_s + more_s)
        balance.at_s = now_s
        return balance

    def _wait_s(self, name: str) -> float:
        left_s = self._balance(name).left_s
        return 0.0 if left_s > 0 else 1.0 - left_s / self._allowance(name).per_s

    def _forget(self) -> None:
        """Those who have asked for nothing for long are as if they were new."""
        if len(self._balances) > ASKERS_MAX:
            full = [
                name for name in self._balances if self._balance(name).left_s >= self._of_one.most_s
            ]
            for name in full:
                if name != EVERYBODY:
                    del self._balances[name]
