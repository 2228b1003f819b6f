"""Advice worked out from what is recorded, by control/'s pure functions: menu, forecast, interlock, backtest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.problems import Problem
from control.cost.coefficients import Coefficients
from control.limits import Limits
from control.menu import forecast, menu
from control.ports import Store
from control.rules import rule_from, rule_to_json
from control.samples import Sample

DAY_S = 86_400.0


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
        items = menu(sample.snapshot, Coefficients(), Limits(), most=most)
        return {"items": items}

    def forecast(self, query: str, now_s: float) -> Mapping[str, Any]:
        sample = self._newest(query)
        full = forecast(sample.snapshot, Coefficients())
        return {"time_s": sample.time_s, "full_in_s": full}

    def rule(self, text: str) -> Mapping[str, Any]:
        return rule_to_json(rule_from(text))

    def interlock(self, rule: str, query: str, now_s: float) -> Mapping[str, Any]:
        raise Problem("unavailable", "not yet", retry_s=60)

    def backtest(self, text: str, query: str, since_s: float, until_s: float) -> Mapping[str, Any]:
        raise Problem("unavailable", "not yet", retry_s=60)
