"""Trees, volumes, the model and the search: against brute force, against sampling, against closed forms."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.errors import PlanError
from control.migration.model import Model, load_of
from control.migration.optimise import (
    Shape,
    Weights,
    best,
    same_joins,
    score,
    shape_of,
    weights_from,
)
from control.migration.trees import (
    State,
    below,
    check,
    connected,
    height,
    joins,
    leaves,
    mask_of,
    match,
    members,
    show,
    states,
)
from control.migration.volumes import closed, rate_volume, state_volume
from tests.control.migration.made import all_trees, models


@given(models(), st.floats(0, 2), st.floats(0, 2), st.sampled_from(["any", "left", "right"]))
@settings(deadline=None, max_examples=150)
def test_the_search_finds_what_trying_all_finds(
    model: Model, row: float, byte: float, shape: Shape
) -> None:
    weights = Weights(row, byte / 100)
    found = best(model, weights, shape)
    check(found.tree, model.classes, len(model.rates))
    trees = [
        tree
        for tree in all_trees(model.classes, model.everything)
        if shape == "any" or all(any(isinstance(p, int) for p in parts) for parts in joins(tree))
    ]
    least = min(score(load_of(model, tree), weights) for tree in trees)
    assert found.score == pytest.approx(least, rel=1e-9, abs=1e-12)
    for parts in joins(found.tree):
        if shape != "any" and height(parts) > 1:
            assert isinstance(parts[0 if shape == "right" else 1], int)


def clique(count: int, **more: object) -> Model:
    random = np.random.default_rng(1)
    spans = [list(range(count))]
    return Model.of(random.lognormal(4, 1, count).tolist(), spans, [0.001], 60.0, **more)  # type: ignore[arg-type]


def test_eight_inputs_take_less_than_50_ms() -> None:
    """All sets of eight inputs that share one key are connected: there is nothing worse."""
    taken = []
    for _ in range(5):
        model = clique(8)
        start = process_time()
        best(model, Weights(1.0, 0.01))
        taken.append(process_time() - start)
    assert min(taken) < 0.05, taken


def test_nine_inputs_and_separate_inputs_are_refused() -> None:
    with pytest.raises(PlanError, match="9 inputs"):
        best(clique(9, names=tuple("abcdefghi")), Weights(1, 0))
    with pytest.raises(PlanError, match="shares a key"):
        best(Model.of([1, 1, 1], [[0, 1]], [0.1], 1.0), Weights(1, 0))


def test_the_most_selective_join_comes_first() -> None:
    """Zhu's set 1 of section 6.3: σ of BC and CD is a fifth of AB's."""
    model = Model.of([10] * 4, [[0, 1], [1, 2], [2, 3]], [0.1, 0.02, 0.02], 1.0)
    old = (((0, 1), 2), 3)
    found = best(model, weights_from(load_of(model, old)), "left")
    assert (
        found.tree == (((1, 2), 3), 0)
        and score(load_of(model, old), weights_from(load_of(model, old))) == 2
    )
    assert found.score < 1.5


def test_among_equals_the_flatter_tree() -> None:
    model = Model.of([1.0] * 4, [[0, 1], [1, 2], [2, 3]], [0.1] * 3, 1.0)
    assert best(model, Weights(0.0, 0.0)).tree == ((0, 1), (2, 3))


@given(models())
@settings(deadline=None)
def test_a_tree_and_its_mirror_take_the_same(model: Model) -> None:
    tree = best(model, Weights(1.0, 0.01)).tree

    def mirror(t: object) -> object:
        return t if isinstance(t, int) else tuple(mirror(p) for p in reversed(t))  # type: ignore[arg-type,call-overload]

    one, other = load_of(model, tree), load_of(model, mirror(tree))  # type: ignore[arg-type]
    assert one.state_bytes == pytest.approx(other.state_bytes)
    assert one.between_per_s == pytest.approx(other.between_per_s)
    assert same_joins(tree, mirror(tree))  # type: ignore[arg-type]
    assert match(tree, mirror(tree), model.classes).recomputed == ()  # type: ignore[arg-type]


@given(models(), models())
@settings(deadline=None, max_examples=50)
def test_every_state_of_the_new_tree_comes_from_somewhere(model: Model, other: Model) -> None:
    trees = list(all_trees(model.classes, model.everything))[:40]
    for old, new in zip(trees, reversed(trees), strict=True):
        found = match(old, new, model.classes)
        wanted, had = set(states(new, model.classes)), set(states(old, model.classes))
        assert {*found.shared, *found.sorted_anew, *found.recomputed} == wanted
        assert had - wanted == set(found.dropped) and set(found.shared) == wanted & had
        rows = {state.inputs for state in had}
        assert all(state.inputs in rows for state in found.sorted_anew)
        assert all(state.inputs not in rows for state in found.recomputed)
        done = rows
        for state in found.recomputed:  # in an order in which they can be computed
            parts = next(p for p in joins(new) if below(p) == state.inputs)
            assert all(below(part) in done for part in parts)
            done = done | {state.inputs}


def test_figure_5_of_the_paper() -> None:
    """Equalities a = b, b = c, c = d: the single inputs' states match, BC and BCD do not."""
    classes = tuple(mask_of(pair) for pair in ((0, 1), (1, 2), (2, 3)))
    old, new = (((0, 1), 2), 3), (0, ((1, 2), 3))
    found = match(old, new, classes)
    assert [members(s.inputs) for s in found.recomputed] == [(1, 2), (1, 2, 3)]
    assert [members(s.inputs) for s in found.dropped if s.inputs.bit_count() > 1] == [
        (0, 1),
        (0, 1, 2),
    ]
    # B was kept by its key with A and is wanted by that with C: the paper's lists need no order, runs do.
    assert State(0b10, (1,)) in found.sorted_anew
    assert show(new, "abcd") == "(a ((b c) d))" and leaves(old) == (0, 1, 2, 3)
    assert [shape_of(t) for t in (old, new, ((0, 1), (2, 3)), (0, 1, 2), (3, (2, (1, 0))))] == [
        "left-deep", "linear", "bushy", "one join", "right-deep"]  # fmt: skip


