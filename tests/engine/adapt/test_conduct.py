"""A rule's own parameters reach the nodes: their spills go by them, rounds too, previews price by them; one rule a query."""

from __future__ import annotations

import pytest

from control import predict
from control.charge import rival
from control.conduct import Conduct, conduct_of, from_json, to_json
from control.cost.coefficients import Coefficients, LocalRule
from control.kinds import Status
from control.ledger import RuleRow
from control.loop import explained
from control.people import Actor, Role, Source, User
from control.plans import Plan, Reason, SetBudget, Topic
from control.policies.lazy_disk import LazyDisk
from control.policies.registry import KINDS
from control.rules import rule_from
from tests.engine.adapt.deciding import text_of
from tests.engine.adapt.situation import START_S, Feed, ruled, situated

KB = 1000
ANN = Actor("ann", Role.ADMIN, Source.API)
BUDGETS = dict.fromkeys((0, 1), 60 * KB)
OWN = {"threshold": 0.5, "spill_percent": 10.0, "victim": "largest", "ratio": 0.0}


def test_its_threshold_share_and_victims_reach_a_node_s_own_spill() -> None:
    with ruled(text_of("lazy_disk", **OWN), budgets=BUDGETS) as (it, house):
        for _ in range(60):
            before = it.desk.snapshot()
            house.ticks(1)
            if spills := it.by("node 0"):
                break
        assert it.desk.conduct.local.victim == "largest" and it.desk.conduct.rule == "it"
        after = it.desk.snapshot()
        assert 0.4 < before.nodes.memory_bytes[0] / (60 * KB) < 0.6, "not at 90 %"
        step = spills[0].step
        groups = sum(len(p.groups) for p in step.parts)  # type: ignore[union-attr]
        assert groups == 1, "that is 10 %; 30 % would be two"
        mine = before.on(0)
        largest = before.groups.memory_bytes[mine].max()
        gone = [before.row(p.operator, g) for p in step.parts for g in p.groups]  # type: ignore[union-attr]
        assert before.groups.memory_bytes[gone].max() == largest
        assert after.spill_rule == LocalRule(0.5, 10.0)
        assert it.check() > 100


def test_inactive_groups_go_first_after_the_rule_s_time() -> None:
    """Most keys have no rows after a while; by θt = 5 s their groups go, though they were to be last."""
    own = {**OWN, "inactive_s": 5.0, "victim": "most_productive_decayed", "threshold": 0.3}
    with ruled(text_of("active_disk", **own), budgets=dict.fromkeys((0, 1), 120 * KB)) as (
        it,
        house,
    ):
        few = Feed(keys=2)
        for _ in range(90):
            seen = it.desk.snapshot()
            house.ticks(1, *([Feed()] * 2 if it.now < START_S + 4 else [few] * 2))
            if it.by("node 0"):
                break
        step = it.by("node 0")[0].step
        gone = [seen.row(p.operator, g) for p in step.parts for g in p.groups]  # type: ignore[union-attr]
        ages = seen.time_s - seen.groups.last_insert_s[gone]
        assert len(ages) and (ages > 5.0).all()


def test_it_is_the_same_after_a_restart_and_ends_with_the_rule() -> None:
    with ruled(text_of("lazy_disk", **OWN), budgets=BUDGETS) as (it, house):
        house.ticks(3)
        assert it.desk.conduct.local.threshold == 0.5
        it.restart()
        assert it.desk.conduct == Conduct(), "until the engine has seated it"
        house.seat()
        assert it.desk.conduct.local.threshold == 0.5 and it.desk.conduct.rule == "it"
        answer = house.dispatcher.dispatch("rule.mode", {"rule": "it", "mode": "propose"}, ANN)
        assert answer.status is Status.ACCEPTED
        house.ticks(2)
        assert it.desk.conduct == Conduct()
        it.restart()
        house.seat()
        assert it.desk.conduct == Conduct()


def test_it_ends_when_its_editor_may_not_have_it_in_auto() -> None:
    with ruled(text_of("lazy_disk", **OWN)) as (it, house):
        house.ticks(2)
        assert it.desk.conduct.rule == "it"
        house.store.users.set_disabled("ann", True)
        house.ticks(2)
        assert it.desk.conduct.rule == ""


