"""A node in the strip: memory against budget, what is held and on disk, busy, output, when it is full.

Beyond a dozen nodes: those in most trouble, and one card for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from dash import html
from dash.development.base_component import Component

from app.components.kit import chip, d, link, num, s
from app.components.units import (
    ahead,
    clock,
    counted,
    duration,
    figure,
    node_name,
    percent,
    prefixed,
    rate,
    size_unit,
)
from app.pages.page import Seen
from control.samples import Sample, Series
from control.snapshot import NO_LIMIT, Doubles, Longs

NEAR = 0.85
SOON_S = 900.0
CARDS_MAX = 12
SPARK_POINTS = 40


@dataclass(frozen=True)
class Cards:
    """Columns by node, and the one scale of all bars."""

    memory: Doubles
    held: Doubles
    disk: Doubles
    budget: Doubles  # infinite where there is none
    busy: Doubles
    out: Doubles
    alive: Any
    full_s: Sequence[float | None]
    unit: str
    factor: float
    scale: float

    @property
    def fill(self) -> Doubles:
        filled: Doubles = (self.memory + self.held) / self.budget
        return filled


def cards_of(sample: Sample, full_s: Sequence[float | None]) -> Cards:
    nodes = sample.snapshot.nodes
    budget = np.where(nodes.budget_bytes < NO_LIMIT, nodes.budget_bytes, np.inf).astype(np.float64)
    memory, disk = nodes.memory_bytes.astype(np.float64), nodes.disk_bytes.astype(np.float64)
    held = np.nan_to_num(_column(sample, "held_bytes", len(nodes)))
    limits = budget[np.isfinite(budget)]
    highest = max(float((memory + held).max(initial=1.0)), float(limits.max(initial=1.0)))
    unit, factor = size_unit([highest])
    return Cards(
        memory, held, disk, budget, nodes.busy, nodes.rows_out_per_s, nodes.alive, full_s,
        unit, factor, highest * 1.13,
    )  # fmt: skip


def _column(sample: Sample, name: str, count: int) -> Doubles:
    found = sample.nodes.get(name)
    return found if found is not None and len(found) == count else np.zeros(count)


def worst(cards: Cards, most: int = CARDS_MAX) -> list[int]:
    """Which nodes have a card, in their own order: all of a few, else those in most trouble."""
    count = len(cards.memory)
    if count <= most:
        return list(range(count))
    full = np.array([s if s is not None else np.inf for s in cards.full_s])
    order: Longs = np.lexsort((-cards.fill, full, cards.alive))
    return sorted(order[: most - 1].tolist())


def strip(seen: Seen, cards: Cards, outs: Series) -> list[Component]:
    chosen = worst(cards)
    shown = [_card(seen, cards, node, _spark(outs, node)) for node in chosen]
    rest = sorted(set(range(len(cards.memory))) - set(chosen))
    return [*shown, _rest(cards, rest)] if rest else shown


def _card(seen: Seen, cards: Cards, node: int, spark: Any) -> Component:
    hot = _hot(cards, node) and not seen.stale
    gone = not cards.alive[node]
    used = float(cards.memory[node] + cards.held[node])
    budget = float(cards.budget[node])
    limited = np.isfinite(budget)
    of = f"of {amount(cards, budget)} {cards.unit}" if limited else f"{cards.unit}, no budget"
    share = s(percent(used / budget), c=f"nc-pct n{' hot' if hot else ''}") if limited else None
    out, out_unit = rate(float(cards.out[node]))
    return link(
        [
            d(s(node_name(node), c="nc-id"), _when(seen, cards, node, hot), c="nc-top"),
            d(d(s(amount(cards, used), c="nc-big n"), s(of, c="nc-of")), share, c="nc-mid"),
            memory_bar(cards, node),
            _split(cards, node),
            d(
                d(s("busy", c="k"), num(percent(float(cards.busy[node]))[:-2], "%")),
                d(s("out", c="k"), num(out, out_unit)),
                spark,
                c="nc-foot",
            ),
        ],
        f"/nodes?node={node}&query={quote(seen.name, safe='')}",
        f"nc{' gone' if gone else ' hot' if hot else ''}",
    )


def _hot(cards: Cards, node: int) -> bool:
    soon = cards.full_s[node]
    return bool(cards.fill[node] > NEAR or (soon is not None and soon < SOON_S))


def _when(seen: Seen, cards: Cards, node: int, hot: bool) -> Component:
    full = cards.full_s[node]
    if seen.sample is not None and seen.stale:
        return s(f"as of {clock(seen.sample.time_s, seen.view.zone_min)}", c="fc")
    if not cards.alive[node]:
        return chip("not alive", "fail", "octagon-x")
    if hot and full is not None:
        text = f"full in {ahead(full)}" if full > 0 else "full"
        return chip(text, "near", "triangle-alert")
    if full is not None:
        return s(f"full in {duration(full)}", c="fc")
    return s("not full within a day", c="fc")


def memory_bar(cards: Cards, node: int, c: str = "bars") -> Component:
    """Memory against the budget line; disk is a second bar on the same scale, because it does not eat budget."""
    budget, memory = float(cards.budget[node]), float(cards.memory[node])
    warn = NEAR * budget if np.isfinite(budget) else np.inf
    line = (
        [html.I(className="budget", style={"left": _part(budget, cards)})]
        if np.isfinite(budget)
        else []
    )
    parts = (
        ("mem", min(memory, warn)),
        ("near", max(0.0, memory - warn)),
        ("held", float(cards.held[node])),
    )
    top = [
        html.I(className=f"seg {tone}", style={"width": _part(v, cards)})
        for tone, v in parts
        if v > 0
    ]
    low = html.I(className="seg disk", style={"width": _part(float(cards.disk[node]), cards)})
    return d(d(*top, *line, c="mbar"), d(low, c="dbar"), c=c)


def _part(value: float, cards: Cards) -> str:
    return f"{100 * min(1.0, value / cards.scale):.2f}%"


def _split(cards: Cards, node: int) -> Component:
    columns = (("mem", cards.memory), ("held", cards.held), ("disk", cards.disk))
    parts = [
        s(
            html.I(className=f"sw {tone}"),
            amount(cards, float(v[node])),
            c="" if v[node] else "zero",
        )
        for tone, v in columns
    ]
    return d(*parts, s(cards.unit, c="u"), c="nc-split")


def amount(cards: Cards, value: float) -> str:
    """All cards with the same digits, so that they can be compared."""
    told = value / cards.factor
    return f"{told:.2f}" if told < 100 and cards.scale / cards.factor < 100 else figure(told)


def _spark(series: Series, node: int) -> Any:
    """Output of the last minutes as a line in the text's colour; without numbers, for its shape."""
    found = series.values.get("rows_out_per_s")
    if found is None or node >= found.shape[1] or len(found) < 3:
        return html.I(className="spark")
    column = (
        found[-SPARK_POINTS * 3 :: 3, node]
        if len(found) > 3 * SPARK_POINTS
        else found[-SPARK_POINTS:, node]
    )
    return html.I(className="spark", style={"--i": _path(column)})


