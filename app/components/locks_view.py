"""What keeps each rule from acting, one line a rule; and the alerts that are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from app.components import states
from app.components.kit import chip, d, icon, link, s
from app.components.units import ahead, clock, counted, duration
from control.alerts import KINDS
from control.ledger import Alert, RuleRow

SOON_S = 120.0
ALERTS_MAX = 5
BAD = frozenset({"process_stale", "action_failed", "query_failed"})
Lock = tuple[RuleRow, Mapping[str, Any]]


def interlocks(found: Sequence[Lock], now_s: float, zone_min: int) -> list[Component]:
    """Rules that act first, those that are off last."""
    order = {"auto": 0, "propose": 1, "off": 2}
    ranked = sorted(found, key=lambda lock: (order.get(lock[0].mode, 3), lock[0].name))
    if not ranked:
        return [
            states.empty("No rule is for this query", "Rules are added on the Rules page.", "scale")
        ]
    asked = [_lock(row, lock, now_s, zone_min) for row, lock in ranked if row.mode != "off"]
    off = [row.name for row, _ in ranked if row.mode == "off"]
    return [*asked, _off(off)] if off else asked


def _off(names: Sequence[str]) -> Component:
    """All that are off in one line: they are not what holds anything up."""
    text = f"{counted(len(names), 'rule')} off: {', '.join(names)}"
    return d(d(icon("ban"), s(text), c="il-by"), c="il")


def _lock(row: RuleRow, lock: Mapping[str, Any], now_s: float, zone_min: int) -> Component:
    blockers = list(lock.get("blockers", ()))
    ic, text, tone = _first(row, lock, blockers)
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 and row.mode != "off" else ""
    return d(
        d(
            link(row.name, f"/rules?rule={row.name}", "il-n"),
            chip(row.mode, f"mode-{row.mode}"),
            s(_next(lock, blockers, now_s, zone_min), c=f"il-next {tone}"),
            c="il-top",
        ),
        d(icon(ic), s(text + more), c="il-by"),
        c="il",
    )


def _first(
    row: RuleRow, lock: Mapping[str, Any], blockers: Sequence[Mapping[str, Any]]
) -> tuple[str, str, str]:
    """What holds it most: what a person must see to first, what only time brings last."""
    if lock.get("error"):
        return "triangle-alert", str(lock["error"]), "dim"
    if row.mode == "off":
        return "ban", "off: it is not even asked", "dim"
    if not blockers:
        return "eye", lock.get("fallback") or "armed: it is asked at its next turn", "ready"
    rank = {"open_proposal": 0, "stopped": 1, "hold": 2, "budget": 3, "query": 4, "engine_stale": 5}
    first = min(blockers, key=lambda b: (rank.get(b["why"], 6), b["why"] == "not_due"))
    by_person = first["why"] in ("open_proposal", "stopped", "hold")
    ready = [b for b in blockers if b["why"] != "not_due"] == []
    tone = "ready" if ready else ""
    ic = "clock" if ready else "user" if by_person else "lock"
    text = "armed; asked at its next turn" if ready else str(first["text"])
    return ic, text, tone


def _next(
    lock: Mapping[str, Any], blockers: Sequence[Mapping[str, Any]], now_s: float, zone_min: int
) -> str:
    at = lock.get("next_eligible_s")
    if any(b["why"] == "off" for b in blockers):
        return "off"
    if at is None:
        return "" if lock.get("error") else "not known"
    left = at - now_s
    if left <= 0:
        return "now"
    return f"in {ahead(left)}" if left < SOON_S else clock(at, zone_min, seconds=False)


def alerts(found: Sequence[Alert], now_s: float) -> list[Component]:
    """Those that nobody has silenced; the worst first, then the newest."""
    heard = [alert for alert in found if alert.silenced_until_s <= now_s]
    if not heard:
        return [d(icon("check"), s("none", c="al-t"), c="al dim")]
    ranked = sorted(heard, key=lambda a: (a.kind not in BAD, -a.since_s))
    shown = [_alert(alert, now_s) for alert in ranked[:ALERTS_MAX]]
    if len(ranked) > ALERTS_MAX:
        shown.append(d(s(f"and {len(ranked) - ALERTS_MAX} more", c="al-t dim"), c="al"))
    return shown


def _alert(alert: Alert, now_s: float) -> Component:
    by = f" · seen by {alert.acknowledged_by}" if alert.acknowledged_by else ""
    what = KINDS[alert.kind].help if alert.kind in KINDS else alert.kind
    bad = alert.kind in BAD
    return d(
        icon("octagon-x" if bad else "triangle-alert"),
        d(s(alert.subject, c="b"), s(f" {alert.text}{by}"), c="al-t", title=what),
        s(f"for {duration(now_s - alert.since_s)}", c="al-s"),
        c=f"al{' fail' if bad else ''}",
    )


def said(
    row: RuleRow, lock: Mapping[str, Any], now_s: float, zone_min: int
) -> tuple[str, str, str, str]:
    """For a rule's own page: icon, what holds it most, tone, and when it may next."""
    blockers = list(lock.get("blockers", ()))
    ic, text, tone = _first(row, lock, blockers)
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 and row.mode != "off" else ""
    return ic, text + more, tone, _next(lock, blockers, now_s, zone_min)
