"""By way of the plan without intermediate state: whatever happens meanwhile, the batch join.

Without Spark, as test_migrations.py, whose dice these are too. More of them:
`HYPOTHESIS_MAX_EXAMPLES=5000 pytest tests/engine/adapt/test_bridging.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from control.actions import COURSES, Action, State
from control.arbiter import Refusal, Why
from control.requests import Request
from engine.adapt import bridging, making
from engine.adapt.desk import Desk
from tests import examples
from tests.engine.adapt.dice import consistent
from tests.engine.adapt.migrations import CHAINED, STAR, Migrating, desk_of, fed, little
from tests.engine.checked import accepted, check, in_order, scratch
from tests.engine.local import Local
from tests.engine.made import Life, Query, live, lives, queries

throwers = st.builds(
    Migrating,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 12_000, 40_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15, 1.0]),
    also=st.booleans(),
    strategies=st.sampled_from([("delta",), ("delta", "moving"), ("delta", "parallel")]),
)


rooms = st.sampled_from(
    [None, None, 0, 800]
)  # for what is computed: bytes of a node; None: its budget's


@examples.lives()
@given(queries(most=6), lives, throwers, little, rooms)
def test_whatever_the_plan_becomes_results_are_the_batch_join(
    query: Query, life: Life, thrower: Migrating, last_bytes: int, room: int | None
) -> None:
    """With other actions, cancellations, crashes between any two ticks, other numbers of nodes, and no room for what is
    computed."""
    accepted(query)
    thrower.query = query
    order = query.random_order(np.random.default_rng(life.seed))
    life = replace(life, ticks=life.ticks + 4)
    with scratch() as root, patch.object(making, "LAST_BYTES", last_bytes), roomy(room):
        local, told = live(root, query, life, order, meddler=thrower)
        check(local, told, query)
        if not (thrower.also or thrower.budget or life.holds or room is not None):
            in_order(local, told, query)
    for what in thrower.done:
        event(what)


@contextmanager
def roomy(room: int | None) -> Iterator[None]:
    """What is computed for the new tree finds so much room on each node."""
    inner = making.Making._room

    def left(one: making.Making, node: int) -> int:
        if room is None or not one.spills:
            return inner(one, node)
        one.desk.budgets.setdefault(node, 10**9)
        return room - one.bytes.get(node, 0)

    with patch.object(making.Making, "_room", left):
        yield


CHAIN = replace(STAR, classes=((0,), (0, 1), (1, 2), (2,)), edges=CHAINED)
FIRST, THEN = "(((s0 s1) s2) s3)", "(s0 (s1 (s2 s3)))"
LIFE = Life(seed=1, ticks=12, groups=16, domain=4, late=0.0, silent=0.0)


@dataclass
class Between:
    """Begins before tick 3; side jobs are done at once until the plan without intermediate state is in place, then not
    for three ticks, before each of which `look` is called. `crash`: before the second of them."""

    look: Callable[[Local, Desk], None] = lambda _local, _desk: None
    crash: bool = False
    tick: int = -1
    seen: int = 0
    desk: Desk | None = None
    actions: dict[str, Action] = field(default_factory=dict)

    def boundary(self, local: Local) -> None:
        self.tick += 1
        if self.crash and self.seen == 1:
            self.crash = False
            local.start(local.nodes)
        desk = self._desk_of(local)
        if self.tick == 3:
            asked = desk.ask(Request("migrate", 0, order=THEN, strategy="delta"), "test")
            assert isinstance(asked, Action), asked
        for _ in range(4):
            if bridging.delta_of(local.ticker) is None or self.seen > 3:
                desk._runs.side.work()  # type: ignore[attr-defined]
            desk.between(idle=False)
            consistent(local)
        if bridging.delta_of(local.ticker) is not None:
            self.seen += 1
            self.look(local, desk)
        self.actions |= desk.records.actions

    def finish(self, local: Local) -> None:
        desk = self._desk_of(local)
        desk._runs.side.work()  # type: ignore[attr-defined]
        desk._runs.side.eager = True  # type: ignore[attr-defined]
        for _ in range(20):
            if local.ticker.due():
                local.drain()
            elif not desk.finish_some(cleanup=True):
                break
        self.actions |= desk.records.actions
        assert not desk.running and bridging.delta_of(local.ticker) is None

    def _desk_of(self, local: Local) -> Desk:
        if self.desk is None or self.desk.ticker is not local.ticker:
            self.desk = desk_of(local, bridging.doing(local.ticker))
            self.desk._runs.side.eager = False  # type: ignore[attr-defined]
        return self.desk

    @property
    def states(self) -> list[State]:
        return [one.state for one in self.actions.values() if one.course == "migrate_delta"]


def through(between: Between, life: Life = LIFE, *, owes: bool = False) -> None:
    """All of it; results are the batch join, in order but for what was owed."""
    with scratch() as root:
        local, told = live(root, CHAIN, life, FIRST, meddler=between)
        assert check(local, told, CHAIN)
        if not owes:
            in_order(local, told, CHAIN)
    assert between.seen, "it was there for a while"


def test_nothing_is_kept_meanwhile_but_the_inputs_own_rows() -> None:
    """Of a chain, the middle streams' rows are there once more, under the key that the tree did not need; the rest are
    the tree's own runs."""
    found: list[tuple[list[str], int]] = []

    def look(local: Local, _desk: Desk) -> None:
        ops = {op.id: op for op in local.ticker.setup.flow.ops}
        places = [place for place, runs in local.ticker.manifest.runs.items() if runs]
        assert all(ops[place.operator].base for place in places)
        sides = {(p.operator, p.input): ops[p.operator].sides[p.input].aliases for p in places}
        found.append((sorted("+".join(side) for side in sides.values()), len(ops)))
        assert local.ticker.due() is False

    between = Between(look)
    through(between)
    assert found[0] == (["s0", "s1", "s1", "s2", "s2", "s3"], 3 + 4 * 3)
    assert between.states == [State.DONE]
    (action,) = between.actions.values()
    records = {record.name: record for record in action.records}
    assert list(records) == list(COURSES["migrate_delta"].steps)
    assert records["MatchStates"].bytes > records["SortBases"].bytes > 0


