"""Interlocks: every blocker is there when its fact is, the way is free when none is, and `next` keeps its word."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.interlock import (
    PASSING,
    WAIT_MAX_S,
    Block,
    Facts,
    interlock,
    interlock_to_json,
    waits,
)
from control.people import Role
from control.rules import Mode, rule_from

NOW = 1_763_000_000.0  # 02:13 UTC
TEXT = 'name = "r"\nevery = "15s"\ncooldown = "60s"\n[policy]\nname = "none"\n'
RULE = rule_from(TEXT)
FREE = Facts(
    NOW,
    Mode.AUTO,
    changed_s=NOW - 1000,
    anchor_s=NOW - 1000,
    last_fired_s=NOW - 15,
    engine_s=NOW - 1,
    snapshot_s=NOW - 1,
    editor="ann",
    editor_role=Role.ADMIN,
)
QUIET = rule_from('quiet = ["02:00-06:00"]\n' + TEXT)

# Each blocker alone: what makes it, and the rule that it needs.
ALONE: dict[Block, Callable[[Facts], Facts]] = {
    Block.OFF: lambda f: replace(f, mode=Mode.OFF),
    Block.HOLD: lambda f: replace(f, hold_until_s=f.now_s + 100, hold_by="bob"),
    Block.NOT_DUE: lambda f: replace(f, last_fired_s=f.now_s - 1),
    Block.COOL_DOWN: lambda f: replace(f, last_acted_s=f.now_s - 59),
    Block.STOPPED: lambda f: replace(f, stopped_s=f.now_s - 599),
    Block.QUERY: lambda f: replace(f, query_state="paused"),
    Block.ENGINE_STALE: lambda f: replace(f, engine_s=f.now_s - 16),
    Block.NO_SNAPSHOT: lambda f: replace(f, snapshot_s=f.now_s - 16),
    Block.RUNNING: lambda f: replace(f, running=("m1",)),
    Block.OPEN_PROPOSAL: lambda f: replace(f, open_proposal="p1", open_until_s=f.now_s + 50),
    Block.BUDGET: lambda f: replace(f, bytes_left=0),
}
UNKNOWN = {
    Block.OFF,
    Block.QUERY,
    Block.ENGINE_STALE,
    Block.NO_SNAPSHOT,
    Block.RUNNING,
    Block.BUDGET,
}


def test_nothing_in_the_way() -> None:
    found = interlock(RULE, FREE)
    assert found.free and found.turn.due and found.mode is Mode.AUTO and not found.fallback
    assert found.next_s == NOW


@given(st.sets(st.sampled_from(sorted(ALONE))))
def test_every_blocker_is_named_and_no_other(blocks: set[Block]) -> None:
    facts = FREE
    for block in sorted(blocks):
        facts = ALONE[block](facts)
    found = interlock(RULE, facts)
    assert {blocker.why for blocker in found.blockers} == blocks
    assert found.free == (not blocks)
    assert found.passing == (blocks <= PASSING)
    assert all(blocker.text for blocker in found.blockers)
    assert json.loads(json.dumps(interlock_to_json(found), allow_nan=False))
    if blocks & UNKNOWN:
        assert found.next_s is None
    else:
        assert found.next_s is not None and found.next_s >= NOW


@given(st.sets(st.sampled_from(sorted(set(ALONE) - UNKNOWN))), st.booleans())
def test_the_first_free_turn_is_the_one_that_was_said(blocks: set[Block], quiet: bool) -> None:
    """Turn by turn, as the loop goes: each turn that is blocked is over."""
    rule, facts = (QUIET if quiet else RULE), FREE
    for block in sorted(blocks):
        facts = ALONE[block](facts)
    said = interlock(rule, facts).next_s
    assert said is not None
    now = NOW
    for _ in range(2000):
        gone = facts.open_until_s is not None and now >= facts.open_until_s
        facts = replace(facts, now_s=now, engine_s=now, snapshot_s=now)
        facts = replace(facts, open_proposal="") if gone else facts
        found = interlock(rule, facts)
        if found.free:
            break
        if found.turn.due:
            facts = replace(facts, last_fired_s=now)
        assert found.next_s == pytest.approx(said, abs=15)
        now = interlock(rule, facts).turn.next_s or now
    assert now == said


def test_quiet_hours_are_a_blocker_until_they_end() -> None:
    (only,) = interlock(QUIET, FREE).blockers
    assert only.why is Block.QUIET
    assert only.until_s == NOW - NOW % 86_400 + 6 * 3600


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(FREE, editor_role=None), "no user any more"),
        (replace(FREE, editor_disabled=True), "is disabled"),
        (replace(FREE, editor_role=Role.OPERATOR), "auto needs an admin"),
        (replace(FREE, editor_role=Role.VIEWER), "auto needs an admin"),
    ],
)
def test_without_an_editor_who_may_it_only_proposes(facts: Facts, text: str) -> None:
    found = interlock(RULE, facts)
    assert found.free and found.mode is Mode.PROPOSE and text in found.fallback


def test_what_is_known_must_be_from_after_the_last_action() -> None:
    facts = replace(FREE, ended_s=NOW - 0.5)
    assert [b.why for b in interlock(RULE, facts).blockers] == [Block.NO_SNAPSHOT]
    assert interlock(RULE, replace(facts, snapshot_s=NOW - 0.4)).free


def test_never_heard_of_is_stale_too() -> None:
    found = interlock(RULE, replace(FREE, engine_s=None, snapshot_s=None))
    assert {b.why for b in found.blockers} == {Block.ENGINE_STALE, Block.NO_SNAPSHOT}


def test_marks_in_the_future_block_nothing() -> None:
    """After the clock was set back."""
    facts = replace(FREE, last_acted_s=NOW + 50, stopped_s=NOW + 50)
    assert interlock(RULE, facts).free


@pytest.mark.parametrize("blocks", [{Block.RUNNING}, {Block.RUNNING, Block.HOLD}, set()])
def test_a_nightly_rule_waits_for_what_is_over_soon(blocks: set[Block]) -> None:
    nightly = rule_from(TEXT.replace('every = "15s"', 'cron = "0 2 * * *"'))
    two = NOW - NOW % 86_400 + 2 * 3600
    facts = replace(FREE, now_s=two + 5, engine_s=two, snapshot_s=two, last_fired_s=two - 86_400)
    for block in blocks:
        facts = ALONE[block](facts)
    lock = interlock(nightly, facts)
    assert lock.turn.due and lock.turn.since_s == two
    assert waits(lock.turn, [lock], two + 5) == (blocks == {Block.RUNNING})
    assert not waits(lock.turn, [lock], two + WAIT_MAX_S + 1)


def test_a_rule_that_comes_often_does_not_wait() -> None:
    lock = interlock(RULE, ALONE[Block.RUNNING](FREE))
    assert lock.passing and not waits(lock.turn, [lock], NOW)
