"""Join trees as control sees them: nested tuples of input numbers, and which state two of them have in common.

A set of inputs is a mask, bit n for input n: the optimiser looks at thousands. Key classes are masks of the inputs
that have a member. Not here: a tree's text and its errors (engine/query/order.py), its price (model.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from control.errors import PlanError

Tree = int | tuple["Tree", ...]
Mask = int


def mask_of(inputs: Sequence[int] | frozenset[int]) -> Mask:
    """Inputs as a mask."""
    out = 0
    for n in inputs:
        out |= 1 << n
    return out


def members(mask: Mask) -> tuple[int, ...]:
    """The inputs of a mask, ascending."""
    return tuple(n for n in range(mask.bit_length()) if mask >> n & 1)


def single(mask: Mask) -> bool:
    """One input and no more."""
    return mask & (mask - 1) == 0


def leaves(tree: Tree) -> tuple[int, ...]:
    """The inputs of a tree, left to right."""
    if isinstance(tree, int):
        return (tree,)
    return tuple(leaf for part in tree for leaf in leaves(part))


def below(tree: Tree) -> Mask:
    """The inputs of a tree."""
    return mask_of(leaves(tree))


def height(tree: Tree) -> int:
    """Joins one above the other; an input has none."""
    return 0 if isinstance(tree, int) else 1 + max(height(part) for part in tree)


def joins(tree: Tree) -> Iterator[tuple[Tree, ...]]:
    """The operators, children before parents."""
    if not isinstance(tree, int):
        for part in tree:
            yield from joins(part)
        yield tree


def key(classes: Sequence[Mask], parts: Sequence[Mask]) -> tuple[int, ...]:
    """The classes on which an operator joins these parts: all that two of them have a member in."""
    return tuple(
        n for n, span in enumerate(classes) if sum(bool(span & part) for part in parts) > 1
    )


def one_key(classes: Sequence[Mask], parts: Sequence[Mask]) -> bool:
    """Whether every class that two parts share is in all of them, so that one hash serves all."""
    shared = key(classes, parts)
    return bool(shared) and all(classes[n] & part for n in shared for part in parts)


def connected(classes: Sequence[Mask], mask: Mask) -> bool:
    """Whether a chain of classes connects these inputs."""
    reached, before = mask & -mask, 0
    while reached != before:
        before = reached
        for span in classes:
            if span & reached:
                reached |= span & mask
    return reached == mask


def show(tree: Tree, names: Sequence[str]) -> str:
    """A tree as it is written in `join_order`."""
    if isinstance(tree, int):
        return names[tree]
    return "(" + " ".join(show(part, names) for part in tree) + ")"


def check(tree: Tree, classes: Sequence[Mask], inputs: int) -> None:
    """PlanError unless the tree has every input once and every operator a key."""
    given = leaves(tree)
    if sorted(given) != list(range(inputs)):
        raise PlanError(
            f"a tree of inputs {sorted(given)}, not 0..{inputs - 1}", where="join order"
        )
    for parts in joins(tree):
        masks = [below(part) for part in parts]
        if not key(classes, masks):
            hint = "join streams that an equality connects"
            raise PlanError(f"the parts of {parts} share no key", where="join order", hint=hint)
        if len(parts) > 2 and not one_key(classes, masks):
            hint = "join two at a time"
            raise PlanError(
                f"the parts of {parts} do not share one key", where="join order", hint=hint
            )


@dataclass(frozen=True, slots=True, order=True)
class State:
    """What one side of an operator keeps: rows of these inputs, sorted and placed by this key."""

    inputs: Mask
    key: tuple[int, ...]


def states(tree: Tree, classes: Sequence[Mask]) -> tuple[State, ...]:
    """Each once, in the order in which they can be computed: children before parents."""
    found: dict[State, None] = {}
    for parts in joins(tree):
        masks = [below(part) for part in parts]
        shared = key(classes, masks)
        found.update(dict.fromkeys(State(mask, shared) for mask in masks))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Matched:
    """What becomes of state when one tree takes another's place."""

    shared: tuple[State, ...]  # in both: named by the new plan, nothing copied
    sorted_anew: tuple[State, ...]  # the same rows under another key
    recomputed: tuple[State, ...]  # rows that the old plan does not have
    dropped: tuple[State, ...]  # of the old plan, no longer needed


def match(old: Tree, new: Tree, classes: Sequence[Mask]) -> Matched:
    """State by state, by the inputs in it and its key (the paper's schema ids, and where its rows are)."""
    return matched(states(old, classes), states(new, classes))


def matched(had: Sequence[State], wants: Sequence[State]) -> Matched:
    """The same of two plans by what they keep."""
    rows = {state.inputs for state in had}
    missing = [state for state in wants if state not in had]
    return Matched(
        tuple(state for state in wants if state in had),
        tuple(state for state in missing if state.inputs in rows),
        tuple(state for state in missing if state.inputs not in rows),
        tuple(state for state in had if state not in wants),
    )