def test_a_second_rule_in_auto_is_refused_and_it_is_said_which_one_is_in_charge() -> None:
    with ruled(text_of("lazy_disk", **OWN)) as (it, house):
        house.ticks(2)
        for kind, body in (
            ("rule.save", {"text": text_of("flux_load", called="other")}),
            (
                "rule.save",
                {"text": text_of("active_disk", called="other").replace('"*"', '"local"')},
            ),
        ):
            answer = house.dispatcher.dispatch(kind, body, ANN)
            assert answer.status is Status.REFUSED and "rule it is in mode auto" in answer.text
        assert house.store.rules.find("other") is None
        proposing = text_of("flux_load", mode="propose", called="other")
        assert house.dispatcher.dispatch("rule.save", {"text": proposing}, ANN).accepted
        switch = {"rule": "other", "mode": "auto"}
        answer = house.dispatcher.dispatch("rule.mode", switch, ANN)
        assert answer.status is Status.REFUSED and "switch it off" in answer.text
        assert house.store.rules.find("other").mode == "propose"  # type: ignore[union-attr]
        assert house.dispatcher.dispatch("rule.mode", {"rule": "it", "mode": "off"}, ANN).accepted
        assert house.dispatcher.dispatch("rule.mode", switch, ANN).accepted
        house.ticks(2)
        assert it.desk.conduct.rule == "other"


def test_rules_that_say_nothing_of_nodes_are_as_many_as_one_likes() -> None:
    rows = [RuleRow("one", text_of("relocate", called="one"), "auto", "ann", START_S)]
    assert rival(rows, rule_from(text_of("lazy_disk"))) == ""
    rows.append(RuleRow("two", text_of("local_spill", called="two"), "auto", "ann", START_S))
    assert rival(rows, rule_from(text_of("lazy_disk"))) == "two"
    assert rival(rows, rule_from(text_of("best_gain"))) == ""
    elsewhere = RuleRow("two", rows[1].text.replace('"*"', '"far"'), "auto", "ann", START_S)
    assert rival([elsewhere], rule_from(text_of("lazy_disk").replace('"*"', '"near"'))) == ""


def test_of_two_in_auto_from_before_the_older_one_is_in_charge_and_the_other_says_so() -> None:
    with ruled(text_of("lazy_disk", **OWN)) as (it, house):
        text = text_of("active_disk", called="other", threshold=0.7)
        row = RuleRow("other", text, "auto", "ann", it.now + 1, anchor_s=it.now)
        house.store.rules.keep(row)  # as an upgrade finds it
        house.ticks(4)
        assert it.desk.conduct.rule == "it"
        told = explained(house.store, "other", "local", it.now)
        assert told is not None and "go by rule it" in told["fallback"] and told["mode"] == "auto"


def test_previews_and_figures_go_by_what_the_nodes_do() -> None:
    with ruled(text_of("lazy_disk", **{**OWN, "threshold": 0.6}), budgets=BUDGETS) as (_, house):
        house.ticks(20)
        sample = house.store.metrics.newest("local")
        assert sample is not None and sample.snapshot.spill_rule == LocalRule(0.6, 10.0)
        steps = (SetBudget(0, 70 * KB),)
        plan = Plan(steps, (Reason.of(Topic.CHOSEN, "test"),))
        told = predict.preview(plan, sample.snapshot, Coefficients())
        same = predict.preview(plan, sample.snapshot, Coefficients(), rule=LocalRule(0.6, 10.0))
        other = predict.preview(plan, sample.snapshot, Coefficients(), rule=LocalRule(0.9, 30.0))
        assert told == same != other


def test_by_adapt_a_policy_brings_its_own() -> None:
    with situated(LazyDisk(threshold=0.4, spill_percent=20.0), budgets=BUDGETS) as it:
        assert it.desk.conduct == Conduct(LazyDisk(threshold=0.4, spill_percent=20.0).local)
        it.ticks(30)
        assert it.by("node 0") and it.desk.snapshot().spill_rule == LocalRule(0.4, 20.0)


@pytest.mark.parametrize("name", KINDS)
def test_every_policy_s_conduct_comes_back_from_what_is_kept(name: str) -> None:
    found = conduct_of(KINDS[name](), "it")
    if found is not None:
        assert from_json(to_json(found)) == found
    carries = {"local_spill", "lazy_disk", "active_disk", "flux_load", "flux_memory", "flux_hybrid"}
    assert (found is not None) == (name in carries)


def test_a_user_s_name_is_kept_with_what_a_rule_told_the_engine() -> None:
    with ruled(text_of("lazy_disk", **OWN)) as (_, house):
        house.store.users.add(User("bob", Role.ADMIN, "-", False, START_S))
        house.ticks(2)
        (command,) = [c for c in house.store.commands.page() if c.kind == "conduct"]
        assert (command.user, command.rule, command.state) == ("ann", "it", "done")
        assert "rule it" in command.outcome["text"]
        house.ticks(5)
        assert len([c for c in house.store.commands.page() if c.kind == "conduct"]) == 1
