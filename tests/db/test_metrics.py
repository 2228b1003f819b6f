"""Samples, series and pictures: packing and laying out change nothing of what is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import select, update

from control.samples import GROUP_FIGURES, NODE_FIGURES, QUERY_FIGURES, GroupChange, Heartbeat
from control.snapshot import Operator
from db.metrics_schema import TICKS
from db.open import Store
from db.retention import Retention, tidy
from db.tiles import Tile, bucketed, decode, encode, joined
from tests.control.same import assert_same
from tests.db.made import START_S, sample, snapshot

S = START_S
Fresh = Callable[[], Store]
FOREVER = Retention(*[1e12] * 10)


def test_the_newest_sample_comes_back(store: Store) -> None:
    assert store.metrics.newest("q") is None
    changes = (GroupChange("join", 3, 1, "disk", "a1"), GroupChange("join", 4, 0, "memory"))
    store.metrics.write([sample(S), sample(S + 1, changes=changes), sample(S + 1, query="r")])
    found, given_ = store.metrics.newest("q"), sample(S + 1, changes=changes)
    assert found is not None
    assert_same(found.snapshot, given_.snapshot)
    assert found.nodes.keys() == given_.nodes.keys()
    for name, column in given_.nodes.items():
        np.testing.assert_array_equal(found.nodes[name], column)
    plain = {"nodes": {}, "snapshot": given_.snapshot}
    assert replace(found, **plain) == replace(given_, **plain)
    store.metrics.write([sample(S + 2)])
    newest = store.metrics.newest("q")
    assert newest is not None
    assert newest.time_s == S + 2


def test_changes_newest_first(store: Store) -> None:
    one, two = GroupChange("join", 3, 1, "disk", "a1"), GroupChange("join", 3, 1, "memory")
    store.metrics.write([sample(S, changes=(one,)), sample(S + 1, changes=(two, one))])
    assert store.metrics.changes("q") == [(S + 1, one), (S + 1, two), (S, one)]
    assert store.metrics.changes("q", since_s=S + 1, most=1) == [(S + 1, one)]
    assert store.metrics.changes("r") == []


def test_heartbeats(store: Store) -> None:
    beat = Heartbeat("engine", 7, S, S, "running", {"queries": 1})
    store.metrics.beat(beat)
    store.metrics.beat(replace(beat, beat_s=S + 1, state="stopping"))
    store.metrics.beat(replace(beat, process="control"))
    control, engine = store.metrics.heartbeats()
    assert control.process == "control"
    assert engine == replace(beat, beat_s=S + 1, state="stopping")


@given(
    ticks=st.lists(
        st.tuples(st.integers(0, 1300), st.integers(1, 4), st.floats(-1e6, 1e6, width=32)),
        min_size=1,
        max_size=12,
        unique_by=lambda tick: tick[0],
    ),
    tidied=st.lists(st.integers(300, 2000), max_size=3),
    since=st.integers(0, 1300),
    length=st.integers(0, 4000),
    points=st.integers(2, 50),
)
@example(ticks=[(780, 1, 0.0)], tidied=[], since=781, length=3601, points=2)
@example(ticks=[(780, 1, 0.0), (800, 1, 9.0)], tidied=[], since=700, length=3700, points=50)
def test_series_are_the_same_however_often_and_early_they_are_packed(
    fresh: Fresh,
    ticks: list[tuple[int, int, float]],
    tidied: list[int],
    since: int,
    length: int,
    points: int,
) -> None:
    """Ticks come in any order and with any number of nodes; tidy runs in between, or never."""
    one, other = fresh(), fresh()
    cuts = sorted(len(ticks) * (i + 1) // (len(tidied) + 1) for i in range(len(tidied)))
    for number, (at, nodes, value) in enumerate(ticks):
        for store in (one, other):
            store.metrics.write([sample(S + at, nodes=nodes, value=value)])
        for at_s in (t for cut, t in zip(cuts, tidied, strict=True) if cut == number):
            tidy(other, S + at_s, FOREVER)
    while tidy(other, S + 10_000, FOREVER, most=2).left:
        pass
    assert tidy(other, S + 10_000, FOREVER).packed == 0
    for read in ("query_series", "node_series"):
        found, wanted = (
            getattr(s.metrics, read)("q", S + since, S + since + length, points)
            for s in (other, one)
        )
        assert found.step_s == wanted.step_s
        np.testing.assert_array_equal(found.time_s, wanted.time_s)
        # Packed means are of single precision: large values that cancel leave that much.
        least = 1e-3 + 1e-6 * max(abs(value) for _, _, value in ticks)
        for name, values in wanted.values.items():
            np.testing.assert_allclose(found.values[name], values, rtol=1e-5, atol=least)


def test_ticks_that_come_late_are_put_to_those_already_packed(store: Store) -> None:
    store.metrics.write([sample(S + 10, value=1), sample(S + 50, value=2)])
    assert tidy(store, S + 400, FOREVER).packed == 1
    store.metrics.write([sample(S + 30, value=6)])
    assert tidy(store, S + 400, FOREVER).packed == 1
    found = store.metrics.query_series("q", S, S + 60)
    assert (found.time_s - S).tolist() == [10, 30, 50]
    assert found.values["lag_s"].tolist() == [1, 6, 2]
    assert store.metrics.query_series("q", S, S + 4000, 100).values["lag_s"].tolist() == [3]


def test_single_ticks_are_read_as_they_were(store: Store) -> None:
    for at in range(600):
        store.metrics.write([sample(S + at, value=at, tick_s=0.1 * at)])
    tidy(store, S + 500, FOREVER)
    found = store.metrics.query_series("q", S + 100, S + 400)
    assert found.step_s == 0
    np.testing.assert_array_equal(found.time_s, S + np.arange(100, 401))
    np.testing.assert_array_equal(found.values["tick_s"], 0.1 * np.arange(100, 401))
    assert set(found.values) == set(QUERY_FIGURES)
    nodes = store.metrics.node_series("q", S + 100, S + 400)
    assert set(nodes.values) == set(NODE_FIGURES)
    wanted = np.arange(100, 401)[:, None] + np.arange(2)
    np.testing.assert_array_equal(nodes.values["busy"], wanted)


def test_a_series_has_no_more_points_than_asked_for(store: Store) -> None:
    store.metrics.write([sample(S + at, value=at) for at in range(1200)])
    for points in (2, 7, 100, 599):
        found = store.metrics.query_series("q", S, S + 1199, points)
        assert 0 < len(found.time_s) <= points
        assert found.step_s > 0
        np.testing.assert_allclose(np.diff(found.time_s), found.step_s)
    whole = store.metrics.query_series("q", S, S + 1199, 4)
    assert whole.step_s == 400
    np.testing.assert_allclose(whole.values["lag_s"], [199.5, 599.5, 999.5])


def test_longer_ranges_are_means_of_minutes_and_quarters(store: Store) -> None:
    hours = 6
    samples = [sample(S + 60 * at + 30, value=at) for at in range(60 * hours)]
    store.metrics.write(samples)
    store.metrics.write([sample(S + 60 * 7 + 40, value=1000)])
    while tidy(store, S + 3600 * hours + 60, FOREVER).left:
        pass
    found = store.metrics.query_series("q", S, S + 2 * 3600 - 1, 1000)
    assert (found.step_s, len(found.time_s)) == (60, 120)
    assert found.values["lag_s"][6:9].tolist() == [6, (7 + 1000) / 2, 8]
    found = store.metrics.query_series("q", S, S + 3600 * 24 * 3, 1000)
    assert (found.step_s, len(found.time_s)) == (900, 4 * hours)
    assert found.values["lag_s"][0] == pytest.approx((sum(range(15)) + 1000) / 16), "by count"
    assert found.values["lag_s"][1] == sum(range(15, 30)) / 15


def test_nodes_that_come_and_go_are_unknown_meanwhile(store: Store) -> None:
    store.metrics.write([sample(S, nodes=1), sample(S + 1, nodes=3), sample(S + 2, nodes=2)])
    busy = store.metrics.node_series("q", S, S + 5).values["busy"]
    np.testing.assert_array_equal(busy, [[1, np.nan, np.nan], [1, 2, 3], [1, 2, np.nan]])
    mean = store.metrics.node_series("q", S, S + 5, 2).values["busy"]
    np.testing.assert_array_equal(mean, [[1, 2, 3]])


def test_figures_that_are_not_given_are_unknown(store: Store) -> None:
    plain = sample(S)
    store.metrics.write([replace(plain, figures={"tick_s": 2.0}, nodes={"busy": np.ones(2)})])
    found = store.metrics.query_series("q", S, S + 1)
    assert found.values["tick_s"].tolist() == [2.0]
    assert np.isnan(found.values["lag_s"]).all()
    nodes = store.metrics.node_series("q", S, S + 1)
    assert nodes.values["busy"].tolist() == [[1, 1]]
    assert np.isnan(nodes.values["memory_bytes"]).all()


def test_nothing_recorded_is_an_empty_series(store: Store) -> None:
    for found in (
        store.metrics.query_series("q", S, S + 60),
        store.metrics.node_series("q", S, S + 1e9),
        store.metrics.query_series("q", S + 60, S),
        store.metrics.group_history("q", "join", 1, S, S + 60),
    ):
        assert len(found.time_s) == 0
        assert all(len(values) == 0 for values in found.values.values())
    assert store.metrics.snapshots("q", 0, 1e12) == []


def test_a_picture_for_each_minute(store: Store) -> None:
    given_ = [sample(S + 25 * at) for at in range(10)]
    for one in given_[:5]:
        store.metrics.write([one])
    store.metrics.write(given_[5:])
    wanted = [S, S + 75, S + 125, S + 200]
    assert [one.time_s for one in store.metrics.snapshots("q", 0, 1e12)] == wanted
    some = store.metrics.snapshots("q", S + 75, S + 125)
    assert [one.time_s for one in some] == [S + 75, S + 125]
    assert_same(some[0], sample(S + 75).snapshot)
    assert len(store.metrics.snapshots("q", 0, 1e12, most=3)) == 3


def test_what_a_rule_acted_on_is_kept_besides(store: Store) -> None:
    store.metrics.write([sample(S)])
    for at in (0, 7, 7.5, 62):
        store.metrics.keep(sample(S + at))
    store.metrics.write([sample(S + 61)])
    assert [one.time_s for one in store.metrics.snapshots("q", 0, 1e12)] == [
        S,
        S + 7,
        S + 61,
        S + 62,
    ]


def history(store: Store, group: int, operator: str = "join") -> dict[float, dict[str, float]]:
    found = store.metrics.group_history("q", operator, group, S + 60, S + 4 * 3600)
    assert set(found.values) == set(GROUP_FIGURES)
    rows = zip(*(found.values[name].tolist() for name in GROUP_FIGURES), strict=True)
    named = [dict(zip(GROUP_FIGURES, row, strict=True)) for row in rows]
    return dict(zip(found.time_s.tolist(), named, strict=True))


@pytest.mark.parametrize("group", [0, 255, 256, 299, 300])
def test_one_group_s_history_is_the_same_laid_out_or_not(store: Store, group: int) -> None:
    """Over hours of which the first has other operators, and a group that does not exist."""
    shots = [snapshot(S + 300 * at, groups=300, seed=1) for at in range(40)]
    for number, shot in enumerate(shots):
        if number < 5:
            shot = replace(shot, operators=(Operator("other", 2, 300),))
        store.metrics.write([replace(sample(shot.time_s), snapshot=shot)])
    before = history(store, group)
    there = shots[5:] if group < 300 else []
    assert list(before) == [shot.time_s for shot in there]
    for shot in there:
        for name in GROUP_FIGURES:
            column = getattr(shot.groups, name)[group]
            assert before[shot.time_s][name] == pytest.approx(float(column), rel=1e-6)
    assert tidy(store, S + 3 * 3600, FOREVER).tiled == 2, "the hour that just ended may get more"
    assert tidy(store, S + 3 * 3600 + 60, FOREVER).tiled == 1
    assert tidy(store, S + 3 * 3600 + 60, FOREVER).tiled == 0
    assert history(store, group) == before
    assert len(history(store, 3, "other")) == 4, "without the picture of the first moment"


def test_a_late_picture_has_its_hour_laid_out_again(store: Store) -> None:
    store.metrics.write([sample(S + 600 * at) for at in range(8)])
    assert tidy(store, S + 2 * 3600, FOREVER).tiled == 1
    store.metrics.write([sample(S + 660)])  # the clock went back
    assert tidy(store, S + 2 * 3600, FOREVER).tiled == 1
    assert S + 660 in history(store, 0)


def test_a_query_without_groups_is_laid_out_once(store: Store) -> None:
    one = sample(S)
    shot = replace(one.snapshot, operators=(), groups=snapshot(S, groups=0).groups)
    store.metrics.write([replace(one, snapshot=shot)])
    assert tidy(store, S + 7300, FOREVER).tiled == 1
    assert tidy(store, S + 7300, FOREVER).tiled == 0


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_tiles_come_back(points: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    tile = Tile(
        np.sort(random.random(points)),
        random.integers(1, 9, points),
        random.random((len(QUERY_FIGURES), points)),
        random.random((len(NODE_FIGURES), nodes, points), np.float32),
    )
    found = decode(*encode(tile))
    for name in ("time_s", "count", "figures", "nodes"):
        one, other = getattr(found, name), getattr(tile, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    assert len(joined([tile, found])) == len(np.unique(tile.time_s))
    assert bucketed([tile, found], 1.0).count.sum() == 2 * tile.count.sum()


def test_rates_of_a_version_that_did_not_say_how_long_count_by_ticks(store: Store) -> None:
    """Its ticks have one figure less, its tiles no row of that name; both go on beside newer ones."""
    old = [sample(S + at, value=float(at), rows_in_per_s=10.0 + at) for at in (0, 1)]
    store.metrics.write(old)
    with store.metrics.file.write() as db:
        for id, body in list(db.execute(select(TICKS.c.id, TICKS.c.figures))):
            shorter = body[: 8 * QUERY_FIGURES.index("covered_s")]
            db.execute(update(TICKS).where(TICKS.c.id == id).values(figures=shorter))
    (mean,) = store.metrics.query_series("q", S, S + 10, 1).values["rows_in_per_s"].tolist()
    assert mean == 10.5
    store.metrics.write([sample(S + 2, rows_in_per_s=40.0, covered_s=2.0)])
    found = store.metrics.query_series("q", S, S + 10, 1)
    assert found.values["rows_in_per_s"].tolist() == [pytest.approx((10 + 11 + 2 * 40) / 4)]
    assert found.values["covered_s"].tolist() == [2.0]