def test_on_the_way_back_there_is_only_onward() -> None:
    """Nobody keeps the old tree's states, so it cannot be cancelled any more; nor can another one begin."""
    said: list[str] = []

    def look(local: Local, desk: Desk) -> None:
        before = local.ticker.manifest
        said.append(desk.cancel("last"))
        other = desk.ask(Request("migrate", 0, order=FIRST), "test")
        assert isinstance(other, Refusal) and other.why is Why.OVERLAP
        assert local.ticker.manifest is before

    between = Between(look)
    through(between)
    assert set(said) == {bridging.ONWARD} and between.states == [State.DONE]


@pytest.mark.parametrize("nodes", [(2,), (2, 3), (3, 1)])
def test_a_restart_goes_on(nodes: tuple[int, ...]) -> None:
    """With the plan that ran, and with the action; also on another number of nodes."""
    between = Between(crash=True)
    through(between, life=replace(LIFE, nodes=nodes, ticks=16))
    assert between.states == [State.DONE]


@pytest.mark.parametrize("room", [0, 300])
def test_what_finds_no_room_goes_to_disk(room: int) -> None:
    """Where the inputs' rows fit and results of joining them do not, groups begin spilled, all sides together, and owe
    nothing but what comes later."""
    spilled: list[int] = []

    @dataclass
    class Watching(Between):
        def boundary(self, local: Local) -> None:
            super().boundary(local)
            if self.seen and not spilled and bridging.delta_of(local.ticker) is None:
                spilled.append(sum(local.ticker.manifest.disk_bytes(n) for n in range(2)))

    between = Watching()
    with roomy(room):
        through(between, owes=True)
    assert between.states == [State.DONE]
    assert spilled[0] > 0


def test_a_full_node_has_the_rest_done_before_the_next_tick() -> None:
    """Nothing is spilled meanwhile, so ticks wait for what would let nodes spill again."""
    asked = {"ticks": 0}

    def look(local: Local, desk: Desk) -> None:
        asked["ticks"] += 1
        if asked["ticks"] == 3:
            desk.budgets = dict.fromkeys(range(desk.nodes), 5_000)
            desk.between(idle=False)
            assert bridging.delta_of(local.ticker) is None, "the new tree is in place at once"
            desk.budgets = {}

    through(Between(look), owes=True)
    assert asked["ticks"] == 3


def test_without_room_for_the_bases_it_is_refused_with_figures() -> None:
    with scratch() as root:
        local, desk = fed(root, FIRST, CHAIN)
        before = local.ticker.manifest
        desk.budgets = {n: local.ticker.manifest.memory_bytes(n) + 100 for n in range(2)}
        found = desk.ask(Request("migrate", 0, order=THEN, strategy="delta"), "test")
        assert isinstance(found, Refusal) and found.why is Why.NO_ROOM_FOR_PLAN
        assert found.limit == 200 and found.found is not None and found.found > 200
        assert local.ticker.manifest is before


def test_a_full_node_ends_a_migration_that_has_not_begun_to_count() -> None:
    """Moving state too: what keeps nodes from spilling gives way once one is over its budget."""
    for strategy in ("moving", "delta"):
        with scratch() as root:
            local, desk = fed(root, FIRST, CHAIN)
            desk._runs.side.eager = False  # type: ignore[attr-defined]
            before = local.ticker.manifest
            desk.ask(Request("migrate", 0, order=THEN, strategy=strategy), "test")
            desk.between(idle=False)
            assert desk.running
            desk.budgets = dict.fromkeys(range(2), 10_000)
            desk.between(idle=False)
            (action,) = desk.records.actions.values()
            assert action.state is State.FAILED and "its budget is 10,000" in action.note
            assert local.ticker.manifest is before and not (desk.open or desk.frozen)
