"""Join trees: keys, bounds, fusing and columns; and, run row by row, the rows that SQL means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import QueryFileError
from engine.plan.fingerprint import describe, differences, fingerprint
from engine.plan.show import render
from engine.plan.tree import Exchange, Join, Plan, Scan, Union
from engine.query.model import (
    Field,
    OperatorSpec,
    key_id,
    time_id,
)
from engine.query.order import BadOrder, read_order, show
from tests.engine.plan.shapes import CHAIN, LEFT, SAME, STAR, plan
from tests.engine.query.random_trees import random_tree


def names(fields: tuple[Field, ...]) -> str:
    return " ".join(field.name for field in fields)


def test_a_chain_within_a_window() -> None:
    one, two, three = plan(CHAIN, window_s=60.0, join_order=LEFT).joins
    assert [j.kind for j in (one, two, three)] == ["window_join"] * 3
    assert [names(j.key) for j in (one, two, three)] == ["$0", "$1", "$2"]
    assert names(one.columns) == "$0 $1 @A @B B.v"
    assert names(two.columns) == "$0 $2 @A @B @C B.v"
    assert three.columns == ()
    assert [(b.early, b.late) for b in one.bounds] == [(0, 1), (1, 0)]
    assert [(b.early, b.late) for b in three.bounds] == [
        (0, 3),
        (1, 3),
        (2, 3),
        (3, 0),
        (3, 1),
        (3, 2),
    ]
    assert [e.id for e in three.children] == ["exchange-join-2", "exchange-D"]
    assert not any(e.fused for j in (one, two, three) for e in j.children)


def test_a_bushy_tree() -> None:
    one, two, three = plan(CHAIN, window_s=60.0).joins
    assert (names(one.key), names(two.key), names(three.key)) == ("$0", "$2", "$1")
    assert names(two.columns) == "$1 $2 @C @D"
    assert names(two.key) == "$2" and len(three.bounds) == 8


def test_without_windows_no_times_travel() -> None:
    one, two, _ = plan(CHAIN, join_order=LEFT).joins
    assert names(one.columns) == "$0 $1 B.v" and names(two.columns) == "$0 $2 B.v C.ts"
    assert one.bounds == () and one.kind == "window_join"


def test_a_tree_on_one_key_is_fused() -> None:
    assert [j.kind for j in plan(STAR, SAME).joins] == ["multi_join"]
    for order in ("(((a b) c) d)", "((a b) (c d))", "((a b c) d)"):
        found = plan(STAR, SAME, join_order=order)
        assert all(
            _fused(join) == [isinstance(e.child, Join) for e in join.children]
            for join in found.joins
        )
        assert found.inputs[1].alias == "b"


def _fused(join: Join) -> list[bool]:
    return [exchange.fused for exchange in join.children]


def test_operators_of_their_own_groups() -> None:
    order = "(((a b) c) d)"
    own = {"join-2": OperatorSpec(groups=16), "join-3": OperatorSpec(placement={1: 1.0})}
    one, two, three = plan(STAR, SAME, join_order=order, operators=own).joins
    assert [j.groups for j in (one, two, three)] == [8, 16, 8]
    assert set(three.placement) == {1} and two.placement == (0, 1) * 8
    assert _fused(two) == [False, False] and _fused(three) == [False, False]
    with pytest.raises(
        QueryFileError,
        match=r"q\.toml: operators\.join-4: there is no such operator\n"
        r"  operators are: join-1, join-2, join-3",
    ):
        plan(STAR, SAME, join_order=order, operators={"join-4": OperatorSpec(groups=16)})


def test_bad_join_orders_are_the_files_errors() -> None:
    cases = {
        "((a c) (b d))": r"q\.toml: join_order column 2: \(A C\) share no key\n  join streams that",
        "(a b": r"join_order column 1: a \( is not closed",
        "(a b) (c e)": "join_order column 10: there is no stream `e` in FROM",
    }
    for order, message in cases.items():
        with pytest.raises(QueryFileError, match=message):
            plan(CHAIN, join_order=order)


def test_render() -> None:
    sql = """SELECT x.k, u, b.ts FROM (SELECT k, ts, v AS u FROM a UNION ALL SELECT v, ts, 0 FROM b) x
        JOIN b ON b.k = x.k AND b.ts >= x.ts AND b.ts < x.ts + INTERVAL 5 SECONDS
        JOIN c [RANGE 3 s] ON c.v = b.v"""
    assert (
        render(plan(sql, SAME))
        == """\
