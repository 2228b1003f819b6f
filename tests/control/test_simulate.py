"""The fluid simulator keeps its books, and on it policies compare as the papers say they do.

It counts rows that flow into groups, joins none and takes no time for anything: the same figures on the engine are those of
`run.py reproduce`, figure 11 in very small in tests/engine/papers/test_reproduce.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.policies import victims
from control.policies.active_disk import ActiveDisk
from control.policies.best_gain import BestGain
from control.policies.lazy_disk import LazyDisk
from control.policies.local_spill import LocalSpill
from control.policies.none import Nothing
from control.policies.registry import KINDS, Policy
from control.policies.relocate import Relocate
from control.snapshot import History
from tests.control.fluid.run import Outcome, Setting, simulate
from tests.control.fluid.workloads import (
    ALTERNATE,
    Workload,
    classes,
    drifting,
    skewed_owners,
)
from tests.control.fluid.world import World

RULE = LocalSpill(1.0)
LONG = Setting(3000)
NONE = Nothing()


def ratios(*each: float, of: np.ndarray | None = None) -> Workload:
    """300 groups, 100 rows a second, a tuple range of 30 000: the paper's workloads scaled down."""
    return classes(300, 100, 30_000, each, of=of)


def memory(nodes: int, mb: float) -> np.ndarray:
    return np.full(nodes, int(mb * 1e6))


@given(st.integers(0, 1000), st.sampled_from(sorted(KINDS)))
@settings(max_examples=15)
def test_results_made_and_owed_are_all_there_are(seed: int, name: str) -> None:
    work = replace(drifting(40, 100, 3000, 4, seed), period_s=50.0)
    owner = skewed_owners(40, 3, 0.6, seed)
    run = simulate(work, owner, memory(3, 0.5), KINDS[name](), Setting(200, 5.0), RULE)
    world = World(work, owner, memory(3, 0.5))
    for _ in range(200):
        world.advance(1.0)
    assert run.results + run.owed_rows == pytest.approx(world.made.sum(), rel=1e-9)
    again = simulate(work, owner, memory(3, 0.5), KINDS[name](), Setting(200, 5.0), RULE)
    assert (again.results, again.delay_row_s) == (run.results, run.delay_row_s)


def test_the_world_is_the_join() -> None:
    """n rows of each stream over K keys make K (n / K)^m results; a spilled generation meets no other."""
    world = World(
        Workload(np.array([30.0]), np.array([10.0]), np.array([0])), np.zeros(1, int), memory(1, 1)
    )
    for _ in range(10):
        world.advance(1.0)
    assert world.made[0] == pytest.approx(10 * (100 / 10) ** 3)
    world.spill(np.array([0]))
    for _ in range(10):
        world.advance(1.0)
    assert world.made[0] == pytest.approx(2 * 10_000)
    assert world.owed[0] == pytest.approx(80_000 - 20_000)
    snapshot = world.snapshot(History())
    assert snapshot.groups.spilled.all() and snapshot.groups.owed_rows[0] == world.owed[0]
    world.cleanup(np.array([0]))
    assert world.late == pytest.approx(60_000) and not world.owed.any()


def test_l4_without_spilling_the_run_stops_on_overflow() -> None:
    run = simulate(ratios(2), np.zeros(300, int), memory(1, 10), NONE, LONG)
    assert run.stopped_s == pytest.approx(1000, abs=2)


def test_local_spill_keeps_memory_under_the_budget() -> None:
    run = simulate(ratios(2), np.zeros(300, int), memory(1, 10), NONE, LONG, RULE)
    assert run.stopped_s is None and run.spills > 3
    assert run.memory_bytes.max() <= 10e6 + 100 * 100


def victim(by: str) -> Outcome:
    rule = LocalSpill(1.0, 30, by, 1e9)
    return simulate(ratios(4, 2, 1), np.zeros(300, int), memory(1, 10), NONE, LONG, rule)


def test_l12_simulated_figure_11_least_productive_victims_beat_most_productive() -> None:
    least, most = victim(victims.LEAST), victim(victims.MOST)
    assert least.results > 3 * most.results
    assert least.owed_rows * 2.5 < most.owed_rows
    assert least.results > victim(victims.RANDOM).results > most.results


@pytest.mark.parametrize("percents", [(10, 30, 50)])
def test_l12_simulated_figure_9_pushing_more_costs_more(percents: tuple[int, ...]) -> None:
    made = [
        simulate(ratios(3), np.zeros(300, int), memory(1, 10), NONE, LONG,
                 LocalSpill(1.0, k, victims.RANDOM)).results
        for k in percents
    ]  # fmt: skip
    assert made == sorted(made, reverse=True)


