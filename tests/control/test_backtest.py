"""Backtests: the replayed world keeps what was recorded, and a rule that really ran is found again in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.actions import State
from control.ledger import ActionRow
from control.plans import move_of, spill_of, step_to_json
from control.policies.local_spill import LocalSpill
from control.rules import rule_from
from control.simulate.backtest import Fired, Setting, backtest, recorded, through
from control.simulate.replay import Replay
from tests.control.agree import agreement, replay_agreement
from tests.control.drifting import MB, drift, even, record
from tests.control.fluid.workloads import classes
from tests.control.fluid.world import World
from tests.control.stage import QUERY, START_S, Stage


def test_left_alone_a_replay_is_what_was_recorded() -> None:
    shots = record(drift(1), [n % 4 for n in range(32)], 4000 * MB, 12)
    world = Replay(shots[0], None)
    for shot in shots[1:]:
        world.enter(shot)
        while world.now_s < shot.time_s:
            world.advance(min(world.now_s + 15, shot.time_s))
        now = world.snapshot()
        assert np.allclose(now.groups.memory_bytes, shot.groups.memory_bytes, atol=2)
        assert np.allclose(now.nodes.memory_bytes, shot.nodes.memory_bytes, atol=20)
        assert np.allclose(now.groups.bytes_per_s, shot.groups.bytes_per_s)
        assert (now.groups.rows_out_per_s >= 0).all()
    assert world.delay_row_s == pytest.approx(0, abs=1e-3)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.lists(st.integers(0, 99), min_size=1, max_size=12), st.booleans())
def test_state_is_neither_lost_nor_made_by_what_is_done(
    seed: int, choices: list[int], windowed: bool
) -> None:
    """Whatever is moved and spilled, each group has as much state as was recorded."""
    work = replace(drift(seed, 16), window_s=300.0 if windowed else None)
    shots = record(work, [n % 2 for n in range(16)], 4000 * MB, len(choices) + 1)
    world = Replay(shots[0], None)
    for shot, choice in zip(shots[1:], choices, strict=True):
        world.enter(shot)
        now, row = world.snapshot(), np.array([choice % 16])
        node = int(now.groups.owner[row[0]])
        if choice % 3 == 0:
            world.carry_out(spill_of(now, row, node))
        elif not now.groups.spilled[row[0]]:
            world.carry_out(move_of(now, row, node, 1 - node))
        while world.now_s < shot.time_s:
            world.advance(min(world.now_s + 15, shot.time_s))
        whole = world.memory + world.disk
        kept = shot.groups.memory_bytes + shot.groups.disk_bytes
        assert np.allclose(whole, kept, rtol=1e-6, atol=5)
        assert (world.memory >= 0).all() and (world.disk >= 0).all() and (world.owed >= 0).all()
        assert world.memory_bytes().sum() == pytest.approx(world.memory.sum())


def test_what_is_owed_after_a_spill_is_what_the_physics_owe() -> None:
    work = classes(12, 1200.0, 60_000, (1, 2, 4), streams=3)
    shots = record(work, [0] * 12, 4000 * MB, 20)
    world, physics = Replay(shots[9], None), World(work, np.zeros(12, int), np.array([4000 * MB]))
    for _ in range(600):
        physics.advance(1.0)
    rows = np.arange(6)
    step = spill_of(shots[9], rows, 0)
    world.carry_out(step)
    physics.spill(rows)
    for shot in shots[10:]:
        world.enter(shot)
        for _ in range(4):
            world.advance(world.now_s + 15)
        for _ in range(60):
            physics.advance(1.0)
    assert world.owed[rows].sum() == pytest.approx(physics.owed[rows].sum(), rel=0.05)
    assert world.delay_row_s == pytest.approx(physics.delay_row_s, rel=0.05)
    assert world.owed[6:].sum() == pytest.approx(0, abs=1e-6)


def test_a_rule_that_evens_out_avoids_spills_and_says_what_it_took() -> None:
    owner = [0] * 24 + [1] * 8
    work = classes(32, 4000.0, 100_000, (1, 2, 4))
    shots = record(work, owner, 150 * MB, 8, LocalSpill())
    told = backtest(rule_from(even()), shots)
    assert told["firings"] == told["by_kind"]["move"] >= 1
    assert told["evaluations"]["acted"] == told["firings"]
    assert told["churn"]["bytes"] == sum(f["bytes"] for f in told["fired"]) > 0
    assert told["churn"]["pause_s"] > 0
    assert told["budget"]["daily_bytes_max"] == told["churn"]["bytes"]
    benefit = told["benefit"]
    assert benefit["gain"] == "model"
    assert benefit["with"]["overflow_bytes"] < benefit["without"]["overflow_bytes"]
    assert benefit["gain_row_s"] > 0
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_cool_down_quiet_hours_and_the_days_budget_hold_in_a_backtest() -> None:
    shots = record(drift(2), [n % 4 for n in range(32)], 4000 * MB, 60)
    free = backtest(rule_from(even()), shots)
    assert free["firings"] > 6
    slow = backtest(rule_from(even().replace('"30s"', '"20m"')), shots)
    times = [f["time_s"] for f in slow["fired"]]
    assert 1 < len(times) < free["firings"] and min(np.diff(times)) >= 1200
    hushed = rule_from('quiet = ["00:00-00:30"]\n' + even())
    assert all(f["time_s"] >= 1800 for f in backtest(hushed, shots)["fired"])
    assert backtest(hushed, shots)["blocked"]["quiet"] > 0
    tight = backtest(rule_from(even()), shots, Setting(daily_bytes=free["churn"]["bytes"] // 2))
    assert tight["budget"]["daily_bytes_max"] <= free["churn"]["bytes"] // 4
    still = backtest(rule_from(even()), shots, Setting(daily_pause_s=1.0))
    assert still["firings"] == 1 and still["blocked"]["budget"] > 0


def test_breaks_in_the_recording_begin_anew() -> None:
    shots = record(drift(3), [n % 4 for n in range(32)], 4000 * MB, 12)
    late = [replace(s, time_s=s.time_s + 50_000) for s in shots[6:]]
    other = [
        replace(s, time_s=s.time_s + 90_000, operators=(replace(s.operators[0], name="x"),))
        for s in shots
    ]
    told = backtest(rule_from(even()), [*shots[:6], shots[2], *late, *other])
    assert told["stretches"] == 3 and told["snapshots"] == 24
    assert backtest(rule_from(even()), [])["snapshots"] == 0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Half an hour of the real loop over a real store: hot groups change, nodes overflow, the rule acts."""
    made = Stage(
        tmp_path_factory.mktemp("store"),
        drift(5, 64),
        np.arange(64) % 4,
        np.full(4, 300 * MB),
    )
    made.rule(even("lazy_disk"))
    made.seconds(1800, every=5)
    yield made
    made.store.close()


