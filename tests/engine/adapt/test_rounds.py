"""Rounds: what they collect, when they end, how long the next takes; figures stay until the next has ended."""

from __future__ import annotations

import numpy as np
import pytest

from control.policies.active_disk import ActiveDisk
from control.policies.flux_load import FluxLoad
from control.requests import Request
from control.snapshot import History
from engine.adapt.rounds import Phase, Rounds, busy
from engine.state.stats import GroupDelta, GroupStats
from tests.engine.adapt.situation import Feed, situated

KB = 1000


def stats(rows: int = 0) -> dict[str, GroupStats]:
    made = GroupStats(2)
    made.add(GroupDelta(*(np.array([n]) for n in (1, rows, rows, 3 * rows))), version=1, time_s=1.0)
    return {"join": made}


def test_a_round_ends_with_its_figures_and_they_stay() -> None:
    one = Rounds(stats(5), 100.0, 10.0)
    one.ticked({0: 4.0, 1: 1.0})
    one.boundary(stats(50), 109.9, 10.0, moving=False)
    assert (one.number, one.phase) == (0, Phase.COLLECTING)
    assert one.history(History()).round_number == 0
    one.ticked({0: 4.0})
    one.boundary(stats(65), 110.0, 10.0, moving=False)
    assert (one.number, one.phase) == (1, Phase.MOVING)
    one.ticked({0: 9.0, 1: 9.0})
    found = one.figures(stats(900), 111.0)
    assert [x.tolist() for x in found.counts["join"]] == [[0, 60], [0, 180]]
    assert busy(found, 3).tolist() == pytest.approx([0.8, 0.1, 0.0])
    told = one.history(History(last_adaptation_s=7.0, forced_spill_bytes=9))
    assert (told.round_number, told.round_start_s, told.round_s) == (1, 100.0, 10.0)
    assert (told.last_adaptation_s, told.forced_spill_bytes) == (7.0, 9)


def test_before_the_first_has_ended_there_is_what_it_has_so_far() -> None:
    one = Rounds(stats(5), 100.0, 10.0)
    one.ticked({0: 1.0})
    found = one.figures(stats(25), 102.0)
    assert found.counts["join"][0].tolist() == [0, 20] and busy(found, 1).tolist() == [0.5]


def test_the_next_is_as_long_as_the_moves_took_else_half() -> None:
    one = Rounds(stats(), 0.0, 2.0)
    one.delta_s = 16.0
    one.boundary(stats(), 16.0, 2.0, moving=False)
    one.boundary(stats(), 18.9, 2.0, moving=False)
    assert one.phase is Phase.MOVING, "a rule may still begin something"
    one.boundary(stats(), 19.0, 2.0, moving=False)
    assert (one.phase, one.delta_s) == (Phase.COLLECTING, 8.0)
    one.boundary(stats(), 27.0, 2.0, moving=False)
    one.moves()
    one.boundary(stats(), 28.0, 2.0, moving=True)
    one.boundary(stats(), 32.0, 2.0, moving=True)
    one.boundary(stats(), 32.5, 2.0, moving=False)
    assert (one.phase, one.delta_s) == (Phase.COLLECTING, 5.5)
    assert one.history(History()).move_phase_s == 5.5


def test_never_under_the_shortest_and_not_for_ever_when_the_clock_is_set_back() -> None:
    one = Rounds(stats(), 1000.0, 2.0)
    for now in (1002.0, 1005.0, 1007.0, 1010.0):
        one.boundary(stats(), now, 2.0, moving=False)
    assert (one.number, one.delta_s) == (2, 2.0)
    one.boundary(stats(), 10.0, 2.0, moving=False)
    one.boundary(stats(), 12.0, 2.0, moving=False)
    assert one.number == 3


