"""Long polls: look again and again until something is over. Few at once, or they would hold every thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.parts import Parts

T = TypeVar("T")
LOOK_S = 0.1


def wait_for(parts: Parts, look: Callable[[], T], over: Callable[[T], bool], wait_s: float) -> T:
    """What `look` finds once it is over, or after `wait_s`. With too many waiting already: at once."""
    found = look()
    if over(found) or wait_s <= 0 or not parts.waits.acquire(blocking=False):
        return found
    try:
        until_s = parts.clock() + min(wait_s, parts.settings.wait_s_max)
        looks = int(min(wait_s, parts.settings.wait_s_max) / LOOK_S) + 1
        for _ in range(looks):  # bounded also when the clock is set back
            parts.pause(LOOK_S)
            found = look()
            if over(found) or parts.clock() >= until_s:
                break
        return found
    finally:
        parts.waits.release()
