"""Random chains of migrations over random trees, with spills, moves, cancellations and crashes: the batch join.

Without Spark, as test_schedules.py, whose dice these are too. More of them:
`HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/adapt/test_migrations.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from control.requests import Request
from tests.engine.adapt.test_schedules import Dice
from tests.engine.local import Local
from tests.engine.made import Life, Query, live, lives, queries
from tests.engine.test_trees import accepted, check, in_order, scratch


@dataclass
class Migrating(Dice):
    """Migrates to random orders, and does what the other dice do too, where `also`."""

    also: bool = True
    query: Query | None = None

    def _request(self, local: Local) -> Request:
        assert self.query is not None
        if self.also and self.rng.random() < 0.4:
            return super()._request(local)
        order = self.query.random_order(self.rng)
        return Request("migrate", 0, order=order)


migrating = st.builds(
    Migrating,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 12_000, 40_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15]),
    also=st.booleans(),
)


@given(queries(most=5), lives, migrating)
def test_whatever_the_plan_becomes_results_are_the_batch_join(
    query: Query, life: Life, thrower: Migrating
) -> None:
    accepted(query)
    thrower.query = query
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 3)
    with scratch() as root:
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
        if not (thrower.also or thrower.budget or life.holds):
            in_order(local, told, query)
    for what in thrower.done:
        event(what)
