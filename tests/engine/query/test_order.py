"""Join orders: which `join_order` is accepted, what is said of others, and the default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.query.model import Tree
from engine.query.order import (
    BadOrder,
    apart,
    default_order,
    leaves,
    one_key,
    read_order,
    shared,
    show,
)
from tests.engine.query.random_trees import random_tree

NAMES = ("a", "b", "c", "d")
CHAIN = [frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})]
ONE = [frozenset(range(4))]
Spans = list[frozenset[int]]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("((a b) (c d))", ((0, 1), (2, 3))),
        ("(((a b) c) d)", (((0, 1), 2), 3)),
        ("d (c (b A))", (3, (2, (1, 0)))),
        (" ( ((a)) b ) (c d)", ((0, 1), (2, 3))),
    ],
)
def test_read(text: str, tree: Tree) -> None:
    assert read_order(text, NAMES, CHAIN) == tree
    assert read_order(show(tree, NAMES), NAMES, CHAIN) == tree


def test_more_than_two_on_one_key() -> None:
    assert read_order("(a b c d)", NAMES, ONE) is None
    assert read_order("c a (b d)", NAMES, ONE) == (2, 0, (1, 3))
    assert read_order("((a b c) d)", NAMES, ONE) == ((0, 1, 2), 3)
    star = [frozenset({0, 1, 2}), frozenset({2, 3})]
    assert read_order("((a b c) d)", NAMES, star) == ((0, 1, 2), 3)
    with pytest.raises(BadOrder, match=r"^\(a b c d\) do not share one key$"):
        read_order("(a b c d)", NAMES, star)


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("((a b) (c e))", "there is no stream `e` in FROM", 10),
        ("((a b) c)", "d missing", 9),
        ("((a b) (a d))", "`a` is there twice", 8),
        ("((a b) (c d)", "a ( is not closed", 0),
        ("(a b)) (c d)", "a ) without its (", 5),
        ("((a c) (b d))", "(a c) share no key", 1),
        ("((a b) d) c", "((a b) d) share no key", 0),
        ("((a b c) d)", "(a b c) do not share one key", 1),
        ("((a b), (c d))", "cannot read `, (c d))`", 6),
        ("()", "there is nothing to join", 0),
        ("", "there is nothing to join", 0),
    ],
)
def test_refused(text: str, message: str, at: int) -> None:
    with pytest.raises(BadOrder) as caught:
        read_order(text, NAMES, CHAIN)
    assert (caught.value.what, caught.value.at) == (message, at)


def test_deep_parentheses_are_no_matter() -> None:
    assert read_order("(" * 5000 + "(a b)" + ")" * 5000, NAMES[:2], [frozenset({0, 1})]) == (0, 1)
    with pytest.raises(BadOrder):
        read_order("(" * 5000, NAMES, CHAIN)


def test_defaults() -> None:
    assert default_order(ONE, 4) is None
    # two exchanges either way; a bushy tree has them side by side
    assert default_order(CHAIN, 4) == ((0, 1), (2, 3))
    star = [frozenset({0, n}) for n in range(1, 4)]
    assert default_order(star, 4) == (((0, 1), 2), 3)
    # d is on the key of a and b: the three stay together, though FROM names c before d
    fact = [frozenset({0, 2}), frozenset({0, 1, 3})]
    assert default_order(fact, 4) == (((0, 1), 3), 2)
    two = [frozenset({0, 1, 4}), frozenset({1, 2}), frozenset({2, 3, 5})]
    assert default_order(two, 6) == (((0, 1), 4), ((2, 3), 5))


graphs = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.frozensets(st.integers(0, n - 1), min_size=2), min_size=1, max_size=6),
    )
)


@given(graphs)
def test_the_default_has_the_fewest_exchanges(graph: tuple[int, Spans]) -> None:
    inputs, spans = graph
    if apart(spans, inputs):
        return
    tree = default_order(spans, inputs)
    if tree is None:
        assert one_key(spans, [frozenset({n}) for n in range(inputs)])
        return
    assert sorted(leaves(tree)) == list(range(inputs))
    best = min(_exchanges(spans, other) for other in _trees(spans, tuple(range(inputs))))
    assert _exchanges(spans, tree) == best


def _key(spans: Spans, tree: tuple[Tree, ...]) -> tuple[int, ...]:
    return shared(spans, [frozenset(leaves(part)) for part in tree])


def _exchanges(spans: Spans, tree: Tree) -> int:
    if isinstance(tree, int):
        return 0
    inner = [part for part in tree if not isinstance(part, int)]
    moved = sum(_key(spans, part) != _key(spans, tree) for part in inner)
    return moved + sum(_exchanges(spans, part) for part in inner)


def _trees(spans: Spans, inputs: Sequence[int]) -> Iterator[Tree]:
    """All two-way trees in which every join shares a key."""
    if len(inputs) == 1:
        yield inputs[0]
        return
    first, rest = inputs[0], inputs[1:]
    for count in range(len(rest)):
        for beside in combinations(rest, count):
            others = tuple(n for n in rest if n not in beside)
            for left in _trees(spans, (first, *beside)):
                for right in _trees(spans, others):
                    if _key(spans, (left, right)):
                        yield left, right


@given(graphs, st.lists(st.integers(0, 1000), min_size=8, max_size=8))
def test_accepted_if_and_only_if_every_step_is_connected(
    graph: tuple[int, Spans], picks: list[int]
) -> None:
    inputs, spans = graph
    names = [f"s{n}" for n in range(inputs)]
    tree = random_tree(range(inputs), picks)
    text = show(tree, names)
    if _connected(spans, tree):
        assert read_order(text, names, spans) == tree
    else:
        with pytest.raises(BadOrder, match="share no key"):
            read_order(text, names, spans)


def _connected(spans: Spans, tree: Tree) -> bool:
    if isinstance(tree, int):
        return True
    left, right = (set(leaves(part)) for part in tree)
    return any(span & left and span & right for span in spans) and all(
        _connected(spans, part) for part in tree
    )
