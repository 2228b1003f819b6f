"""Nodes' pure parts: figures of each node, one node's parts, which is in most trouble, its chart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from app.components.headline import headline
from app.components.node_card import cards_of
from app.components.units import NONE
from app.feed import Fresh
from app.health import Alive
from app.pages import nodes_chart, nodes_data
from app.pages.page import Seen
from app.view import View
from control.ledger import QueryRow, Wanted
from control.samples import Series
from control.snapshot import ClusterSnapshot
from tests.app.made import QUERY, picture, sample_of
from tests.app.pictures import NOW_S, snapshots

TIMES = st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=5, max_size=5)


@given(snapshots())
def test_a_nodes_parts_add_up_to_its_groups(snapshot: ClusterSnapshot) -> None:
    groups = snapshot.groups
    for node in range(len(snapshot.nodes)):
        parts = nodes_data.parts(snapshot, node)
        mine = snapshot.on(node)
        assert [part.operator for part in parts] == [o.name for o in snapshot.operators]
        assert sum(part.groups for part in parts) == len(mine)
        assert sum(part.memory_bytes for part in parts) == groups.memory_bytes[mine].sum()
        assert sum(part.disk_bytes for part in parts) == groups.disk_bytes[mine].sum()


@given(snapshots())
def test_largest_and_least_productive_are_the_ends_of_their_orders(
    snapshot: ClusterSnapshot,
) -> None:
    groups = snapshot.groups
    size = groups.memory_bytes + groups.disk_bytes
    for node in range(len(snapshot.nodes)):
        mine, shown = snapshot.on(node), nodes_data.largest(snapshot, node)
        assert len(shown) == min(len(mine), nodes_data.GROUPS_SHOWN)
        rest = np.setdiff1d(mine, shown)
        assert not len(rest) or size[rest].max() <= size[shown].min()
        least = nodes_data.least_productive(snapshot, node)
        assert (groups.memory_bytes[least] > 0).all()
        assert not groups.in_flight[least].any()


@given(snapshots(), TIMES)
def test_the_node_that_is_full_first_is_in_most_trouble(
    snapshot: ClusterSnapshot, times: list[float | None]
) -> None:
    full = times[: len(snapshot.nodes)]
    sample = sample_of(snapshot, NOW_S)
    cards = cards_of(sample, full)
    worst = nodes_data.fullest(cards)
    known = [seconds for seconds in full if seconds is not None]
    if known:
        assert full[worst] == min(known)
    else:
        assert cards.fill[worst] == cards.fill.max()


@given(snapshots())
def test_every_figure_can_be_read_and_sorted(snapshot: ClusterSnapshot) -> None:
    sample = sample_of(snapshot, NOW_S)
    cards = cards_of(sample, [None] * len(snapshot.nodes))
    rows = nodes_data.rows(sample, cards, False)
    assert [row["node"] for row in rows] == list(range(len(snapshot.nodes)))
    for row in rows:
        figures = [name for name in row if f"{name}_text" in row]
        assert all(isinstance(row[f"{name}_text"], str) for name in figures)
        assert len(figures) == 12
    assert sum(row["groups"] for row in rows) == len(snapshot.groups)
    assert {row["full_text"] for row in nodes_data.rows(sample, cards, True)} == {NONE}


def test_a_node_that_is_not_alive_is_said_to_be() -> None:
    """In the table, in the line above it and in the sentence at the top."""
    snapshot = picture(QUERY, NOW_S, 3, 24)
    alive = np.array([True, False, True])
    snapshot = replace(snapshot, nodes=replace(snapshot.nodes, alive=alive))
    seen = seen_of(snapshot, False)
    assert seen.sample is not None
    cards = cards_of(seen.sample, [None] * 3)
    states = [row["state"] for row in nodes_data.rows(seen.sample, cards, False)]
    assert [state == "not alive" for state in states] == [False, True, False]
    assert "1 not alive" in nodes_data.headline(seen.sample, cards)
    row = QueryRow(QUERY, "", "", 3, Wanted.RUNNING, False, NOW_S, "running")
    assert headline(replace(seen, query=row), [None] * 3, [], []).strong == "n1 not alive."


def seen_of(snapshot: ClusterSnapshot, stale: bool) -> Seen:
    fresh = Fresh(1.0, stale, Alive("engine", "running", 1.0, stale))
    return Seen(View(), None, sample_of(snapshot, NOW_S), fresh, NOW_S)


@given(snapshots(), st.booleans(), st.integers(0, 30), st.integers(0, 6))
def test_the_chart_is_one_that_plotly_takes_and_grows_by_lists(
    snapshot: ClusterSnapshot, stale: bool, points: int, node: int
) -> None:
    columns = len(snapshot.nodes)
    values: dict[str, Any] = {
        name: np.random.default_rng(points).random((points, columns)) * 1e5
        for name in ("rows_in_per_s", "rows_out_per_s")
    }
    times = np.array([NOW_S - 5.0 * n for n in range(points, 0, -1)], dtype=np.float64)
    series = Series(times, values, 5.0)
    drawn = nodes_chart.whole(seen_of(snapshot, stale), series, node)
    go.Figure(drawn)  # raises for what Plotly does not know
    for trace in drawn["data"]:
        assert isinstance(trace["x"], list)
        assert len(trace["y"]) == points
    top = drawn["layout"]["yaxis"]["range"][1]
    if points and node < columns:
        assert top >= max(column[:, node].max() for column in values.values())
