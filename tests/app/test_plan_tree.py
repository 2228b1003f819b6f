"""Where the boxes of operator trees are: any tree, no box over another, every line from box to box; and its figures."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.components import plan_tree as tree
from app.components.plan_figures import SUMMED, figures_of, flows, measured
from app.components.plan_view import LINE_MAX, LINE_MIN, lines, thickness
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from tests.app.made import sample_of

Tree = dict[str, Any]
NOW_S = 1_790_000_000.0


def numbered(shape: Any) -> Tree:
    """Nested lists as a tree: streams s0, s1 … left to right, operators j1, j2 … bottom-up."""
    streams, joins = iter(range(1_000)), iter(range(1, 1_000))

    def build(part: Any) -> Tree:
        if not isinstance(part, list):
            name = f"s{next(streams)}"
            return {"id": f"scan-{name}", "kind": "stream", "alias": name, "streams": [name]}
        below = [build(one) for one in part]
        return {"id": f"j{next(joins)}", "kind": "join", "children": below}

    return build(shape)


JOINS = st.recursive(
    st.lists(st.just(0), min_size=2, max_size=4),
    lambda inner: st.lists(st.just(0) | inner, min_size=2, max_size=3),
    max_leaves=8,
)
SHAPES = JOINS | JOINS.map(lambda shape: [shape]) | st.just([0])  # window functions have one input


@given(SHAPES)
def test_no_box_lies_over_another_and_all_lie_inside(shape: Any) -> None:
    placed = tree.placed(numbered(shape))
    for box in placed.boxes:
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= placed.width
        assert box.y >= tree.EDGE_TOP and box.y + box.height <= placed.height
    for one, other in combinations(placed.boxes, 2):
        apart_x = abs(one.x - other.x) >= (one.width + other.width) / 2
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y, (one, other)


@given(SHAPES)
def test_streams_stand_in_their_order_in_the_bottom_row(shape: Any) -> None:
    root = numbered(shape)
    boxes = {box.id: box for box in tree.placed(root).boxes}
    streams = [boxes[str(leaf["id"])] for leaf in tree.leaves(root)]
    assert [box.x for box in streams] == sorted(box.x for box in streams)
    assert len({box.y for box in streams}) == 1 and all(box.leaf for box in streams)


@given(SHAPES)
def test_a_line_goes_up_from_each_box_to_the_one_above(shape: Any) -> None:
    root = numbered(shape)
    placed = tree.placed(root)
    boxes = {box.id: box for box in placed.boxes}
    above = {str(c["id"]): str(op["id"]) for op in tree.operators(root) for c in tree.children(op)}
    assert sorted(edge.lower for edge in placed.edges) == sorted(boxes)
    for edge in placed.edges:
        low = boxes[edge.lower]
        assert (edge.x0, edge.y0) == (low.x, low.y) and edge.y1 < edge.y0
        assert edge.upper == above.get(edge.lower, "")
        if edge.upper:
            high = boxes[edge.upper]
            assert (edge.x1, edge.y1) == (high.x, high.y + high.height)
        assert edge.at(0) == pytest.approx((edge.x0, edge.y0))
        assert edge.at(1) == pytest.approx((edge.x1, edge.y1))
        assert edge.y1 <= edge.at(0.5)[1] <= edge.y0


def test_titles_name_what_is_joined() -> None:
    root = numbered([[0, 0], 0])
    assert tree.title(root) == "(s0 s1) ⋈ s2"
    assert tree.title(renamed(root, {"s0": "a", "s1": "b", "s2": "c"})) == "ab ⋈ c"
    assert tree.title(renamed(root, {"s0": "a", "s1": "orders"})) == "(a orders) ⋈ s2"
    assert tree.title(numbered([0])) == "γ s0"


def renamed(node: tree.Node, names: dict[str, str]) -> Tree:
    alias = str(node.get("alias", ""))
    below = [renamed(child, names) for child in tree.children(node)]
    return {**node, "alias": names.get(alias, alias), "children": below}


# -- figures -------------------------------------------------------------------------------------------


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    nodes, groups = draw(st.integers(1, 4)), draw(st.integers(1, 12))

    def column(strategy: st.SearchStrategy[Any]) -> Any:
        return np.array(draw(st.lists(strategy, min_size=2 * groups, max_size=2 * groups)))

    columns = Groups.of(
        column(st.integers(0, nodes - 1)),
        column(st.integers(0, 10**9)),
        operator=np.repeat([0, 1], groups),
        group=np.tile(np.arange(groups), 2),
        disk_bytes=column(st.integers(0, 10**9)),
        rows_in_per_s=column(st.floats(0, 1e5)),
        rows_out_per_s=column(st.floats(0, 1e5)),
        owed_rows=column(st.floats(0, 1e6)),
    )
    described = Nodes.of([10**9] * nodes, [0] * nodes)
    operators = (Operator("j1", 2, groups), Operator("j2", 2, groups))
    return ClusterSnapshot("q", 1, NOW_S, described, operators, columns)


@given(snapshots())
def test_an_operator_is_the_sum_of_its_nodes_and_all_are_the_whole(
    snapshot: ClusterSnapshot,
) -> None:
    found = figures_of(sample_of(snapshot, NOW_S))
    assert set(found) == {"j1", "j2"}
    for name in SUMMED:
        whole = getattr(snapshot.groups, name).sum()
        assert sum(getattr(one, name) for one in found.values()) == pytest.approx(whole)
        for one in found.values():
            assert one.nodes[name].sum() == pytest.approx(getattr(one, name))
    assert sum(one.nodes["groups"].sum() for one in found.values()) == len(snapshot.groups)


@given(snapshots())
def test_selectivity_is_results_for_each_row(snapshot: ClusterSnapshot) -> None:
    for one in figures_of(sample_of(snapshot, NOW_S)).values():
        if one.rows_in_per_s > 0:
            assert one.selectivity == pytest.approx(one.rows_out_per_s / one.rows_in_per_s)
        else:
            assert one.selectivity is None


@given(snapshots(), st.dictionaries(st.sampled_from(["s0", "s1", "s2"]), st.floats(0, 1e4)))
def test_flows_are_measured_where_only_one_stream_is_open(
    snapshot: ClusterSnapshot, asked: dict[str, float]
) -> None:
    """((s0 s1) s2): s2 is what the upper join takes less what the lower gives; s0 and s1 are as asked for."""
    root = numbered([[0, 0], 0])
    found = figures_of(sample_of(snapshot, NOW_S))
    rates = flows(root, found, asked)
    assert rates["j1"] == found["j1"].rows_out_per_s and rates["j2"] == found["j2"].rows_out_per_s
    rest = max(0.0, found["j2"].rows_in_per_s - found["j1"].rows_out_per_s)
    assert rates["scan-s2"] == pytest.approx(rest)
    assert measured(root) == {"scan-s2"}
    for name in ("s0", "s1"):
        assert rates.get(f"scan-{name}") == asked.get(name)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_lines_are_thicker_the_more_flows(one: float, other: float) -> None:
    most = max(one, other)
    less, more = sorted((one, other))
    assert LINE_MIN <= thickness(less, most) <= thickness(more, most) <= LINE_MAX + 1e-9
    assert thickness(None, most) == LINE_MIN


def test_the_picture_of_lines_has_nothing_that_ends_a_css_url() -> None:
    placed = tree.placed(numbered([[0, 0], [0, 0]]))
    url = lines(placed, {"j1": 10.0})
    assert url.startswith('url("data:image/svg+xml,') and url.endswith('")')
    assert not set(url[5:-2]) & set('"<>\\\n')
