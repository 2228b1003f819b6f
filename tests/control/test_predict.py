"""Previews: exact figures of plans against the cost model's, sums that must hold, plain JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.exact import exact
from control.cost.options import Option, price
from control.cost.outlook import look
from control.cost.recalibrate import CORRECTS
from control.errors import PlanError
from control.plans import (
    Cleanup,
    Migrate,
    Move,
    Part,
    Plan,
    Reason,
    SetBudget,
    Spill,
    Step,
    Topic,
    move_of,
    spill_of,
)
from control.policies import victims
from control.policies.best_gain import rows_of, step_of
from control.predict import preview
from control.snapshot import ClusterSnapshot
from tests.control.cost_example import EXAMPLE, PLAIN, RULE, example
from tests.control.made import MB, snapshots
from tests.control.predicted import steps_of

NUMBERS = Coefficients()


def plan(*steps: Step) -> Plan:
    return Plan(steps, (Reason.of(Topic.CHOSEN, "a test asks for it"),))


@pytest.mark.parametrize(
    ("option", "million_row_s"),
    [
        (Option("spill", 0, bytes=60 * MB), 322),
        (Option("move", 0, 1, 60 * MB), 110),
        (Option("move", 0, 1, 45 * MB), 28),
        (Option("move", 0, 1, 15 * MB), 114),
    ],
)
def test_exact_steps_cost_what_amounts_do(option: Option, million_row_s: float) -> None:
    """cost.md's worked example, told group by group instead of by bytes."""
    outlook = look(example(), EXAMPLE, PLAIN, RULE)
    step = step_of(outlook.snapshot, option, rows_of(outlook, option))
    found, by_amount = exact(outlook, (step,)), price(outlook, [option])[0]
    after = float(outlook.nothing.row_s[0]) - found.gain_row_s
    assert after / 1e6 == pytest.approx(million_row_s, abs=2)
    assert found.gain_row_s == pytest.approx(by_amount.gain_row_s, rel=0.02)
    assert found.cost_row_s == pytest.approx(by_amount.cost_row_s, rel=0.01)


@given(snapshots(), st.integers(0, 2**32 - 1))
def test_nothing_gets_lost_in_a_preview(snapshot: ClusterSnapshot, seed: int) -> None:
    steps = steps_of(snapshot, seed)
    told = preview(plan(*steps), snapshot, NUMBERS)
    before, after = (
        {
            tier: sum(node[when][f"{tier}_bytes"] for node in told["nodes"])
            for tier in ("memory", "disk")
        }
        for when in ("before", "after")
    )
    whole = told["whole"]
    assert after["memory"] == before["memory"] - whole["memory_freed_bytes"]
    assert after["disk"] == before["disk"] + whole["disk_added_bytes"]
    assert whole["bytes"] == sum(step["bytes"] for step in told["steps"])
    for name in ("pause_s", "duration_s", "cpu_s", "owed_rows"):
        assert whole[name] == pytest.approx(sum(step[name] for step in told["steps"]))


@given(snapshots(), st.integers(0, 2**32 - 1))
def test_a_preview_is_plain_json_and_always_the_same(snapshot: ClusterSnapshot, seed: int) -> None:
    steps = steps_of(snapshot, seed)
    told = preview(plan(*steps), snapshot, NUMBERS, seed=3)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert preview(plan(*steps), snapshot, NUMBERS, seed=3) == told
    assert told["gain"] == "model"
    whole = told["whole"]
    assert whole["p10_row_s"] <= whole["p50_row_s"] <= whole["p90_row_s"]
    assert 0 <= whole["chance"] <= 1


@given(snapshots(), st.integers(0, 2**32 - 1))
def test_figures_bear_the_names_that_teach(snapshot: ClusterSnapshot, seed: int) -> None:
    wanted = {
        "move": {"move_cpu_s", "move_bandwidth", "tick_s"},
        "spill": {"spill_cpu_s", "tick_s"},
        "cleanup": {"cleanup_read_cpu_s", "cleanup_join_cpu_s", "cleanup_rows", "tick_s"},
        "budget": {"tick_s"},
    }
    for step in preview(plan(*steps_of(snapshot, seed)), snapshot, NUMBERS)["steps"]:
        assert set(step["figures"]) & set(CORRECTS) == wanted[step["do"]]
        assert {"bytes", "seconds", "pause_s"} <= set(step["figures"])
        assert step["coefficients"]["write_s_per_byte"] == NUMBERS.write_s_per_byte