def test_what_decides_sees_the_rows_and_the_work_of_a_whole_round() -> None:
    """On the engine: not what has come since a moment ago, which is nothing."""
    with situated(pace={0: 0.005, 1: 0.001}) as it:
        it.ticks(13, Feed(rows=40), Feed(rows=20))
        seen = it.desk.snapshot()
        assert seen.history.round_number == 1 and seen.history.round_s == 10.0
        rows = seen.by_node(seen.groups.rows_in_round).tolist()
        assert rows == [80 * 9, 40 * 9], (
            "ticks 1 to 9 were in it, the boundary before the 10th ended it"
        )
        assert seen.nodes.busy.tolist() == pytest.approx([0.36, 0.036])
        it.tick(Feed(rows=1), Feed(rows=1))
        again = it.desk.snapshot()
        assert again.by_node(again.groups.rows_in_round).tolist() == rows, "until the next ends"


def test_a_policy_of_rounds_decides_once_for_each() -> None:
    with situated(FluxLoad(delta_min_s=4.0, imbalance=50.0), pace={0: 0.005, 1: 0.001}) as it:
        it.ticks(26)
        assert it.desk._rounds.number == 6 and not it.actions
        assert sum(one["times"] for one in it.desk.records.decisions) == 6


def test_two_pairs_of_nodes_move_side_by_side_and_nothing_is_lost() -> None:
    pace = {0: 0.02, 1: 0.018, 2: 0.002, 3: 0.002}
    with situated(FluxLoad(delta_min_s=3.0), nodes=4, pace=pace) as it:
        it.side.eager = False
        it.desk.jobs_apart = True  # copies take more than a tick, so that both are on their way
        together = 0
        for number in range(40):
            it.tick()
            together = max(together, len(it.desk.running))
            if number % 3 == 2:
                it.side.work()
        assert together == 2, "two moves were on their way at once"
        assert len(it.by("flux_load")) >= 2
        it.side.eager = True
        it.side.work()
        assert it.check() > 1000


FORCES = ActiveDisk(span_s=3.0, query_bytes=1_300 * KB, ratio=0.1, force_percent=20.0)
ENOUGH = (
    "no group fits the amount",
    "the query fits the cluster's memory, or enough has been forced to disk",
)
BUDGETS = dict.fromkeys((0, 1), 600 * KB)
RESULTS, NONE = Feed(rows=60, keys=2), Feed(rows=60, keys=60, joins=False)


def test_what_was_forced_to_disk_counts_over_restarts_and_whoever_asked() -> None:
    """M_q − M_c is 100 kB for good, not for each life of the engine."""
    with situated(FORCES, budgets=BUDGETS) as it:
        it.ticks(15, RESULTS, NONE)
        before = it.desk.snapshot().history
        forced = sum(a.bytes for a in it.by("active_disk"))
        assert before.forced_spill_bytes == forced > 0
        it.restart()
        after = it.desk.snapshot().history
        assert after.forced_spill_bytes == forced
        assert after.last_adaptation_s == before.last_adaptation_s
        for _ in range(3):
            it.restart()
            it.ticks(25, RESULTS, NONE)
        assert 90 * KB < it.desk.snapshot().history.forced_spill_bytes <= 100 * KB
        assert it.desk.records.decisions[-1]["nothing"][0] in ENOUGH
        assert it.check() > 1000


def test_a_spill_that_a_person_asks_for_counts_once_though_the_engine_is_killed() -> None:
    with situated(budgets=BUDGETS) as it:
        it.ticks(4)
        it.desk.records.somebody_asks = True  # its record stays until the store has been told
        done = it.desk.ask(Request("spill", 0, percent=50.0), "ann")
        it.ticks(2)
        size = it.desk.records.actions[done.id].bytes  # type: ignore[union-attr]
        assert it.desk.snapshot().history.forced_spill_bytes == size > 0
        for _ in range(2):  # killed: nobody closes the desk
            it.local.start(2)
            it.sit()
            assert it.desk.snapshot().history.forced_spill_bytes == size
        assert it.check() > 100
