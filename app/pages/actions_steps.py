"""An action's steps as a timeline: where each bar lies on a time axis that is broken where one part of the course is
much longer than the other, so that 82 s of copy and 0.3 s of switch can both be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components.charts import STEPS_S
from app.components.kit import d, legend, s
from app.components.units import NONE, duration, node_name, said_size
from control.actions import COURSES, Action, StepRecord
from control.plans import Cleanup, Move, Spill

BREAK_FROM = 4.0  # so many times longer than the other part: the axis is broken
LEFT, RIGHT = 50.0, 53.0  # per cent of the track where the break begins and ends
BAR_MIN = 0.5  # per cent: a step of nothing is still seen
FINE_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
TICKS_MAX = 4
COPIES = {"SendPartitions": "mem", "ReceivePartitions": "mem", "JoinOwed": "mem",
          "WriteDisk": "disk", "ReadDisk": "disk"}  # fmt: skip
HOLDS = ("DeactivatePartitions", "ReactivatePartitions")
CUT = {Move: "DeactivatePartitions", Spill: "Commit", Cleanup: "Commit"}
PARTS = {
    "move": ("copy: groups stay active", "switch: groups are held"),
    "move_hold": ("before", "groups are held"),
    "spill": ("write: groups stay active", "commit and drop"),
    "cleanup": ("read and join", "commit and drop"),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time on a stretch of the track, in per cent."""

    from_s: float
    until_s: float
    left: float
    right: float

    def at(self, time_s: float) -> float:
        length = self.until_s - self.from_s
        share = (time_s - self.from_s) / length if length > 0 else 0.0
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)


@dataclass(frozen=True, slots=True)
class Axis:
    """One piece, or two with a break between them."""

    pieces: tuple[Piece, ...]

    @property
    def broken(self) -> bool:
        return len(self.pieces) > 1

    def at(self, time_s: float) -> float:
        """Where a time lies on the track, in per cent."""
        later = [p for p in self.pieces if time_s >= p.from_s]
        return (later[-1] if later else self.pieces[0]).at(time_s)


@dataclass(frozen=True, slots=True)
class Bar:
    """One step on the track. `left` None: it has not begun."""

    name: str
    left: float | None
    width: float
    kind: str  # mem, disk, held, ink
    seconds: float | None
    bytes: int
    running: bool


def cut_at(action: Action) -> float | None:
    """When the second part of the course began: the switch of a move, the commit of the others."""
    name = CUT.get(type(action.step))
    return next((r.start_s for r in action.records if r.name == name), None)


def axis_of(action: Action, until_s: float) -> Axis:
    start_s = action.records[0].start_s if action.records else until_s
    until_s = max(until_s, start_s + 1e-3)
    cut_s = cut_at(action)
    if cut_s is not None and start_s < cut_s < until_s:
        first, second = cut_s - start_s, until_s - cut_s
        if max(first, second) >= BREAK_FROM * min(first, second):
            return Axis((Piece(start_s, cut_s, 0.0, LEFT), Piece(cut_s, until_s, RIGHT, 100.0)))
    return Axis((Piece(start_s, until_s, 0.0, 100.0),))


def held_from_to(action: Action, until_s: float) -> tuple[float, float] | None:
    """While the groups' input is held."""
    by_name = {record.name: record for record in action.records}
    first, last = (by_name.get(name) for name in HOLDS)
    if first is None:
        return None
    ends = last.end_s if last is not None and last.end_s is not None else until_s
    return first.start_s, ends


def bars(action: Action, axis: Axis, until_s: float) -> list[Bar]:
    """Every step of the course, those to come too."""
    held = held_from_to(action, until_s)
    found = [_bar(record, axis, held, until_s) for record in action.records]
    later = COURSES[action.course].steps[len(found) :]
    return found + [Bar(name, None, 0.0, "ink", None, 0, False) for name in later]


def _bar(record: StepRecord, axis: Axis, held: tuple[float, float] | None, until_s: float) -> Bar:
    end_s = record.end_s if record.end_s is not None else until_s
    left = axis.at(record.start_s)
    width = max(BAR_MIN, axis.at(end_s) - left)
    within = held is not None and record.start_s >= held[0] - 1e-6 and end_s <= held[1] + 1e-6
    kind = "held" if within else COPIES.get(record.name, "ink")
    seconds = end_s - record.start_s
    return Bar(record.name, min(left, 100 - BAR_MIN), width, kind, seconds, record.bytes,
               record.end_s is None)  # fmt: skip


def said_between(action: Action, name: str) -> str:
    """Who says it to whom, or does it."""
    step = action.step
    if not isinstance(step, Move):
        return ""
    sender, receiver = node_name(step.source), node_name(step.target)
    return {
        "ComputePartitionsToMove": "control",
        "PartitionsToMove": f"control → {sender}",
        "DeactivatePartitions": f"{sender} → splits",
        "Deactivated": f"splits → {sender}",
        "SendPartitions": f"{sender} → {receiver}",
        "ReceivePartitions": receiver,
        "Received": f"{receiver} → control",
        "ReactivatePartitions": "control → splits",
    }.get(name, "")


