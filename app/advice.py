"""Advice worked out from what is recorded, by control/'s pure functions: menu, forecast, interlock, backtest."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from app.problems import Problem
from control.handling.base import Ports
from control.handling.plans import day_budget, limits_for
from control.interlock import facts, interlock, interlock_to_json
from control.kinds import Asked
from control.learn import numbers
from control.menu import forecast, menu
from control.orders import better_orders, priced_order
from control.people import Actor, Role, Source
from control.plans import AUTO
from control.ports import Store
from control.rules import rule_from, rule_to_json
from control.samples import Sample
from control.simulate.backtest import Setting, backtest, recorded

BUSY_S = 5.0
ASKER = Actor(
    "", Role.OPERATOR, Source.CONSOLE
)  # the menu is for people: half the day is not kept from it


class RecordedAdvice:
    """Reads the store each time, and keeps nothing of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._one_backtest = threading.Lock()  # it takes seconds of a core

    def menu(self, sample: Sample, now_s: float, most: int) -> list[dict[str, Any]]:
        asked = Asked("propose", {}, ASKER, sample.query, now_s)
        limits = limits_for(Ports(self._store, lambda: ""), asked)
        return menu(sample.snapshot, numbers(self._store), limits, most=most)

    def forecast(self, sample: Sample) -> list[float | None]:
        return forecast(sample.snapshot, numbers(self._store))

    def orders(self, sample: Sample) -> list[dict[str, Any]]:
        """Better join orders, best gain first; empty where nothing is known of the joins."""
        return better_orders(sample.snapshot, numbers(self._store))

    def order(self, sample: Sample, text: str, strategy: str = AUTO) -> dict[str, Any]:
        """One that somebody types. PlanError says what is wrong with it, with the column."""
        return priced_order(sample.snapshot, numbers(self._store), text, strategy)

    def rule(self, text: str) -> Mapping[str, Any]:
        return rule_to_json(rule_from(text))

    def interlock(self, rule: str, query: str, now_s: float) -> Mapping[str, Any]:
        """Empty for a rule that is not for this query."""
        row = self._store.rules.find(rule)
        if row is None:
            raise Problem("missing", f"There is no rule {rule!r}.")
        parsed = rule_from(row.text)
        if not parsed.covers(query):
            return {}
        found = interlock(parsed, facts(self._store, row, query, now_s))
        return {"query": query, **interlock_to_json(found)}

    def backtest(self, text: str, query: str, since_s: float, until_s: float) -> Mapping[str, Any]:
        """One at a time."""
        rule = rule_from(text)
        most = day_budget(self._store)
        setting = Setting(numbers(self._store), daily_bytes=most.bytes, daily_pause_s=most.pause_s)
        if not self._one_backtest.acquire(blocking=False):
            raise Problem("unavailable", "Another backtest is running.", retry_s=BUSY_S)
        try:
            return backtest(rule, recorded(self._store, query, since_s, until_s), setting)
        finally:
            self._one_backtest.release()
