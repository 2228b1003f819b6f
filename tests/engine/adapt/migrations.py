"""Changes of the join order by dice, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from control.policies.none import Nothing
from control.requests import Request
from engine.adapt import making
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from tests.engine.adapt.dice import Dice
from tests.engine.local import Local, LocalSide
from tests.engine.made import Life, Query, live


@dataclass
class Migrating(Dice):
    """Migrates to random orders, and does what the other dice do too, where `also`."""

    also: bool = True
    query: Query | None = None
    strategies: tuple[str, ...] = ("moving",)

    def _request(self, local: Local) -> Request:
        assert self.query is not None
        if self.also and self.rng.random() < 0.4:
            return super()._request(local)
        order = self.query.random_order(self.rng)
        strategy = self.strategies[int(self.rng.integers(len(self.strategies)))]
        return Request("migrate", 0, order=order, strategy=strategy)


migrating = st.builds(
    Migrating,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 12_000, 40_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15]),
    also=st.booleans(),
)
little = st.sampled_from([0, making.LAST_BYTES])  # what is left to the round that a tick waits for
STAR = Query(
    classes=((0,), (0,), (0,), (0,)),
    edges=((1, 0, (0,)), (2, 0, (0,)), (3, 0, (0,))),
    bounds=(),
    ranges={},
    conditions=(),
    window=None,
    delays=(4.0, 4.0, 4.0, 4.0),
    idle=(None, None, None, None),
)


def fed(root: Path, order: str, query: Query = STAR, ticks: int = 4) -> tuple[Local, Desk]:
    """A query with some state, and its desk."""
    life = Life(seed=1, ticks=ticks, groups=16, domain=9, late=0.0, silent=0.0)
    local, _ = live(root, query, life, order)
    return local, desk_of(local)


def desk_of(local: Local, doing: str = "") -> Desk:
    """`doing`: the action of an earlier life that goes on."""
    records = Records(local.root / "cp" / "actions")
    records.restart(local.ticker.carried_out, 0.0, doing)
    made = Desk(
        local.ticker, Policy(Nothing(), interval_s=1e9), {}, records, local.clock, LocalSide
    )
    assert isinstance(made._runs.side, LocalSide)
    made._runs.side.eager = made.jobs_apart = True
    return made


CHAINED = ((1, 0, (0,)), (2, 1, (1,)), (3, 2, (2,)))
