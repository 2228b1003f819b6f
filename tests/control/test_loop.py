"""The rules' loop over a real store, with the simulator as its engine and a clock set by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from control.errors import StoreError
from control.evaluate import Outcome, narrower
from control.ledger import ActionRow, CommandState, Evaluation, ProposalState, Used, Wanted
from control.limits import Limits
from control.loop import Loop, explained
from control.people import Actor, Role, Source, User
from control.plans import Plan, plan_from_json
from control.policies.registry import KINDS
from tests.control.loops import MB, calm, text
from tests.control.stage import QUERY, START_S, Stage

ANN = Actor("ann", Role.ADMIN, Source.API)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Two nodes; three quarters of the groups are on the first."""
    owner = (np.arange(64) % 4 == 3).astype(np.int64)
    made = Stage(tmp_path, calm(), owner, np.array([400 * MB, 400 * MB]))
    made.world.memory[:] = 1000.0
    made.tell()
    yield made
    made.store.close()


def evaluations(stage: Stage) -> list[Evaluation]:
    return list(reversed(stage.store.rules.evaluations(most=100)))


def test_in_auto_it_acts_and_then_rests(stage: Stage) -> None:
    stage.rule(text())
    stage.seconds(14)
    assert not stage.store.proposals.page()
    stage.seconds(20)
    assert len(stage.done) == 1
    row = stage.store.actions.find(stage.done[0])
    assert row is not None and row.rule == "even" and row.state == "done" and row.by == "ann"
    assert np.ptp(stage.world.memory_bytes) < 0.2 * stage.world.memory_bytes.max()
    said = evaluations(stage)
    assert [e.outcome for e in said][:1] == ["acted"]
    assert said[0].said["proposal"] and said[0].said["command"]
    assert {why for e in said[1:] for why in [b["why"] for b in e.said.get("blockers", [])]} <= {
        "cool_down",
        "running",
    }
    rule = stage.store.rules.find("even")
    assert rule is not None and rule.last_acted_s == START_S + 15
    stage.seconds(120)
    assert len(stage.done) == 1  # it is even now
    last = evaluations(stage)[-1]
    assert last.outcome == "nothing" and last.times >= 4 and "balanced" in last.said["why"]


def test_in_propose_it_asks_once_and_waits_for_people(stage: Stage) -> None:
    stage.rule(text("propose"))
    stage.seconds(100)
    (proposal,) = stage.store.proposals.page()
    assert proposal.rule == "even" and proposal.state is ProposalState.OPEN
    assert proposal.preview["whole"]["bytes"] > 0 and not stage.done
    last = evaluations(stage)[-1]
    assert last.outcome == "blocked"
    assert "open_proposal" in [b["why"] for b in last.said["blockers"]]
    answer = stage.dispatcher.dispatch("apply", {"proposal": proposal.id}, ANN)
    assert answer.accepted
    stage.seconds(5)
    assert len(stage.done) == 1


def test_a_dismissed_proposal_is_not_made_again_at_once(stage: Stage) -> None:
    stage.rule(text("propose"))
    stage.seconds(16)
    (proposal,) = stage.store.proposals.page()
    assert stage.dispatcher.dispatch("dismiss", {"proposal": proposal.id}, ANN).accepted
    stage.seconds(300)
    assert len(stage.store.proposals.page()) == 1
    assert evaluations(stage)[-1].said["blockers"][-1]["why"] == "stopped"
    for _ in range(330):
        stage.second(tell=stage.now_s % 5 == 0)
    stage.seconds(20)
    assert len(stage.store.proposals.page()) == 2


def test_a_proposal_that_is_overtaken_makes_room_for_another(stage: Stage) -> None:
    """Somebody has spilled its groups: nobody could apply it any more, and the rule need not wait until it lapses."""
    stage.rule(text("propose"))
    stage.seconds(16)
    (proposal,) = stage.store.proposals.page()
    (step,) = plan_from_json(proposal.plan).steps
    stage.world.spill(stage.world.rows_of(step))  # type: ignore[arg-type]
    stage.seconds(40)
    old = stage.store.proposals.find(proposal.id)
    assert old is not None and old.state is ProposalState.STALE
    assert "was in memory, is on disk" in old.note
    assert "open_proposal" not in [
        b["why"] for b in evaluations(stage)[-1].said.get("blockers", [])
    ]


