"""What of a generated stream a person may turn here, how far, and what a turn asks the engine for. Pure.

The streams' options come as the engine last told them: `options` as they are now, `file` as the query file has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.components.units import said

RATE, ZIPF, RATIO = "rate", "zipf", "join_ratio"
FURTHER = 4.0  # so many times the file's value a slider goes


@dataclass(frozen=True, slots=True)
class Knob:
    """One slider. `before`: as in the query file."""

    name: str
    label: str
    help: str
    now: float
    before: float
    least: float
    most: float
    step: float

    def said(self, value: float) -> str:
        return said(value, "/s") if self.name == RATE else f"{value:g}"


@dataclass(frozen=True, slots=True)
class Stream:
    name: str
    preset: str
    keys: int  # different keys of a tuple range, or drawn
    shift: int
    skewed: bool
    knobs: tuple[Knob, ...]

    def knob(self, name: str) -> Knob | None:
        return next((one for one in self.knobs if one.name == name), None)


def streams_of(about: Mapping[str, Any]) -> list[Stream]:
    """The generated streams of a demo query."""
    told = about.get("streams")
    if not isinstance(told, Mapping):
        return []
    return [
        _stream(str(name), one)
        for name, one in told.items()
        if isinstance(one, Mapping) and one.get("options")
    ]


def _stream(name: str, told: Mapping[str, Any]) -> Stream:
    now: Mapping[str, str] = told["options"]
    file: Mapping[str, str] = told.get("file") or now
    ranged, fresh = bool(now.get("tuple_range")), file.get("fresh_keys") == "true"
    knobs = [_rate(now, file)]
    if not ranged or fresh:
        knobs.append(_zipf(now, file))
    if ranged:
        knobs.append(_ratio(now, file, fresh))
    skewed = _number(now, ZIPF, 0.0) > 0 or _number(now, "skew", 1.0) > 1
    return Stream(name, str(file.get("preset", "plain")), _keys(now), int(_number(now, "shift", 0)),
                  skewed, tuple(knobs))  # fmt: skip


def _keys(now: Mapping[str, str]) -> int:
    if now.get("tuple_range"):
        return max(1, round(_number(now, "tuple_range", 1) / max(1.0, _number(now, RATIO, 1))))
    return max(1, round(_number(now, "keys", 10_000)))


def _rate(now: Mapping[str, str], file: Mapping[str, str]) -> Knob:
    value = _number(now, RATE, 1_000.0)
    before = _number(file, RATE, 1_000.0)
    step = before / 20
    return Knob(
        RATE, "Rate", "rows per second", value, before, step, max(FURTHER * before, value), step
    )


def _zipf(now: Mapping[str, str], file: Mapping[str, str]) -> Knob:
    value = _number(now, ZIPF, 0.0)
    help = "Zipf's exponent: 0 is even, at 1 the hottest keys take most rows"
    return Knob(ZIPF, "Skew", help, value, _number(file, ZIPF, 0.0), 0.0, max(2.0, value), 0.1)


def _ratio(now: Mapping[str, str], file: Mapping[str, str], fresh: bool) -> Knob:
    """With fresh keys it cannot be less than in the file: a range has no more keys than its number had."""
    value, before = _number(now, RATIO, 1.0), _number(file, RATIO, 1.0)
    help = "how often each key occurs within a tuple range"
    least = before if fresh else 1.0
    return Knob(RATIO, "Join ratio", help, value, before, least, max(FURTHER * before, value), 1.0)


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(str(options.get(name) or default).replace("_", ""))
    except ValueError:
        return default


def asked(stream: Stream, values: Mapping[str, Any]) -> dict[str, str]:
    """Options for what was turned, as a user would write them; nothing for what is as it was."""
    found = {}
    for knob in stream.knobs:
        value = values.get(knob.name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if abs(value - knob.now) > knob.step / 2:
            found[knob.name] = written(knob, float(value))
    return found


def written(knob: Knob, value: float) -> str:
    bounded = min(max(value, knob.least), knob.most)
    return str(round(bounded)) if knob.name == RATIO else f"{bounded:.6g}"


def scaled(stream: Stream, factor: float) -> dict[str, str]:
    """The rate, that many times what it is now; 0: as in the file."""
    knob = stream.knob(RATE)
    assert knob is not None
    value = knob.now * factor if factor else knob.before
    return {RATE: f"{max(value, 0.001):.6g}"}


def shifted(streams: Sequence[Stream]) -> dict[str, dict[str, str]]:
    """By stream: a third of the keys further, the same for all, so that they stay hot together."""
    skewed = [one for one in streams if one.skewed]
    if not skewed:
        return {}
    by = max(one.shift for one in skewed) + max(1, min(one.keys for one in skewed) // 3)
    return {one.name: {"shift": str(by)} for one in skewed}
