"""The answer first: one sentence on who is in trouble, when, what is under way, and what would settle it.

Pure: from what is known to words and a tone. How it looks is in pages/overview.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.components.steps import said_step
from app.components.units import ahead, clock, counted, duration, node_name, whole
from app.pages.page import Seen
from control.ledger import ActionRow, Wanted
from control.snapshot import NO_LIMIT

SOON_S = 900.0
NEAR = 0.85
NAMED_MAX = 3
STILL = {
    Wanted.PAUSED: "is paused; its state stays in memory",
    Wanted.STOPPED: "is stopped; its state stays in its checkpoint",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """Tones: near, fail, or none when all is well. `strong` is said first."""

    tone: str
    icon: str
    strong: str
    rest: str = ""


def headline(
    seen: Seen,
    full_in: Sequence[float | None],
    running: Sequence[ActionRow],
    menu: Sequence[Mapping[str, Any]],
) -> Headline:
    if seen.query is None:
        return Headline("", "info", "There is no query yet.", "An admin can register one.")
    if seen.query.state == "failed":
        return Headline("fail", "octagon-x", f"{seen.name} failed.", seen.query.error[:300])
    if seen.sample is None:
        return Headline(
            "", "clock", f"{seen.name} is {seen.query.state}.", "Nothing is recorded yet."
        )
    if seen.query.wanted in STILL:
        return Headline("", "pause", f"{seen.name} {STILL[seen.query.wanted]}.", _last(seen))
    if seen.stale:
        return _stale(seen)
    return _memory(seen, full_in, running, menu)


def _last(seen: Seen) -> str:
    assert seen.sample is not None
    at = clock(seen.sample.time_s, seen.view.zone_min)
    return f"Shown is the last known state: {at}, tick {whole(seen.sample.version)}."


def _stale(seen: Seen) -> Headline:
    age = seen.fresh.engine.age_s
    if seen.fresh.engine.stale:
        strong = (
            f"The engine has not answered for {duration(age)}." if age else "No engine answers."
        )
        return Headline(
            "fail", "octagon-x", strong, f"{_last(seen)} Sources wait; no input is lost."
        )
    strong = f"No tick for {duration(seen.fresh.age_s)}."
    return Headline("near", "clock", strong, f"The engine answers. {_last(seen)}")


def _memory(
    seen: Seen,
    full_in: Sequence[float | None],
    running: Sequence[ActionRow],
    menu: Sequence[Mapping[str, Any]],
) -> Headline:
    assert seen.sample is not None
    nodes = seen.sample.snapshot.nodes
    gone = np.flatnonzero(~nodes.alive).tolist()
    if gone:
        return Headline("fail", "octagon-x", f"{_names(gone)} not alive.", _under_way(running))
    limited = nodes.budget_bytes < NO_LIMIT
    over = np.flatnonzero(limited & (nodes.memory_bytes > nodes.budget_bytes)).tolist()
    after = f"{_under_way(running)} {_advice(menu)}".strip()
    if over:
        verb = "is" if len(over) == 1 else "are"
        return Headline("near", "triangle-alert", f"{_names(over)} {verb} over budget.", after)
    soon = sorted((s, n) for n, s in enumerate(full_in) if s is not None and s < SOON_S)
    if soon:
        return Headline("near", "triangle-alert", _soonest(soon), after)
    near = np.flatnonzero(limited & (nodes.memory_bytes > NEAR * nodes.budget_bytes)).tolist()
    if near:
        strong = f"{_names(near)} above {NEAR:.0%} of budget".replace("%", " %")
        left = [s for n in near if (s := full_in[n]) is not None]
        rest = f"full in {duration(min(left))}" if left else "and not filling"
        return Headline("near", "triangle-alert", f"{strong}, {rest}.", after)
    later = min((s for s in full_in if s is not None), default=None)
    when = (
        f"the first is full in {duration(later)}"
        if later is not None
        else "none fills within a day"
    )
    text = f"{counted(len(nodes), 'node')} below {NEAR:.0%} of budget; {when}.".replace("%", " %")
    return Headline(
        "", "check", "All is well.", f"{text} {_under_way(running, quiet=True)}".strip()
    )


def _soonest(soon: Sequence[tuple[float, int]]) -> str:
    (first_s, node), others = soon[0], len(soon) - 1
    what = (
        f"{node_name(node)} is full in {ahead(first_s)}"
        if first_s > 0
        else f"{node_name(node)} is full"
    )
    if not others:
        return f"{what}."
    many = f"{others} more within {ahead(soon[-1][0])}"
    return f"{what}, {many}."


def _names(nodes: Sequence[int]) -> str:
    shown = ", ".join(node_name(n) for n in nodes[:NAMED_MAX])
    return shown if len(nodes) <= NAMED_MAX else f"{shown} and {len(nodes) - NAMED_MAX} more"


def _under_way(running: Sequence[ActionRow], *, quiet: bool = False) -> str:
    if not running:
        return "" if quiet else "Nothing is under way."
    first = said_step(running[0].body["step"])
    more = f" and {len(running) - 1} more" if len(running) > 1 else ""
    return f"{first}{more} is under way." if not more else f"{first}{more} are under way."


def _advice(menu: Sequence[Mapping[str, Any]]) -> str:
    best = menu[0] if menu else None
    if best is None:
        return ""
    if best["do"] == "nothing" or not best.get("step"):
        return "No action gains more than it costs."
    if not best.get("pays"):
        return f"{said_step(best['step'])} would help a little."
    return f"{said_step(best['step'])} would help most."
