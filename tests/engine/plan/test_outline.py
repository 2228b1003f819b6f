"""The plan as JSON says the same as the tree of operators: any join order, fused or not, with and without windows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.plan.outline import outline
from engine.plan.show import render
from engine.plan.tree import Exchange, Join, Operator, Plan, Scan, Union
from engine.query.order import show
from tests.engine.plan.shapes import CHAIN, LEFT, SAME, STAR, plan
from tests.engine.query.random_trees import random_tree


def streams(node: dict[str, Any]) -> Iterator[str]:
    """Left to right."""
    if node["kind"] == "stream":
        yield node["alias"]
    for child in node.get("children", ()):
        yield from streams(child)


def same(node: dict[str, Any], operator: Operator | Scan | Union) -> None:
    assert node["id"] == operator.id
    if isinstance(operator, Scan | Union):
        assert node["kind"] == "stream" and "children" not in node
        return
    assert node["groups"] == operator.groups
    assert node["inputs"] == [given_.alias for given_ in operator.inputs] == list(streams(node))
    pairs = zip(node["children"], operator.children, strict=True)
    for child, exchange in pairs:
        assert isinstance(exchange, Exchange) and child["fused"] == exchange.fused
        same(child, exchange.child)


def checked(found: Plan) -> dict[str, Any]:
    told = outline(found)
    assert json.loads(json.dumps(told)) == told
    same(told["root"], found.root.child)
    assert (told["beside"] is None) == (found.beside is None)
    if found.beside is not None:
        same(told["beside"], found.beside)
    text = render(found)
    for operator in found.operators:
        assert operator.id in text
    for line in (*told["root"]["on"], *told["root"]["within"]):
        assert line in text
    return told


@given(st.lists(st.integers(0, 1_000), min_size=8, max_size=8), st.booleans())
def test_any_order_of_joins(picks: list[int], windows: bool) -> None:
    order = show(random_tree(range(4), picks), ("a", "b", "c", "d"))
    checked(plan(STAR, SAME, join_order=order, **({"window_s": 60.0} if windows else {})))


def test_a_chain_within_a_window() -> None:
    root = checked(plan(CHAIN, window_s=60.0, join_order=LEFT))["root"]
    assert root["on"] == ["C.z = D.z (bigint)"]
    assert root["within"] == [f"−60 s ≤ D.ts − {name}.ts ≤ 60 s" for name in "ABC"]
    assert [child["id"] for child in root["children"]] == ["join-2", "scan-D"]


def test_another_tree_beside_it() -> None:
    orders = (LEFT, "(A (B (C D)))")
    one, other = (plan(CHAIN, window_s=60.0, join_order=order) for order in orders)
    renamed = {join.id: f"join-{n}" for n, join in enumerate(other.joins, start=4)}
    found = replace(one, beside=called(other.joins[-1], renamed))
    told = checked(found)
    assert told["root"]["id"] == "join-3" and told["beside"]["id"] == "join-6"
    assert "beside it, until no old row can be in a result to come" in render(found)


def called(join: Join, names: dict[str, str]) -> Join:
    """The same tree under other names."""
    children = tuple(
        replace(c, child=called(c.child, names)) if isinstance(c.child, Join) else c
        for c in join.children
    )
    return replace(join, id=names[join.id], children=children)


def test_what_is_fused_is_said() -> None:
    root = checked(plan(STAR, SAME, join_order=LEFT))["root"]
    assert [child["fused"] for child in root["children"]] == [True, False]


def test_window_functions_say_what_they_compute() -> None:
    sql = """SELECT a.k, sum(a.v) OVER (PARTITION BY a.k ORDER BY a.ts ROWS 2 PRECEDING) AS s
        FROM a JOIN b ON a.k = b.k"""
    root = checked(plan(sql, {name: SAME[name] for name in "ab"}, window_s=60.0))["root"]
    assert root["kind"] == "group_by" and len(root["children"]) == 1
    assert any("sum" in line for line in root["computes"])
    below = (
        plan(sql, {name: SAME[name] for name in "ab"}, window_s=60.0).root.child.children[0].child
    )
    assert isinstance(below, Join)
