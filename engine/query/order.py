"""Join orders: which trees of joins are possible, which one `join_order` asks for, and the default.

A class is given by the inputs that have a member in it. Not here: what a class is (keys.py) and the
operators that a tree becomes (plan/build.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.query.model import Tree
from engine.query.scope import closest

Span = frozenset[int]
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[()])")


class BadOrder(ValueError):
    """A join order that cannot be used; `at` is the offset in its text."""

    def __init__(self, what: str, at: int, hint: str = "") -> None:
        self.what, self.at, self.hint = what, at, hint
        super().__init__(what)


def leaves(tree: Tree) -> tuple[int, ...]:
    """The inputs of a tree, left to right."""
    if isinstance(tree, int):
        return (tree,)
    return tuple(leaf for part in tree for leaf in leaves(part))


def shared(spans: Sequence[Span], parts: Sequence[Span]) -> tuple[int, ...]:
    """The classes on which an operator joins these parts: all that two of them have a member in."""
    return tuple(n for n, span in enumerate(spans) if sum(bool(span & part) for part in parts) > 1)


def one_key(spans: Sequence[Span], parts: Sequence[Span]) -> bool:
    """Whether every class that two parts share is in all of them, so that one hash serves all."""
    key = shared(spans, parts)
    return bool(key) and all(spans[n] & part for n in key for part in parts)


def apart(spans: Sequence[Span], inputs: int) -> list[int]:
    """The inputs that no chain of classes connects to the first."""
    reached: set[int] = {0}
    for _ in range(inputs):
        reached |= {n for span in spans if span & reached for n in span}
    return [n for n in range(inputs) if n not in reached]


@dataclass(frozen=True, slots=True)
class _Best:
    """A way to join some inputs: exchanges that follow one another, exchanges between its operators in all, joins
    on a right side, the tree."""

    levels: int
    exchanges: int
    right: int
    leaves: tuple[int, ...]
    tree: Tree

    @property
    def rank(self) -> tuple[int, int, int, tuple[int, ...]]:
        return self.levels, self.exchanges, self.right, self.leaves


_Ways = dict[tuple[int, ...], _Best]  # by the key of the last operator; () for an input


def default_order(spans: Sequence[Span], inputs: int) -> Tree | None:
    """None for one multi-way join where all inputs share every class; otherwise a tree of two-way
    joins: of all connected ones that with the fewest exchanges one after the other, as each is a stage of
    every tick; then with the fewest in all, as each takes rows through the shuffle, while sizes and rates
    are not known before the query runs; among equals a left-deep one, as its operators need state of
    one input on the right; then the order of FROM, which is how the user thinks of it.
    """
    if all(len(span) == inputs for span in spans):
        return None
    ways: dict[int, _Ways] = {1 << n: {(): _Best(0, 0, 0, (n,), n)} for n in range(inputs)}
    for mask in range(3, 1 << inputs):
        if mask & (mask - 1):
            ways[mask] = _ways(spans, mask, ways)
    return min(ways[(1 << inputs) - 1].values(), key=lambda way: way.rank).tree


def _ways(spans: Sequence[Span], mask: int, ways: dict[int, _Ways]) -> _Ways:
    """For each key that the last join of these inputs may have, the best tree."""
    found: _Ways = {}
    left = (mask - 1) & mask
    while left:
        right = mask ^ left
        key = shared(spans, (_span(left), _span(right)))
        if key and ways[left] and ways[right]:
            best = _joined(_nearest(ways[left], key), _nearest(ways[right], key))
            if key not in found or best.rank < found[key].rank:
                found[key] = best
        left = (left - 1) & mask
    return found


def _nearest(ways: _Ways, key: tuple[int, ...]) -> _Best:
    """The best way to have one side under this key: an exchange unless it is there already."""
    moved = []
    for own, way in ways.items():
        hop = own not in ((), key)
        moved.append(_Best(way.levels + hop, way.exchanges + hop, way.right, way.leaves, way.tree))
    return min(moved, key=lambda way: way.rank)


def _joined(left: _Best, right: _Best) -> _Best:
    joins = left.right + right.right + (not isinstance(right.tree, int))
    tree: Tree = (left.tree, right.tree)
    exchanges, levels = left.exchanges + right.exchanges, max(left.levels, right.levels)
    return _Best(levels, exchanges, joins, left.leaves + right.leaves, tree)


def _span(mask: int) -> Span:
    return frozenset(n for n in range(mask.bit_length()) if mask >> n & 1)


def read_order(text: str, names: Sequence[str], spans: Sequence[Span]) -> Tree | None:
    """The tree that `((a b) (c d))` asks for; None where that is one join of all inputs.

    Every operator must share a key between its parts; one of more than two parts, one key that all
    its parts have. BadOrder says what is wrong and where.
    """
    tree = _parsed(text, names, lambda parts, at: _check(parts, at, names, spans))
    given = leaves(tree)
    missing = [name for n, name in enumerate(names) if n not in given]
    if missing:
        raise BadOrder(f"{', '.join(missing)} missing", len(text), "name every stream of FROM once")
    whole = isinstance(tree, tuple) and len(tree) > 2 and all(isinstance(p, int) for p in tree)
    return None if whole else tree


def _check(parts: Sequence[Tree], at: int, names: Sequence[str], spans: Sequence[Span]) -> None:
    shown = show(tuple(parts), names)
    below = [frozenset(leaves(part)) for part in parts]
    if not shared(spans, below):
        raise BadOrder(f"{shown} share no key", at, "join streams that an equality connects")
    if len(parts) > 2 and not one_key(spans, below):
        hint = "join two at a time, as in ((a b) c)"
        raise BadOrder(f"{shown} do not share one key", at, hint)


def show(tree: Tree, names: Sequence[str]) -> str:
    """A tree as it is written in `join_order`."""
    if isinstance(tree, int):
        return names[tree]
    return "(" + " ".join(show(part, names) for part in tree) + ")"


def _parsed(text: str, names: Sequence[str], check: Callable[[Sequence[Tree], int], None]) -> Tree:
    """The parentheses as a tree; each pair is checked as it closes."""
    opened: list[tuple[int, list[Tree]]] = [(0, [])]
    seen: set[int] = set()
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if not found:
            raise BadOrder(f"cannot read `{text[at:].strip()[:10]}`", at, 'write "((a b) c)"')
        word, start, at = found.group(1), found.start(1), found.end()
        if word == "(":
            opened.append((start, []))
        elif word == ")":
            if len(opened) == 1:
                raise BadOrder("a ) without its (", start)
            begin, parts = opened.pop()
            opened[-1][1].append(_operator(parts, begin, check))
        else:
            opened[-1][1].append(_alias(word, start, names, seen))
    if len(opened) > 1:
        raise BadOrder("a ( is not closed", opened[-1][0])
    return _operator(opened[0][1], 0, check)


def _operator(parts: list[Tree], at: int, check: Callable[[Sequence[Tree], int], None]) -> Tree:
    if not parts:
        raise BadOrder("there is nothing to join", at, 'write for example "((a b) c)"')
    if len(parts) == 1:
        return parts[0]
    check(parts, at)
    return tuple(parts)


def _alias(word: str, at: int, names: Sequence[str], seen: set[int]) -> int:
    lowered = [name.lower() for name in names]
    if word.lower() not in lowered:
        hint = closest(word, list(names)) or f"in FROM are: {', '.join(names)}"
        raise BadOrder(f"there is no stream `{word}` in FROM", at, hint)
    number = lowered.index(word.lower())
    if number in seen:
        raise BadOrder(f"`{word}` is there twice", at, "name every stream of FROM once")
    seen.add(number)
    return number
