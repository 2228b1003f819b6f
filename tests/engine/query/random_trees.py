"""Random trees of joins."""

from __future__ import annotations

from collections.abc import Sequence

from engine.query.model import Tree


def random_tree(inputs: Sequence[int], picks: Sequence[int]) -> Tree:
    """Any two-way tree over these inputs, as `picks` would have it."""
    parts: list[Tree] = list(inputs)
    for pick in picks[: len(inputs) - 1]:
        left = parts.pop(pick % len(parts))
        at = pick // 7 % len(parts)
        parts[at] = (left, parts[at])
    return parts[0]
