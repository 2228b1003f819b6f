"""The dispatcher over a real store: roles, bodies, proposals and drift, budgets, hold, undo, drain, audit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control import actions, proposals
from control.actions import Action
from control.cost.coefficients import Coefficients
from control.dispatch import HANDLERS, KINDS, Status
from control.kinds import FIELDS, wrong
from control.ledger import ActionRow, ProposalState
from control.migration.trees import Tree
from control.orders import priced_order
from control.people import Actor, Role, Source
from control.plans import STRATEGIES, Migrate, Move, Part, Plan, Spill, plan_from_json
from control.proposals import drained, drift, fingerprint, undone
from control.snapshot import ClusterSnapshot
from tests.control.desk import NOW_S, OPERATOR, VIEWER, Desk
from tests.control.made import MB, cluster, snapshots
from tests.control.migration.outlooks import NEW, OLD, skewed
from tests.control.running import running

RULE = Actor("ann", Role.ADMIN, Source.RULE, rule="even")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    made.show(cluster([[9 * MB, 5 * MB, 4 * MB], [2 * MB], [MB]]))
    yield made
    made.store.close()


def test_every_kind_has_a_handler_a_role_and_known_fields() -> None:
    assert set(HANDLERS) == set(KINDS)
    assert all(name in FIELDS for kind in KINDS.values() for name in (*kind.needs, *kind.may))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_role_too_low_is_refused_and_audited(desk: Desk, kind: str) -> None:
    needed = KINDS[kind].role
    body = {name: _some(name) for name in KINDS[kind].needs}
    for actor in (VIEWER, OPERATOR):
        answer = desk.dispatcher.dispatch(kind, body, actor, "q")
        if not actor.role.covers(needed):
            assert answer.status is Status.FORBIDDEN and str(needed) in answer.text
            line = desk.store.audit.page(most=1)[0]
            assert (line.user, line.what, line.outcome) == (actor.user, kind, "refused")
        else:
            assert answer.status is not Status.FORBIDDEN or "only admins" in answer.text


def _some(name: str) -> Any:
    check, words = FIELDS[name]
    found = (1, 1.5, "x", [1], [{}], ["x"], {}, True)
    return next(value for value in found if check(value)) if words else None


@pytest.mark.parametrize("kind", sorted(k for k in KINDS if not KINDS[k].automatic))
def test_rules_may_only_propose_and_apply(desk: Desk, kind: str) -> None:
    body = {name: _some(name) for name in KINDS[kind].needs}
    assert desk.dispatcher.dispatch(kind, body, RULE, "q").status is Status.FORBIDDEN


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_a_body_is_whole_and_of_the_right_types(kind: str, data: st.DataObject) -> None:
    known = KINDS[kind]
    body = {name: _some(name) for name in known.needs}
    query = "q" if known.query else ""
    assert wrong(kind, body, query) == ""
    if known.needs:
        gone = data.draw(st.sampled_from(known.needs))
        assert gone in wrong(kind, {k: v for k, v in body.items() if k != gone}, query)
        odd = data.draw(st.sampled_from([object(), b"x", {1, 2}]))
        assert wrong(kind, {**body, gone: odd}, query)
    assert "surprise" in wrong(kind, {**body, "surprise": 1}, query)
    if known.query:
        assert "query" in wrong(kind, body, "")


def test_what_is_applied_is_what_was_previewed(desk: Desk) -> None:
    made = desk.ask("propose", OPERATOR, "q", do="move", node=0, to=1, bytes=9 * MB)
    assert made.accepted and made.body["preview"]["steps"]
    row = desk.store.proposals.find(made.id)
    assert row is not None
    answer = desk.ask("apply", OPERATOR, proposal=made.id)
    (command,) = desk.store.commands.take(desk.now_s)
    assert answer.accepted and command.id == answer.id and command.user == "otto"
    assert command.body["plan"] == row.plan and command.body["fingerprint"] == row.fingerprint
    again = desk.ask("apply", OPERATOR, proposal=made.id)
    assert again.status is Status.CONFLICT and desk.store.commands.take(desk.now_s) == []


def test_a_stale_proposal_says_what_changed(desk: Desk) -> None:
    made = desk.ask("propose", query="q", do="spill", node=0, percent=100)
    desk.show(cluster([[5 * MB, 4 * MB], [2 * MB, 9 * MB], [MB]]))  # a group has moved meanwhile
    answer = desk.ask("apply", proposal=made.id)
    assert answer.status is Status.REFUSED and answer.refusals
    assert {r["why"] for r in answer.refusals} == {"stale"}
    row = desk.store.proposals.find(made.id)
    assert row is not None and row.state is ProposalState.STALE and row.note
    assert desk.store.commands.take(desk.now_s) == []


def test_proposals_expire_and_old_pictures_are_not_acted_upon(desk: Desk) -> None:
    made = desk.ask("propose", query="q", do="move", node=0, to=1, percent=30)
    desk.now_s += 20
    assert "too old" in desk.ask("apply", proposal=made.id).text
    assert "too old" in desk.ask("propose", query="q", do="move", node=0, to=1, percent=30).text
    desk.now_s += 600
    assert desk.ask("apply", proposal=made.id).status is Status.CONFLICT
    assert (
        desk.ask("propose", query="nowhere", do="spill", node=0, percent=1).status is Status.MISSING
    )


def test_hold_stops_rules_and_not_people(desk: Desk) -> None:
    move = Plan((Move((Part("join", (0,)),), 0, 1, 9 * MB),), _chosen())
    assert desk.ask("hold", OPERATOR, seconds=60).accepted
    refused = desk.dispatcher.propose(move, RULE, "q")
    assert refused.status is Status.REFUSED and refused.refusals[0]["why"] == "on_hold"
    assert desk.dispatcher.propose(move, OPERATOR, "q").accepted
    desk.now_s += 61
    desk.show(cluster([[9 * MB, 5 * MB, 4 * MB], [2 * MB], [MB]], time_s=desk.now_s))
    assert desk.dispatcher.propose(move, RULE, "q").accepted, "it ends by itself"
    assert desk.ask("hold", OPERATOR, seconds=1e9).status is Status.INVALID


def _chosen() -> Any:
    from control.plans import Reason, Topic

    return (Reason.of(Topic.CHOSEN, "test"),)


@given(
    total=st.integers(0, 40),
    people=st.integers(0, 40),
    automatic=st.integers(0, 40),
    wanted=st.integers(1, 9),
)
def test_rules_have_half_of_the_day_and_people_what_is_left(
    tmp_path_factory: pytest.TempPathFactory, total: int, people: int, automatic: int, wanted: int
) -> None:
    desk = Desk(tmp_path_factory.mktemp("day"))
    desk.show(cluster([[wanted * MB], [0]]))
    desk.ask("budget.daily", bytes=total * MB)
    for number, (size, rule) in enumerate(((people, ""), (automatic, "even"))):
        desk.store.actions.keep([_done(f"a{number}", size * MB, rule)])
    move = Plan((Move((Part("join", (0,)),), 0, 1, wanted * MB),), _chosen())
    left = total - people - automatic
    assert desk.dispatcher.propose(move, OPERATOR, "q").accepted == (wanted <= left)
    half = (total * MB) // 2 - automatic * MB
    may = wanted <= left and wanted * MB <= half
    assert desk.dispatcher.propose(move, RULE, "q").accepted == may
    desk.store.close()


def _done(id: str, size: int, rule: str) -> ActionRow:
    action = Action.propose(id, "q", Move((Part("join", (0,)),), 1, 0, size)).accept(NOW_S - 9)
    for name in actions.COURSES["move"].steps:
        action = action.begin(NOW_S - 8, name).end(NOW_S - 7, size)
    action = action.finish(NOW_S - 6)
    return ActionRow(
        id, "q", actions.to_json(action), "x", "done", NOW_S - 8, NOW_S - 6, size, rule=rule
    )


def test_an_admin_may_override_the_day_and_it_is_audited(desk: Desk) -> None:
    made = desk.ask("propose", query="q", do="move", node=0, to=1, bytes=9 * MB)
    desk.ask("budget.daily", bytes=MB)
    assert desk.ask("apply", proposal=made.id).status is Status.REFUSED
    assert desk.ask("apply", OPERATOR, proposal=made.id, override=True).status is Status.FORBIDDEN
    assert desk.ask("apply", proposal=made.id, override=True).accepted
    assert desk.store.audit.page(most=1)[0].what == "apply (override)"


def test_two_actions_at_once_on_one_query_are_refused(desk: Desk) -> None:
    row = _done("a1", MB, "")
    body = actions.to_json(replace(actions.from_json(row.body), state=actions.State.RUNNING))
    desk.store.actions.keep([replace(row, body=body, state="running", ended_s=None)])
    answer = desk.ask("propose", query="q", do="spill", node=0, percent=20)
    assert answer.status is Status.REFUSED and "overlap" in {r["why"] for r in answer.refusals}


def test_undo_and_drain(desk: Desk) -> None:
    desk.store.actions.keep([_done("a1", MB, "")])
    back = desk.ask("undo", OPERATOR, action="a1")
    row = desk.store.proposals.find(back.id)
    assert back.accepted and row is not None and row.undo_of == "a1"
    (step,) = plan_from_json(row.plan).steps
    assert isinstance(step, Move) and (step.source, step.target) == (0, 1)
    drain = desk.ask("drain", OPERATOR, "q", node=0)
    steps = plan_from_json(desk.store.proposals.find(drain.id).plan).steps  # type: ignore[union-attr]
    assert {g for s in steps for part in s.parts for g in part.groups} == {0, 1, 2}  # type: ignore[union-attr]
    assert desk.dispatcher.propose(
        Plan((Move((Part("join", (3,)),), 1, 0, 2 * MB),), _chosen()), RULE, "q"
    ).accepted, "proposed is not yet drained"
    assert desk.ask("apply", OPERATOR, proposal=drain.id).accepted
    to_it = Plan((Move((Part("join", (3,)),), 1, 0, 2 * MB),), _chosen())
    refused = desk.dispatcher.propose(to_it, RULE, "q")
    assert {r["why"] for r in refused.refusals} == {"node_drained"}
    assert desk.dispatcher.propose(to_it, OPERATOR, "q").accepted, "people may"


def test_an_engine_that_does_not_come_leaves_nothing_to_be_done_late(desk: Desk) -> None:
    made = desk.ask("propose", query="q", do="spill", node=0, percent=20)
    command = desk.ask("apply", proposal=made.id).id
    desk.now_s += 61
    assert desk.store.commands.take(desk.now_s) == []
    row = desk.store.commands.find(command)
    assert row is not None and row.state == "expired"


def test_the_last_admin_stays(desk: Desk) -> None:
    assert desk.ask("user.disable", name="ann").status is Status.REFUSED
    assert desk.ask("user.role", name="ann", role="viewer").status is Status.REFUSED
    assert desk.ask("user.add", name="eve", role="admin", password_hash="-").accepted
    assert desk.ask("user.disable", name="ann").accepted
    assert (
        desk.ask("user.add", name="eve", role="admin", password_hash="-").status is Status.CONFLICT
    )
    assert "password_hash" not in str(desk.store.audit.page(most=50))


# -- fingerprints ------------------------------------------------------------------------------------


@given(snapshots(), st.data())
def test_drift_is_told_whatever_changes_and_only_then(
    now: ClusterSnapshot, data: st.DataObject
) -> None:
    rows = data.draw(st.sets(st.integers(0, len(now.groups) - 1), min_size=1))
    steps = [_spill(now, sorted(rows))]
    was = fingerprint(now, steps)
    assert drift(was, now) == []
    assert proposals.from_json(proposals.to_json(was)) == was
    later = copy.deepcopy(now)
    later.groups.rows_in[:] += 5  # what does not matter
    assert drift(was, later) == []
    row = data.draw(st.sampled_from(sorted(rows)))
    what = data.draw(st.sampled_from(["owner", "tier", "budget", "alive", "bytes"]))
    if what == "owner":
        later.groups.owner[row] = (later.groups.owner[row] + 1) % len(now.nodes)
    elif what == "tier":
        later.groups.generations[row] += 1
    elif what == "budget":
        later.nodes.budget_bytes[0] += 1
    elif what == "alive":
        later.nodes.alive[0] = not later.nodes.alive[0]
    else:
        later.groups.memory_bytes[row] += max(17 * MB, was.bytes)
    changed = what != "owner" or len(now.nodes) > 1
    assert bool(drift(was, later)) == changed


def _spill(now: ClusterSnapshot, rows: list[int]) -> Spill:
    parts = [
        Part(now.operators[now.groups.operator[row]].name, (int(now.groups.group[row]),))
        for row in rows
    ]
    return Spill(tuple(parts), 0, 1)


@given(snapshots(), st.data())
def test_a_drain_takes_every_group_once_and_to_living_nodes(
    now: ClusterSnapshot, data: st.DataObject
) -> None:
    node = data.draw(st.integers(0, len(now.nodes) - 1))
    plan = drained(now, node)
    mine = now.on(node)
    if not isinstance(plan, Plan):
        able = [n for n in range(len(now.nodes)) if n != node and now.nodes.alive[n]]
        assert not len(mine) or not able or now.groups.spilled[mine].any()
        return
    pairs = [(p.operator, g) for s in plan.steps for p in s.parts for g in p.groups]  # type: ignore[union-attr]
    wanted = {(now.operators[now.groups.operator[r]].name, int(now.groups.group[r])) for r in mine}
    assert len(pairs) == len(set(pairs)) and set(pairs) == wanted
    assert all(
        isinstance(s, Move) and now.nodes.alive[s.target] and s.target != node for s in plan.steps
    )


def test_only_what_is_done_is_undone() -> None:
    now = cluster([[MB], [MB]])
    action = Action.propose("a", "q", Move((Part("join", (0,)),), 1, 0, MB)).accept(1.0)
    assert not isinstance(undone(action, now), Plan)


def test_a_join_order_is_chosen_where_none_is_named(desk: Desk) -> None:
    """What is kept as the proposal's plan has an order and a strategy, whichever way it was asked for."""
    desk.show(_joined(OLD))
    best = desk.ask("propose", query="q", do="migrate")
    named = desk.ask("propose", query="q", do="migrate", order="(((c d) b) a)", strategy="moving")
    whole = {"do": "migrate", "order": "", "strategy": "auto", "bytes": 5}
    steps = desk.ask("propose.steps", query="q", steps=[whole])
    for answer in (best, named, steps):
        assert answer.accepted, answer.text
        found = desk.store.proposals.find(answer.id)
        assert found is not None
        (step,) = found.plan["steps"]
        assert step["order"] and step["strategy"] in STRATEGIES
        (told,) = found.preview["steps"]
        assert told["migration"]["join_order"] == step["order"]
        assert told["migration"]["strategy"] == step["strategy"]
        assert desk.ask("apply", proposal=answer.id).accepted
    desk.show(_joined(NEW))
    for answer in (
        desk.ask("propose", query="q", do="migrate"),
        desk.ask("propose.steps", query="q", steps=[whole]),
    ):
        assert answer.status is Status.REFUSED
        assert [one["why"] for one in answer.refusals] == ["no_better_order"]
    desk.show(cluster([[9 * MB], [MB]]))
    answer = desk.ask("propose", query="q", do="migrate")
    assert "not known yet" in answer.text and answer.status is Status.REFUSED
    assert desk.ask("propose", query="q", do="migrate", order="((a b) (c d))").accepted


def test_a_changed_order_is_taken_back_by_the_way_that_is_best_then(desk: Desk) -> None:
    now = _joined(NEW)
    desk.show(now)
    action = Action.propose("a", "q", Migrate("(((c d) b) a)", "parallel", MB)).accept(1.0)
    while action.following:
        action = action.begin(2.0).end(3.0)
    action = action.finish(4.0)
    receipt = {"order_before": "(((a b) c) d)"}
    row = ActionRow("a", "q", actions.to_json(action), "ann", "done", 1.0, 4.0, MB, receipt=receipt)
    desk.store.actions.keep([row])
    answer = desk.ask("undo", action="a")
    assert answer.accepted, answer.text
    found = desk.store.proposals.find(answer.id)
    assert found is not None and found.undo_of == "a"
    (step,) = found.plan["steps"]
    told = priced_order(now, Coefficients(), "(((a b) c) d)")
    assert (step["order"], step["strategy"]) == ("(((a b) c) d)", told["recommended"])


def _joined(tree: Tree) -> ClusterSnapshot:
    return replace(running(skewed(), tree), query="q", time_s=NOW_S)
