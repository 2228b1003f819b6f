"""By way of the plan without intermediate state: whatever happens meanwhile, the batch join.

Without Spark, as test_migrations.py, whose dice these are too. More of them:
`HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/adapt/test_bridging.py`.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from engine.adapt import making
from tests.engine.adapt.test_migrations import Migrating, little
from tests.engine.made import Life, Query, live, lives, queries
from tests.engine.test_trees import accepted, check, in_order, scratch

bridging = st.builds(
    Migrating,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 12_000, 40_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15, 1.0]),
    also=st.booleans(),
    strategies=st.sampled_from([("delta",), ("delta", "moving"), ("delta", "parallel")]),
)


@given(queries(most=6), lives, bridging, little)
def test_whatever_the_plan_becomes_results_are_the_batch_join(
    query: Query, life: Life, thrower: Migrating, last_bytes: int
) -> None:
    """With other actions, cancellations, crashes between any two ticks, other numbers of nodes."""
    accepted(query)
    thrower.query = query
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 4)
    with scratch() as root, patch.object(making, "LAST_BYTES", last_bytes):
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
        if not (thrower.also or thrower.budget or life.holds):
            in_order(local, told, query)
    for what in thrower.done:
        event(what)