def test_replaying_the_rule_that_really_ran_finds_its_actions(stage: Stage) -> None:
    shots = list(recorded(stage.store, QUERY, START_S, stage.now_s + 1))
    assert len(shots) >= 29
    rows = stage.store.actions.since(0.0)
    assert any(row.id.startswith("local-") for row in rows)  # not only the rule acted
    found = replay_agreement(rule_from(even("lazy_disk")), shots, rows, Setting(anchor_s=START_S))
    assert found["actions"] >= 8
    assert found["share"] >= 0.9, found
    assert found["extra"] <= 0.25 * found["actions"], found


def test_hot_groups_that_change_within_minutes_are_met_where_the_rule_met_them(
    tmp_path: Path,
) -> None:
    """A picture a minute is not enough for that: what a rule acts on is recorded too."""
    work = replace(drift(7, 64), period_s=180.0)
    stage = Stage(tmp_path, work, np.arange(64) % 4, np.full(4, 200 * MB))
    text = even("best_gain").replace("span_s = 30\nratio = 0.8\n", "")
    stage.rule(text)
    stage.seconds(1800, every=5)
    shots = list(recorded(stage.store, QUERY, START_S, stage.now_s + 1))
    rows = stage.store.actions.since(0.0)
    found = replay_agreement(rule_from(text), shots, rows, Setting(anchor_s=START_S))
    stage.store.close()
    assert found["actions"] >= 10
    assert found["share"] >= 0.9, found
    assert len(shots) > 31


