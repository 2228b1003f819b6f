"""Both plans side by side: whatever happens meanwhile, the batch join.

Without Spark, as test_migrations.py, whose dice these are too. More of them:
`HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/adapt/test_parallel.py`. What each plan makes, when it ends and what
is refused: test_two_plans.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from tests import examples
from tests.engine.adapt.migrations import Migrating
from tests.engine.adapt.two_plans import seen_rows
from tests.engine.checked import accepted, check, in_order, in_order_of_the_lemma, scratch
from tests.engine.local import Local
from tests.engine.made import Life, Query, live, lives, queries

BOUND = (
    "file",
    "file",
    "range",
    "file+on",
    "on+range",
)  # the last: often no window between two streams


@dataclass
class Beside(Migrating):
    """The same dice; at every boundary a reader sees as many rows as the query says are out."""

    def boundary(self, local: Local) -> None:
        super().boundary(local)
        assert seen_rows(local) == local.ticker.totals.rows_out


beside = st.builds(
    Beside,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 0, 12_000, 40_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15, 1.0]),
    also=st.booleans(),
    strategies=st.sampled_from([("parallel",), ("parallel", "moving", "delta")]),
)


@examples.lives()
@given(queries(forms=BOUND), lives, beside)
def test_whatever_the_plans_become_results_are_the_batch_join(
    query: Query, life: Life, thrower: Beside
) -> None:
    """With other actions, cancellations, crashes and orderly ends between any two ticks, other numbers of nodes."""
    accepted(query)
    thrower.query = query
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 8)
    with scratch() as root:
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
        if not (thrower.also or thrower.budget or life.holds):
            (in_order_of_the_lemma if thrower.hold else in_order)(local, told, query)
    for what in thrower.done:
        event(what)
