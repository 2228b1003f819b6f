"""Names that sort by time: 10 characters of milliseconds, 6 of chance, in Crockford's base 32.

Time and chance are given, so that a test or a replay gets the same names again.
"""

from __future__ import annotations

import hashlib

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


def _base32(value: int, chars: int) -> str:
    return "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(chars)))
