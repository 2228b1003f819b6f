"""What a move takes along: all groups of a task, nothing else, once, and it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from control.companions import TAKES, sharing, taken_along
from control.plans import Move, Part, Plan, Reason, Spill, Topic, pairs_of
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from tests.control.desk import Desk
from tests.control.made import MB

GROUPS = 6
ASKED = (Reason.of(Topic.CHOSEN, "asked for"),)


def tree(fused: list[bool]) -> dict[str, Any]:
    """A chain of joins, `op-0` on top; whether each of the others is in the task of the one above it."""
    node: dict[str, Any] = {"id": f"op-{len(fused)}", "children": [{"id": "s", "fused": False}]}
    for number in reversed(range(len(fused))):
        node = {"id": f"op-{number}", "children": [{**node, "fused": fused[number]}]}
    return {"plan": {"root": node}}


def chain(operators: int, nodes: int = 3) -> ClusterSnapshot:
    """Each operator's group g is on node g mod nodes, with a size of its own."""
    number = np.repeat(np.arange(operators), GROUPS)
    group = np.tile(np.arange(GROUPS), operators)
    sizes = (1 + np.arange(operators * GROUPS)) * MB
    owner = group % nodes
    used = np.bincount(owner, weights=sizes, minlength=nodes)
    groups = Groups.of(owner, sizes, operator=number, group=group, last_insert_s=1000.0)
    known = tuple(Operator(f"op-{n}", 2, GROUPS) for n in range(operators))
    return ClusterSnapshot("q", 1, 1000.0, Nodes.of([10_000 * MB] * nodes, used), known, groups)


@given(
    fused=st.lists(st.booleans(), min_size=1, max_size=4),
    asked=st.integers(0, 4),
    groups=st.sets(st.integers(0, 1), min_size=1),
)
def test_a_move_names_every_group_of_its_task(
    fused: list[bool], asked: int, groups: set[int]
) -> None:
    snapshot, asked = chain(len(fused) + 1), asked % (len(fused) + 1)
    mine = [3 * g for g in groups]  # of node 0
    step = Move((Part(f"op-{asked}", tuple(mine)),), 0, 1, 1)
    found = taken_along(Plan((step,), ASKED), snapshot, sharing(tree(fused)))
    mates = {asked}
    for up in range(asked, 0, -1):  # up the chain, then down, as far as it is one task
        if not fused[up - 1]:
            break
        mates.add(up - 1)
    for down in range(asked, len(fused)):
        if not fused[down]:
            break
        mates.add(down + 1)
    wanted = {(f"op-{mate}", g) for mate in mates for g in mine}
    whole = found.steps[0]
    assert set(pairs_of(whole)) == wanted
    assert len(pairs_of(whole)) == len(wanted)
    said = [reason for reason in found.reasons if reason.text.startswith(TAKES)]
    assert len(said) == (len(mates) > 1)
    if len(mates) > 1:
        rows = [n for n, pair in enumerate(_pairs(snapshot)) if pair in wanted]
        assert whole.bytes == int(snapshot.groups.memory_bytes[rows].sum())
        again = taken_along(found, snapshot, sharing(tree(fused)))
        assert again == found, "taken along once"


def _pairs(snapshot: ClusterSnapshot) -> list[tuple[str, int]]:
    groups = snapshot.groups
    return [
        (f"op-{operator}", int(group))
        for operator, group in zip(groups.operator, groups.group, strict=True)
    ]


def test_other_steps_stay_as_they_are() -> None:
    plan = Plan((Spill((Part("op-0", (0,)),), 0, MB),), ASKED)
    assert taken_along(plan, chain(2), sharing(tree([True]))) == plan
    assert sharing({}) == []
    assert sharing({"plan": {"root": None}}) == []


def test_a_proposal_previews_what_is_taken_along(tmp_path: Path) -> None:
    world = Desk(tmp_path)
    world.store.queries.told("q", "running", "", tree([True]), world.now_s)
    world.show(chain(2))
    answer = world.ask("propose", query="q", do="move", node=0, to=1, operator="op-1", groups=[0])
    assert answer.accepted, answer
    made = world.store.proposals.find(answer.id)
    assert made.plan["steps"][0]["parts"] == [["op-0", [0]], ["op-1", [0]]]
    assert [text for _, text, _ in made.plan["reasons"] if text.startswith(TAKES)] == [
        "takes along 1 group of op-0: they share a task"
    ]
    moved = {n["node"]: n["after"]["memory_bytes"] for n in answer.body["preview"]["nodes"]}
    before = {n["node"]: n["before"]["memory_bytes"] for n in answer.body["preview"]["nodes"]}
    assert moved[1] - before[1] == (1 + 1 + GROUPS) * MB
