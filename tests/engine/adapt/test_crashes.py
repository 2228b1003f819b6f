"""A crash at the beginning and at the end of every step of every action, then a restart: state and results as ever.

In this process: a crash is an exception that nobody catches, and a new start from the same folders.
`tests/chaos/test_kill_actions.py` does the same with kill -9 and Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from control.actions import COURSES, State
from control.policies.none import Nothing
from control.requests import Request
from engine.adapt import kinds, progress
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from tests.engine.adapt.dice import consistent
from tests.engine.adapt.ways import ticks_wait
from tests.engine.checked import check, scratch
from tests.engine.local import Local, LocalSide
from tests.engine.made import Life, Query, live

THREE = Query(
    classes=((0,), (0,), (0,)),
    edges=((1, 0, (0,)), (2, 0, (0,))),
    bounds=(),
    ranges={},
    conditions=(),
    window=None,
    delays=(4.0, 4.0, 4.0),
    idle=(None, None, None),
)
BOUND = replace(
    THREE,
    bounds=tuple((i, j, 4_000_000) for i in range(3) for j in range(3) if i != j),
    window=4,
    delays=(0.0, 0.0, 0.0),
)
ANOTHER = "((s2 s0) s1)"
LIFE = Life(seed=3, ticks=9, groups=16, domain=9, late=0.0, silent=0.0, nodes=(2,))


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Doomed:
    """Spills half of node 0 at tick 2, does the action at tick 4, and crashes once at a step of it."""

    course: str
    step: str
    at_end: bool
    apart: bool = False
    tick: int = -1
    crashed: bool = False
    desk: Desk | None = None

    def boundary(self, local: Local) -> None:
        self.tick += 1
        try:
            self._go(local)
        except Crash:
            self.crashed = True
            local.start(local.nodes)
            consistent(local)

    def _go(self, local: Local) -> None:
        desk = self._desk_of(local)
        if self.tick == 2 and self.course == "cleanup":
            desk.ask(Request("spill", 0, percent=50.0), "test")
        if self.tick == 4 and not self.crashed:
            desk.ask(self._asked(), "test")
        desk.between(idle=False)
        consistent(local)

    def _asked(self) -> Request:
        to = 1 if self.course.startswith("move") else None
        do, _, strategy = self.course.removesuffix("_hold").partition("_")
        if do == "migrate":
            return Request(do, 0, order=ANOTHER, strategy=strategy or "moving")
        size = 10**9 if do == "budget" else None
        return Request(do, 0, to, percent=None if size else 60.0, bytes=size)

    def finish(self, local: Local) -> None:
        for _ in range(50):
            try:
                desk = self._desk_of(local)
                if local.ticker.due() and not desk.running:
                    local.drain()
                elif not desk.finish_some(cleanup=True):
                    return
            except Crash:
                self.crashed = True
                local.start(local.nodes)

    def _desk_of(self, local: Local) -> Desk:
        if self.desk is None or self.desk.ticker is not local.ticker:
            policy = Policy(Nothing(), interval_s=1e9, hold=self.course.endswith("_hold"))
            records = Records(local.root / "cp" / "actions")
            both = kinds.doing(local.ticker)
            records.restart(local.ticker.carried_out, 0.0, both)
            left = [path.stem for path in (local.root / "cp" / "actions").glob("*.json")]
            assert left == ([both] if both else []), "every action of the earlier life is over"
            self.desk = Desk(local.ticker, policy, {}, records, local.clock, LocalSide)
            assert isinstance(self.desk._runs.side, LocalSide)
            self.desk._runs.side.eager = True
            self.desk.jobs_apart = self.apart
        return self.desk


@contextmanager
def dying(doomed: Doomed, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    inner = progress.Log.step

    @contextmanager
    def step(log: progress.Log, name: str) -> Iterator[Any]:
        mine = log.action.course == doomed.course and name == doomed.step and not doomed.crashed
        with inner(log, name) as found:
            if mine and not doomed.at_end:
                raise Crash
            yield found
            if mine:
                raise Crash

    monkeypatch.setattr(progress.Log, "step", step)
    yield


STEPS = [(course, step) for course, about in COURSES.items() for step in about.steps]


@pytest.mark.parametrize("apart", [False, True], ids=["along", "apart"])
@pytest.mark.parametrize("at_end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize(("course", "step"), STEPS, ids=[f"{c}-{s}" for c, s in STEPS])
def test_a_crash_at_every_step(
    course: str, step: str, at_end: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = Doomed(course, step, at_end, apart)
    beside = course.startswith("migrate_parallel")
    query, life = (BOUND, replace(LIFE, ticks=14, disorder=0.0)) if beside else (THREE, LIFE)
    with scratch() as root, dying(doomed, monkeypatch), ticks_wait(False):
        local, told = live(Path(root), query, life, None, meddler=doomed)
        got = check(local, told, query)
    assert doomed.crashed, "it came that far"
    if beside and step != "CleanAccumulated" and (step, at_end) != ("Start", False):
        assert doomed.desk is not None
        ended = [action.state for action in doomed.desk.records.actions.values()]
        assert set(ended) <= {State.DONE}, "the next life ended it"
        plan = local.ticker.manifest.plan
        assert plan is not None and plan.track is None and len(plan.operators) == 2
    assert got, "there are results to lose"


@pytest.mark.parametrize("at_end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("step", COURSES["migrate"].steps)
def test_a_crash_where_ticks_wait(step: str, at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    doomed = Doomed("migrate", step, at_end)
    with scratch() as root, dying(doomed, monkeypatch), ticks_wait(True):
        local, told = live(Path(root), THREE, LIFE, None, meddler=doomed)
        assert check(local, told, THREE), "there are results to lose"
    assert doomed.crashed, "it came that far"
