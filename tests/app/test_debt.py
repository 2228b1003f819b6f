"""Spill debt: sums by node are those of the groups, and what is proposed to be cleaned up fits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.pages import debt_view
from app.pages.debt_data import (
    FILL_MAX,
    cleanup_seconds,
    debt_of,
    fitting,
    group_lines,
    rows_named,
    smallest,
    steps_for,
)
from control.cost.coefficients import Coefficients
from control.plans import pairs_of, step_from_json
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator

MB = 1_000_000
NUMBERS = Coefficients()


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    nodes, groups = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    owner = draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    disk = draw(
        st.lists(st.sampled_from([0, 0, MB, 3 * MB, 40 * MB]), min_size=groups, max_size=groups)
    )
    owed = [d / 100 * draw(st.floats(0, 2)) for d in disk]
    memory = [MB] * groups
    made = Groups.of(
        owner, memory, disk_bytes=disk, generations=[int(d > 0) for d in disk], owed_rows=owed,
        owed_rows_per_s=[o / 60 for o in owed], rows_out_per_s=3.0,
    )  # fmt: skip
    by_node = np.bincount(owner, weights=memory, minlength=nodes)
    budgets = draw(st.lists(st.integers(1, 60), min_size=nodes, max_size=nodes))
    columns = Nodes.of(
        [b * MB for b in budgets],
        by_node,
        disk_bytes=np.bincount(owner, weights=disk, minlength=nodes),
    )
    return ClusterSnapshot("q", 1, 1.0, columns, (Operator("join", 2, groups),), made)


@given(snapshots())
def test_nodes_sum_to_the_groups(snapshot: ClusterSnapshot) -> None:
    debt, groups = debt_of(snapshot, NUMBERS), snapshot.groups
    assert np.isclose(debt.owed.sum(), groups.owed_rows[groups.spilled].sum())
    assert debt.disk.sum() == groups.disk_bytes.sum()
    assert debt.groups.sum() == len(debt.rows) == groups.spilled.sum()
    assert sorted(debt.nodes) == np.unique(groups.owner[groups.spilled]).tolist()
    owed = [debt.owed[node] for node in debt.nodes]
    assert owed == sorted(owed, reverse=True)
    listed = group_lines(debt, NUMBERS)
    assert [one["owed"] for one in listed] == sorted((one["owed"] for one in listed), reverse=True)
    assert len({one["id"] for one in debt_view.group_rows(listed)}) == len(listed)


@given(snapshots())
def test_what_is_offered_fits_and_what_is_left_does_not(snapshot: ClusterSnapshot) -> None:
    debt, groups = debt_of(snapshot, NUMBERS), snapshot.groups
    for node in debt.nodes:
        rows = fitting(debt, node)
        room = FILL_MAX * snapshot.nodes.budget_bytes[node] - snapshot.nodes.memory_bytes[node]
        taken = groups.disk_bytes[rows].sum()
        assert taken <= max(room, 0)
        assert (groups.owner[rows] == node).all() and groups.spilled[rows].all()
        left = [r for r in debt.rows if groups.owner[r] == node and r not in rows]
        assert all(groups.disk_bytes[r] > room - taken for r in left)
        if not len(rows):
            assert smallest(debt, node) > max(room, 0)


@given(snapshots(), st.data())
def test_chosen_groups_become_a_clean_up_for_each_node(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    debt = debt_of(snapshot, NUMBERS)
    names = [row["id"] for row in debt_view.group_rows(group_lines(debt, NUMBERS))]
    some = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    strange = data.draw(st.lists(st.text(max_size=20), max_size=3))
    steps = [
        step_from_json(raw) for raw in steps_for(snapshot, rows_named(snapshot, [*some, *strange]))
    ]
    named = sorted(f"{operator}:{group}" for step in steps for operator, group in pairs_of(step))
    assert named == sorted(some)
    assert len({step.node for step in steps}) == len(steps)  # type: ignore[union-attr]


@given(st.integers(0, 10**12), st.floats(0, 1e9))
def test_a_clean_up_takes_at_least_a_tick_and_longer_for_more(size: int, owed: float) -> None:
    took = cleanup_seconds(size, owed, NUMBERS)
    assert took >= NUMBERS.tick_s
    assert cleanup_seconds(size * 2 + 1, owed, NUMBERS) > took


@given(snapshots(), st.booleans())
def test_it_can_all_be_drawn(snapshot: ClusterSnapshot, may: bool) -> None:
    debt = debt_of(snapshot, NUMBERS)
    for drawn in (
        debt_view.headline(debt),
        debt_view.nodes(debt, may, "" if may else "no"),
        debt_view.productivity(debt),
    ):
        assert drawn
