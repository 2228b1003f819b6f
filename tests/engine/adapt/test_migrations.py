"""Random chains of migrations over random trees, with spills, moves, cancellations and crashes: the batch join.

Without Spark, as test_schedules.py, whose dice these are too. More of them:
`HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/adapt/test_migrations.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from control.actions import State
from control.arbiter import Refusal, Why
from control.plans import Migrate, Plan, Reason, Topic
from control.requests import Request, plan_for
from engine.adapt import making
from engine.adapt.desk import Desk
from engine.flow import Side
from engine.plan import matching
from engine.state.model import Run
from tests import examples
from tests.engine.adapt.migrations import CHAINED, STAR, Migrating, desk_of, fed, little, migrating
from tests.engine.adapt.ways import ticks_wait
from tests.engine.checked import accepted, check, in_order, scratch
from tests.engine.local import Local, LocalSide, stream
from tests.engine.made import Life, Query, S, live, lives, queries

waits = st.sampled_from([False, False, True])  # ticks for moving state


@examples.lives()
@given(queries(most=5), lives, migrating, little, waits)
def test_whatever_the_plan_becomes_results_are_the_batch_join(
    query: Query, life: Life, thrower: Migrating, last_bytes: int, wait: bool
) -> None:
    accepted(query)
    thrower.query = query
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 3)
    with scratch() as root, patch.object(making, "LAST_BYTES", last_bytes), ticks_wait(wait):
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
        if not (thrower.also or thrower.budget or life.holds):
            in_order(local, told, query)
    for what in thrower.done:
        event(what)


def test_what_both_plans_have_is_shared() -> None:
    """No file is written, and none copied, for a state that serves as it is: only what nobody had is made."""
    with scratch() as root:
        local, desk = fed(root, "(((s0 s1) s2) s3)")
        before = local.ticker.manifest
        desk.ask(Request("migrate", 0, order="(((s0 s1) s3) s2)"), "test")
        finished(desk)
        after = local.ticker.manifest
        assert after.plan is not None
        names = {one.id for one in after.plan.operators}
        assert "join-1" in names, (
            "an operator that is the same keeps its name, and its state its place"
        )
        assert names.isdisjoint({"join-2", "join-3"})
        for place, runs in before.runs.items():
            if place.operator == "join-1":
                assert after.runs[place] is runs or after.runs[place] == runs
        made = after.memory_files() - before.memory_files()
        where = {
            s.file: place for place, runs in after.runs.items() for run in runs for s in run.memory
        }
        sides = {
            (op.id, at): side.aliases
            for op in local.ticker.setup.flow.ops
            for at, side in enumerate(op.sides)
        }
        fresh = {sides[where[file].operator, where[file].input] for file in made}
        assert fresh == {("s0", "s1", "s3")}, "all else is shared by reference"


def test_ticks_wait_for_all_of_it_where_so_it_was_asked() -> None:
    with scratch() as root:
        local, desk = fed(root, "(((s0 s1) s2) s3)")
        (asked,) = plan_for(
            Request("migrate", 0, order="(((s2 s3) s1) s0)", strategy="moving"), desk.snapshot()
        ).steps
        assert isinstance(asked, Migrate)
        said = (Reason.of(Topic.CHOSEN, "a test"),)
        before = local.ticker.manifest.version
        (action,) = desk.submit(
            Plan((replace(asked, at_once=True),), said), "test", desk.snapshot()
        )
        desk.between(idle=False)
        assert not desk.running and local.ticker.manifest.version == before + 1
        made = desk.records.actions[action.id]
        assert (
            made.state is State.DONE
            and matching.shown(local.ticker.setup.query) == "(((s2 s3) s1) s0)"
        )
        assert made.bytes > 0, "made meanwhile"


def test_an_operator_whose_inputs_are_joined_in_another_way_keeps_its_state() -> None:
    """Of a sub-plan: what lies below does not matter to the operator above it."""
    with scratch() as root:
        local, desk = fed(root, "(((s0 s1) s2) s3)")
        root_op = local.ticker.setup.flow.root.id
        desk.ask(Request("migrate", 0, order="(((s0 s2) s1) s3)"), "test")
        before = {p: r for p, r in local.ticker.manifest.runs.items() if p.operator == root_op}
        finished(desk)
        after = local.ticker.manifest.runs
        assert local.ticker.setup.flow.root.id == root_op
        assert {p: r for p, r in after.items() if p.operator == root_op} == before


def finished(desk: Desk) -> None:
    for _ in range(50):
        if not desk.running:
            break
        desk.between(idle=True)
    states = [action.state for action in desk.records.actions.values()]
    assert set(states) == {State.DONE}, [a.note for a in desk.records.actions.values()]


@pytest.mark.parametrize(
    ("order", "strategy", "why", "text"),
    [
        ("((s0 s1) s2)", "moving", Why.BAD_ORDER, "s3 missing"),
        ("(((s0 s1) s2) s9)", "moving", Why.BAD_ORDER, "no stream `s9`"),
        ("(((s0 s1) s1) s3)", "moving", Why.BAD_ORDER, "there twice"),
        ("(((s0 s1) s2) s3", "moving", Why.BAD_ORDER, "not closed"),
        ("(((s0 s1) s2) s3)", "moving", Why.SAME_ORDER, "(((s0 s1) s2) s3) already"),
        ("(((s1 s0) s2) s3)", "teleport", Why.UNKNOWN_STRATEGY, "teleport"),
    ],
)
def test_what_is_no_other_order_is_refused(order: str, strategy: str, why: Why, text: str) -> None:
    with scratch() as root:
        local, desk = fed(root, "(((s0 s1) s2) s3)", ticks=1)
        before = local.ticker.manifest
        found = desk.ask(Request("migrate", 0, order=order, strategy=strategy), "test")
        assert isinstance(found, Refusal)
        assert found.why is why and text in str(found)
        assert local.ticker.manifest is before and not desk.running


def test_a_cross_product_is_refused() -> None:
    chain = replace(STAR, classes=((0,), (0, 1), (1, 2), (2,)), edges=CHAINED)
    with scratch() as root:
        _, desk = fed(root, "(((s0 s1) s2) s3)", chain, ticks=1)
        found = desk.ask(Request("migrate", 0, order="((s0 s2) (s1 s3))"), "test")
        assert isinstance(found, Refusal)
        assert found.why is Why.BAD_ORDER and "share no key" in str(found)


def test_one_migration_at_a_time_and_none_without_room() -> None:
    with scratch() as root:
        local, desk = fed(root, "(((s0 s1) s2) s3)")
        assert isinstance(desk._runs.side, LocalSide)
        desk._runs.side.eager = False
        desk.ask(Request("migrate", 0, order="((s0 s1) (s2 s3))"), "test")
        assert desk.running
        second = desk.ask(Request("migrate", 0, order="(((s0 s2) s1) s3)"), "test")
        assert isinstance(second, Refusal) and second.why is Why.OVERLAP
        before = local.ticker.manifest
        assert desk.cancel("last") == ""
        assert local.ticker.manifest is before
        assert not (desk.frozen or desk.open or desk.lasting or desk._flying or desk.running)
        assert not any(desk.copied_bytes.values())
        desk._runs.side.eager = True
        desk.budgets = {n: local.ticker.manifest.memory_bytes(n) + 10 for n in range(2)}
        desk.ask(Request("migrate", 0, order="((s0 s1) (s2 s3))"), "test")
        while desk.running:
            desk.between(idle=True)
        (_, last) = desk.records.actions.values()
        assert last.state is State.FAILED and "its budget is" in last.note


def test_what_windows_let_go_of_is_not_missed() -> None:
    """s2 is far behind: rows of s0 and s1 have gone that it would need under another order. The migration waits
    until it needs them no longer."""
    behind = replace(
        STAR,
        classes=((0,), (0,), (0,)),
        edges=((1, 0, (0,)), (2, 0, (0,))),
        bounds=tuple((i, j, 2 * S) for i in range(3) for j in range(3) if i != j),
        window=2,
        delays=(0.0, 0.0, 20.0),
        idle=(None, None, None),
    )
    with scratch() as root:
        life = Life(seed=2, ticks=8, groups=8, disorder=0.0, late=0.0, silent=0.0, domain=2)
        waiter = Waiter("((s0 s2) s1)", at=6)
        local, told = live(root, behind, replace(life, ticks=40), "((s0 s1) s2)", meddler=waiter)
        check(local, told, behind)
        in_order(local, told, behind)
    assert waiter.steps[0] == "MatchStates" and waiter.steps.count("MatchStates") > 5
    assert waiter.state is State.DONE


def test_what_is_computed_goes_piece_by_piece() -> None:
    """Of a windowed join: no run keeps old rows for the sake of young ones."""
    timed = replace(
        STAR,
        bounds=tuple((i, j, 8 * S) for i in range(4) for j in range(4) if i != j),
        window=8,
        delays=(0.0,) * 4,
    )
    with scratch() as root:
        life = Life(
            seed=4, ticks=30, groups=4, domain=1, disorder=0.0, late=0.0, silent=0.0, step=0.5
        )
        waiter = Waiter("((s0 s1) (s2 s3))", at=12)
        made: list[tuple[Run, Side]] = []
        waiter.done = lambda local: made.extend(derived(local, ("s2", "s3")))
        live(root, timed, life, "(((s0 s1) s2) s3)", meddler=waiter)
    assert len(made) > 2
    for run, side in made:
        (low, high), _ = run.times
        assert side.span_us is not None and high - low < 2 * side.span_us


def derived(local: Local, aliases: tuple[str, ...]) -> Iterator[tuple[Run, Side]]:
    """Runs of the sides that keep these inputs' results."""
    ops = {op.id: op for op in local.ticker.setup.flow.ops}
    for place, runs in local.ticker.manifest.runs.items():
        side = ops[place.operator].sides[place.input]
        for run in runs if side.aliases == aliases else ():
            yield run, side


