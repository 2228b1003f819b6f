"""Two plans that are compared: the running tree and another one, drawn alike, each state with what becomes of it.

Figures are the model's (control/migration/pictured.py), of both trees: measured and expected ones would not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components import plan_tree as tree
from app.components.kit import d, icon, num, s
from app.components.plan_view import at, framed
from app.components.units import figure, percent, rate, said, said_size

SMALL = tree.Sizes(104, 42, 168, 46, 18, 60)
ABOVE = 22.0  # the middle of a state's label, above the box whose rows it keeps
LABEL_W, LABEL_H = 116, 20
FATES: Mapping[str, tuple[str, str, str]] = {  # what becomes of a state: its look, icon, word
    "shared": ("reused", "equal", "reused"),
    "sorted_anew": ("sorted", "waves", "sorted anew"),
    "recomputed": ("rebuilt", "refresh-cw", "recomputed"),
    "dropped": ("dropped", "trash-2", "dropped"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """What both drawings have in common: one height, one scale of lines and of CPU."""

    before: tree.Node
    after: tree.Node
    ranks: int
    most_per_s: float
    cpu_s: float

    @staticmethod
    def of(trees: Mapping[str, tree.Node]) -> Pair:
        before, after = trees["before"], trees["after"]
        every = [*walk(before), *walk(after)]
        return Pair(
            before,
            after,
            max(tree.rank(before), tree.rank(after)),
            max(float(one["rows_out_per_s"]) for one in every),
            sum(float(one["cpu_s"]) for one in tree.operators(before)),
        )

    @property
    def width(self) -> float:
        """That both fit into."""
        return max(tree.placed(root, SMALL).width for root in (self.before, self.after))


def walk(node: tree.Node) -> Iterator[tree.Node]:
    yield from tree.leaves(node)
    yield from tree.operators(node)


def drawn(pair: Pair, root: tree.Node, told: str) -> Component:
    """One of the two."""
    sizes = SMALL.as_high_as(pair.ranks, tree.rank(root))
    placed = tree.placed(root, sizes)
    nodes = {str(one["id"]): one for one in walk(root)}
    boxes = [
        _leaf(placed, box, nodes[box.id])
        if box.leaf
        else _operator(placed, box, nodes[box.id], pair.cpu_s)
        for box in placed.boxes
    ]
    at_ = labels(placed)
    kept = [
        _state(placed, at_[str(side["of"])], child, side)
        for op in tree.operators(root)
        for child, side in zip(tree.children(op), op["sides"], strict=True)
    ]
    rates = {name: float(one["rows_out_per_s"]) for name, one in nodes.items()}
    return framed(placed, [*boxes, *kept], rates, told, pair.most_per_s, still=True)


def _leaf(placed: tree.Placed, box: tree.Box, node: tree.Node) -> Component:
    name = d(s(str(node["alias"]), c="pt-k clip"), c="pt-h")
    value = d(num(*rate(float(node["rows_out_per_s"]))), c="pt-r")
    return d(name, value, c="pt-leaf", style=at(placed, box))


def _operator(placed: tree.Placed, box: tree.Box, node: tree.Node, whole_s: float) -> Component:
    out, taken = float(node["rows_out_per_s"]), float(node["rows_in_per_s"])
    share = float(node["cpu_s"]) / whole_s if whole_s > 0 else None
    sigma = figure(out / taken) if taken > 0 else figure(None)
    head = d(s(tree.title(node), c="pt-t clip"), s(s("σ ", c="u"), sigma, c="pt-s num"), c="pt-h")
    low = d(
        s(num(*rate(out)), s(" out", c="u")),
        s(num(percent(share)), s(" CPU", c="u")),
        c="pt-r",
    )
    return d(head, low, c="pt-op still", style=at(placed, box), title=tree.title(node))


def labels(placed: tree.Placed) -> dict[str, tuple[float, float]]:
    """The middle of each state's label, by the box whose rows are in it. Streams stand close together: their labels
    stand above them, others on their line."""
    leaves = {box.id for box in placed.boxes if box.leaf}
    half = LABEL_W / 2
    found = {}
    for edge in placed.edges:
        if edge.upper:
            x, y = (edge.x0, edge.y0 - ABOVE) if edge.lower in leaves else edge.above(ABOVE)
            found[edge.lower] = (min(max(x, half), placed.width - half), y)
    return found


def _state(
    placed: tree.Placed, middle: tuple[float, float], child: tree.Node, side: Mapping[str, Any]
) -> Component:
    look, ic, word = FATES[str(side["fate"])]
    (x, y), half = middle, LABEL_W / 2
    name = tree.called(child)
    size = said_size(float(side["bytes"]))
    text = f"State of {name}: {said(float(side['rows']))} rows, {size}, {word}"
    style = {
        "left": f"calc({100 * x / placed.width:.3f}% - {half:g}px)",
        "top": f"{y - LABEL_H / 2:.1f}px",
        "width": f"{LABEL_W}px",
    }
    inside = [icon(ic), s("S", html.Sub(name), c="st-i clip"), s(size, c="st-z num")]
    return d(*inside, s(f", {word}", c="sr"), c=f"st {look}", style=style, title=text)


def legend(found: Mapping[str, int]) -> Component:
    """The fates that there are."""
    return d(
        *[
            s(s(icon(ic), c=f"st lgd {look}"), word, c="lg")
            for fate, (look, ic, word) in FATES.items()
            if found.get(fate)
        ],
        c="legend",
    )


def fates(pair: Pair) -> dict[str, tuple[int, float, float]]:
    """Of each fate: states, rows, bytes. What is dropped is of the running tree, the rest of the other."""
    found = dict.fromkeys(FATES, (0, 0.0, 0.0))
    sides = [side for op in tree.operators(pair.after) for side in op["sides"]]
    sides += [side for op in tree.operators(pair.before) for side in op["sides"]
              if side["fate"] == "dropped"]  # fmt: skip
    for side in sides:
        count, rows, size = found[side["fate"]]
        found[side["fate"]] = (count + 1, rows + side["rows"], size + side["bytes"])
    return found
