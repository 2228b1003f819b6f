"""Placement, the plan's tree of text, and what may not change across restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.plan.build import build_plan
from engine.plan.fingerprint import describe, differences, fingerprint
from engine.plan.placement import even, weighted
from engine.plan.show import render
from engine.plan.tree import Plan
from engine.query.ddl import parse_schema
from engine.query.model import QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

SQL = "SELECT a.k, va + x.vb AS s FROM a JOIN b x ON a.k = x.k AND va > 3 WHERE va < x.vb"


def plan(sql: str = SQL, b: str = "k int, vb int", **changes: object) -> Plan:
    streams = {
        "a": StreamSpec(
            "a",
            "parquet",
            "/in/a",
            parse_schema("k long, va int, ts timestamp"),
            time="ts",
            watermark_s=1.0,
        ),
        "b": StreamSpec("b", "csv", "/in/b", parse_schema(b)),
    }
    spec = QuerySpec("q", sql, streams, SinkSpec("parquet", "/out"), Path("/state"), Path("q.toml"))
    spec = replace(spec, **changes)  # type: ignore[arg-type]
    return build_plan(spec, analyse(spec))


@given(st.integers(1, 2000), st.integers(1, 50))
def test_even(groups: int, nodes: int) -> None:
    counts = Counter(even(groups, nodes))
    assert len(even(groups, nodes)) == groups
    assert max(counts.values()) - min(counts.get(n, 0) for n in range(nodes)) <= 1


shares = (
    st.lists(st.integers(0, 100), min_size=1, max_size=8)
    .filter(any)
    .map(lambda parts: {n: part / sum(parts) for n, part in enumerate(parts)})
)


@given(st.integers(1, 2000), shares)
def test_weighted(groups: int, given_shares: dict[int, float]) -> None:
    placed = weighted(groups, given_shares)
    counts = Counter(placed)
    assert len(placed) == groups
    for node, share in given_shares.items():
        assert abs(counts.get(node, 0) - groups * share) <= 1
        assert share > 0 or node not in counts


def test_weighted_is_spread_out() -> None:
    placed = weighted(256, {0: 2 / 3, 1: 1 / 6, 2: 1 / 6})
    assert Counter(placed) == {0: 171, 1: 43, 2: 42} or Counter(placed) == {0: 171, 1: 42, 2: 43}
    for start in range(0, 240, 12):
        assert 6 <= placed[start : start + 12].count(0) <= 10


def test_plan() -> None:
    found = plan(nodes=3, groups=8)
    (join,) = found.joins
    assert join.placement == (0, 1, 2, 0, 1, 2, 0, 1)
    assert [e.id for e in join.children] == ["exchange-a", "exchange-x"]
    assert plan(placement={0: 0.75, 1: 0.25}, groups=8).joins[0].placement.count(0) == 6


def test_render() -> None:
    assert (
        render(plan())
        == """\
query q: 2 nodes, exactly once
└─ sink parquet /out
   └─ project project-1
      │    k bigint = a.k
      │    s int = ("a.va" + "x.vb")
      │    where ("a.va" < "x.vb")
      └─ multi_join join-1 on a.k = x.k (bigint)
         │    256 groups: node 0 has 128, node 1 has 128
         ├─ exchange exchange-a by (`k`)
         │  └─ scan a: parquet /in/a
         │          columns va int
         │          filter (`va` > 3)
         │          time ts, watermark 1 s
         └─ exchange exchange-x by (CAST(`k` AS bigint))
            └─ scan b as x: csv /in/b
                    columns vb int"""
    )


def test_what_may_change() -> None:
    same = plan(nodes=5, placement={0: 1.0}, sink=SinkSpec("json", "/else"))
    assert fingerprint(same) == fingerprint(plan())
    assert differences(describe(plan()), describe(same)) == []
    assert fingerprint(plan(SQL.replace("AND va > 3", "\n and (VA > 3)"))) == fingerprint(plan())


def test_what_may_not_change() -> None:
    old = describe(plan())
    cases = [
        (plan(groups=128), "join-1: groups changed: 256 → 128"),
        (
            plan(b="k int, vb int, n int"),
            "stream b: schema changed: k int, vb int → k int, vb int, n int",
        ),
        (plan(SQL.replace("va > 3", "va > 4")), "input a: filter changed: (`va` > 3) → (`va` > 4)"),
        (plan(SQL.replace("a.k, ", "")), 'output 1: gone (was s int = ("a.va" + "x.vb"))'),
    ]
    for changed, line in cases:
        assert line in differences(old, describe(changed))
        assert fingerprint(changed) != fingerprint(plan())


def test_fingerprint_is_stable() -> None:
    assert fingerprint(plan()) == fingerprint(plan())
    assert len(fingerprint(plan())) == 32
