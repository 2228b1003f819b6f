"""Proposals, actions, rules, queries, alerts, webhooks, learning, kept values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.errors import StoreConflict, StoreError
from control.ledger import (
    ActionRow,
    Evaluation,
    Learned,
    Proposal,
    ProposalState,
    QueryRow,
    RuleRow,
    Used,
    Wanted,
    Webhook,
)
from db.open import Store, open_store
from tests.db.made import START_S, action, anything, json_values, proposal, texts

S = START_S
Fresh = Callable[[], Store]


@given(
    one=anything(Proposal),
    act=anything(ActionRow),
    rule=anything(RuleRow),
    query=anything(QueryRow),
    hook=anything(Webhook),
)
def test_rows_come_back_as_they_were_put_in(
    fresh: Fresh, one: Proposal, act: ActionRow, rule: RuleRow, query: QueryRow, hook: Webhook
) -> None:
    store = fresh()
    store.proposals.add(one)
    store.actions.keep([act])
    store.rules.keep(rule)
    store.queries.add(query)
    store.webhooks.add(hook)
    assert store.proposals.find(one.id) == one
    assert store.actions.find(act.id) == act
    assert (store.rules.find(rule.name), store.rules.all()) == (rule, [rule])
    assert (store.queries.find(query.name), store.queries.all()) == (query, [query])
    assert store.webhooks.all() == [hook]


def test_a_proposal_is_settled_by_one_of_many(store: Store) -> None:
    other = open_store(store.folder)
    store.proposals.add(proposal("p"))
    won: list[str] = []
    start = threading.Barrier(8)

    def settle(mine: Store, name: str) -> None:
        start.wait()
        if mine.proposals.settle("p", ProposalState.APPLIED, command=name):
            won.append(name)

    threads = [
        threading.Thread(target=settle, args=((store, other)[i % 2], str(i))) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    found = store.proposals.find("p")
    assert found is not None
    assert [found.command] == won
    assert not store.proposals.settle("p", ProposalState.DISMISSED)
    assert not store.proposals.settle("nobody's", ProposalState.DISMISSED)


def test_open_proposals_expire(store: Store) -> None:
    for number in range(3):
        store.proposals.add(proposal(f"p{number}", expires_s=S + number))
    store.proposals.settle("p0", ProposalState.STALE, note="node 1 is gone")
    assert store.proposals.expire(S + 1) == 1
    assert store.proposals.expire(S + 1) == 0
    states = {one.id: one.state.value for one in store.proposals.page()}
    assert states == {"p0": "stale", "p1": "expired", "p2": "open"}
    assert [one.id for one in store.proposals.page(state="open", query="q")] == ["p2"]
    assert store.proposals.page(state="no such state") == []


def test_an_action_keeps_what_the_engine_does_not_tell(store: Store) -> None:
    told = action("a", predicted={"bytes": 5}, command="c", rule="r")
    store.actions.keep([told])
    later = action("a", state="done", ended_s=S + 3, bytes=9, actual={"bytes": 7}, receipt={"x": 1})
    store.actions.keep([later])
    store.actions.keep([replace(later, actual={}, receipt={})])
    whole = replace(later, predicted={"bytes": 5}, command="c", rule="r")
    assert store.actions.find("a") == whole
    store.actions.keep([replace(later, predicted={"bytes": 6})])
    assert store.actions.find("a") == replace(whole, predicted={"bytes": 6})


def test_what_was_asked_for_leaves_out_what_nodes_did_by_themselves(store: Store) -> None:
    for number in range(6):
        rule = "r" if number % 2 else ""
        store.actions.keep([replace(action(f"01c{number}-1", S + number), rule=rule)])
        store.actions.keep([action(f"local-{number}-0", S + number)])
    assert [one.id for one in store.actions.asked(most=2)] == ["01c5-1", "01c4-1"]
    assert [one.id for one in store.actions.asked(before="01c2-1")] == ["01c1-1", "01c0-1"]
    assert [one.id for one in store.actions.asked(ruled=True)] == ["01c5-1", "01c3-1", "01c1-1"]
    assert [one.id for one in store.actions.asked(ruled=False, most=1)] == ["01c4-1"]
    assert store.actions.asked(query="other") == []
    assert len(store.actions.page()) == 12


def test_actions_page_by_when_they_began(store: Store) -> None:
    for number, at in enumerate([3, 1, 2, 2, 5]):
        store.actions.keep([action(f"a{number}", S + at, query="qr"[number % 2])])
    order = ["a4", "a0", "a3", "a2", "a1"]
    assert [one.id for one in store.actions.page()] == order
    seen: list[str] = []
    before: str | None = None
    while page := store.actions.page(before=before, most=2):
        seen += [one.id for one in page]
        before = page[-1].id
    assert seen == order
    assert [one.id for one in store.actions.page(query="q")] == ["a4", "a0", "a2"]
    assert [one.id for one in store.actions.page(since_s=S + 3)] == ["a4", "a0"]
    assert [one.id for one in store.actions.page(state="done")] == []
    assert [one.id for one in store.actions.running()] == list(reversed(order))
    assert [one.id for one in store.actions.since(S + 2)] == ["a0", "a4"]


def test_actions_to_learn_from_are_offered_until_marked(store: Store) -> None:
    both: dict[str, Any] = {"predicted": {"b": 1}, "actual": {"b": 2}, "ended_s": S + 1}
    store.actions.keep(
        [
            action("good", state="done", **both),
            action("failed", state="failed", **both),
            action("unforeseen", state="done", **{**both, "predicted": {}}),
            action("going", **{**both, "ended_s": None}),
        ]
    )
    assert [one.id for one in store.actions.unlearned()] == ["good"]
    store.learning.marked(["good", "no such action"])
    assert store.actions.unlearned() == []
    store.actions.keep([action("good", state="done", **both)])
    assert store.actions.unlearned() == [], "told again, not learned again"


def test_what_actions_used_in_a_day(store: Store) -> None:
    def over(id: str, **more: Any) -> ActionRow:
        given = {"state": "done", "ended_s": S, "bytes": 10, "actual": {"pause_s": 0.5}, **more}
        return action(id, S - 5, **given)

    store.actions.keep(
        [
            over("a"),
            over("b", rule="r", bytes=7, actual={}),
            over("c", rule="r", state="failed", actual={"pause_s": None}),
            over("old", ended_s=S - 10),
            over("local-1"),
            over("d", by="local"),
            over("going", ended_s=None),
        ]
    )
    assert store.actions.used(S - 1) == Used(27, 0.5, 17, 0.0)
    assert store.actions.used(S) == Used()


@given(
    said=st.lists(st.tuples(st.sampled_from(["q", "r"]), st.sampled_from([1, 2]), json_values)),
    times=st.integers(1, 3),
)
def test_evaluations_count_what_is_said_again(
    fresh: Fresh, said: list[tuple[str, int, Any]], times: int
) -> None:
    """Against the simplest model: a list, and its last one for the query."""
    store = fresh()
    model: list[Evaluation] = []
    for number, (query, which, value) in enumerate(said):
        at = S + number
        now = Evaluation("r", query, at, at, times, f"o{which}", {"why": value})
        store.rules.evaluated(now)
        last = next((i for i in reversed(range(len(model))) if model[i].query == query), None)
        same = last is not None and (model[last].outcome, model[last].said) == (
            now.outcome,
            now.said,
        )
        if last is not None and same:
            model[last] = replace(model[last], until_s=at, times=model[last].times + times)
        else:
            model.append(replace(now, id=len(model) + 1))
    assert store.rules.evaluations() == list(reversed(model))
    assert store.rules.evaluations(rule="another") == []
    assert store.rules.evaluations(since_s=S + len(said)) == []


def test_what_a_rule_says_may_hold_numpy_s_numbers(store: Store) -> None:
    for _ in range(2):
        said = {"found": np.float64(1.5), "nodes": np.arange(2), "all": {"b", "a"}}
        store.rules.evaluated(Evaluation("r", "q", S, S, 1, "nothing", said))
    (found,) = store.rules.evaluations()
    assert (found.times, found.said) == (2, {"found": 1.5, "nodes": [0, 1], "all": ["a", "b"]})


def test_a_rule_is_kept_fired_and_dropped(store: Store) -> None:
    row = RuleRow("r", "text", "propose", "ann", S, anchor_s=S)
    store.rules.keep(row)
    store.rules.fired("r", S + 1, S + 1)
    store.rules.fired("r", S + 2, None)
    assert store.rules.find("r") == replace(row, last_fired_s=S + 2, last_acted_s=S + 1)
    store.rules.keep(replace(row, mode="auto"))
    assert store.rules.all() == [replace(row, mode="auto")]
    assert store.rules.drop("r")
    assert not store.rules.drop("r")
    with pytest.raises(StoreError, match="no rule"):
        store.rules.fired("r", S, None)


def test_a_query_s_wish_and_what_is_said_of_it(store: Store) -> None:
    row = QueryRow("q", "sql", "", None, Wanted.RUNNING, True, S)
    store.queries.add(row)
    with pytest.raises(StoreConflict):
        store.queries.add(row)
    store.queries.want("q", Wanted.PAUSED)
    store.queries.set_nodes("q", 6)
    store.queries.told("q", "paused", "", {"tree": "(a b)"}, S + 1)
    store.queries.told("unregistered meanwhile", "running", "", {}, S + 1)
    wanted = replace(row, wanted=Wanted.PAUSED, nodes=6, state="paused", told_s=S + 1)
    assert store.queries.all() == [replace(wanted, about={"tree": "(a b)"})]
    assert store.queries.drop("q")
    assert not store.queries.drop("q")
    with pytest.raises(StoreError, match="no query"):
        store.queries.want("q", Wanted.STOPPED)


def test_an_alert_is_open_once_and_again_after_its_end(store: Store) -> None:
    assert store.alerts.raised("lag", "q", "5 s", S)
    assert not store.alerts.raised("lag", "q", "6 s", S + 1)
    assert store.alerts.raised("lag", "r", "5 s", S + 1)
    (first, _) = store.alerts.open()
    assert (first.text, first.since_s, first.last_s) == ("6 s", S, S + 1)
    assert store.alerts.acknowledge(first.id, "ann")
    assert store.alerts.silence(first.id, S + 60)
    assert not store.alerts.silence(99, S + 60)
    assert store.alerts.ended("lag", "q", S + 2)
    assert not store.alerts.ended("lag", "q", S + 3)
    assert [one.subject for one in store.alerts.open()] == ["r"]
    assert store.alerts.raised("lag", "q", "5 s", S + 9)
    ended = store.alerts.page()[-1]
    assert (ended.acknowledged_by, ended.silenced_until_s, ended.until_s) == ("ann", S + 60, S + 2)
    assert [one.id for one in store.alerts.page(before=3, most=1)] == [2]


def test_events_wait_for_the_hooks_that_want_them(store: Store) -> None:
    def hook(id: str, *events: str, disabled: bool = False) -> None:
        store.webhooks.add(Webhook(id, "https://x", "s", events, "ann", S, disabled))

    hook("all", "*")
    hook("family", "action.*")
    hook("one", "action.done", "alert")
    hook("off", "*", disabled=True)
    assert store.webhooks.post("action.done", {"id": 1}, S) == 3
    assert store.webhooks.post("alert", {}, S + 1) == 2
    assert store.webhooks.post("actions", {}, S) == 1
    due = store.webhooks.due(S)
    assert [(hook.id, d.event) for hook, d in due] == [
        ("all", "action.done"),
        ("family", "action.done"),
        ("one", "action.done"),
        ("all", "actions"),
    ]
    first, second = due[0][1].id, due[1][1].id
    store.webhooks.tried(first, state="delivered", next_s=S, note="200")
    store.webhooks.tried(second, state="waiting", next_s=S + 30, note="timeout")
    assert [hook.id for hook, _ in store.webhooks.due(S)] == ["one", "all"]
    later = {(hook.id, d.event): d for hook, d in store.webhooks.due(S + 30)}
    again = later["family", "action.done"]
    assert (again.tries, again.note, again.body) == (1, "timeout", {"id": 1})
    assert store.webhooks.drop("all")
    assert not store.webhooks.drop("all")
    assert {hook.id for hook, _ in store.webhooks.due(S + 30)} == {"family", "one"}
    assert len(store.webhooks.due(S + 30, most=1)) == 1


def test_estimates_are_replaced_and_lines_added(store: Store) -> None:
    line = Learned(S, "a", "bytes", 1.0, 2.0, "w", 3.0, 4.0)
    store.learning.learn([line, replace(line, action="b")], {"w": {"log": 1.0, "p": 0.5}})
    store.learning.learn([], {"k": {"log": 2.0}})
    store.learning.learn([line], {"w": {"log": 1.5, "p": 0.4}})
    assert store.learning.estimates() == {"k": {"log": 2.0}, "w": {"log": 1.5, "p": 0.4}}
    assert [one.id for one in store.learning.page()] == [3, 2, 1]
    assert store.learning.page(action="b") == [replace(line, action="b", id=2)]


@given(name=texts, one=json_values, other=json_values)
def test_kept_values(fresh: Fresh, name: str, one: Any, other: Any) -> None:
    store = fresh()
    assert store.kept.get(name) is None
    store.kept.put(name, one)
    assert store.kept.get(name) == one
    store.kept.put(name, other)
    store.kept.put(name + "x", one)
    assert store.kept.get(name) == other
