"""Why something was not done, or may not be: refusals with their numbers, drift, a line of reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from app.components.kit import d, icon, s
from app.components.units import figure, said_size, whole
from control.arbiter import Why
from control.kinds import Answer

# Refusals whose numbers are bytes.
OF_BYTES = frozenset(
    {
        Why.RECEIVER_FULL,
        Why.NO_ROOM_FOR_CLEANUP,
        Why.NO_ROOM_FOR_PLAN,
        Why.DISK_FULL,
        Why.ACTION_BYTES,
        Why.DAILY_BYTES,
        Why.BUDGET_TOO_SMALL,
    }
)


def refused(answer: Answer) -> dict[str, Any]:
    """For the `propose` store: what the dispatcher did not accept."""
    return {"refused": answer.text, "refusals": [dict(one) for one in answer.refusals]}


def line(text: str, ic: str = "lock", c: str = "") -> Component:
    """One reason, quietly."""
    return d(icon(ic), s(text), c=f"il-by {c}".strip())


def refusals(found: Sequence[Mapping[str, Any]], text: str = "") -> Component:
    """All that speaks against it; each with what was found and the limit."""
    lines = [_refusal(one) for one in found] or [_line(text or "refused")]
    return d(*lines, role="alert")


def _refusal(one: Mapping[str, Any]) -> Component:
    told = str(one.get("text", ""))
    found, limit = one.get("found"), one.get("limit")
    if isinstance(found, int | float) and isinstance(limit, int | float) and max(found, limit) > 1:
        shown = said_size if one.get("why") in OF_BYTES else _number
        told = f"{told} ({shown(found)}, limit {shown(limit)})"
    return _line(told)


def _line(text: str) -> Component:
    return d(icon("ban"), s(text), c="ck no")


def _number(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return whole(value) if float(value).is_integer() else figure(float(value), 4)


def check(text: str, good: bool = True, wait: bool = False) -> Component:
    """One thing that was looked at before: it holds, it does not, or it waits."""
    tone, ic = ("wait", "clock") if wait else ("", "check") if good else ("no", "ban")
    return d(icon(ic), s(text), c=f"ck {tone}".strip())
