"""Which equalities make the join's key: classes of equal expressions, by union-find.

A class with a member in every input is a key part. Not here: what happens to the other
conditions (sql.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.model import KeyPart
from engine.query.scope import Scope
from engine.query.spark_text import cast, spark_sql
from engine.query.terms import Term
from engine.query.types import NoSuchType, common_key_type, key_refusal

_ONE_KEY = "one key shared by all streams is needed: FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


@dataclass(frozen=True, slots=True)
class Equality:
    """`left = right` between two inputs."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Expressions that are all equal, by input; the first of each input is its key part."""

    members: dict[int, list[Term]]
    type: str

    def part(self, position: int) -> KeyPart:
        term = self.members[position][0]
        column = term.ref.field.name if term.ref else None
        return KeyPart(cast(spark_sql(term), term.type, self.type), self.type, column)

    def extra_filters(self, position: int) -> list[str]:
        """An input's other members must equal its key part."""
        first, *others = [cast(spark_sql(t), t.type, self.type) for t in self.members[position]]
        return [f"({first} = {other})" for other in others]


@dataclass(frozen=True, slots=True)
class Keys:
    """The key, part by part, and the equalities that are not part of it."""

    classes: tuple[KeyClass, ...]
    rest: tuple[Equality, ...]


def find_keys(scope: Scope, equalities: list[Equality]) -> Keys:
    """The shared key; an error, with what to do, if there is none."""
    groups = _classes(equalities)
    whole = [g for g in groups if len({t.ref_input for t in g}) == len(scope.sources)]
    if not whole:
        raise _no_key(scope, equalities)
    found: list[KeyClass] = []
    refused: list[Exception] = []
    for group in whole:
        try:
            found.append(_key_class(scope, [node.term for node in group]))
        except _Unfit as unfit:
            refused.append(scope.text.error(unfit.what, unfit.term.node))
    if not found:
        raise refused[0]
    return Keys(tuple(found), tuple(e for e in equalities if not _covered(e, found)))


@dataclass(frozen=True, slots=True)
class _Node:
    """An expression's identity: its input and its text."""

    ref_input: int
    sql: str
    term: Term

    @property
    def id(self) -> tuple[int, str]:
        return self.ref_input, self.sql


class _Unfit(Exception):
    """A class that spans all inputs, but whose values cannot be keys."""

    def __init__(self, what: str, term: Term) -> None:
        self.what, self.term = what, term
        super().__init__(what)


def _node(term: Term) -> _Node:
    return _Node(min(term.inputs), spark_sql(term), term)


def _classes(equalities: list[Equality]) -> list[list[_Node]]:
    """Union-find over the two sides of each equality; classes in order of first mention."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}
    nodes: dict[tuple[int, str], _Node] = {}

    def root(item: tuple[int, str]) -> tuple[int, str]:
        while parent[item] != item:
            item = parent[item]
        return item

    for equality in equalities:
        left, right = _node(equality.left), _node(equality.right)
        for node in (left, right):
            parent.setdefault(node.id, node.id)
            nodes.setdefault(node.id, node)
        parent[root(right.id)] = root(left.id)
    groups: dict[tuple[int, str], list[_Node]] = {}
    for item, node in nodes.items():
        groups.setdefault(root(item), []).append(node)
    return list(groups.values())


def _key_class(scope: Scope, terms: list[Term]) -> KeyClass:
    for term in terms:
        if not term.type:
            raise _Unfit(f"the type of join key `{scope.text.source(term.node)}` is not known; "
                         "CAST it", term)
        why = key_refusal(term.type)
        if why:
            raise _Unfit(f"join key `{scope.text.source(term.node)}`: {why}", term)
    try:
        kind = common_key_type(tuple(term.type for term in terms))
    except NoSuchType as why:
        shown = " = ".join(f"{scope.text.source(t.node)} ({t.type})" for t in terms)
        raise _Unfit(f"join key {shown}: {why}", terms[0]) from None
    members: dict[int, list[Term]] = {}
    for term in terms:
        members.setdefault(min(term.inputs), []).append(term)
    return KeyClass(members, kind)


def _covered(equality: Equality, classes: list[KeyClass]) -> bool:
    """Whether a key class already enforces the equality."""
    left = _node(equality.left).id
    return any(left == _node(member).id
               for found in classes for terms in found.members.values() for member in terms)


def _no_key(scope: Scope, equalities: list[Equality]) -> Exception:
    names = [source.alias for source in scope.sources]
    reached = _reachable(equalities)
    apart = [names[i] for i in range(len(names)) if i not in reached]
    if apart:
        what = f"no shared key: no equality joins {', '.join(apart)} to {names[0]}"
        return scope.text.error(what + " (cross joins are not supported)", 0, _ONE_KEY)
    what = (f"no shared key: no column is equal in all of {', '.join(names)} "
            "(a different key for each pair is not supported yet; part of window joins)")
    at = equalities[-1].left.node.parent or 0
    return scope.text.error(what, at, _ONE_KEY)


def _reachable(equalities: list[Equality]) -> set[int]:
    """The inputs that equalities connect to the first."""
    reached, before = {0}, 0
    while len(reached) > before:
        before = len(reached)
        for equality in equalities:
            pair = equality.left.inputs | equality.right.inputs
            if pair & reached:
                reached |= pair
    return reached
