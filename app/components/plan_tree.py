"""Where the boxes of an operator tree are, and the lines between them: pure geometry over plain data, any tree.

The tree is as engine/plan/outline.py gives it: `id`, `kind`, `children`; a stream has none. Streams stand in one
row at the bottom, an operator above the middle of its inputs. Two trees that are placed with the same size can
stand side by side. Not here: what is written into boxes (plan_view.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Node = Mapping[str, Any]

EDGE_TOP = 30  # above the root: where results leave


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of boxes, and the least room between them."""

    leaf_w: int = 116
    leaf_h: int = 50
    op_w: int = 208
    op_h: int = 66
    gap_x: int = 16
    gap_y: float = 54

    @property
    def pitch(self) -> float:
        """From stream to stream."""
        return max(self.leaf_w + self.gap_x, (self.op_w + self.gap_x) / 2)

    def height(self, ranks: int) -> float:
        """Of a tree with so many operators above a stream."""
        return EDGE_TOP + ranks * (self.op_h + self.gap_y) + self.leaf_h

    def as_high_as(self, other: int, ranks: int) -> Sizes:
        """For a tree of `ranks`, as high as one of `other` ranks."""
        if not ranks or ranks >= other:
            return self
        room = self.height(other) - EDGE_TOP - self.leaf_h
        return replace(self, gap_y=room / ranks - self.op_h)


WIDE = Sizes()


@dataclass(frozen=True, slots=True)
class Box:
    """`x`: its middle, `y`: its top."""

    id: str
    x: float
    y: float
    width: int
    height: int
    leaf: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """From the top of `lower` to the bottom of `upper`; the root's goes to nothing."""

    lower: str
    upper: str
    x0: float
    y0: float
    x1: float
    y1: float

    def at(self, share: float) -> tuple[float, float]:
        """A point of its curve, as a share from its lower end: where a label may sit."""
        back = 1 - share
        x = (back**3 + 3 * back**2 * share) * self.x0 + (3 * back * share**2 + share**3) * self.x1
        middle = (self.y0 + self.y1) / 2
        ends = back**3 * self.y0 + share**3 * self.y1
        return x, ends + 3 * back * share * middle

    def above(self, lower: float) -> tuple[float, float]:
        """The point so far above its lower end."""
        low, high = 0.0, 1.0
        for _ in range(20):
            half = (low + high) / 2
            low, high = (half, high) if self.at(half)[1] > self.y0 - lower else (low, half)
        return self.at(low)

    def path(self) -> str:
        middle = (self.y0 + self.y1) / 2
        ends = f"{self.x1:.1f} {middle:.1f} {self.x1:.1f} {self.y1:.1f}"
        return f"M{self.x0:.1f} {self.y0:.1f}C{self.x0:.1f} {middle:.1f} {ends}"


@dataclass(frozen=True, slots=True)
class Placed:
    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def placed(root: Node, sizes: Sizes = WIDE) -> Placed:
    """Every box and every line."""
    count = len(list(leaves(root)))
    width = max(count * sizes.pitch, sizes.op_w + sizes.gap_x)
    top = rank(root)
    boxes: list[Box] = []
    edges: list[Edge] = []
    margin = (width - (count - 1) * sizes.pitch) / 2
    _place(root, margin, sizes, top, boxes, edges)
    last = boxes[-1]
    edges.append(Edge(last.id, "", last.x, last.y, last.x, last.y - EDGE_TOP))
    return Placed(width, sizes.height(top), tuple(boxes), tuple(edges))


def _place(
    node: Node, x: float, sizes: Sizes, top: int, boxes: list[Box], edges: list[Edge]
) -> Box:
    """Its subtree from `x` on; itself last."""
    below: list[Box] = []
    for child in children(node):
        below.append(_place(child, x, sizes, top, boxes, edges))
        x += sizes.pitch * len(list(leaves(child)))
    y = EDGE_TOP + (top - rank(node)) * (sizes.op_h + sizes.gap_y)
    if not below:
        box = Box(str(node["id"]), x, y, sizes.leaf_w, sizes.leaf_h, True)
    else:
        middle = (below[0].x + below[-1].x) / 2
        box = Box(str(node["id"]), middle, y, sizes.op_w, sizes.op_h, False)
        lower = y + sizes.op_h
        edges += [Edge(one.id, box.id, one.x, one.y, box.x, lower) for one in below]
    boxes.append(box)
    return box


def children(node: Node) -> Sequence[Node]:
    found: Sequence[Node] = node.get("children") or ()
    return found


def leaves(node: Node) -> Iterator[Node]:
    """The streams, left to right."""
    below = children(node)
    if not below:
        yield node
    for child in below:
        yield from leaves(child)


def operators(node: Node) -> Iterator[Node]:
    """Children before parents."""
    for child in children(node):
        yield from operators(child)
    if children(node):
        yield node


def rank(node: Node) -> int:
    """How many operators are above a stream, at most."""
    return max((1 + rank(child) for child in children(node)), default=0)


def title(node: Node) -> str:
    """What it joins, by the streams' short names: (p v) ⋈ r."""
    if not children(node):
        return str(node.get("alias", node["id"]))
    parts = [called(child) for child in children(node)]
    return f"γ {parts[0]}" if len(parts) == 1 else " ⋈ ".join(parts)


def called(node: Node) -> str:
    """Its rows, by the streams that are in them."""
    names = [str(leaf.get("alias", leaf["id"])) for leaf in leaves(node)]
    if len(names) == 1:
        return names[0]
    return "".join(names) if all(len(name) == 1 for name in names) else f"({' '.join(names)})"