@dataclass
class Waiter:
    """Asks for a migration before a tick, and notes in which step it is then."""

    order: str
    at: int
    tick: int = -1
    steps: list[str] = field(default_factory=list)
    desk: Desk | None = None
    state: State | None = None
    done: Callable[[Local], None] | None = None  # called once it is

    def boundary(self, local: Local) -> None:
        self.tick += 1
        if self.desk is None:
            self.desk = desk_of(local)
        if self.tick == self.at:
            found = self.desk.ask(Request("migrate", 0, order=self.order), "test")
            assert not isinstance(found, Refusal), found
        self.desk.between(idle=False)
        for action in self.desk.records.actions.values():
            self.state = action.state
            self.steps += [action.current] if action.current else []
        if self.state is State.DONE and self.done is not None:
            self.done(local)
            self.done = None

    def finish(self, local: Local) -> None:
        assert self.desk is not None
        assert not self.desk.running


WINDOWED = (
    "SELECT a.id AS i0, b.id AS i1, c.id AS i2, sum(b.id) OVER (PARTITION BY a.k ORDER BY a.ts "
    "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s "
    "FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
)


@pytest.mark.parametrize("strategy", ["moving", "delta"])
@pytest.mark.parametrize("order", ["((a c) b)", "(a (b c))"])
def test_window_functions_over_a_join_stay_as_they_are(order: str, strategy: str) -> None:
    """Their state is that of the whole join, whatever its order: only the joins below are others."""
    found: dict[str | None, list[tuple[int, ...]]] = {}
    for asked in (None, order):
        with scratch() as root:
            streams = [
                stream(name, "id bigint, k bigint, ts timestamp", time="ts", delay=1.0)
                for name in "abc"
            ]
            local = Local(root, WINDOWED, streams, window_s=4.0, order="((a b) c)")
            desk = desk_of(local)
            for tick in range(16):
                if tick == 3 and asked is not None:
                    desk.ask(Request("migrate", 0, order=asked, strategy=strategy), "test")
                desk.between(idle=False)
                local.tick({name: timed(tick, at) for at, name in enumerate("abc")})
            if asked is not None:
                finished(desk)
            local.drain()
            rows = local.results().drop_columns(["$version"]).to_pylist()
            found[asked] = sorted(tuple(row.values()) for row in rows)
    # How early results are due is a matter of the tree; those that are due are the same.
    (few, many) = sorted(map(Counter, found.values()), key=lambda rows: rows.total())
    assert few.total() > 1000
    assert few <= many


def timed(tick: int, number: int) -> pa.Table:
    rng = np.random.default_rng([tick, number])
    seconds = tick + np.round(rng.uniform(0, 1, 6), 1)
    return pa.table(
        {
            "id": 1000 * number + 10 * tick + np.arange(6),
            "k": rng.integers(0, 2, 6),
            "ts": pa.array((seconds * S).astype(np.int64)).cast(pa.timestamp("us", tz="UTC")),
        }
    )
