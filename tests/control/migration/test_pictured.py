"""Trees as they are drawn: each input once, figures that add up to the plan's, and each state's fate as it was matched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.migration.model import Model
from control.migration.pictured import trees
from control.migration.propose import price, told
from control.migration.strategies import Change, Pace, anew_bytes
from control.migration.trees import Tree, leaves
from tests.control.migration.made import all_trees, models
from tests.control.migration.outlooks import NEW, OLD, PACE, outlook, skewed


def walk(node: Any) -> Iterator[Any]:
    yield node
    for child in node.get("children", ()):
        yield from walk(child)


def sides(node: Any) -> list[Any]:
    return [side for one in walk(node) for side in one.get("sides", ())]


@given(models(5, 3), st.data())
@settings(deadline=None, max_examples=40)
def test_they_say_what_the_change_says(model: Model, data: st.DataObject) -> None:
    every = list(all_trees(model.classes, model.everything))
    old, new = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    change = Change.of(model, old, new)
    drawn = trees(change, Pace())
    loads = {"before": (old, change.old), "after": (new, change.new)}
    matched = change.matched
    for name, (tree, load) in loads.items():
        root = drawn[name]
        streams = [one["id"] for one in walk(root) if one["kind"] == "stream"]
        assert streams == [model.names[n] for n in leaves(tree)]
        whole = sum(side["bytes"] for side in sides(root))
        assert whole == pytest.approx(load.state_bytes)
        cpu = sum(one["cpu_s"] for one in walk(root) if one["kind"] == "join")
        assert cpu == pytest.approx(load.cpu(Pace().join_s, Pace().insert_s))
        ids = [one["id"] for one in walk(root)]
        assert len(ids) == len(set(ids))
        for one in walk(root):
            assert [s["of"] for s in one.get("sides", ())] == [
                c["id"] for c in one.get("children", ())
            ]
    now, then = (Counter(s["fate"] for s in sides(drawn[name])) for name in ("before", "after"))
    assert now == Counter(
        {"shared": len(matched.shared), "dropped": len(matched.dropped)}
    ) and then == Counter(
        shared=len(matched.shared),
        sorted_anew=len(matched.sorted_anew),
        recomputed=len(matched.recomputed),
    )
    anew = sum(s["bytes"] for s in sides(drawn["after"]) if s["fate"] != "shared")
    assert anew == pytest.approx(anew_bytes(change))


def test_the_curve_crosses_where_it_is_said_to() -> None:
    model = skewed()
    told_ = told(price(outlook(model, OLD), model, OLD, NEW, PACE))
    curve = told_["curve"]
    dearer = [one["moving"]["cost_row_s"] > one["parallel"]["cost_row_s"] for one in curve]
    turns = [
        (a["factor"], b["factor"])
        for (a, b), (was, now) in zip(pairwise(curve), pairwise(dearer), strict=True)
        if was != now
    ]
    assert any(low <= told_["crossover"] <= high for low, high in turns), (
        turns,
        told_["crossover"],
    )
    now = next(one for one in curve if one["factor"] == pytest.approx(1))
    for name in ("moving", "parallel"):
        assert now[name]["duration_s"] == pytest.approx(told_["strategies"][name]["duration_s"])
    assert told_["window_s"] == 60.0
    assert json.loads(json.dumps(told_, allow_nan=False)) == told_


def test_without_windows_there_is_no_curve() -> None:
    model = Model.of([100.0] * 3, [[0, 1], [1, 2]], [0.01, 0.001], ages_s=[60.0] * 3)
    running: Tree = ((0, 1), 2)
    told_ = told(price(outlook(model, running, window=None), model, running, (0, (1, 2)), PACE))
    assert told_["curve"] == [] and told_["window_s"] is None and told_["crossover"] is None
