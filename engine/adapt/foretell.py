"""What an action is predicted to take, for a report that is written without a console: as a proposal's preview has it.

Only where somebody asked for a report: to predict takes longer than to decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control.cost.coefficients import Coefficients, LocalRule
from control.plans import Plan
from control.predict import preview
from control.snapshot import ClusterSnapshot

STEP = ("gain_row_s", "cost_row_s", "p10_row_s", "p50_row_s", "p90_row_s", "chance", "figures", "coefficients")  # fmt: skip
ORDER = ("join_order", "strategy", "recommended", "before", "after", "state", "strategies", "window_s", "text")  # fmt: skip


def foretold(
    plan: Plan, now: ClusterSnapshot, numbers: Coefficients, rule: LocalRule
) -> list[dict[str, Any]]:
    """Of each step: gain, cost, how sure; what can be measured afterwards under `figures`."""
    return [_step(told) for told in preview(plan, now, numbers, rule=rule)["steps"]]


def _step(told: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: told[name] for name in STEP if name in told}
    order = told.get("migration")
    if order is not None:
        found["migration"] = {name: order[name] for name in ORDER}
    return found
