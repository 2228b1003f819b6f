"""Which equalities make join keys: classes of equal expressions, by union-find over the whole query.

A class with members in two inputs or more is a key wherever a join brings some of them together.
Not here: what happens to the other conditions (sql.py), and which joins there are (order.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.model import KeyPart
from engine.query.order import apart
from engine.query.scope import Branch, Scope, Source
from engine.query.spark_text import cast, column_in, spark_sql
from engine.query.terms import Term
from engine.query.types import NoSuchType, common_key_type, key_refusal

_CONNECT = (
    "every stream needs an equality with another: FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j"
)


_WHY = {
    **dict.fromkeys(("<", "<=", ">", ">=", "<>", "and"), "a comparison"),
    "or": "an OR",
    "<=>": "an equality that takes nulls as equal",
    "in": "an IN",
}
_INSTEAD = {
    "or": "write a query for each side of the OR, or add an equality that always holds",
    "<=>": "write =; rows whose key is null are then set aside and counted",
    "in": "write a.k = b.k",
}


@dataclass(frozen=True, slots=True)
class Equality:
    """`left = right` between two inputs."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Expressions that are all equal, by input; the first of each input is its key part."""

    number: int
    members: dict[int, list[Term]]
    type: str

    @property
    def span(self) -> frozenset[int]:
        """The inputs that have a member."""
        return frozenset(self.members)

    def part(self, position: int, source: Source, branch: Branch) -> KeyPart:
        """The key part of one of an input's streams."""
        term = self.members[position][0]
        column = source.column(branch, term.ref.field) if term.ref else None
        return KeyPart(self._sql(term, source, branch), self.type, column, self.number)

    def extra_filters(self, position: int, source: Source, branch: Branch) -> list[str]:
        """An input's other members must equal its key part."""
        members = self.members.get(position, [])
        texts = [self._sql(term, source, branch) for term in members]
        return [f"({texts[0]} = {other})" for other in texts[1:]]

    def _sql(self, term: Term, source: Source, branch: Branch) -> str:
        return cast(spark_sql(term, column_in(source, branch)), term.type, self.type)


@dataclass(frozen=True, slots=True)
class Keys:
    """The key classes in order of first appearance, and the equalities that none of them enforces."""

    classes: tuple[KeyClass, ...]
    rest: tuple[Equality, ...]

    @property
    def spans(self) -> list[frozenset[int]]:
        return [found.span for found in self.classes]


def find_keys(scope: Scope, equalities: list[Equality], others: list[Term]) -> Keys:
    """The key classes, which connect all inputs; an error, with what to do, if they do not. `others` are
    the conditions that are no such equalities."""
    found: list[KeyClass] = []
    refused: list[_Unfit] = []
    for group in _classes(equalities):
        try:
            found.append(_key_class(scope, len(found), [node.term for node in group]))
        except _Unfit as unfit:
            refused.append(unfit)
    away = apart([key.span for key in found], len(scope.sources))
    if away:
        raise _not_connected(scope, away, refused, others)
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
    """A class whose values cannot be keys."""

    def __init__(self, what: str, term: Term, inputs: frozenset[int]) -> None:
        self.what, self.term, self.inputs = what, term, inputs
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


def _key_class(scope: Scope, number: int, terms: list[Term]) -> KeyClass:
    inputs = frozenset(min(term.inputs) for term in terms)
    for term in terms:
        shown = scope.text.source(term.node)
        if not term.type:
            what = f"the type of join key `{shown}` is not known; CAST it"
            raise _Unfit(what, term, inputs)
        why = key_refusal(term.type)
        if why:
            raise _Unfit(f"join key `{shown}`: {why}", term, inputs)
    try:
        kind = common_key_type(tuple(term.type for term in terms))
    except NoSuchType as why:
        shown = " = ".join(f"{scope.text.source(t.node)} ({t.type})" for t in terms)
        raise _Unfit(f"join key {shown}: {why}", terms[0], inputs) from None
    members: dict[int, list[Term]] = {}
    for term in terms:
        members.setdefault(min(term.inputs), []).append(term)
    return KeyClass(number, members, kind)


def _covered(equality: Equality, classes: list[KeyClass]) -> bool:
    """Whether a key class already enforces the equality."""
    left = _node(equality.left).id
    return any(
        left == _node(member).id
        for found in classes
        for terms in found.members.values()
        for member in terms
    )


def _not_connected(
    scope: Scope, away: list[int], refused: list[_Unfit], others: list[Term]
) -> Exception:
    """Names the streams that no equality joins to the rest, or the equality that cannot be a key."""
    for unfit in refused:
        if unfit.inputs & set(away) and unfit.inputs - set(away):
            return scope.text.error(unfit.what, unfit.term.node)
    names = [source.alias for source in scope.sources]
    apart_names = ", ".join(names[n] for n in away)
    here = ", ".join(name for n, name in enumerate(names) if n not in away)
    what = f"no shared key: no equality joins {apart_names} to {here}"
    for term in others:
        if term.inputs & set(away):
            shown = scope.text.source(term.node)
            across = term.inputs - set(away)
            why = _WHY.get(term.op, "no equality") if across else "about one side only"
            hint = _INSTEAD.get(term.op, _CONNECT) if across else _CONNECT
            return scope.text.error(f"{what}; `{shown}` is {why}", term.node, hint)
    at = scope.sources[away[0]].at
    return scope.text.error(what + " (cross joins are not supported)", at, _CONNECT)
