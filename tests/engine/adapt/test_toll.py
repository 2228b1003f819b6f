"""Of a migration by each strategy: what was predicted beside what it took, by the same names, and what is learned of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from control.actions import State
from control.learn import BASE, compared, estimates_from, lesson
from control.ledger import ActionRow
from control.migration.calibrate import BESIDE_CPU_S, ORDER_CPU_S
from control.migration.strategies import ESTIMATES
from control.requests import Request
from engine.adapt.derive import Derived, Onto, Resort
from engine.adapt.toll import Toll
from engine.state.files import Tiers
from tests.engine.adapt.costs import JOBS, SORTS
from tests.engine.adapt.feeds import NEW, WINDOW_S, Feed, fed
from tests.engine.local import LocalSide

COMMON = {"bytes", "seconds", "pause_s", "tick_s"}


def migrated(feed: Feed, strategy: str, folder: Path) -> dict[str, Any]:
    """The action as the report has it."""
    feed.desk.records.report = folder / "report.json"
    side = feed.desk._runs.side
    assert isinstance(side, LocalSide)
    feed.desk.jobs_apart = True  # as with much state
    feed.ticks(40)
    feed.desk.ask(Request("migrate", 0, order=NEW, strategy=strategy), "test")
    feed.ticks(int(WINDOW_S) + 20)
    feed.desk.records.write()
    (action,) = json.loads(feed.desk.records.report.read_text())["actions"]
    assert action["state"] == State.DONE.value, action["note"]
    found: dict[str, Any] = action
    return found


@pytest.mark.parametrize("strategy", list(ESTIMATES))
def test_predicted_and_actual_have_the_same_names(strategy: str, tmp_path: Path) -> None:
    with fed() as feed:
        action = migrated(feed, strategy, tmp_path)
        predicted, actual = action["predicted"]["figures"], action["actual"]
        assert set(predicted) >= COMMON and set(actual) >= COMMON
        told = action["predicted"]["migration"]
        assert told["join_order"] == NEW and told["strategy"] == strategy
        assert action["predicted"]["gain_row_s"] == told["strategies"][strategy]["gain_row_s"]
        mine = JOBS & set(predicted)
        assert (mine == set()) == (strategy == "parallel")
        assert mine <= set(actual)
        for name in mine:
            assert actual[name] > 0, name
        if predicted.get("sort_rows"):
            assert set(actual) >= SORTS
        learned(action)
        assert actual["pause_s"] <= actual["seconds"]
        if strategy == "parallel":
            assert actual["pause_s"] == 0.0 and actual["bytes"] > 0


def learned(action: dict[str, Any]) -> None:
    """Whoever compares them finds them, and the estimates move towards what was measured."""
    row = ActionRow(
        "a", "q", action, "ann", "done", 0.0, 1.0, 1,
        predicted=action["predicted"], actual=action["actual"],
    )  # fmt: skip
    lines, after = lesson(row, estimates_from({}), 5.0)
    names = {line.figure for line in lines}
    assert "tick_s" in names
    if action["step"]["strategy"] != "parallel":
        beside = set() if action["step"]["at_once"] else {"side_cores", "job_s"}
        assert {"recompute_cpu_s", "swap_s"} | beside <= names
    for line in lines:
        was = getattr(BASE, line.coefficient)
        assert (line.after > was) == (line.actual > line.predicted) or line.actual == line.predicted
        assert after[line.coefficient].count == 1
    assert {one["figure"] for one in compared(row)} >= {"seconds", "pause_s", "bytes"}


@pytest.mark.parametrize("window_s", [2.0, 8.0, 24.0])
def test_rows_to_compute_are_foretold(window_s: float, tmp_path: Path) -> None:
    """Read and made: by the model before, counted afterwards. What is over is known a tick later, and goes run by run:
    that is much of a short window, and little of a long one."""
    with fed(window_s=window_s) as feed:
        action = migrated(feed, "moving", tmp_path)
        predicted, actual = action["predicted"]["figures"], action["actual"]
        for name in ("recompute_rows", "sort_rows"):
            assert predicted[name] == pytest.approx(actual[name], rel=0.15), name


def test_a_toll_adds_up() -> None:
    """Nodes work side by side: the longest counts; of what a tick waits for, nothing is the job's."""
    toll = Toll()
    assert toll.figures(1.0) == {}
    toll.job({0: [(0.2, 0.5), (0.1, 0.5)], 1: [(0.3, 0.4)]}, 1.3, at_once=False)
    toll.job({0: [(0.1, 1.0)]}, 1.5, at_once=False)
    toll.job({0: [(0.1, 0.25)]}, 9.0, at_once=True)
    toll.swaps = 1
    found = toll.figures(0.75)
    assert found == {
        "job_s": pytest.approx((1.3 - 1.0 + 1.5 - 1.0) / 2),
        "side_cores": pytest.approx(0.7 / 2.0),
        "swap_s": 0.5,
    }


def test_what_an_order_takes_whatever_its_rows_is_not_theirs() -> None:
    toll, onto = Toll(), Onto((), 1, (), (0,), Tiers("", "", 1), 0)
    order = Resort((), onto.tiers, onto)
    toll.made(order, Derived({}, 0), ORDER_CPU_S + 0.05, at_once=True)
    assert toll.sort_cpu_s == pytest.approx(0.05)
    toll.made(order, Derived({}, 0), BESIDE_CPU_S, at_once=False)
    assert toll.sort_cpu_s == pytest.approx(0.05 + BESIDE_CPU_S / 10)


def test_without_a_report_nothing_is_predicted() -> None:
    with fed() as feed:
        feed.ticks(5)
        feed.desk.ask(Request("budget", 0, bytes=50_000_000), "test")
        assert feed.desk.records.actions and not feed.desk.records.predicted
