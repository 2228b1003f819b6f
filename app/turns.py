"""Of many who want the same thing worked out at once, one does it while the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Turn:
    """Something that is being worked out, and how many are at it or wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


class Turns:
    """One lock for each key that somebody is at; it goes with the last of them."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, Turn] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many keys somebody is at."""
        return len(self._turns)

    @contextmanager
    def of(self, key: Hashable) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(key, Turn())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users and self._turns.get(key) is turn:
                    del self._turns[key]

    def forget(self) -> None:
        """Whoever comes from now on does not wait for those who are at it."""
        with self._lock:
            self._turns.clear()
