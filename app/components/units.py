"""Figures as people read them: SI prefixes after a space, grouped digits, a true minus, clock times beside durations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from math import ceil, floor, isfinite, log10

NONE = "—"
MINUS = "\u2212"
SPACE = "\u202f"  # narrow, no break: between groups of digits
DAY_S = 86_400.0
PREFIXES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
SIZES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))


def figure(value: float | None, digits: int = 3) -> str:
    """A number with about so many digits that count: 0.42, 38.7, 317."""
    if value is None or not isfinite(value):
        return NONE
    if value == 0:
        return "0"
    whole = max(1, floor(log10(abs(value))) + 1)
    return _minus(f"{value:,.{max(0, digits - whole)}f}".replace(",", SPACE))


def short(value: float) -> str:
    """For axes: no zeros behind the point."""
    text = figure(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def prefixed(value: float | None, unit: str = "", digits: int = 3) -> tuple[str, str]:
    """1310000 → 1.31, M; with unit "/s" M/s."""
    if value is None or not isfinite(value):
        return NONE, ""
    prefix, factor = _scale(abs(value), PREFIXES)
    return figure(value / factor, digits), f"{prefix}{unit}"


def size(value: float | None, digits: int = 3) -> tuple[str, str]:
    """Bytes: 402000000 → 402, MB."""
    if value is None or not isfinite(value):
        return NONE, ""
    unit, factor = _scale(abs(value), SIZES)
    return figure(value / factor, digits if factor > 1 else 1), unit


def size_unit(values: Iterable[float]) -> tuple[str, float]:
    """One unit for figures that are compared with each other: that of the largest."""
    largest = max((abs(v) for v in values if isfinite(v)), default=0.0)
    return _scale(largest, SIZES)


def said_size(value: float | None) -> str:
    return " ".join(part for part in size(value) if part)


def said(value: float | None, unit: str = "") -> str:
    """A prefixed figure as one text."""
    return " ".join(part for part in prefixed(value, unit) if part)


def rate(value: float | None) -> tuple[str, str]:
    return prefixed(value, "/s")


def whole(value: float | None) -> str:
    """24913402 → 24 913 402."""
    if value is None or not isfinite(value):
        return NONE
    return _minus(f"{round(value):,}".replace(",", SPACE))


def percent(share: float | None, digits: int = 0) -> str:
    if share is None or not isfinite(share):
        return NONE
    return _minus(f"{100 * share:.{digits}f} %")


def signed(text: str, value: float) -> str:
    """The sign of `value` before an absolute figure; ±0 for nothing."""
    if value == 0:
        return "±0"
    return f"{'+' if value > 0 else MINUS}{text.lstrip(MINUS)}"


def signed_size(value: float) -> str:
    return signed(said_size(abs(value)), value)


def duration(seconds: float | None) -> str:
    """0.42 s, 38 s, 14 min, 3 h 09 min, 6 d 04 h: what somebody needs of it."""
    if seconds is None or not isfinite(seconds):
        return NONE
    left = abs(seconds)
    sign = MINUS if seconds < 0 else ""
    if left < 9.95:
        return f"{sign}{left:.2f} s" if left < 1 else f"{sign}{left:.1f} s"
    if left < 90:
        return f"{sign}{left:.0f} s"
    minutes = round(left / 60)
    if minutes < 10:
        rest = int(left % 60)
        return f"{sign}{int(left // 60)} min" + (f" {rest:02d} s" if rest else "")
    if minutes < 120:
        return f"{sign}{minutes} min"
    if left < 2 * DAY_S:
        return f"{sign}{minutes // 60} h {minutes % 60:02d} min"
    hours = round(left / 3600)
    return f"{sign}{hours // 24} d {hours % 24:02d} h"


def ahead(seconds: float | None) -> str:
    """How long until something: in whole seconds, as a countdown is read."""
    if seconds is None or not isfinite(seconds):
        return NONE
    return duration(float(ceil(seconds))) if seconds >= 10 else f"{max(1, ceil(seconds))} s"


def clock(time_s: float | None, zone_min: int = 0, *, seconds: bool = True) -> str:
    """The time of day in UTC or so many minutes east of it."""
    if time_s is None or not isfinite(time_s):
        return NONE
    zone = timezone(timedelta(minutes=zone_min)) if zone_min else UTC
    return datetime.fromtimestamp(time_s, zone).strftime("%H:%M:%S" if seconds else "%H:%M")


def moment(time_s: float | None, zone_min: int = 0) -> str:
    """Date and time of day, for what may be long ago."""
    if time_s is None or not isfinite(time_s):
        return NONE
    zone = timezone(timedelta(minutes=zone_min)) if zone_min else UTC
    return datetime.fromtimestamp(time_s, zone).strftime("%Y-%m-%d %H:%M:%S")


def node_name(node: int | None) -> str:
    return NONE if node is None else f"n{node}"


def counted(count: float, one: str, many: str = "") -> str:
    """1 group, 12 groups."""
    return f"{whole(count)} {one if round(count) == 1 else many or one + 's'}"


def _scale(value: float, steps: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """The largest step that leaves at least 1; 999.9 k is 1.00 M, not 1 000 k."""
    found = steps[0]
    for step in steps:
        if value * 1.0005 >= step[1]:
            found = step
    return found


def _minus(text: str) -> str:
    return text.replace("-", MINUS)
