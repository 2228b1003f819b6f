"""Where the boxes of an operator tree are, and the lines between them: pure geometry over plain data, any tree.

The tree is as engine/plan/outline.py gives it: `id`, `kind`, `children`; a stream has none. Streams stand in one
row at the bottom, an operator above the middle of its inputs. Two trees that are placed with the same size can
stand side by side. Not here: what is written into boxes (plan_view.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]

LEAF_W, LEAF_H = 116, 50
OP_W, OP_H = 208, 66
GAP_X, GAP_Y = 16, 54
EDGE_TOP = 30  # above the root: where results leave


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


def placed(root: Node, *, pitch_min: float = 0.0) -> Placed:
    """Every box and every line. `pitch_min`: at least so far from stream to stream."""
    count = len(list(leaves(root)))
    pitch = max(LEAF_W + GAP_X, (OP_W + GAP_X) / 2, pitch_min)
    width = max(count * pitch, OP_W + GAP_X)
    top = rank(root)
    boxes: list[Box] = []
    edges: list[Edge] = []
    margin = (width - (count - 1) * pitch) / 2
    _place(root, margin, pitch, top, boxes, edges)
    last = boxes[-1]
    edges.append(Edge(last.id, "", last.x, last.y, last.x, last.y - EDGE_TOP))
    height = EDGE_TOP + top * (OP_H + GAP_Y) + LEAF_H
    return Placed(width, height, tuple(boxes), tuple(edges))


def _place(
    node: Node, x: float, pitch: float, top: int, boxes: list[Box], edges: list[Edge]
) -> Box:
    """Its subtree from `x` on; itself last."""
    below: list[Box] = []
    for child in children(node):
        below.append(_place(child, x, pitch, top, boxes, edges))
        x += pitch * len(list(leaves(child)))
    y = EDGE_TOP + (top - rank(node)) * (OP_H + GAP_Y)
    if not below:
        box = Box(str(node["id"]), x, y, LEAF_W, LEAF_H, True)
    else:
        middle = (below[0].x + below[-1].x) / 2
        box = Box(str(node["id"]), middle, y, OP_W, OP_H, False)
        edges += [Edge(one.id, box.id, one.x, one.y, box.x, y + OP_H) for one in below]
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
    parts = [_called(child) for child in children(node)]
    return f"γ {parts[0]}" if len(parts) == 1 else " ⋈ ".join(parts)


def _called(node: Node) -> str:
    names = [str(leaf.get("alias", leaf["id"])) for leaf in leaves(node)]
    if len(names) == 1:
        return names[0]
    return "".join(names) if all(len(name) == 1 for name in names) else f"({' '.join(names)})"