def test_proposals_expire(stage: Stage) -> None:
    stage.rule(text("propose"))
    stage.seconds(16)
    (proposal,) = stage.store.proposals.page()
    stage.now_s = proposal.expires_s + 1
    stage.loop.run_once()
    assert stage.store.proposals.page()[0].state is ProposalState.EXPIRED


@pytest.mark.parametrize("who", ["disabled", "demoted", "unknown"])
def test_without_its_editor_it_only_proposes(stage: Stage, who: str) -> None:
    stage.store.users.add(User("bob", Role.ADMIN, "-", False, START_S))
    stage.rule(text(), editor="nobody" if who == "unknown" else "bob")
    if who == "disabled":
        stage.store.users.set_disabled("bob", True)
    if who == "demoted":
        stage.store.users.set_role("bob", Role.VIEWER)
    stage.seconds(20)
    assert len(stage.store.proposals.page()) == 1 and not stage.done
    last = [e for e in evaluations(stage) if e.outcome == "proposed"]
    assert "only proposes" in last[0].said["fallback"]


def test_hold_keeps_it_from_acting_and_ends_by_itself(stage: Stage) -> None:
    stage.rule(text())
    assert stage.dispatcher.dispatch("hold", {"seconds": 100}, ANN).accepted
    stage.seconds(90)
    assert not stage.store.proposals.page()
    assert evaluations(stage)[-1].said["blockers"][0]["why"] == "hold"
    stage.seconds(40)
    assert len(stage.done) == 1


def test_half_of_the_day_is_kept_for_people(stage: Stage) -> None:
    stage.rule(text())
    assert stage.dispatcher.dispatch("budget.daily", {"bytes": 1000}, ANN).accepted
    stage.seconds(40)
    assert not stage.done
    last = evaluations(stage)[-1]
    assert last.outcome == "nothing" and stage.store.actions.used(0.0) == Used()
    assert stage.dispatcher.dispatch("budget.daily", {"bytes": 0}, ANN).accepted
    stage.seconds(20)
    assert evaluations(stage)[-1].said["blockers"][0]["why"] == "budget"


def test_in_auto_what_does_not_gain_is_not_done(stage: Stage) -> None:
    """Nothing is about to be full: moving gains nothing, whatever the ratio is."""
    stage.rule(text(needs="true"))
    stage.seconds(40)
    assert not stage.done and not stage.store.proposals.page()
    last = evaluations(stage)[-1]
    assert last.outcome == "nothing" and last.times == 2
    assert last.said["gain"]["gain_row_s"] <= 0 and "lose" in last.said["why"]


def test_one_rules_error_is_its_own(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, snapshot: object, limits: object) -> Plan:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr(KINDS["none"], "decide", broken)
    stage.rule('name = "a-broken"\nevery = 15\n[policy]\nname = "none"\n')
    stage.rule('name = "also"\nevery = 15\n[policy]\nname = "relocate"\n')
    row = stage.store.rules.find("also")
    assert row is not None
    stage.store.rules.keep(replace(row, text="nothing like TOML"))
    stage.rule(text())
    stage.seconds(40)
    assert len(stage.done) == 1
    said = {e.rule: e for e in evaluations(stage) if e.outcome == "error"}
    assert set(said) == {"a-broken", "also"}
    assert "ZeroDivisionError: by hand" in said["a-broken"].said["why"]
    assert said["a-broken"].times == 2


def test_a_rule_that_is_off_does_nothing_and_does_not_fire_when_it_comes_back(stage: Stage) -> None:
    stage.rule(text("off"))
    stage.seconds(100)
    assert not evaluations(stage)
    body = {"rule": "even", "mode": "auto"}
    assert stage.dispatcher.dispatch("rule.mode", body, ANN).accepted
    stage.seconds(14)
    assert not evaluations(stage)
    stage.seconds(5)
    assert len(stage.done) == 1


def test_a_restart_goes_on_where_it_was(stage: Stage) -> None:
    """Another loop over the same store: no firing is lost, none is made twice."""
    stage.rule(text())
    stage.seconds(16)
    assert len(stage.store.proposals.page()) == 1
    stage.loop = Loop(stage.store, stage.dispatcher, stage.clock)
    stage.seconds(20)
    assert len(stage.store.proposals.page()) == 1 and len(stage.done) == 1