def _path(column: Doubles) -> str:
    known = column[np.isfinite(column)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    base = low - 0.6 * (high - low) - 0.05 * high
    span = max(high - base, 1e-9)
    points = " ".join(
        f"{80 * i / max(1, len(column) - 1):.1f},{25 - 24 * (float(v) - base) / span:.1f}"
        for i, v in enumerate(column)
        if np.isfinite(v)
    )
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 80 26' preserveAspectRatio='none'>"
        f"<polyline points='{points}' fill='none' stroke='#000' stroke-width='1.4' "
        "vector-effect='non-scaling-stroke'/></svg>"
    )
    return f'url("data:image/svg+xml,{quote(svg, safe=" =:/,.")}")'


def _rest(cards: Cards, nodes: Sequence[int]) -> Component:
    """All that have no card of their own."""
    at = np.asarray(nodes, dtype=np.int64)
    fill = cards.fill[at]
    known = fill[np.isfinite(fill)]
    out, unit = prefixed(float(np.nansum(cards.out[at])), "/s")
    median = percent(float(np.median(known))) if len(known) else "no budget"
    return link(
        [
            d(s(counted(len(nodes), "other node"), c="nc-id"), c="nc-top"),
            d(s("median fill ", c="k"), s(median, c="n b")),
            d(s("fullest ", c="k"), s(percent(float(known.max(initial=0.0))), c="n b")),
            d(s("out ", c="k"), num(out, unit)),
        ],
        "/nodes",
        "nc rest",
    )
