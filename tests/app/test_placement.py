"""Placement's pure parts: filter, scales, the packed picture, steps for a selection, the state afterwards, targets."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.pages import placement_data as data
from app.pages import placement_table as table
from app.pages import placement_what as what
from app.pages.placement_filter import COLUMNS, KNOWN, FilterError, figures, matching
from control.cost.coefficients import Coefficients
from control.plans import Cleanup, Move, Part, Spill, pairs_of, step_to_json
from control.predict import preview
from control.samples import Sample
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from tests.app.made import MB, action_row, sample_of
from tests.app.pictures import NOW_S, snapshots


def taken(sample: Sample, **how: Any) -> dict[str, Any]:
    told = {"operator": "", "colour": "productivity", "text": "", "running": (), **how}
    return data.picture(sample, told["operator"], told["colour"], told["text"], told["running"])


def unpacked(text: str, kind: Any = np.uint8) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


# -- the filter ----------------------------------------------------------------------------------------


@given(snapshots(), st.sampled_from(sorted(COLUMNS)), st.integers(0, 60))
def test_a_bound_and_its_opposite_part_all_groups(
    snapshot: ClusterSnapshot, name: str, limit: int
) -> None:
    found = figures(snapshot)
    over = matching(f"{name}:>{limit}", snapshot, found)
    assert (over ^ matching(f"{name}:<={limit}", snapshot, found)).all()
    assert (over == ~matching(f"-{name}:>{limit}", snapshot, found)).all()
    assert (over == (getattr(found, COLUMNS[name]) > limit)).all()


@given(snapshots(), st.integers(0, 6), st.integers(0, 6))
def test_words_are_anded_and_ranges_are_inclusive(
    snapshot: ClusterSnapshot, low: int, high: int
) -> None:
    found, groups = figures(snapshot), snapshot.groups
    both = matching(f"node:{low}-{high} disk", snapshot, found)
    assert (both == ((groups.owner >= low) & (groups.owner <= high) & groups.spilled)).all()
    some = matching(f"group:{low},{high}", snapshot, found)
    assert (some == np.isin(groups.group, [low, high])).all()
    assert (matching(f"n{low}", snapshot, found) == (groups.owner == low)).all()
    assert (matching(f"g{low}", snapshot, found) == (groups.group == low)).all()
    assert matching("  ", snapshot, found).all()


@given(snapshots(), st.text(max_size=40))
def test_any_text_is_a_filter_or_says_why_not(snapshot: ClusterSnapshot, text: str) -> None:
    try:
        keep = matching(text, snapshot, figures(snapshot))
    except FilterError as error:
        assert error.what and len(text) > 0
    else:
        assert keep.dtype == bool and len(keep) == len(snapshot.groups)


@pytest.mark.parametrize(
    ("text", "said"),
    [("nod:3", "node:"), ("memroy", "memory"), ("prod:many", "prod:>30"), ("node:x", "node:1,3-5")],
)
def test_a_wrong_word_is_told_with_what_was_meant(text: str, said: str) -> None:
    snapshot = snapshot_of_one()
    with pytest.raises(FilterError, match=said):
        matching(text, snapshot, figures(snapshot))


def snapshot_of_one() -> ClusterSnapshot:
    nodes = Nodes.of([100], [50])
    return ClusterSnapshot("q", 1, NOW_S, nodes, (Operator("one", 2, 1),), Groups.of([0], [50]))


def test_every_known_word_is_understood() -> None:
    snapshot = snapshot_of_one()
    for word in KNOWN:
        matching(word + ("1" if word.endswith(":") else ""), snapshot, figures(snapshot))


# -- scales and the picture ----------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e12, allow_nan=False), max_size=60))
@example([561779105.0, 4.1217842646586796e-299, 4.1217842646586796e-299])
@example([5e-324])
def test_a_scale_has_rising_edges_and_keeps_the_order(values: list[float]) -> None:
    column = np.array(values, dtype=np.float64)
    scale = data.scale_of(column)
    assert len(scale.edges) == data.STEPS - 1
    assert all(a < b for a, b in zip(scale.edges, scale.edges[1:], strict=False))
    assert scale.low <= scale.edges[0] < scale.edges[-1] <= scale.high
    order = np.argsort(column, kind="stable")
    for packed in (scale.packed(column)[order], scale.steps(column)[order]):
        assert (np.diff(packed.astype(int)) >= 0).all()
    assert (scale.packed(column) == 0).sum() == (column <= 0).sum()
    assert len(scale.to_json()["texts"]) == data.STEPS


@given(
    snapshots(), st.sampled_from(sorted(data.COLOURS)), st.sampled_from(["", "one", "two", "gone"])
)
def test_the_picture_has_each_group_of_the_operator_once(
    snapshot: ClusterSnapshot, colour: str, operator: str
) -> None:
    sample = sample_of(snapshot, NOW_S)
    made = taken(sample, operator=operator, colour=colour, text="disk")
    rows = data.rows_of(snapshot, data.operator_of(snapshot, operator))
    groups = snapshot.groups
    assert made["groups"] == len(rows)
    assert (unpacked(made["node"], "<u2") == groups.owner[rows]).all()
    ids = made["ids"] if made["ids"] is not None else list(range(len(rows)))
    assert ids == groups.group[rows].tolist()
    flags = unpacked(made["flags"])
    assert ((flags & data.DISK > 0) == groups.spilled[rows]).all()
    assert ((flags & data.FLIGHT > 0) == groups.in_flight[rows]).all()
    assert ((flags & data.MATCH > 0) == groups.spilled[rows]).all()
    assert made["matches"] == groups.spilled[rows].sum()
    assert (flags >> 4 < data.STEPS).all()
    assert len(made["nodes"]) == len(snapshot.nodes)


def test_a_wrong_filter_shows_all_groups_and_says_so() -> None:
    made = taken(sample_of(snapshot_of_one(), NOW_S), text="nod:1")
    assert "node:" in made["wrong"]
    assert unpacked(made["flags"])[0] & data.MATCH


def test_a_move_that_runs_is_in_the_picture_of_its_operator_only() -> None:
    row = action_row("a", NOW_S, over=False)
    step = step_to_json(Move((Part("join", (1, 4)),), 1, 2, MB))
    moving = replace(row, body={**row.body, "step": step})
    assert data.moving([moving], "join") == [{"from": 1, "to": 2, "groups": [1, 4]}]
    assert data.moving([moving], "other") == []
    assert data.moving([row], "join") == []  # a spill moves nothing


# -- what if -------------------------------------------------------------------------------------------


def all_rows(snapshot: ClusterSnapshot) -> Any:
    return np.arange(len(snapshot.groups))


@given(snapshots(), st.sampled_from(what.DOES), st.integers(-1, 4))
def test_steps_take_each_group_that_can_be_taken_once(
    snapshot: ClusterSnapshot, do: str, to: int
) -> None:
    target = to if to < len(snapshot.nodes) else 0
    rows = all_rows(snapshot)
    made = what.steps_of(snapshot, rows, do, target if do == "move" else None)
    pairs = [pair for step in made.steps for pair in pairs_of(step)]
    assert len(pairs) == len(set(pairs))
    left = sum(count for _, count in made.left_out)
    if target != what.SPREAD or do != "move":
        assert len(pairs) + left == len(rows)
    for step in made.steps:
        assert what.exists(snapshot, step)
        if isinstance(step, Move):
            assert step.source != step.target
    assert not what.draft_of(snapshot, [{"do": "move"}, None, 3, {"do": "spill", "parts": 1}])
    again = what.draft_of(snapshot, [step_to_json(step) for step in made.steps])
    assert again == made.steps[: what.DRAFT_MAX]


@given(snapshots(), st.sampled_from(what.DOES), st.integers(0, 4))
def test_afterwards_all_state_is_still_there_and_the_model_agrees(
    snapshot: ClusterSnapshot, do: str, to: int
) -> None:
    made = what.steps_of(snapshot, all_rows(snapshot), do, to % len(snapshot.nodes))
    then = what.after(snapshot, made.steps)
    now_g, then_g = snapshot.groups, then.groups
    total = now_g.memory_bytes.sum() + now_g.disk_bytes.sum()
    assert then_g.memory_bytes.sum() + then_g.disk_bytes.sum() == total
    for column in ("memory_bytes", "disk_bytes"):
        by_node = then.by_node(getattr(then_g, column))
        assert by_node.tolist() == getattr(then.nodes, column).tolist()
    if made.steps:
        told = preview(what.plan_of(made.steps), snapshot, Coefficients())
        for one in told["nodes"]:
            assert one["after"]["memory_bytes"] == then.nodes.memory_bytes[one["node"]]
            assert one["after"]["disk_bytes"] == then.nodes.disk_bytes[one["node"]]


@given(snapshots())
def test_what_is_cleaned_up_after_a_spill_is_as_before(snapshot: ClusterSnapshot) -> None:
    rows = what.possible(snapshot, all_rows(snapshot), "spill")
    spilled = what.after(snapshot, what.steps_of(snapshot, rows, "spill", None).steps)
    assert all(isinstance(s, Spill) for s in what.steps_of(snapshot, rows, "spill", None).steps)
    back = what.steps_of(spilled, rows, "cleanup", None).steps
    assert all(isinstance(step, Cleanup) for step in back)
    again = what.after(spilled, back).groups
    assert (
        again.memory_bytes[rows]
        == (snapshot.groups.memory_bytes + snapshot.groups.disk_bytes)[rows]
    ).all()
    assert not again.spilled[rows].any()


@given(snapshots())
def test_the_best_target_has_room_when_one_has_and_is_the_most_even(
    snapshot: ClusterSnapshot,
) -> None:
    found = what.targets(snapshot, all_rows(snapshot))
    fitting = [one for one in found if one.fits]
    if fitting:
        assert found[0].fits
        assert found[0].even == max((one.even or 0.0) for one in fitting)
    for one in found:
        steps = what.steps_of(snapshot, all_rows(snapshot), "move", one.node).steps
        then = what.after(snapshot, steps)
        assert one.ends_at == then.nodes.memory_bytes[one.node]
        assert one.even == what.evenness(then.nodes.memory_bytes, then.nodes.alive)


@given(
    snapshots(),
    st.lists(st.one_of(st.integers(-3, 30), st.text(max_size=3), st.none()), max_size=12),
)
def test_a_selection_from_a_browser_names_only_what_there_is(
    snapshot: ClusterSnapshot, numbers: list[Any]
) -> None:
    name, rows = what.selected_rows(snapshot, {"operator": "two", "groups": numbers})
    assert name == "two"
    wanted = {n for n in numbers if isinstance(n, int)}
    assert set(snapshot.groups.group[rows].tolist()) <= wanted
    assert (snapshot.groups.operator[rows] == 1).all()
    unusable: tuple[Any, ...] = (
        None,
        [],
        "x",
        {"operator": 3, "groups": [1]},
        {"operator": "one", "groups": "1"},
    )
    for wrong in unusable:
        assert not len(what.selected_rows(snapshot, wrong)[1])


# -- the table -----------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 400), max_size=30))
def test_numbers_in_an_address_are_read_as_written(numbers: set[int]) -> None:
    assert table.numbers_in(",".join(map(str, sorted(numbers)))) == sorted(numbers)


def test_ranges_in_an_address_are_bounded() -> None:
    assert table.numbers_in("3-5,9") == [3, 4, 5, 9]
    assert table.numbers_in("x,-,4-,1e3") == [4]
    assert table.numbers_in("٣") == []
    assert len(table.numbers_in("0-99999999999")) <= table.NUMBERS_MAX


@given(snapshots())
def test_the_table_has_selected_groups_first_then_by_value(snapshot: ClusterSnapshot) -> None:
    sample = sample_of(snapshot, NOW_S)
    rows = data.rows_of(snapshot, 0)
    picked = rows[::3]
    made = table.rows_of(sample, "one", "size", "", picked)
    assert len(made) == len(rows)
    first = {int(n) for n in snapshot.groups.group[picked]}
    assert {row["group"] for row in made[: len(first)]} == first
    sizes = [row["size"] + row["disk"] for row in made[len(first) :]]
    assert sizes == sorted(sizes, reverse=True)
