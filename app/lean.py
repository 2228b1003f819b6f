"""How the console's process uses memory and Python's lock: set once, before it serves. Nothing else depends on it."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

TURN_S = 0.001  # Python's 5 ms: a poll that reads ten times would wait as often behind what is worked out
ARENAS_MAX = 2
GIVEN_BACK_BYTES = 256 << 10  # blocks of that size go back to the system at once
_TRIM, _MMAP, _ARENAS = -1, -3, -8  # of glibc's mallopt


def settle() -> None:
    """Without it glibc keeps what was freed, apart for each thread, and Arrow a pool of its own: 90 MB of 340."""
    sys.setswitchinterval(TURN_S)
    pa.set_memory_pool(pa.system_memory_pool())
    limit = getattr(ctypes.CDLL(None), "mallopt", None)  # there is none beside glibc
    if limit is not None:
        limit(_ARENAS, ARENAS_MAX)
        limit(_MMAP, GIVEN_BACK_BYTES)
        limit(_TRIM, GIVEN_BACK_BYTES)