@pytest.mark.parametrize("seconds", [-86_400, -3, 3, 86_400])
def test_a_clock_that_jumps_does_nothing_twice(stage: Stage, seconds: int) -> None:
    stage.rule(text())
    stage.seconds(16)
    stage.now_s += seconds
    for _ in range(20):
        stage.loop.run_once()
    assert len(stage.store.proposals.page()) == 1


def test_the_engine_gone_is_said_and_nothing_is_decided(stage: Stage) -> None:
    stage.now_s += 20
    stage.rule(text())
    for _ in range(40):
        stage.now_s += 1
        stage.loop.run_once()
    last = evaluations(stage)[-1]
    whys = [b["why"] for b in last.said["blockers"]]
    assert last.outcome == "blocked" and set(whys) == {"engine_stale", "no_snapshot"}


def test_queries_that_people_stopped_are_left_alone(stage: Stage) -> None:
    stage.rule(text())
    stage.store.queries.want(QUERY, Wanted.STOPPED)
    stage.seconds(20)
    assert not evaluations(stage)


def test_a_command_on_its_way_counts_as_running(stage: Stage) -> None:
    stage.rule(text("propose"))
    stage.seconds(16)
    (proposal,) = stage.store.proposals.page()
    assert stage.dispatcher.dispatch("apply", {"proposal": proposal.id}, ANN).accepted
    known = explained(stage.store, "even", QUERY, stage.now_s)
    assert known is not None
    assert "running" in [b["why"] for b in known["blockers"]]
    (command,) = stage.store.commands.page()
    assert command.state is CommandState.QUEUED


def test_explained_says_what_it_would_do_and_does_nothing(stage: Stage) -> None:
    stage.rule(text("propose"))
    stage.second()
    known = explained(stage.store, "even", QUERY, stage.now_s)
    assert known is not None and known["evaluation"]["outcome"] == Outcome.WANTED
    assert known["evaluation"]["preview"]["whole"]["bytes"] > 0
    assert [b["why"] for b in known["blockers"]] == ["not_due"]
    assert known["next_eligible_s"] == START_S + 15
    assert not stage.store.proposals.page()
    assert explained(stage.store, "other", QUERY, stage.now_s) is None


def test_a_locked_store_ends_the_round_and_the_next_goes_on(stage: Stage, tmp_path: Path) -> None:
    stage.rule(text())
    stage.seconds(14)
    stage.second()
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            stage.loop.run_once()
        assert caught.value.again
    other.execute("ROLLBACK")
    other.close()
    stage.loop.run_once()
    assert len(stage.store.proposals.page()) == 1
    stage.seconds(10)
    assert len(stage.done) == 1


def test_the_tighter_limit_holds() -> None:
    mine = Limits(5, 100, 10.0, 0.9, 3, False)
    given = Limits(7, 50, 5.0, 0.95, 2, True)
    assert narrower(mine, given) == Limits(5, 50, 10.0, 0.9, 2, True)


def test_who_acts_is_in_the_audit(stage: Stage) -> None:
    stage.rule(text())
    stage.seconds(16)
    lines = stage.store.audit.page()
    assert {(line.what, line.user, line.source) for line in lines} == {
        ("propose", "rule even (ann)", Source.RULE),
        ("apply", "rule even (ann)", Source.RULE),
    }


def test_an_action_teaches_as_soon_as_it_is_over(stage: Stage) -> None:
    from control.learn import learn, numbers

    stage.rule(text())
    stage.seconds(20)
    before = numbers(stage.store).bandwidth_bytes_per_s
    assert learn(stage.store, stage.now_s) == 1
    assert numbers(stage.store).bandwidth_bytes_per_s < before
    (line,) = stage.store.learning.page()
    assert line.figure == "move_bandwidth" and line.before == pytest.approx(before)
    assert learn(stage.store, stage.now_s) == 0
    rows: list[ActionRow] = stage.store.actions.page()
    told = rows[0].predicted["figures"]["move_bandwidth"]
    assert line.predicted == pytest.approx(told)
