"""Commands: a state machine over two stores on one file, as control and engine have them."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from control.errors import StoreConflict, StoreError
from control.ledger import Command, CommandState
from db.open import Store, open_store
from tests.db.made import START_S, anything, command
from tests.db.template import fresh_store

ENDS = st.sampled_from([CommandState.DONE, CommandState.REFUSED, CommandState.FAILED])


class Commands(RuleBasedStateMachine):
    """The model: every command as it should be, in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stores = [fresh_store(self.folder), open_store(self.folder)]
        self.model: dict[str, Command] = {}
        self.now_s = START_S

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

    def state(self, wanted: CommandState) -> list[str]:
        return [id for id, one in self.model.items() if one.state is wanted]

    @rule(who=st.integers(0, 1), life_s=st.integers(1, 30), query=st.sampled_from(["q", "r"]))
    def add(self, who: int, life_s: float, query: str) -> None:
        one = command(f"c{len(self.model)}", self.now_s, life_s, query=query)
        self.stores[who].commands.add(one)
        assert self.stores[1 - who].commands.find(one.id) == one
        self.model[one.id] = one

    @precondition(lambda self: self.model)
    @rule(who=st.integers(0, 1), data=st.data())
    def add_again(self, who: int, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.model)))
        with pytest.raises(StoreConflict):
            self.stores[who].commands.add(command(id))

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds: int) -> None:
        self.now_s += seconds

    @rule(who=st.integers(0, 1), most=st.integers(0, 3))
    def take(self, who: int, most: int) -> None:
        for id in self.state(CommandState.QUEUED):
            one = self.model[id]
            if one.expires_s <= self.now_s:
                self.model[id] = replace(one, state=CommandState.EXPIRED, ended_s=self.now_s)
        wanted = self.state(CommandState.QUEUED)[:most]
        for id in wanted:
            taken = replace(self.model[id], state=CommandState.TAKEN, taken_s=self.now_s)
            self.model[id] = taken
        assert [one.id for one in self.stores[who].commands.take(self.now_s, most)] == wanted

    @precondition(lambda self: self.state(CommandState.TAKEN))
    @rule(who=st.integers(0, 1), end=ENDS, data=st.data())
    def end(self, who: int, end: CommandState, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.state(CommandState.TAKEN)))
        self.stores[who].commands.end(id, end.value, {"text": end}, self.now_s)
        self.model[id] = replace(
            self.model[id], state=end, outcome={"text": end.value}, ended_s=self.now_s
        )

    @precondition(lambda self: any(one.state.over for one in self.model.values()))
    @rule(who=st.integers(0, 1), end=ENDS, data=st.data())
    def end_again(self, who: int, end: CommandState, data: st.DataObject) -> None:
        over = [id for id, one in self.model.items() if one.state.over]
        id = data.draw(st.sampled_from(over))
        try:
            self.stores[who].commands.end(id, end, {"text": "twice"}, self.now_s)
        except StoreConflict:
            assert self.model[id].state is not end
        else:
            assert self.model[id].state is end

    @invariant()
    def both_see_the_same(self) -> None:
        for store in self.stores:
            found = {one.id: one for one in store.commands.page()}
            assert list(found) == list(reversed(self.model))
            for id, one in self.model.items():
                if one.state is CommandState.EXPIRED:
                    assert "in time" in found[id].outcome["text"]
                    one = replace(one, outcome=found[id].outcome)
                assert found[id] == one
            taken = [one.id for one in store.commands.taken()]
            assert taken == self.state(CommandState.TAKEN)


TestCommands = Commands.TestCase
TestCommands.settings = settings(stateful_step_count=25)


@given(one=anything(Command))
def test_a_command_comes_back_as_it_was_put_in(fresh: Callable[[], Store], one: Command) -> None:
    store = fresh()
    store.commands.add(one)
    assert store.commands.find(one.id) == one
    assert store.commands.find(one.id + "x") is None


def test_two_that_take_at_once_share_what_there_is(store: Store) -> None:
    other = open_store(store.folder)
    for number in range(60):
        store.commands.add(command(f"c{number:02d}"))
    taken: list[list[str]] = [[], []]
    start = threading.Barrier(2)

    def run(who: int, mine: Store) -> None:
        start.wait()
        while some := mine.commands.take(START_S, 3):
            taken[who] += [one.id for one in some]

    threads = [threading.Thread(target=run, args=(i, s)) for i, s in enumerate((store, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert sorted(taken[0] + taken[1]) == [f"c{number:02d}" for number in range(60)]


@pytest.mark.parametrize("state", ["queued", "taken", "nonsense"])
def test_an_end_is_an_end(store: Store, state: str) -> None:
    store.commands.add(command("c"))
    with pytest.raises(StoreConflict):
        store.commands.end("c", state, {}, START_S)
    with pytest.raises(StoreError, match="no command"):
        store.commands.end("d", "done", {}, START_S)
    found = store.commands.find("c")
    assert found is not None
    assert found.state is CommandState.QUEUED


def test_pages_by_query(store: Store) -> None:
    for number in range(10):
        store.commands.add(command(f"c{number}", query="qr"[number % 2]))
    ids = lambda **how: [one.id for one in store.commands.page(**how)]  # noqa: E731
    assert ids(query="q", most=2) == ["c8", "c6"]
    assert ids(query="q", most=9, before="c6") == ["c4", "c2", "c0"]
    assert ids(before="unknown") == []
    assert ids(most=0) == []


def test_together_is_all_or_nothing(store: Store) -> None:
    other: Any = open_store(store.folder)
    with store.together():
        store.commands.add(command("a"))
        assert store.commands.find("a") is not None
        assert other.commands.find("a") is None, "not before the end"
    assert other.commands.find("a") is not None
    with pytest.raises(RuntimeError), store.together():
        store.commands.add(command("b"))
        raise RuntimeError
    assert other.commands.find("b") is None
    with store.together():
        with pytest.raises(StoreConflict):
            store.commands.add(command("a"))
        store.commands.add(command("c"))
    assert other.commands.find("c") is not None, "one refused part leaves the rest whole"
    other.close()
