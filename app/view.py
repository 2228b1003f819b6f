"""What a person looks at: query, time range, refresh, zone, theme. Kept in the page's URL and the `view` store.

Values come from browsers, so everything is checked here; what is not one of ours becomes the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RANGES: Mapping[str, tuple[str, float]] = {
    "5m": ("5 min", 300.0),
    "15m": ("15 min", 900.0),
    "30m": ("30 min", 1_800.0),
    "1h": ("1 h", 3_600.0),
    "6h": ("6 h", 21_600.0),
    "24h": ("24 h", 86_400.0),
    "7d": ("7 d", 604_800.0),
}
REFRESHES: Mapping[str, tuple[str, float]] = {
    "1s": ("1 s", 1.0),
    "2s": ("2 s", 2.0),
    "5s": ("5 s", 5.0),
    "15s": ("15 s", 15.0),
    "60s": ("1 min", 60.0),
}
RANGE, REFRESH = "30m", "2s"
ZONE_MIN_MAX = 14 * 60
QUERY_LENGTH_MAX = 64
WIDTH, WIDTH_MIN, WIDTH_MAX = 1_440, 240, 10_000


@dataclass(frozen=True, slots=True)
class View:
    """`query` empty: the first one. `zone_min`: minutes east of UTC that times are shown in. `width`: of the
    window, in pixels, for labels that must find room."""

    query: str = ""
    range: str = RANGE
    refresh: str = REFRESH
    zone_min: int = 0
    theme: str = "dark"
    width: int = WIDTH

    @staticmethod
    def of(raw: Any) -> View:
        told: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        query, zone, width = told.get("query"), told.get("zone_min"), told.get("width")
        return View(
            query if isinstance(query, str) and len(query) <= QUERY_LENGTH_MAX else "",
            _one_of(told.get("range"), RANGES, RANGE),
            _one_of(told.get("refresh"), REFRESHES, REFRESH),
            zone if type(zone) is int and abs(zone) <= ZONE_MIN_MAX else 0,
            "light" if told.get("theme") == "light" else "dark",
            width if type(width) is int and WIDTH_MIN <= width <= WIDTH_MAX else WIDTH,
        )

    @property
    def range_s(self) -> float:
        return RANGES[self.range][1]

    @property
    def refresh_s(self) -> float:
        return REFRESHES[self.refresh][1]


def _one_of(value: Any, known: Mapping[str, Any], default: str) -> str:
    return value if isinstance(value, str) and value in known else default
