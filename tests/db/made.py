"""Values for the store's tests: anything that a field may hold, samples, and a store of its own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from control import ledger, people
from control.ledger import CommandState, ProposalState, Wanted
from control.people import Role, Source
from control.samples import NODE_FIGURES, QUERY_FIGURES, GroupChange, Sample
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator

T = TypeVar("T")
START_S = 1_800_000_000.0  # a whole hour, and a whole quarter of one
NASTY = (
    "'; DROP TABLE users; --",
    '" OR ""="',
    "%_\\",
    "\x00",
    "ä→θ 🙂",
    ":before",
    "a" * 5000,
)

texts = st.text(max_size=20) | st.sampled_from(NASTY)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**62), 2**62)
json_values = st.recursive(
    st.none() | st.booleans() | whole | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "float": numbers,
    "float | None": st.none() | numbers,
    "int": whole,
    "int | None": st.none() | whole,
    "bool": st.booleans(),
    "Json": st.dictionaries(texts, json_values, max_size=3),
    "Role": st.sampled_from(Role),
    "Source": st.sampled_from(Source),
    "Wanted": st.sampled_from(Wanted),
    "CommandState": st.sampled_from(CommandState),
    "ProposalState": st.sampled_from(ProposalState),
    "Sequence[str]": st.lists(texts, max_size=3).map(tuple),
}


def anything(kind: type[T], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Any value of a dataclass."""
    found = {f.name: _BY_TYPE[str(f.type)] for f in fields(kind)}  # type: ignore[arg-type]
    return st.builds(kind, **{**found, **fixed})


def user(name: str = "ann", role: Role = Role.OPERATOR) -> people.User:
    return people.User(name, role, "hash", False, START_S)


def command(id: str, now_s: float = START_S, life_s: float = 60.0, **more: Any) -> ledger.Command:
    plain = ledger.Command(id, "apply", "q", {"n": 1}, "ann", Source.API, "", now_s, now_s + life_s)
    return replace(plain, **more)


def proposal(id: str, now_s: float = START_S, **more: Any) -> ledger.Proposal:
    plain = ledger.Proposal(
        id, "q", {"steps": []}, {"plan": 1}, {}, "ann", Source.API, "", now_s, now_s + 600
    )
    return replace(plain, **more)


def action(id: str, started_s: float = START_S, **more: Any) -> ledger.ActionRow:
    plain = ledger.ActionRow(id, "q", {"do": "move"}, "ann", "running", started_s, None, 0)
    return replace(plain, **more)


def snapshot(
    time_s: float, groups: int = 8, nodes: int = 2, seed: int = 0, operator: str = "join"
) -> ClusterSnapshot:
    random = np.random.default_rng([seed, int(time_s)])
    return ClusterSnapshot(
        "q",
        int(time_s - START_S) % 100_000,
        time_s,
        Nodes.of([1 << 30] * nodes, [1 << 20] * nodes),
        (Operator(operator, 2, groups),),
        Groups.of(
            random.integers(0, nodes, groups),
            random.integers(0, 1 << 20, groups),
            rows_in=random.integers(0, 1 << 40, groups),
            rows_in_per_s=random.random(groups) * 100,
            last_insert_s=time_s - 1,
        ),
    )


def sample(
    time_s: float,
    *,
    query: str = "q",
    nodes: int = 2,
    value: float = 1.0,
    changes: tuple[GroupChange, ...] = (),
    groups: int = 8,
    **figures: float,
) -> Sample:
    """Every figure of the query `value`, of node n `value` + n, unless given."""
    return Sample(
        query,
        time_s,
        int(time_s - START_S) % 100_000,
        {**dict.fromkeys(QUERY_FIGURES, value), **figures},
        {name: value + np.arange(nodes, dtype=np.float64) for name in NODE_FIGURES},
        replace(snapshot(time_s, groups, nodes), query=query),
        ({"operator": "join", "node": 0, "rows_in": 3},),
        changes,
    )
