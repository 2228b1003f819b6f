"""The ranked menu: order, what is in it, and that its figures are those of the previews."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.arbiter import judge
from control.cost.coefficients import Coefficients, LocalRule
from control.limits import OPEN, Limits
from control.menu import forecast, menu
from control.plans import plan_from_json
from control.predict import preview
from control.snapshot import NO_LIMIT, ClusterSnapshot, History
from tests.control.cost_example import EXAMPLE, example
from tests.control.fluid.workloads import classes
from tests.control.fluid.world import World
from tests.control.large import large
from tests.control.made import MB, cluster, snapshots

NUMBERS = Coefficients()


@given(snapshots(), st.integers(1, 8))
def test_best_first_with_nothing_among_them(snapshot: ClusterSnapshot, most: int) -> None:
    entries = menu(snapshot, NUMBERS, OPEN, most=most)
    assert [entry["rank"] for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) <= most
    gains = [entry["gain_row_s"] for entry in entries]
    assert gains == sorted(gains, reverse=True)
    assert [entry["gain_row_s"] for entry in entries if entry["do"] == "nothing"] == [0.0]
    assert json.loads(json.dumps(entries, allow_nan=False)) == entries


@given(snapshots(), st.integers(1, 60))
def test_whatever_is_in_it_can_be_proposed_as_it_stands(
    snapshot: ClusterSnapshot, most_mb: int
) -> None:
    limits = Limits(action_bytes_max=most_mb * MB, receiver_fill_max=0.9)
    for entry in menu(snapshot, NUMBERS, limits):
        if entry["do"] == "nothing":
            continue
        plan = plan_from_json(entry["plan"])
        assert judge(plan, snapshot, (), limits).accepted
        told = preview(plan, snapshot, NUMBERS)["whole"]
        loses = entry["verdict"] == "loses against doing nothing"
        assert loses == (entry["gain_row_s"] <= 0)
        assert entry["pays"] or loses or "twice" in entry["verdict"]
        for name in ("gain_row_s", "cost_row_s", "chance", "p10_row_s", "p90_row_s"):
            assert told[name] == pytest.approx(entry[name])


def test_the_worked_example_moves_what_helps_most_and_shows_what_does_not() -> None:
    entries = menu(example(), EXAMPLE, OPEN, LocalRule(1.0, 30))
    first = entries[0]
    assert (first["do"], first["node"], first["to"]) == ("move", 0, 1)
    assert 35 * MB <= first["bytes"] <= 55 * MB
    assert first["pays"] and first["chance"] >= 0.8
    assert "gains" in first["verdict"]
    spill = next(entry for entry in entries if entry["do"] == "spill")
    assert spill["gain_row_s"] < first["gain_row_s"] / 2 and spill["owed_rows"] > 0
    nothing = next(entry for entry in entries if entry["do"] == "nothing")
    assert nothing["full"][0]["node"] == 0
    assert nothing["full"][0]["full_s"] == pytest.approx(40, abs=0.5)
    assert "node 0 is full in 40 s" in nothing["text"]


def test_on_shared_cores_it_says_that_moving_for_load_gains_nothing() -> None:
    entries = menu(example(), Coefficients(cores=2.0), OPEN)
    assert "moving for load gains nothing" in next(
        e["text"] for e in entries if e["do"] == "nothing"
    )


@given(st.floats(0.4, 0.9), st.integers(1, 4))
def test_the_forecast_is_when_the_simulator_gets_there(share: float, nodes: int) -> None:
    work = classes(nodes * 6, nodes * 500.0, 30_000, (1, 2, 4))
    owner = (np.arange(nodes * 6) % nodes).astype(np.int64)
    world = World(work, owner, np.full(nodes, 30 * MB))
    while world.memory_bytes.max() < share * 0.6 * 30 * MB:
        world.advance(5.0)
    for _ in range(60):  # so that decayed rates have settled
        world.advance(5.0)
    told = forecast(world.snapshot(History()), NUMBERS, LocalRule(0.95, 30))
    start = world.time_s
    reached: dict[int, float] = {}
    while len(reached) < nodes and world.time_s - start < 4000:
        for node in np.flatnonzero(world.memory_bytes >= 0.95 * 30 * MB).tolist():
            reached.setdefault(node, world.time_s - start)
        world.advance(1.0)
    for node, seconds in enumerate(told):
        assert seconds == pytest.approx(reached[node], rel=0.08, abs=6)


def test_the_forecast_with_a_window_comes_to_rest() -> None:
    """βW = 100 MB: a budget above it is never reached, one below it is."""
    from control.snapshot import Operator

    def told(budget: int) -> float | None:
        snapshot = cluster(
            [[50 * MB]],
            budget=budget * MB,
            bytes_per_s=MB,
            operators=(Operator("join", 2, 1, 100.0),),
        )
        return forecast(snapshot, NUMBERS, LocalRule(1.0, 30))[0]

    assert told(101) is None
    seconds = told(75)
    assert seconds == pytest.approx(100 * np.log(2), rel=0.02)  # 100 − 50·e^(−t/100) = 75
    assert told(50) == 0.0


def test_who_is_down_or_has_no_budget_never_fills() -> None:
    snapshot = cluster([[MB], [MB]], budget=2 * MB, bytes_per_s=MB, nodes={"alive": [False, True]})
    assert forecast(snapshot, NUMBERS)[0] is None
    endless = cluster([[MB]], budget=NO_LIMIT, bytes_per_s=MB)
    assert forecast(endless, NUMBERS) == [None]


@pytest.mark.bench
@pytest.mark.parametrize("room", [0.3, 0.8, 1.2])
def test_milliseconds_of_the_menu(room: float) -> None:
    taken = []
    for _ in range(5):
        snapshot = large(room, nodes=100, groups=10_000)
        start = time.perf_counter()
        menu(snapshot, NUMBERS, OPEN)
        taken.append(time.perf_counter() - start)
    least = min(taken)  # others may be at work on the same cores
    print(f"menu of 100 nodes × 10 000 groups, room {room}: {least * 1000:.0f} ms")
    assert least < 0.2