def test_another_rule_is_not_found(stage: Stage) -> None:
    """The measure can fail: a rule that decides by other thresholds did not do these actions."""
    shots = list(recorded(stage.store, QUERY, START_S, stage.now_s + 1))
    rows = stage.store.actions.since(0.0)
    other = rule_from(even().replace("0.8", "0.2"))
    assert replay_agreement(other, shots, rows, Setting(anchor_s=START_S))["share"] < 0.5


def test_read_an_hour_at_a_time_nothing_is_missed(stage: Stage) -> None:
    whole = stage.store.metrics.snapshots(QUERY, START_S - 7000, stage.now_s + 1)
    parts = list(recorded(stage.store, QUERY, START_S - 7000, stage.now_s + 1))
    assert [s.time_s for s in parts] == [s.time_s for s in whole]


def _did(id: str, at: float, source: int, target: int) -> ActionRow:
    snapshot = record(drift(1, 8), [n % 2 for n in range(8)], 4000 * MB, 1)[0]
    step = step_to_json(move_of(snapshot, np.array([source]), source, target))
    return ActionRow(id, "q", {"step": step}, "ann", State.DONE, at, at + 1, 1, rule="even")


def test_each_action_is_matched_once_by_kind_nodes_and_time() -> None:
    fired = [Fired(t, "move", (0, 1), 1, 1, 0.5, 1.0, 0.0) for t in (100.0, 200.0)]
    really = [
        _did("a", 110, 0, 1),
        _did("b", 120, 0, 1),
        _did("c", 205, 1, 0),
        _did("d", 290, 0, 1),
    ]
    found = agreement(fired, really, 60.0)
    assert (found["matched"], found["missed"], found["extra"]) == (1, ["b", "c", "d"], 1)
    assert agreement(fired, really, 100.0)["matched"] == 2
    assert agreement([], [], 1.0)["share"] == 1.0


def test_what_is_only_noted_is_not_done() -> None:
    """With what really happened given, the world goes as it went, whatever the rule wants."""
    shots = record(drift(2), [0] * 24 + [1] * 8, 4000 * MB, 10)
    tally, ((world, _),) = through(rule_from(even()), shots, Setting(really=()))
    assert tally.fired
    assert (world.owner == shots[-1].groups.owner).all()


FLUX = """
name = "flux"
mode = "auto"
every = "1h"
cooldown = "0s"
needs_gain = false
[policy]
name = "flux_memory"
delta_min_s = 40
"""
OWN = """
name = "own"
mode = "auto"
every = "15s"
[policy]
name = "lazy_disk"
threshold = 0.3
ratio = 0.0
"""


def test_a_rule_of_rounds_decides_when_one_has_ended_whatever_its_interval() -> None:
    shots = record(drift(1), [0] * 24 + [1] * 8, 4000 * MB, 12)
    found = backtest(rule_from(FLUX), shots)
    length_s = shots[-1].time_s - shots[0].time_s
    rounds = sum(found["evaluations"].values())
    assert length_s / 60 < rounds <= length_s / 40, "one each 40 s and a little"
    assert found["by_kind"].get("move", 0) > 0


def test_nodes_spill_by_the_rule_s_own_parameters() -> None:
    shots = record(drift(1), [n % 4 for n in range(32)], 60 * MB, 12)
    found = backtest(rule_from(OWN), shots)["benefit"]
    assert found["with"]["overflows"] > found["without"]["overflows"], "at 30 %, not at 90 %"
