"""Random schedules of spills, clean-ups, moves, budgets, cancellations and crashes over random trees of joins.

Without Spark: ticks and side jobs in this process, a side job done whenever the dice say so. After every step the
manifest is consistent; in the end the results are DuckDB's. More of them: `HYPOTHESIS_MAX_EXAMPLES=5000 pytest …`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from tests import examples
from tests.engine.adapt.dice import Dice
from tests.engine.checked import accepted, check, scratch
from tests.engine.made import Life, Query, live, lives, queries

dice = st.builds(
    Dice,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 4_000, 12_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15]),
)


@examples.lives()
@given(queries(most=5), lives, dice)
def test_whatever_is_adapted_results_are_the_batch_join(
    query: Query, life: Life, thrower: Dice
) -> None:
    accepted(query)
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 2)
    with scratch() as root:
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
    for what in thrower.done:
        event(what)
