"""A join order as people write it, `((a b) c)`: reading it, with its errors.

A class is given by the inputs that have a member in it. Not here: how a tree is shown (migration/trees.py), which orders are good (migration/optimise.py, and
before a query runs engine/query/order.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from control.migration.trees import Tree, leaves, show

Span = frozenset[int]
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[()])")


class BadOrder(ValueError):
    """A join order that cannot be used; `at` is the offset in its text."""

    def __init__(self, what: str, at: int, hint: str = "") -> None:
        self.what, self.at, self.hint = what, at, hint
        super().__init__(what)

    @property
    def told(self) -> str:
        """For whoever wrote it."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"join_order, column {self.at + 1}: {self.what}{hint}"


def shared(spans: Sequence[Span], parts: Sequence[Span]) -> tuple[int, ...]:
    """The classes on which an operator joins these parts: all that two of them have a member in."""
    return tuple(n for n, span in enumerate(spans) if sum(bool(span & part) for part in parts) > 1)


def one_key(spans: Sequence[Span], parts: Sequence[Span]) -> bool:
    """Whether every class that two parts share is in all of them, so that one hash serves all."""
    key = shared(spans, parts)
    return bool(key) and all(spans[n] & part for n in key for part in parts)


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
        close = get_close_matches(word.lower(), lowered, n=1)
        meant = f"did you mean `{names[lowered.index(close[0])]}`?" if close else ""
        raise BadOrder(
            f"there is no stream `{word}` in FROM", at, meant or f"in FROM are: {', '.join(names)}"
        )
    number = lowered.index(word.lower())
    if number in seen:
        raise BadOrder(f"`{word}` is there twice", at, "name every stream of FROM once")
    seen.add(number)
    return number
