"""Random queries for the migration's tests: graphs of key classes, rates, windows, and all trees of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from control.migration.fit import Evidence
from control.migration.joins import Joins
from control.migration.model import Model
from control.migration.statistics import QueryShape, Statistics
from control.migration.trees import Mask, Tree, below, connected, joins, members


@st.composite
def graphs(draw: st.DrawFn, most: int = 6, least: int = 2) -> list[list[int]]:
    """Key classes that connect all inputs: each input but the first joins a class with an earlier one, and some
    classes more."""
    count = draw(st.integers(least, most))
    spans: list[set[int]] = []
    for n in range(1, count):
        earlier = draw(st.integers(0, n - 1))
        known = [span for span in spans if earlier in span]
        if known and draw(st.booleans()):
            draw(st.sampled_from(known)).add(n)
        else:
            spans.append({earlier, n})
    for _ in range(draw(st.integers(0, 2))):
        spans.append(set(draw(st.lists(st.integers(0, count - 1), min_size=2, unique=True))))
    return [sorted(span) for span in spans]


@st.composite
def models(draw: st.DrawFn, most: int = 6, least: int = 2) -> Model:
    """Any query: one window, RANGE on each stream, or none and inputs of some age."""
    spans = draw(graphs(most, least))
    count = 1 + max(n for span in spans for n in span)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    form = draw(st.sampled_from(["window", "range", "pairs", "none"]))
    wide = random.uniform(1, 100, count)
    bounds: list[tuple[int, int, float]] = []
    if form == "range":
        bounds = [(i, j, wide[i]) for i in range(count) for j in range(count) if i != j]
    elif form == "pairs":
        bounds = [
            (i, j, float(random.uniform(0, 50)))
            for i in range(count)
            for j in range(count)
            if i != j
        ]
    return Model.of(
        random.lognormal(4, 1, count).tolist(),
        spans,
        random.uniform(1e-4, 0.5, len(spans)).tolist(),
        float(random.uniform(1, 100)) if form == "window" else None,
        bounds=bounds,
        ages_s=wide.tolist() if form == "none" else (),
        row_bytes=random.uniform(16, 200, count).tolist(),
    )


def all_trees(classes: tuple[Mask, ...], mask: Mask) -> Iterator[Tree]:
    """Every tree of two-way joins without a cross product, each split once."""
    if not mask & (mask - 1):
        yield members(mask)[0]
        return
    low = mask & -mask
    part = rest = mask ^ low
    while part:
        a, b = mask ^ part, part
        part = (part - 1) & rest
        if connected(classes, a) and connected(classes, b) and connected(classes, mask):
            for left in all_trees(classes, a):
                for right in all_trees(classes, b):
                    yield left, right


def joins_of(model: Model, tree: Tree, seconds: float = 60.0) -> Joins:
    """What a query of this model would have told by now while it ran a tree, had there been no chance in it."""
    bounds = tuple(
        (i, j, float(model.reach[i, j]))
        for i in range(len(model.rates))
        for j in range(len(model.rates))
        if i != j and np.isfinite(model.span_s)
    )
    shape = QueryShape(model.names, tuple(members(span) for span in model.classes), bounds)
    statistics = Statistics(shape, time_s=1000.0, weight_s=seconds, lived_s=seconds)
    for n, given in enumerate(statistics.inputs):
        reach = float(np.delete(model.reach[n], n).max())
        given.rows = model.rates[n] * seconds
        given.state_rows = model.rates[n] * reach
        given.state_bytes = given.state_rows * model.row_bytes[n]
    for parts in joins(tree):
        mask = below(parts)
        tried = 1e6 / max(model.selectivity(mask).value, 1e-12)
        statistics.evidence[mask] = Evidence(tried, 1e6)
    return Joins(shape, tree, statistics.pack())
