"""What the page of rules reads: which rule is meant, what its text says, what it came to, what the day took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from app.desk import feed
from app.feed import Feed
from app.pages.page import Seen
from app.parts import parts
from control.errors import ControlError
from control.handling.plans import DayBudget, day_budget
from control.ledger import Evaluation, RuleRow, Used

DAY_S = 86_400.0
LOG_MAX = 60
FIRED = ("acted", "proposed")
FIRED_READ_MAX, FIRED_S = 2_000, 15.0


def rule_of(text: str) -> Mapping[str, Any]:
    return feed().kept(("rule", text), DAY_S, lambda: parts().advice.rule(text))


def chosen_of(rows: Sequence[RuleRow], chosen: Any, query: str) -> str:
    """The chosen one; without one that which does most on the query that is looked at."""
    names = [row.name for row in rows]
    if chosen in names:
        return str(chosen)
    order = {mode: n for n, mode in enumerate(("auto", "propose", "off"))}
    ranked = sorted(
        rows, key=lambda row: (not _covers(row, query), order.get(row.mode, 3), row.name)
    )
    return ranked[0].name if ranked else ""


def _covers(row: RuleRow, query: str) -> bool:
    try:
        return rule_of(row.text)["query"] in ("*", query)
    except ControlError:
        return False


def fired(found: Feed, seen: Seen) -> Mapping[str, int]:
    def read() -> Mapping[str, int]:
        rows = parts().store.rules.evaluations(since_s=seen.now_s - DAY_S, most=FIRED_READ_MAX)
        return Counter(
            {name: sum(r.times for r in rows if r.rule == name and r.outcome in FIRED)
             for name in {r.rule for r in rows}}
        )  # fmt: skip

    return found.kept("rules-fired", FIRED_S, read)


def evaluations(row: RuleRow) -> list[Evaluation]:
    return feed().kept(
        ("evaluations", row.name), 2.0,
        lambda: parts().store.rules.evaluations(rule=row.name, most=LOG_MAX),
    )  # fmt: skip


def day(found: Feed, seen: Seen) -> tuple[Used, DayBudget]:
    """What the last 24 hours took, and may take."""
    store = parts().store
    most: DayBudget = found.kept("day", 5.0, lambda: day_budget(store))
    used = found.kept("used", 5.0, lambda: store.actions.used(seen.now_s - DAY_S))
    return used, most
