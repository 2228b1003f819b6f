"""Group statistics: rates settle at the true rate whatever the ticks' length; a replay gives the same figures;
measured bytes are those of the values in the files."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.columns import row_bytes
from engine.hashing import group_offsets
from engine.state.stats import HALF_LIFE_S, GroupDelta, GroupStats, by_group, sparse, together

GROUPS = 4


def delta(rows_in: list[int], rows_out: list[int] | None = None) -> GroupDelta:
    count = np.array(rows_in, dtype=np.int64)
    return sparse(count, 10 * count, np.array(rows_out or rows_in, dtype=np.int64))


@pytest.mark.parametrize("tick_s", [0.05, 1.0, 10.0, 60.0])
def test_rates_settle_at_the_true_rate(tick_s: float) -> None:
    stats, now = GroupStats(GROUPS), 1000.0
    per_s = np.array([0, 20, 400, 1000])
    for number in range(int(12 * HALF_LIFE_S / tick_s)):
        now += tick_s
        stats.add(delta((per_s * tick_s).astype(int).tolist()), version=number, time_s=now)
    assert stats.rows_in_per_s == pytest.approx(per_s, rel=0.01)


@pytest.mark.parametrize("ticks", [2, 5, 30])
def test_rates_are_right_from_the_second_tick_on(ticks: int) -> None:
    """Long before a half-life is over: what fills is told in time."""
    stats = GroupStats(GROUPS)
    for number in range(ticks):
        stats.add(delta([100, 7, 0, 0]), version=number, time_s=1000.0 + number)
    assert stats.rows_in_per_s == pytest.approx([100, 7, 0, 0], rel=1e-6)


def test_rates_halve_in_a_half_life_and_follow_drift() -> None:
    stats, now = GroupStats(GROUPS), 1000.0
    for number in range(1200):
        stats.add(delta([100, 0, 0, 0]), version=number, time_s=now)
        now += 1
    before = stats.rows_in_per_s[0]
    for number in range(60):
        stats.add(delta([0, 100, 0, 0]), version=number, time_s=now)
        now += 1
    assert stats.rows_in_per_s[0] == pytest.approx(before / 2, rel=0.02)
    assert stats.rows_in_per_s[1] == pytest.approx(50, rel=0.02)


def test_a_clock_that_goes_back_does_no_harm() -> None:
    stats = GroupStats(GROUPS)
    for number, now in enumerate([1000.0, 1001.0, 400.0, 1002.0]):
        stats.add(delta([10, 0, 0, 0]), version=number, time_s=now)
    assert np.isfinite(stats.rows_in_per_s).all() and 0 < stats.rows_in_per_s[0] < 20
    assert stats.time_s == 1002.0


TICKS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 10**9), min_size=GROUPS, max_size=GROUPS),
        st.lists(st.integers(0, 10**15), min_size=GROUPS, max_size=GROUPS),
        st.floats(0, 300),
    ),
    max_size=20,
)


@given(TICKS, st.integers(0, 20))
def test_a_replay_of_commits_gives_the_same(
    ticks: list[tuple[list[int], list[int], float]], cut: int
) -> None:
    """Half through a snapshot, half through packed deltas: bit for bit what never stopped."""
    live, again, now = GroupStats(GROUPS), GroupStats(GROUPS), 1e9
    for number, (rows_in, rows_out, step) in enumerate(ticks):
        now += step
        if number == cut:
            again = GroupStats.unpack(json.loads(json.dumps(live.pack())))
        some = delta(rows_in, rows_out)
        live.add(some, version=number, time_s=now)
        if number >= cut:
            packed = GroupDelta.unpack(json.loads(json.dumps(some.pack())))
            again.add(packed, version=number, time_s=now)
    if len(ticks) > cut:
        assert again.pack() == live.pack()
    assert live.rows_in.tolist() == [sum(t[0][g] for t in ticks) for g in range(GROUPS)]
    assert live.rows_out.tolist() == [sum(t[1][g] for t in ticks) for g in range(GROUPS)]
    for g in range(GROUPS):
        inserts = [n for n, t in enumerate(ticks) if t[0][g]]
        assert live.last_insert[g] == (inserts[-1] if inserts else -1)


def test_a_report_does_not_change_afterwards() -> None:
    stats = GroupStats(GROUPS)
    report = stats.report("join-1", *np.zeros((3, GROUPS), dtype=np.int64))
    stats.add(delta([5, 5, 5, 5]), version=1, time_s=5.0)
    assert report.rows_in.tolist() == [0] * GROUPS
    assert report.rows_in_per_s.tolist() == [0.0] * GROUPS


@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 2**40)), max_size=30))
def test_sums_by_group_are_exact(pairs: list[tuple[int, int]]) -> None:
    ids, weights = (np.array([p[i] for p in pairs], dtype=np.int64) for i in (0, 1))
    want = [sum(w for g, w in pairs if g == group) for group in range(GROUPS)]
    assert by_group(ids, weights, GROUPS).tolist() == want
    nodes = [sparse(*[by_group(ids[i::2], weights[i::2], GROUPS)] * 3) for i in (0, 1)]
    whole = together(nodes, GROUPS)
    assert dict(zip(whole.groups.tolist(), whole.rows_in.tolist(), strict=True)) == {
        g: w for g, w in enumerate(want) if w
    }


ROW = st.tuples(
    st.integers(0, 2**64 - 1),
    st.none() | st.integers(-5, 5),
    st.none() | st.text(max_size=9),
    st.none() | st.binary(max_size=9),
)


@given(st.lists(ROW, max_size=30), st.integers(1, 7), st.integers(0, 5))
def test_bytes_of_groups_add_up_to_the_columns(
    rows: list[tuple[object, ...]], groups: int, skip: int
) -> None:
    rows = sorted(rows, key=lambda r: r[0])
    kinds = (pa.uint64(), pa.int64(), pa.string(), pa.binary())
    whole = pa.RecordBatch.from_arrays(
        [pa.array([r[i] for r in rows], kind) for i, kind in enumerate(kinds)], names=list("abcd")
    )
    batch = whole.slice(min(skip, len(rows)))
    kept = rows[min(skip, len(rows)) :]
    found = row_bytes(batch, group_offsets(batch.column(0).to_numpy(), groups))
    want = [0] * groups
    for mark, _, text, blob in kept:
        length = len(text.encode()) if text else 0
        want[((mark >> 32) * groups) >> 32] += 8 + 8 + 4 + length + 4 + len(blob or b"")
    assert found.tolist() == want