@pytest.mark.parametrize("tree", [((0, 1), 1), (0, 1), ((0, 2), 1), (0, 1, 2)])
def test_what_is_no_tree_of_the_query_is_refused(tree: object) -> None:
    with pytest.raises(PlanError):
        check(tree, (0b011, 0b110), 3)  # type: ignore[arg-type]
    check(((0, 1), 2), (0b011, 0b110), 3)
    check((0, 1, 2), (0b111,), 3)


@given(models(4))
@settings(deadline=None, max_examples=60)
def test_volumes_are_those_that_sampling_finds(model: Model) -> None:
    """The share of random times that keep all bounds, times the box that they are drawn from."""
    random, count, reach = np.random.default_rng(7), len(model.rates), model.reach
    box = float(reach.max())
    times = random.uniform(-box, box, (200_000, count))
    times[:, 0] = 0.0
    apart = times[:, None, :] - times[:, :, None]  # [row, i, j]: how much later j is
    share = (apart <= reach[None]).all(axis=(1, 2)).mean()
    assert rate_volume(reach, range(count)) == pytest.approx(
        share * (2 * box) ** (count - 1), rel=0.05 + 4 / np.sqrt(share * 2e5 + 1)
    )
    for mask in range(1, model.everything):
        some, rest = members(mask), members(model.everything ^ mask)
        oldest = reach[np.ix_(some, rest)].max(axis=1)
        ages = -random.uniform(0, 1, (50_000, len(some))) * oldest
        apart = ages[:, None, :] - ages[:, :, None]
        share = (apart <= reach[np.ix_(some, some)][None] + 1e-9).all(axis=(1, 2)).mean()
        assert state_volume(reach, some, rest) == pytest.approx(
            share * prod(oldest), rel=0.05 + 4 / np.sqrt(share * 5e4 + 1)
        )


@given(st.floats(0.1, 1e3), st.integers(2, 8))
def test_one_window(window: float, count: int) -> None:
    """m rows within W of each other: m · W^(m−1) around a given one, W^m of them alive."""
    every = [(i, j, window) for i in range(count) for j in range(count) if i != j]
    reach = closed(count, every, [np.inf] * count)
    assert rate_volume(reach, range(count)) == pytest.approx(count * window ** (count - 1))
    if count > 2:
        assert state_volume(reach, range(count - 1), [count - 1]) == pytest.approx(
            window ** (count - 1)
        )


def test_rows_of_one_input_that_cannot_be_met_are_not_kept() -> None:
    """b comes 0 to 10 s after a: a waits 10 s, b for nobody."""
    model = Model.of([3.0, 5.0], [[0, 1]], [0.1], bounds=[(0, 1, 10.0), (1, 0, 0.0)])
    assert model.rate(0b11) == pytest.approx(3 * 5 * 0.1 * 10)
    assert (model.state_rows(1, 2), model.state_rows(2, 1)) == (30.0, 0.0)


@given(models())
@settings(deadline=None)
def test_more_rows_never_take_less(model: Model) -> None:
    faster = replace(model, rates=tuple(2 * rate for rate in model.rates), _kept={})
    for tree in list(all_trees(model.classes, model.everything))[:20]:
        one, two = load_of(model, tree), load_of(faster, tree)
        assert two.between_per_s >= one.between_per_s and two.state_rows >= one.state_rows
        assert two.cpu(1e-6, 1e-6) >= one.cpu(1e-6, 1e-6)
    assert connected(model.classes, model.everything)