def timeline(action: Action, until_s: float) -> Component:
    """`until_s`: its end, or now."""
    axis = axis_of(action, until_s)
    shade = held_from_to(action, until_s)
    rows = [
        _row(number, bar, axis, shade, said_between(action, bar.name), action.over)
        for number, bar in enumerate(bars(action, axis, until_s), start=1)
    ]
    return d(_head(action, axis), *rows, c="ac-steps data", role="table", aria_label="Steps")


def _head(action: Action, axis: Axis) -> Component:
    first, second = PARTS.get(action.course, ("", ""))
    marks: list[Any] = [_tick(left, text, edge) for left, text, edge in ticks(axis)]
    if axis.broken:
        marks.append(s(first, c="ac-ph", style={"left": "0"}))
        marks.append(s(second, c="ac-ph", style={"left": f"{RIGHT}%"}))
    return d(
        s("", role="columnheader", aria_label="number"),
        s("step", role="columnheader"),
        d(*marks, c="ac-trk", role="columnheader", aria_label="when"),
        s("time", c="r", role="columnheader"),
        s("bytes", c="r", role="columnheader"),
        c="ac-tl ac-axis" + ("" if axis.broken else " flat"),
        role="row",
    )


def _tick(left: float, text: str, edge: str) -> Component:
    return s(text, c=f"ac-ax {edge}".strip(), style={"left": f"{left:.2f}%"})


def ticks(axis: Axis) -> list[tuple[float, str, str]]:
    """(per cent, text, which end it keeps clear of). In a broken axis the second part counts from its own start."""
    found = []
    for number, piece in enumerate(axis.pieces):
        length = piece.until_s - piece.from_s
        step = next((x for x in (*FINE_S, *STEPS_S) if length / x <= TICKS_MAX), length)
        plus = "+" if number else ""
        for at in range(0 if not number else 1, int(length / step) + 1):
            left = piece.at(piece.from_s + at * step)
            edge = (
                "l"
                if left < 2
                else "rr"
                if left > 97 or (axis.broken and LEFT - 3 < left <= LEFT)
                else ""
            )
            found.append((left, plus + _short(at * step), edge))
    return found


def brief(seconds: float | None) -> str:
    """Of a step: what is nearly nothing says so."""
    return "< 0.01 s" if seconds is not None and seconds < 0.005 else duration(seconds)


def _short(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 60:
        return f"{seconds:g} s"
    return duration(seconds)


def _row(
    number: int, bar: Bar, axis: Axis, shade: tuple[float, float] | None, who: str, over: bool
) -> Component:
    inside: list[Any] = []
    if shade is not None:
        left, right = axis.at(shade[0]), axis.at(shade[1])
        inside.append(html.I(className="ac-hold", style=_place(left, max(BAR_MIN, right - left))))
    if axis.broken:
        inside += [html.I(className="ac-brk", style={"left": f"{at}%"}) for at in (LEFT, RIGHT)]
    if bar.left is None:
        text = "not reached" if over else "to come"
        return _cells(
            number, s(bar.name, c="dim clip"), inside, s(text, c="r dim"), s(""), c="later"
        )
    running = " running" if bar.running else ""
    inside.append(
        html.I(className=f"ac-bar {bar.kind}{running}", style=_place(bar.left, bar.width))
    )
    if who:
        inside.append(_label(bar, who))
    size = said_size(bar.bytes) if bar.bytes else NONE
    name = s(bar.name, c="ac-nm clip", title=bar.name)
    return _cells(number, name, inside, s(brief(bar.seconds), c="r"), s(size, c="r"))


def _label(bar: Bar, who: str) -> Component:
    """Beside its bar, where there is room."""
    right = (bar.left or 0.0) + bar.width
    if right <= 78:
        return s(who, c="ac-bl", style={"left": f"calc({right:.2f}% + 8px)"})
    if (bar.left or 0.0) >= 20:
        return s(who, c="ac-bl", style={"right": f"calc({100 - (bar.left or 0.0):.2f}% + 8px)"})
    return s(who, c="ac-bl on", style={"left": f"calc({bar.left or 0.0:.2f}% + 6px)"})


def _cells(
    number: int, name: Any, track: Sequence[Any], time: Any, size: Any, c: str = ""
) -> Component:
    return d(
        s(str(number), c="ac-nr", role="cell"),
        d(name, c="clip", role="cell"),
        d(*track, c="ac-trk", role="cell"),
        d(time, c="r", role="cell"),
        d(size, c="r", role="cell"),
        c=f"ac-tl {c}".strip(),
        role="row",
    )


def _place(left: float, width: float) -> dict[str, str]:
    return {"left": f"{left:.2f}%", "width": f"{min(width, 100 - left):.2f}%"}


def key_of(action: Action) -> Component:
    """What the bars' colours mean, for this kind of action."""
    if isinstance(action.step, Move):
        return legend(("mem", "copied while active"), ("held", "groups held"), ("ink", "control"))
    if isinstance(action.step, Spill):
        return legend(("disk", "to disk"), ("ink", "control"))
    if isinstance(action.step, Cleanup):
        return legend(("disk", "from disk"), ("mem", "joined"), ("ink", "control"))
    return legend(("ink", "control"))
