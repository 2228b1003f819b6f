"""How long a decision takes at the largest size: 1 000 nodes × 100 000 groups, under a second. Measured
with `-m bench`, never as a timed test; the plain test checks that the answers are accepted at this size."""

from __future__ import annotations

import time

import numpy as np
import pytest

from control.arbiter import judge
from control.limits import OPEN
from control.policies.registry import KINDS
from tests.control.large import large

SECONDS_MAX = 1.0


@pytest.mark.parametrize("name", sorted(KINDS))
def test_decisions_at_full_size_are_accepted(name: str) -> None:
    snapshot = large(1.2)
    plan = KINDS[name]().decide(snapshot, OPEN)
    assert plan.reasons
    if plan.steps:
        assert judge(plan, snapshot, (), OPEN).accepted


@pytest.mark.bench
@pytest.mark.parametrize("room", [0.3, 1.2])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_seconds_per_decision(name: str, room: float) -> None:
    taken = []
    for _ in range(3):
        snapshot = large(room)
        start = time.perf_counter()
        plan = KINDS[name]().decide(snapshot, OPEN)
        middle = time.perf_counter()
        judge(plan, snapshot, (), OPEN)
        taken.append((middle - start, time.perf_counter() - middle))
    decide, judged = np.median(taken, axis=0)
    print(
        f"{name} room {room}: decide {decide:.3f} s, judge {judged:.3f} s, {len(plan.steps)} steps"
    )
    assert decide < SECONDS_MAX and judged < SECONDS_MAX
