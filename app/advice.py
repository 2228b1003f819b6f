"""Advice worked out from what is recorded, by control/'s pure functions: menu, forecast, interlock, backtest.

What depends on a sample alone is worked out once for it, whoever asks; all of it is metered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from app.meter import Meter
from app.problems import Problem
from app.turns import Turns
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

T = TypeVar("T")
BUSY_S = 5.0
MADE_MAX = 256
ASKER = Actor(
    "", Role.OPERATOR, Source.CONSOLE
)  # the menu is for people: half the day is not kept from it


class RecordedAdvice:
    """Reads the store each time. `meter` limits what may be worked out for one asker: who that is, `asker` says;
    None is the console itself."""

    def __init__(
        self, store: Store, meter: Meter, asker: Callable[[], str | None] = lambda: None
    ) -> None:
        self._store, self._meter, self._asker = store, meter, asker
        self._one_backtest = threading.Lock()  # it takes seconds of a core
        self._made: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._turns = Turns()

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of the same inputs, as long as it is among the newest. Shared: nobody changes it."""
        with self._turns.of(key):
            with self._lock:
                if key in self._made:
                    self._made.move_to_end(key)
                    return self._made[key]  # type: ignore[no-any-return]
            with self._metered():
                made = make()
            with self._lock:
                self._made[key] = made
                while len(self._made) > MADE_MAX:
                    self._made.popitem(last=False)
            return made

    def _metered(self) -> AbstractContextManager[None]:
        asker = self._asker()
        return nullcontext() if asker is None else self._meter.metered(asker)

    def menu(self, sample: Sample, now_s: float, most: int) -> list[dict[str, Any]]:
        asked = Asked("propose", {}, ASKER, sample.query, now_s)
        limits = limits_for(Ports(self._store, lambda: ""), asked)
        known = numbers(self._store)
        key = ("menu", *_of(sample), known, limits, most)
        return self._once(key, lambda: menu(sample.snapshot, known, limits, most=most))

    def forecast(self, sample: Sample) -> list[float | None]:
        known = numbers(self._store)
        return self._once(
            ("forecast", *_of(sample), known), lambda: forecast(sample.snapshot, known)
        )

    def orders(self, sample: Sample) -> list[dict[str, Any]]:
        """Better join orders, best gain first; empty where nothing is known of the joins."""
        known = numbers(self._store)
        return self._once(
            ("orders", *_of(sample), known), lambda: better_orders(sample.snapshot, known)
        )

    def order(self, sample: Sample, text: str, strategy: str = AUTO) -> dict[str, Any]:
        """One that somebody types. PlanError says what is wrong with it, with the column."""
        known = numbers(self._store)
        key = ("order", *_of(sample), known, text, strategy)
        return self._once(key, lambda: priced_order(sample.snapshot, known, text, strategy))

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
        with self._metered():
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
            with self._metered():
                return backtest(rule, recorded(self._store, query, since_s, until_s), setting)
        finally:
            self._one_backtest.release()


def _of(sample: Sample) -> tuple[str, int, float]:
    """What tells a sample from all others of its store."""
    return sample.query, sample.version, sample.time_s