query q: 2 nodes, exactly once
└─ sink parquet /out
   └─ project project-1
      │    k bigint = x.k
      │    u int = x.u
      │    ts timestamp = b.ts
      └─ window_join join-2 on b.v = c.v (int)
         │    within x.ts − c.ts ≤ 3 s
         │    within b.ts − c.ts ≤ 3 s
         │    8 groups: node 0 has 4, node 1 has 4
         ├─ exchange exchange-join-1 by (b.v)
         │  └─ window_join join-1 on x.k = b.k (bigint)
         │     │    within 0 s ≤ b.ts − x.ts ≤ 4.999999 s
         │     │    8 groups: node 0 has 4, node 1 has 4
         │     │    columns x.k bigint, b.v int, x.ts timestamp, b.ts timestamp, x.u int
         │     ├─ exchange exchange-x by (`k`)
         │     │  └─ union union-x
         │     │     ├─ scan a as x: parquet /in/a
         │     │     │       columns u int = `v`
         │     │     │       time ts, watermark 1 s
         │     │     └─ scan b as x: parquet /in/b
         │     │             columns u int = 0
         │     │             time ts, watermark 1 s
         │     └─ exchange exchange-b by (`k`)
         │        └─ scan b: parquet /in/b
         │                columns none but the key
         │                time ts, watermark 1 s
         └─ exchange exchange-c by (`v`)
            └─ scan c: parquet /in/c
                    columns none but the key
                    time ts, watermark 1 s"""
    )


def test_render_fused() -> None:
    text = render(plan(STAR, SAME, join_order="((a b) (c d))"))
    assert "exchange exchange-join-2 by (c.k): fused, the rows are there already" in text


def test_what_may_not_change() -> None:
    old = describe(plan(CHAIN, window_s=60.0, join_order=LEFT))
    cases = {
        "join changed: (((A ⋈ B) ⋈ C) ⋈ D) → ((A ⋈ B) ⋈ (C ⋈ D))": plan(
            CHAIN, window_s=60.0, join_order="((a b) (c d))"
        ),
        "join-1: windows changed: B − A ≤ 60 s, A − B ≤ 60 s → B − A ≤ 61.5 s, A − B ≤ 61.5 s": plan(
            CHAIN, window_s=61.5, join_order=LEFT
        ),
        "join-2: groups changed: 8 → 16": plan(
            CHAIN, window_s=60.0, join_order=LEFT, operators={"join-2": OperatorSpec(groups=16)}
        ),
        "input A: watermark: gone (was ts − 1 s)": plan(CHAIN, join_order=LEFT),
    }
    for line, changed in cases.items():
        assert line in differences(old, describe(changed))
        assert fingerprint(changed) != fingerprint(plan(CHAIN, window_s=60.0, join_order=LEFT))
    spread = plan(CHAIN, window_s=60.0, join_order=LEFT, placement={1: 1.0}, nodes=3)
    assert fingerprint(spread) == fingerprint(plan(CHAIN, window_s=60.0, join_order=LEFT))


# A query graph at random, and its plan run row by row with nothing but the columns that it declares.

Row = dict[str, int | None]


@dataclass(frozen=True)
class Drawn:
    inputs: int
    edges: tuple[tuple[int, str, int, str], ...]
    limits: tuple[tuple[int, int, int], ...]  # late ≤ early + µs
    ranges: tuple[tuple[int, int], ...]  # stream, µs
    window_s: float | None
    order: str | None
    seed: int

    @property
    def sql(self) -> str:
        ranges = dict(self.ranges)
        texts = [
            f"s{n}" + (f" [RANGE {ranges[n]} s]" if n in ranges else "") for n in range(self.inputs)
        ]
        wheres = [f"s{i}.{x} = s{j}.{y}" for i, x, j, y in self.edges]
        wheres += [
            f"s{late}.ts <= s{early}.ts + INTERVAL {s} SECONDS" for early, late, s in self.limits
        ]
        picked = ", ".join(
            f"s{n}.{c} AS {c}{n}" for n in range(self.inputs) for c in ("p", "v", "ts")
        )
        return f"SELECT {picked} FROM {', '.join(texts)} WHERE {' AND '.join(wheres)}"


@st.composite
def queries(draw: st.DrawFn) -> Drawn:
    inputs = draw(st.integers(2, 6))
    column = st.sampled_from("pqr")
    shape = draw(st.sampled_from(["chain", "star", "any", "one key"]))
    edges = []
    for n in range(1, inputs):
        other = {"chain": n - 1, "star": 0}.get(shape, draw(st.integers(0, n - 1)))
        pair = ("p", "p") if shape == "one key" else (draw(column), draw(column))
        edges.append((other, pair[0], n, pair[1]))
    if shape != "one key" and draw(st.booleans()):
        edges.append((0, draw(column), inputs - 1, draw(column)))
    node = st.integers(0, inputs - 1)
    pairs = st.tuples(node, node, st.integers(0, 6)).filter(lambda b: b[0] != b[1])
    ranges = st.dictionaries(node, st.integers(0, 6), max_size=inputs)
    order = show(
        random_tree(range(inputs), draw(st.lists(st.integers(0, 999), min_size=6, max_size=6))),
        [f"s{n}" for n in range(inputs)],
    )
    return Drawn(
        inputs,
        tuple(edges),
        tuple(draw(st.lists(pairs, max_size=3))),
        tuple(draw(ranges).items()) if draw(st.booleans()) else (),
        draw(st.sampled_from([None, None, 3.0])),
        order if draw(st.booleans()) else None,
        draw(st.integers(0, 1 << 30)),
    )


@settings(max_examples=150, deadline=None)
@given(queries())
def test_every_plan_gives_the_rows_that_the_query_means(drawn: Drawn) -> None:
    schemas = {f"s{n}": "p int, q int, r int, v int, ts timestamp" for n in range(drawn.inputs)}
    try:
        found = plan(drawn.sql, schemas, window_s=drawn.window_s, join_order=drawn.order)
    except QueryFileError as error:
        assert "share no key" in error.what and drawn.order
        with pytest.raises(BadOrder):
            spans = plan(drawn.sql, schemas).inputs
            read_order(drawn.order, [i.alias for i in spans], _spans(spans))
        return
    rows = _rows(drawn)
    assert _run(found, rows) == _meant(drawn, rows)


def _spans(inputs: tuple[object, ...]) -> list[frozenset[int]]:
    numbers = {p.number for given in inputs for p in given.keys}  # type: ignore[attr-defined]
    return [
        frozenset(n for n, given in enumerate(inputs) if any(p.number == c for p in given.keys))  # type: ignore[attr-defined]
        for c in sorted(numbers)
    ]


def _rows(drawn: Drawn) -> list[list[dict[str, int]]]:
    pick = Random(drawn.seed)
    return [
        [
            {c: pick.randrange(3) for c in "pqr"}
            | {"v": n * 100 + i, "ts": pick.randrange(8) * 1_000_000}
            for i in range(4)
        ]
        for n in range(drawn.inputs)
    ]


def _meant(drawn: Drawn, rows: list[list[dict[str, int]]]) -> Counter[tuple[int, ...]]:
    """All combinations that the conditions let through."""
    limits = list(drawn.limits)
    limits += [(i, j, s) for i, s in drawn.ranges for j in range(drawn.inputs) if i != j]
    if drawn.window_s is not None:
        limits += [(i, j, 3) for i, j in product(range(drawn.inputs), repeat=2) if i != j]
    found: Counter[tuple[int, ...]] = Counter()
    for joined in product(*rows):
        equal = all(joined[i][x] == joined[j][y] for i, x, j, y in drawn.edges)
        near = all(joined[late]["ts"] - joined[e]["ts"] <= s * 1_000_000 for e, late, s in limits)
        if equal and near:
            found[tuple(row[c] for row in joined for c in ("p", "v", "ts"))] += 1
    return found


def _run(found: Plan, rows: list[list[dict[str, int]]]) -> Counter[tuple[int, ...]]:
    position = {given.alias: n for n, given in enumerate(found.inputs)}
    result = list(_joined(found, found.root.child, rows, position))
    assert found.root.where is None
    return Counter(tuple(row[o.source or ""] for o in found.root.outputs) for row in result)


def _joined(
    found: Plan, join: Join, rows: list[list[dict[str, int]]], position: dict[str, int]
) -> Iterator[dict[str, int]]:
    """The rows of one operator, each child's with its declared columns and no others."""
    sides = [list(_child(found, child, rows, position)) for child in join.children]
    times = {n: time_id(given.alias) for n, given in enumerate(found.inputs)}
    for parts in product(*sides):
        merged: dict[str, int] = {}
        fits = True
        for part in parts:
            fits &= all(merged.get(name, value) == value for name, value in part.items())
            merged |= part
        assert all(sum(f.name in part for part in parts) > 1 for f in join.key)
        near = all(merged[times[b.late]] - merged[times[b.early]] <= b.us for b in join.bounds)
        if fits and near:
            yield {f.name: merged[f.name] for f in join.columns} if join.columns else merged


def _child(
    found: Plan, exchange: Exchange, rows: list[list[dict[str, int]]], position: dict[str, int]
) -> Iterator[dict[str, int]]:
    child = exchange.child
    if isinstance(child, Join):
        yield from _joined(found, child, rows, position)
        return
    assert isinstance(child, Scan) and not isinstance(child, Union)
    given_input = child.input
    for row in rows[position[given_input.alias]]:
        keys = {part.number: part.column or "" for part in given_input.keys}
        if given_input.where and not _passes(given_input.where, row):
            continue
        made = {key_id(number): row[name] for number, name in keys.items()}
        made |= {time_id(given_input.alias): row["ts"]} if given_input.time else {}
        yield made | {given_input.column_id(f.name): row[f.name] for f in given_input.payload}


def _passes(where: str, row: dict[str, int]) -> bool:
    """(`p` = `q`) AND …: what a class with two members in one input asks for."""
    pairs = [part.strip("() ").replace("`", "").split(" = ") for part in where.split(" AND ")]
    return all(row[left] == row[right] for left, right in pairs)
