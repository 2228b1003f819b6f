"""An operator tree as it is drawn: boxes with live figures over lines as thick as what flows through them.

Boxes are buttons, so that an operator can be chosen by key. A second tree is drawn by a second call: ids begin with
`name`. Lines are one SVG, used as a mask, so that their colour is a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from app.components import plan_tree as tree
from app.components.kit import d, num, s
from app.components.plan_figures import Figures, flows, measured
from app.components.units import NONE, figure, percent, rate, said, said_size, size

LINE_MIN, LINE_MAX = 1.2, 10.0


def drawn(
    name: str,
    root: tree.Node,
    found: Mapping[str, Figures],
    asked: Mapping[str, float],
    chosen: str = "",
) -> Component:
    """`asked`: rows per second that generated streams were asked for; `chosen`: the operator with a frame."""
    placed = tree.placed(root)
    rates, known = flows(root, found, asked), measured(root)
    nodes = {str(one["id"]): one for one in (*tree.operators(root), *tree.leaves(root))}
    top = max((max(f.memory_bytes, f.disk_bytes) for f in found.values()), default=0.0)
    boxes = [
        _leaf(placed, box, nodes[box.id], rates.get(box.id), box.id in known)
        if box.leaf
        else _operator(name, placed, box, nodes[box.id], found.get(box.id), top, box.id == chosen)
        for box in placed.boxes
    ]
    return framed(placed, boxes, rates, f"Operators: {tree.title(root)}")


def framed(
    placed: tree.Placed,
    boxes: Sequence[Component],
    rates: Mapping[str, float],
    told: str,
    most: float | None = None,
    still: bool = False,
) -> Component:
    """Boxes over lines. `most`: the rate of the thickest line, where trees are compared; `still`: there is nothing to
    press in it, so that keys must be able to scroll it where it is cut off."""
    inside = d(
        d(c="pt-lines", style={"--i": lines(placed, rates, most)}, aria_hidden="true"),
        *boxes,
        c="pt",
        style={"height": f"{placed.height:g}px", "minWidth": f"{placed.width:g}px"},
        role="group",
        aria_label=told,
    )
    focus: Any = {"tabIndex": 0, "role": "region", "aria_label": told} if still else {}
    return d(inside, c="pt-scroll", **focus)


def lines(placed: tree.Placed, rates: Mapping[str, float], most: float | None = None) -> str:
    """All lines as a CSS url; it is stretched to the panel's width, widths of lines are not."""
    most = max(rates.values(), default=0.0) if most is None else most
    paths = "".join(
        f'<path d="{edge.path()}" stroke-width="{thickness(rates.get(edge.lower), most):.1f}"/>'
        for edge in placed.edges
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {placed.width:g} {placed.height:g}" '
        'preserveAspectRatio="none"><style>path{fill:none;stroke:#000;vector-effect:non-scaling-stroke}'
        f"</style>{paths}</svg>"
    )
    return f'url("data:image/svg+xml,{quote(svg, safe=" =:/;,.-")}")'


def thickness(rows_per_s: float | None, most: float) -> float:
    """Of a line: by the rate's share of the largest, so that a thin one can still be seen."""
    if not rows_per_s or most <= 0:
        return LINE_MIN
    return LINE_MIN + (LINE_MAX - LINE_MIN) * float((rows_per_s / most) ** 0.6)


def at(placed: tree.Placed, box: tree.Box) -> dict[str, str]:
    """Its place, from the middle: the panel may be wider than the tree."""
    return {
        "left": f"calc({100 * box.x / placed.width:.3f}% - {box.width / 2:g}px)",
        "top": f"{box.y:g}px",
        "width": f"{box.width}px",
        "height": f"{box.height}px",
    }


def _leaf(
    placed: tree.Placed, box: tree.Box, node: tree.Node, rows: float | None, is_measured: bool
) -> Component:
    names = " + ".join(str(name) for name in node.get("streams", ()))
    alias = str(node.get("alias", ""))
    head = [s(alias, c="pt-k"), s(names, c="clip")] if alias != names else [s(names, c="pt-k clip")]
    value = num(*rate(rows)) if rows is not None else s(str(node.get("format", "")), c="dim")
    how = None if rows is None or is_measured else s("asked", c="u pt-how")
    told = f"{names}, {node.get('format', '')}" + (
        f", where {f}" if (f := node.get("filter")) else ""
    )
    return d(
        d(*head, c="pt-h"), d(value, how, c="pt-r"), c="pt-leaf", style=at(placed, box), title=told
    )


def _operator(
    name: str,
    placed: tree.Placed,
    box: tree.Box,
    node: tree.Node,
    found: Figures | None,
    top: float,
    chosen: bool,
) -> Component:
    head = d(
        s(tree.title(node), c="pt-t clip"), s(s("σ ", c="u"), _sigma(found), c="pt-s num"), c="pt-h"
    )
    mid = d(
        s(num(*rate(found.rows_out_per_s if found else None)), s(" out", c="u")),
        s(num(percent(found.cpu_share if found else None)), s(" CPU", c="u")),
        c="pt-r",
    )
    inside = [head, mid, _state(found, top)]
    told: Any = {"aria-pressed": str(chosen).lower(), "aria-label": said_operator(node, found)}
    return html.Button(
        inside,
        id={"type": f"{name}-op", "id": box.id},
        className="pt-op on" if chosen else "pt-op",
        style=at(placed, box),
        type="button",
        n_clicks=0,
        **told,
    )


def _sigma(found: Figures | None) -> str:
    return figure(found.selectivity) if found else NONE


def _state(found: Figures | None, top: float) -> Component:
    """In memory, and below it on disk, on one scale for all operators of the tree."""
    if found is None:
        return d(s(NONE, c="dim"), c="pt-z")
    scale = 100 / top if top > 0 else 0.0
    bar = d(
        html.I(className="seg mem", style={"width": f"{found.memory_bytes * scale:.1f}%"}),
        html.I(className="seg disk", style={"width": f"{found.disk_bytes * scale:.1f}%"}),
        c="pt-bar",
    )
    told = [num(*size(found.memory_bytes))]
    if found.disk_bytes > 0:
        told.append(s(num(*size(found.disk_bytes)), s(" on disk", c="u")))
    return d(bar, d(*told, c="pt-zt"), c="pt-z")


def said_operator(node: tree.Node, found: Figures | None) -> str:
    """The box in words, for who cannot see it."""
    what = f"{node['id']}: {tree.title(node)}"
    if found is None:
        return f"{what}, nothing known yet"
    parts: list[Any] = [
        what,
        f"{said(found.rows_in_per_s, '/s')} rows in",
        f"{said(found.rows_out_per_s, '/s')} results",
        f"selectivity {figure(found.selectivity)}",
        f"{said_size(found.memory_bytes)} in memory",
        f"{said_size(found.disk_bytes)} on disk",
    ]
    return ", ".join(parts)
