"""Advice worked out from what is recorded, by control/'s pure functions: menu, forecast, interlock, backtest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.problems import Problem
from control.handling.base import Ports
from control.handling.plans import limits_for
from control.interlock import facts, interlock, interlock_to_json
from control.kinds import Asked
from control.learn import numbers
from control.menu import forecast, menu
from control.people import Actor, Role, Source
from control.ports import Store
from control.rules import rule_from, rule_to_json
from control.samples import Sample

EVERY = "*"
ASKER = Actor(
    "", Role.OPERATOR, Source.CONSOLE
)  # the menu is for people: half the day is not kept from it


class RecordedAdvice:
    """Reads the store each time, and keeps nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _newest(self, query: str) -> Sample:
        sample = self._store.metrics.newest(query)
        if sample is None:
            raise Problem("missing", f"Nothing is recorded of query {query!r} yet.")
        return sample

    def menu(self, query: str, now_s: float, most: int) -> Mapping[str, Any]:
        sample = self._newest(query)
        asked = Asked("propose", {}, ASKER, query, now_s)
        limits = limits_for(Ports(self._store, lambda: ""), asked)
        return {"items": menu(sample.snapshot, numbers(self._store), limits, most=most)}

    def forecast(self, query: str, now_s: float) -> Mapping[str, Any]:
        sample = self._newest(query)
        full = forecast(sample.snapshot, numbers(self._store))
        return {"time_s": sample.time_s, "full_in_s": full}

    def rule(self, text: str) -> Mapping[str, Any]:
        return rule_to_json(rule_from(text))

    def interlock(self, rule: str, query: str, now_s: float) -> Mapping[str, Any]:
        """Empty for a rule that is not for this query."""
        row = self._store.rules.find(rule)
        if row is None:
            raise Problem("missing", f"There is no rule {rule!r}.")
        parsed = rule_from(row.text)
        if parsed.query not in (EVERY, query):
            return {}
        found = interlock(parsed, facts(self._store, row, query, now_s))
        return {"query": query, **interlock_to_json(found)}

    def backtest(self, text: str, query: str, since_s: float, until_s: float) -> Mapping[str, Any]:
        raise Problem("unavailable", "not yet", retry_s=60)
