"""Names that sort by time: 10 characters of milliseconds, 6 of chance, in Crockford's base 32.

Time and chance are given, so that a test or a replay gets the same names again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS = 10
_CHANCE_CHARS = 6
CHANCE_BITS = 5 * _CHANCE_CHARS
_TIME_MOST = (1 << 5 * _TIME_CHARS) - 1
_CHANCE_MOST = (1 << CHANCE_BITS) - 1


def new_id(now_s: float, random: int | str) -> str:
    """`random`: any whole number, of which the lowest CHANCE_BITS are used; or any text, hashed."""
    if isinstance(random, str):
        digest = hashlib.blake2b(random.encode(), digest_size=8).digest()
        random = int.from_bytes(digest, "big")
    ms = min(max(round(now_s * 1000), 0), _TIME_MOST)
    return _base32(ms, _TIME_CHARS) + _base32(random & _CHANCE_MOST, _CHANCE_CHARS)


def time_of(id: str) -> float:
    """When a name was made, in seconds."""
    ms = 0
    for digit in id[:_TIME_CHARS]:
        ms = ms << 5 | _DIGITS.index(digit)
    return ms / 1000


class Ids:
    """A source of names, each later in order than the one before, also within a millisecond and when
    the clock goes back. Thread-safe."""

    def __init__(self, clock: Callable[[], float], random: Callable[[int], int]) -> None:
        """`random(bits)`: as random.SystemRandom().getrandbits."""
        self._clock, self._random = clock, random
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        ms = min(max(round(self._clock() * 1000), 0), _TIME_MOST)
        # One bit less of chance leaves room for those that follow within the millisecond.
        new = ms << CHANCE_BITS | self._random(CHANCE_BITS - 1)
        with self._lock:
            self._last = max(new, self._last + 1)
            return _base32(self._last, _TIME_CHARS + _CHANCE_CHARS)


def _base32(value: int, chars: int) -> str:
    return "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(chars)))