@given(snapshots())
def test_a_budget_set_to_what_it_is_changes_nothing(snapshot: ClusterSnapshot) -> None:
    same = SetBudget(0, int(snapshot.nodes.budget_bytes[0]))
    told = preview(plan(same), snapshot, NUMBERS)
    assert told["whole"]["gain_row_s"] == pytest.approx(0, abs=1e-6)
    assert told["nodes"][0]["before"] == told["nodes"][0]["after"]


def test_a_migration_costs_what_is_sorted_anew_and_a_wait() -> None:
    told = preview(plan(Migrate("((a c) b)", "moving", 10)), example(), EXAMPLE)
    assert told["steps"][0]["do"] == "migrate" and told["steps"][0]["nodes"] == []
    waits = 80e3 * (2 * EXAMPLE.tick_s) ** 2 / 2  # all results, for two ticks
    assert told["whole"]["gain_row_s"] == pytest.approx(-waits, rel=1e-3)
    assert told["whole"]["pause_s"] == 2 * EXAMPLE.tick_s


def test_less_budget_loses_and_more_gains() -> None:
    gains = [
        preview(plan(SetBudget(0, budget * MB)), example(), EXAMPLE)["whole"]["gain_row_s"]
        for budget in (150, 200, 400)
    ]
    assert gains[0] < gains[1] == pytest.approx(0, abs=1e-3)
    assert gains[2] > 0


def test_steps_that_need_each_other_are_priced_together() -> None:
    """Two moves off a node that overflows: together they gain less than each alone added up."""
    snapshot = example()
    rows = victims.in_order(snapshot, snapshot.on(0), victims.MOST_DECAYED)
    moves = [move_of(snapshot, np.sort(some), 0, 1) for some in (rows[:40], rows[40:80])]
    told = preview(plan(*moves), snapshot, EXAMPLE)
    alone = sum(step["gain_row_s"] for step in told["steps"])
    assert told["whole"]["gain_row_s"] < alone


def test_a_drain_of_many_steps_has_no_quantiles_for_each() -> None:
    snapshot = example()
    rows = np.array_split(snapshot.on(0), 20)
    told = preview(plan(*(move_of(snapshot, some, 0, 1) for some in rows)), snapshot, EXAMPLE)
    assert all("chance" not in step and "gain_row_s" in step for step in told["steps"])
    assert "chance" in told["whole"]
    assert told["nodes"][0]["after"]["memory_bytes"] == 0


@pytest.mark.parametrize(
    "step",
    [
        Spill((Part("join", (999,)),), 0, 1),
        Cleanup((Part("other", (0,)),), 0, 1),
        Move((Part("join", (-1,)),), 0, 1, 1),
    ],
)
def test_a_group_that_is_not_there_is_named(step: Any) -> None:
    with pytest.raises(PlanError, match="no group"):
        preview(plan(step), example(), NUMBERS)


@given(st.floats(0.5, 1.0), st.floats(60, 600))
def test_a_spill_that_overflow_would_do_anyway_costs_what_it_delays(
    threshold: float, horizon_s: float
) -> None:
    """Cost counts what is put off from now to the horizon, whatever the rule does later."""
    snapshot = example()
    rows = victims.in_order(snapshot, snapshot.on(0), victims.LEAST_DECAYED)[:30]
    told = preview(
        plan(spill_of(snapshot, np.sort(rows), 0)),
        snapshot,
        EXAMPLE,
        rule=LocalRule(threshold, 30),
        horizon=Horizon(horizon_s, charge_after=False),
    )
    step = told["steps"][0]
    assert step["cost_row_s"] >= step["owed_row_s"] > 0
    assert step["memory_freed_bytes"] == 30 * MB