def test_l12_simulated_figure_17_relocation_keeps_all_in_memory() -> None:
    owner = skewed_owners(300, 3, 2 / 3, 1)
    alone = simulate(ratios(2), owner, memory(3, 12), NONE, LONG, RULE)
    moved = simulate(ratios(2), owner, memory(3, 12), Relocate(), LONG, RULE)
    assert alone.owed_rows > 0 and moved.owed_rows == 0 and moved.spills == 0


def test_l9_lazy_disk_beats_local_only_under_skew() -> None:
    owner = skewed_owners(300, 3, 2 / 3, 1)
    local = simulate(ratios(2), owner, memory(3, 8), NONE, LONG, RULE)
    lazy = simulate(ratios(2), owner, memory(3, 8), LazyDisk(threshold=1.0), LONG, RULE)
    assert lazy.results > 1.1 * local.results
    assert local.cleanup_s > 2.5 * lazy.cleanup_s


def test_l12_simulated_figure_20_with_little_memory_results_are_alike_and_cleanup_shorter() -> None:
    owner = skewed_owners(300, 3, 2 / 3, 1)
    local = simulate(ratios(2), owner, memory(3, 4), NONE, LONG, RULE)
    lazy = simulate(ratios(2), owner, memory(3, 4), LazyDisk(threshold=1.0), LONG, RULE)
    assert lazy.results == pytest.approx(local.results, rel=0.15)
    assert local.cleanup_s > 2.5 * lazy.cleanup_s


def test_l10_active_disk_beats_lazy_disk_in_figure_21() -> None:
    owner = np.arange(300) // 100
    work = ratios(4, 1, 1, of=owner)
    lazy, active = (
        simulate(work, owner, memory(3, 6), policy(threshold=1.0), LONG, RULE)
        for policy in (LazyDisk, ActiveDisk)
    )
    assert active.results > 1.2 * lazy.results


def test_l8_simulated_alternating_skew_moves_more_with_a_higher_ratio_and_a_shorter_span() -> None:
    """Figures 14 and 15: more moves with a higher θd and with a shorter τ, and memory stays within what θd allows."""
    owner = np.arange(300) % 2
    work = replace(ratios(2, 2, of=owner), drift=ALTERNATE, period_s=300.0)
    moves, after = [], 6  # samples, a minute
    for ratio, span in ((0.5, 45.0), (0.9, 45.0), (0.9, 15.0)):
        run = simulate(work, owner, memory(2, 100), Relocate(ratio, span), Setting(1800))
        moves.append(run.moves)
        even = run.memory_bytes.min(axis=1) / run.memory_bytes.max(axis=1)
        assert even[after:].min() > ratio * 0.8
    assert 0 < moves[0] < moves[1] < moves[2]
    alone = simulate(work, owner, memory(2, 100), NONE, Setting(1800))
    uneven = alone.memory_bytes.min(axis=1) / alone.memory_bytes.max(axis=1)
    assert uneven[after:].min() < 0.5 * 0.8


def scenes() -> list[tuple[str, Workload, np.ndarray, np.ndarray]]:
    skew, thirds = skewed_owners(300, 3, 2 / 3, 1), np.arange(300) // 100
    drift = replace(drifting(300, 300, 30_000, 4, 3), window_s=600.0)
    return [
        ("skew", ratios(2), skew, memory(3, 8)),
        ("unlike", ratios(4, 1, 1, of=thirds), thirds, memory(3, 6)),
        ("drift", drift, np.arange(300) % 3, memory(3, 4)),
    ]


@pytest.mark.parametrize(
    ("work", "owner", "budget"), [s[1:] for s in scenes()], ids=[s[0] for s in scenes()]
)
def test_best_gain_owes_less_for_less_long_than_the_papers_policies(
    work: Workload, owner: np.ndarray, budget: np.ndarray
) -> None:
    setting = Setting(2400)
    papers: list[Policy] = [NONE, LazyDisk(threshold=1.0), ActiveDisk(threshold=1.0)]
    theirs = [simulate(work, owner, budget, policy, setting, RULE).delay_row_s for policy in papers]
    ours = simulate(work, owner, budget, BestGain(threshold=1.0), setting, RULE)
    assert ours.delay_row_s < 0.8 * min(theirs)


def test_every_decision_of_a_run_explains_itself() -> None:
    work = ratios(2)
    run = simulate(
        work, skewed_owners(300, 3, 2 / 3, 1), memory(3, 8), ActiveDisk(threshold=1.0), LONG, RULE
    )
    assert len(run.decisions) == 200
    for _, plan, verdict in run.decisions:
        assert plan.reasons and (verdict is not None) == bool(plan.steps)
