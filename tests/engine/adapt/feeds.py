"""A stream of rows for tests of what ticks tell of joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from control.migration.joins import Joins
from control.policies.local_spill import LocalSpill
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.admission import Admission
from tests.engine.checked import scratch
from tests.engine.local import Local, LocalSide, stream
from tests.engine.made import S

CHAIN = "SELECT a.id AS i0, b.id AS i1, c.id AS i2, d.id AS i3 FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y JOIN d ON c.z = d.z"
KEYS = {"a": "x", "b": "xy", "c": "yz", "d": "z"}
DOMAINS = {"x": 40, "y": 200, "z": 500}
RATES = {"a": 40, "b": 60, "c": 50, "d": 30}
WINDOW_S = 8.0
OLD, NEW = "(((a b) c) d)", "(a (b (c d)))"


@dataclass
class Feed:
    """A chain of four streams on one query's desk, a tick a second. `speed`: seconds of event time in one."""

    local: Local
    desk: Desk
    speed: float = 1.0
    late: float = 0.0
    tick: int = 0

    def ticks(self, count: int, admit: Callable[[int], dict[str, Admission]] | None = None) -> None:
        for _ in range(count):
            self.local.clock.now += 1.0
            self.desk.between(idle=False)
            rows = {name: self._rows(name, at) for at, name in enumerate(KEYS)}
            self.local.tick(rows, admit(self.tick) if admit else self._let_in())
            self.tick += 1

    def _let_in(self) -> dict[str, Admission]:
        """What waits, as the runner does."""
        ops = self.local.ticker.setup.flow.ops
        return {op.id: Admission((), tuple(range(op.groups))) for op in ops}

    def _rows(self, name: str, at: int) -> pa.Table:
        rng = np.random.default_rng([self.tick, at])
        count = RATES[name]
        seconds = self.speed * (self.tick + np.sort(rng.uniform(0, 1, count)))
        seconds[rng.random(count) < self.late] -= 1000.0
        columns = {"id": 1_000_000 * at + 1000 * self.tick + np.arange(count)}
        columns |= {key: rng.integers(0, DOMAINS[key], count) for key in KEYS[name]}
        times = pa.array(((10_000 + seconds) * S).astype(np.int64))
        return pa.table({**columns, "ts": times.cast(pa.timestamp("us", tz="UTC"))})

    @property
    def joins(self) -> Joins:
        found = self.desk.snapshot().joins
        assert found is not None
        return found


@contextmanager
def fed(
    order: str | None = OLD,
    *,
    sql: str = CHAIN,
    window_s: float | None = WINDOW_S,
    budget: int = 0,
    speed: float = 1.0,
    late: float = 0.0,
) -> Iterator[Feed]:
    with scratch() as root:
        streams = [
            stream(name, ", ".join(["id bigint", *(f"{k} bigint" for k in keys), "ts timestamp"]), time="ts", delay=1.0)
            for name, keys in KEYS.items()
        ]  # fmt: skip
        local = Local(root, sql, streams, window_s=window_s, order=order)
        local.clock.now = 1000.0
        yield Feed(local, desk_of(local, budget), speed, late)


def desk_of(local: Local, budget: int = 0) -> Desk:
    records = Records(local.root / "cp" / "actions")
    budgets = dict.fromkeys(range(local.nodes), budget) if budget else {}
    policy = Policy(LocalSpill(spill_percent=40.0), interval_s=1e9)
    made = Desk(local.ticker, policy, budgets, records, local.clock, LocalSide)
    assert isinstance(made._runs.side, LocalSide)
    made._runs.side.eager = True
    return made
