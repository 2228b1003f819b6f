"""How the client writes: tables, sizes, times, and reading them from the command line."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

GAP = "  "
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
SPANS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], none: str = "nothing") -> str:
    """Columns aligned; numbers to the right. A header that starts with > is of numbers."""
    if not rows:
        return none
    right = [name.startswith(">") for name in header]
    lines = [
        [name.lstrip(">") for name in header],
        *([clean(cell) for cell in row] for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        GAP.join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def pairs(values: Mapping[str, Any]) -> str:
    """One thing, a line for each of its fields."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name.ljust(width)}{GAP}{clean(value)}" for name, value in values.items())


def clean(value: Any) -> str:
    """Text for a terminal: what others wrote cannot move the cursor."""
    if value is None:
        return "–"
    text = str(value)
    return "".join(c if c.isprintable() else " " for c in text)


def size(count: float | None) -> str:
    if count is None:
        return "no limit"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1_000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def many(count: float | None) -> str:
    """Digits grouped by a space."""
    if count is None or not math.isfinite(count):
        return "–"
    text = f"{count:,.0f}" if abs(count) >= 100 or count == int(count) else f"{count:,.2f}"
    return text.replace(",", " ")


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def seconds(value: float | None, none: str = "–") -> str:
    if value is None:
        return none
    if value < 0:
        return "−" + seconds(-value)
    if value < 120:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7_200 else f"{value / 3_600:.1f} h"


def clock(time_s: float | None, now_s: float | None = None) -> str:
    """UTC; with the day when it is not today."""
    if time_s is None:
        return "–"
    when = datetime.fromtimestamp(time_s, UTC)
    today = now_s is not None and datetime.fromtimestamp(now_s, UTC).date() == when.date()
    return f"{when:%H:%M:%S}" if today else f"{when:%Y-%m-%d %H:%M:%S}"


def read_size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)", text.strip().lower())
    unit = found.group(2) if found else ""
    scale = SIZES.get(unit if unit in SIZES else unit + "b")
    if not found or scale is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, for example 500MB or 2GiB")
    return int(float(found.group(1)) * scale)


def read_span(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, for example 90s, 30m or 24h")
    return float(found.group(1)) * SPANS[found.group(2)]


def read_groups(text: str) -> list[int]:
    """`3,7,10-14`"""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,8})(?:-(\d{1,8}))?", part.strip())
        if not ends or (ends.group(2) and int(ends.group(2)) < int(ends.group(1))):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of groups, as 3,7,10-14")
        first, last = int(ends.group(1)), int(ends.group(2) or ends.group(1))
        if last - first > 100_000:
            raise argparse.ArgumentTypeError(f"{part} are too many groups")
        found += range(first, last + 1)
    return found


def read_value(text: str) -> tuple[str, Any]:
    """`name=value`, a number where it is one."""
    name, equals, raw = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if raw in ("true", "false"):
        return name, raw == "true"
    for kind in (int, float):
        try:
            return name, kind(raw)
        except ValueError:
            continue
    return name, raw
