"""One node in detail: its figures, memory by operator and tier, its largest and least productive groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from app.components import states
from app.components.help import mark
from app.components.kit import chip, d, link, num, s, table
from app.components.node_card import Cards, memory_bar
from app.components.units import (
    NONE,
    figure,
    node_name,
    percent,
    rate,
    said_size,
    size,
    whole,
)
from app.pages import nodes_data as data
from app.pages.page import Seen
from app.pages.placement_filter import figures
from app.pages.placement_table import tier
from control.snapshot import NO_LIMIT, ClusterSnapshot, Longs


def title(seen: Seen, cards: Cards, n: int) -> list[Any]:
    assert seen.sample is not None
    told = data.state(seen.sample, cards, n)
    tone = {"not alive": ("fail", "octagon-x"), "full": ("near", "triangle-alert"),
            "near": ("near", "triangle-alert")}.get(told)  # fmt: skip
    word = {"near": "over 85 % of its budget", "full": "full: it spills by its own rule"}.get(
        told, told
    )
    return [s(node_name(n), c="nd-id"), chip(word, *tone) if tone and not seen.stale else None]


def stats(seen: Seen, cards: Cards, n: int) -> list[Any]:
    """The node's figures, each with its help."""
    assert seen.sample is not None
    nodes = seen.sample.snapshot.nodes
    free = int(nodes.disk_free_bytes[n])
    full = cards.full_s[n]
    told: Sequence[tuple[str, Any, str]] = (
        ("in memory", num(*size(float(cards.memory[n]))), "memory"),
        ("of budget", num(percent(float(cards.fill[n])) if cards.fill[n] > 0 else NONE), "budget"),
        ("held", num(*size(float(cards.held[n]))), "held"),
        ("on disk", num(*size(float(cards.disk[n]))), "disk"),
        ("disk free", num(*size(float(free))) if free < NO_LIMIT else num(NONE), "disk"),
        ("results", num(*rate(float(nodes.rows_out_per_s[n]))), "rows_out"),
        ("rows in", num(*rate(float(nodes.rows_in_per_s[n]))), "rows_in"),
        ("busy", num(percent(float(nodes.busy[n]))), "busy"),
        ("full in", num(NONE if seen.stale else data.said_full(full)), "full_in"),
    )
    facts = [d(d(s(name), mark(help), c="k nd-k"), value, c="nd-kv") for name, value, help in told]
    return [memory_bar(cards, n), d(*facts, c="nd-kvs")]


def operators(snapshot: ClusterSnapshot, n: int) -> Component:
    """Memory and disk of each operator on one scale; disk below, because it does not eat budget."""
    parts = data.parts(snapshot, n)
    scale = max([max(p.memory_bytes, p.disk_bytes) for p in parts] + [1])
    rows = [
        [
            s(part.operator, c="clip"),
            whole(part.groups),
            _bar(part, scale),
            said_size(part.memory_bytes),
            said_size(part.disk_bytes),
            " ".join(rate(part.rows_out_per_s)),
        ]
        for part in parts
    ]
    heads = (
        ("operator", "nd-op"),
        ("groups", "r"),
        ("memory, disk", "nd-w"),
        ("in memory", "r"),
        ("on disk", "r"),
        ("results", "r"),
    )
    return table(heads, rows)


def _bar(part: data.Part, scale: int) -> Component:
    def wide(value: int) -> dict[str, str]:
        return {"width": f"{100 * value / scale:.2f}%"}

    return d(
        d(html.I(className="seg mem", style=wide(part.memory_bytes)), c="mbar"),
        d(html.I(className="seg disk", style=wide(part.disk_bytes)), c="dbar"),
        c="bars nd-bars",
    )


def groups(seen: Seen, rows: Longs, empty: str) -> Any:
    """A few groups; each leads to Placement with it selected."""
    assert seen.sample is not None
    snapshot = seen.sample.snapshot
    if not len(rows):
        return states.empty(empty)
    found, columns = figures(snapshot), snapshot.groups
    several = len(snapshot.operators) > 1
    shown = []
    for row in rows.tolist():
        operator = snapshot.operators[int(columns.operator[row])].name
        number = int(columns.group[row])
        to = f"/placement?operator={quote(operator, safe='')}&groups={number}&query={quote(seen.name, safe='')}"
        name = f"g{number}" + (f" of {operator}" if several else "")
        value = float(found.productivity[row])
        shown.append(
            [
                link(name, to, "text-link"),
                tier(snapshot, row),
                said_size(float(columns.memory_bytes[row] + columns.disk_bytes[row])),
                figure(value) if columns.memory_bytes[row] else NONE,
                " ".join(rate(float(columns.rows_out_per_s[row]))),
            ]
        )
    heads = (("group", ""), ("state", ""), ("size", "r"), ("results / MB·s", "r"), ("results", "r"))
    return table(heads, shown)
