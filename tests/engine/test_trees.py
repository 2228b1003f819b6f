"""Trees of joins without Spark: whatever the tree, the windows, the disorder, the holds, the restarts — the batch join.

Thousands of queries a run: `HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/test_trees.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, event, given

from engine.errors import SpillwayError
from tests import examples
from tests.engine.local import Local
from tests.engine.made import Life, Query, S, Told, live, lives, queries


@contextmanager
def scratch() -> Iterator[Path]:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="spillway-trees-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def check(local: Local, told: Told, query: Query) -> Counter[tuple[int, ...]]:
    """Results, side outputs and counts are as the definitions have them."""
    found = local.results()
    names = [f"i{i}" for i in range(query.size)]
    rows = (
        list(zip(*(found.column(n).to_pylist() for n in names), strict=True))
        if found.num_rows
        else []
    )
    expected = query.expected([told.accepted(i) for i in range(query.size)])
    got = Counter(rows)
    assert got == expected, (
        f"missing {list(expected - got)[:3]}, spurious {list(got - expected)[:3]} of {len(rows)}"
    )
    for kind, ids in (("late", told.late), ("null_keys", told.null)):
        aside = [id_ for i in range(query.size) for id_ in _ids(local, kind, f"s{i}")]
        assert sorted(aside) == sorted(ids), kind
    totals = local.ticker.totals
    assert (totals.late_rows, totals.null_key_rows, totals.rows_out) == (
        len(told.late),
        len(told.null),
        len(rows),
    )
    assert totals.rows_in == len(told.tick_of) - len(told.late) - len(told.null)
    return got


def _ids(local: Local, kind: str, alias: str) -> list[int]:
    table = local.aside(kind, alias)
    return table.column("id").to_pylist() if table.num_rows else []


def accepted(query: Query) -> Query:
    """Only queries that the engine takes: no circle of windows that can never hold."""
    with scratch() as root:
        try:
            Local(root, query.sql(), query.streams(), window_s=query.window)
        except SpillwayError as error:
            assert "can never hold" in str(error), str(error)
            assume(False)
    return query


@examples.lives()
@given(queries(), lives)
def test_every_tree_gives_the_batch_join_in_every_order(query: Query, life: Life) -> None:
    accepted(query)
    rng = np.random.default_rng(life.seed)
    orders = {None, *(query.random_order(rng) for _ in range(2))}
    for order in orders:
        with scratch() as root:
            local, told = live(root, query, life, order)
            got = check(local, told, query)
            event(f"{query.size} streams, {'some' if got else 'no'} results")
            if not life.holds:
                in_order(local, told, query)


def in_order(local: Local, told: Told, query: Query) -> None:
    """Paper 3, lemma 2.1, in its strong form: a result comes in the very tick of its last part. So for two
    results of different ticks, the last part of the later one is newer than all parts of the earlier one."""
    found = local.results()
    if not found.num_rows:
        return
    last = np.max(
        [[told.tick_of[i] for i in found.column(f"i{n}").to_pylist()] for n in range(query.size)],
        axis=0,
    )
    assert last.tolist() == found.column("$version").to_pylist()


def in_order_of_the_lemma(local: Local, told: Told, query: Query) -> None:
    """Paper 3, lemma 2.1, as it is written: of two results of different ticks, some part of the earlier one is not
    newer than that part of the later one."""
    found = local.results()
    if not found.num_rows:
        return
    parts = [
        [told.tick_of[i] for i in found.column(f"i{n}").to_pylist()] for n in range(query.size)
    ]
    rows = np.unique(np.array([found.column("$version").to_pylist(), *parts]).T, axis=0)
    for version in np.unique(rows[:, 0]):
        earlier, later = rows[rows[:, 0] < version, 1:], rows[rows[:, 0] == version, 1:]
        wrong = (earlier[:, None, :] > later[None, :, :]).all(axis=2)
        assert not wrong.any(), (
            f"a result of version {version} is older in all its parts than one before"
        )


CHAIN = Query(
    classes=((0,), (0, 1), (1,)),
    edges=((1, 0, (0,)), (2, 1, (1,))),
    bounds=tuple((i, j, 6 * S) for i in range(3) for j in range(3) if i != j),
    ranges={},
    conditions=(),
    window=6,
    delays=(4.0, 4.0, 4.0),
    idle=(None, None, None),
)


@pytest.mark.parametrize("order", [pytest.param(None, marks=pytest.mark.long), "(s0 (s1 s2))"])
def test_state_ends_with_its_windows(order: str | None) -> None:
    """What is kept depends on windows and delays, not on how long the query has run."""
    life = Life(seed=5, ticks=120, disorder=4.0, step=1.0, late=0.01, silent=0.0, nodes=(2,))
    with scratch() as root:
        local, told = live(root, CHAIN, life, order, size=20)
        check(local, told, CHAIN)
        kept = local.kept
        # 6 s of window, 4 s of delay, an eighth of both for merging, the tick before the watermark moves and its own
        assert max(kept[-40:]) <= 1.3 * max(kept[20:50])
        per_second = len(told.tick_of) / 120
        sources = {
            op.id: [s for s in op.sides if len(s.aliases) == 1]
            for op in local.ticker.setup.flow.ops
        }
        assert all(sources.values())
        for op in local.ticker.setup.flow.ops:
            for at, side in enumerate(op.sides):
                runs = [
                    r
                    for p, rs in local.ticker.manifest.runs.items()
                    for r in rs
                    if (p.operator, p.input) == (op.id, at)
                ]
                if len(side.aliases) == 1:
                    # One window, also opposite a join: each of its rows is new because of one of its parts.
                    assert sum(r.rows for r in runs) <= per_second / 3 * (6 + 4 + 10 / 8 + 1)
                assert len(runs) <= 2 * (8 + 2 + 6)


def test_a_side_that_never_ends_is_merged_as_without_windows() -> None:
    """s1 may be any time after s0: rows of s0 stay for ever, those of s1 go."""
    query = Query(
        ((0,), (0,)),
        ((1, 0, (0,)),),
        ((1, 0, 0),),
        {},
        ((1, "s1.ts >= s0.ts"),),
        None,
        (0.0, 0.0),
        (None, None),
    )
    life = Life(seed=6, ticks=64, disorder=1.0, step=1.0, silent=0.0, nodes=(1,), domain=9)
    with scratch() as root:
        local, told = live(root, query, life, None, size=8)
        check(local, told, query)
        places = {p.input: runs for p, runs in local.ticker.manifest.runs.items()}
        assert sum(r.rows for r in places[0]) == local_accepted(told, 0)
        assert len(places[0]) <= 12
        assert sum(r.rows for r in places.get(1, ())) <= 40


def local_accepted(told: Told, i: int) -> int:
    return told.accepted(i).num_rows
