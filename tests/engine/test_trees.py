"""Trees of joins without Spark: whatever the tree, the windows, the disorder, the holds, the restarts — the batch join.

Thousands of queries a run: `HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/test_trees.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given

from tests import examples
from tests.engine.checked import accepted, check, in_order, scratch
from tests.engine.made import Life, Query, S, Told, live, lives, queries


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
