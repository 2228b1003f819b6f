"""Short names for the elements that everything is made of: boxes, icons, numbers, chips, buttons, panels.

Class names are those of assets/console.css; no colour and no size is named in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as _dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

dmc: Any = _dmc  # it has no types of its own
Node = Component | str | int | float | None
Nodes = Node | Sequence[Any]


def d(*kids: Any, c: str = "", **more: Any) -> Component:
    return html.Div([kid for kid in kids if kid is not None], **_with(c, more))


def s(*kids: Any, c: str = "", **more: Any) -> Component:
    return html.Span([kid for kid in kids if kid is not None], **_with(c, more))


def _with(c: str, more: dict[str, Any]) -> Any:
    """`aria_label` becomes aria-label, `data_x` data-x."""
    named = {
        name.replace("_", "-") if name.startswith(("aria_", "data_")) else name: value
        for name, value in more.items()
    }
    return {**({"className": c} if c else {}), **named}


def icon(name: str, c: str = "") -> Component:
    """Coloured by the text around it; see assets/icons."""
    return html.Span(**_with(f"ico ico-{name} {c}".strip(), {"aria_hidden": "true"}))


def label(text: str) -> Any:
    """For who cannot see what an element is for; `**label("Query")` in Dash's and Mantine's own elements."""
    return {"aria-label": text}


def num(value: str, unit: str = "", c: str = "") -> Component:
    """A figure and its unit; figures line up."""
    return s(s(value, c="n"), s(f" {unit}", c="u") if unit else None, c=f"num {c}".strip())


def chip(text: str, tone: str = "", ic: str = "", **more: Any) -> Component:
    """A state in a word. Tones: near, held, fail, mem, disk, acc, mode-auto, mode-propose, mode-off."""
    return s(icon(ic) if ic else None, text, c=f"chip {tone}".strip(), **more)


def key(text: str) -> Component:
    return html.Kbd(text, className="key")


def button(text: str, kind: str = "", ic: str = "", right: str = "", **more: Any) -> Component:
    """Kinds: primary, danger, bare, wide; `more` takes id, disabled, title."""
    kids = [icon(ic) if ic else None, text, icon(right) if right else None]
    return html.Button(
        [kid for kid in kids if kid is not None],
        **_with(f"btn {kind}".strip(), {"type": "button", "n_clicks": 0, **more}),
    )


def icon_button(name: str, label: str, **more: Any) -> Component:
    """A button that is only an icon; `label` is for who cannot see it."""
    told = {"type": "button", "n_clicks": 0, "title": label, "aria_label": label, **more}
    return html.Button(icon(name), **_with("iconbtn", told))


def link(text: Any, href: str, c: str = "link") -> Component:
    """To another page, without loading everything anew."""
    from dash import dcc

    return dcc.Link(text, href=href, className=c)


def panel(
    title: str,
    *kids: Any,
    sub: Any = None,
    right: Any = None,
    help: Any = None,
    c: str = "",
    **more: Any,
) -> Component:
    """A titled box. `help`: a mark from components.help beside the title; `more` takes id."""
    head = d(
        html.H2(title, className="p-title"),
        help,
        s(sub, c="p-sub") if sub is not None else None,
        d(right, c="p-right") if right is not None else None,
        c="p-head",
    )
    return html.Section(
        [head, *[kid for kid in kids if kid is not None]],
        **_with(f"panel {c}".strip(), {"aria_label": title, **more}),
    )


def legend(*items: tuple[str, str]) -> Component:
    """(swatch, label): mem, near, held, disk, ink, hollow, fail."""
    return d(
        *[s(html.I(className=f"sw {tone}"), label, c="lg") for tone, label in items], c="legend"
    )


def stat(name: str, value: Any, help: Any = None) -> Component:
    """A name above its figure."""
    return d(s(name, help, c="k"), value, c="hl-kv")


def table(
    heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], c: str = ""
) -> Component:
    """A small table; heads are (text, class), class r is right-aligned. Long ones: components.grid."""
    top = html.Thead(html.Tr([html.Th(text, className=k, scope="col") for text, k in heads]))
    classes = [k for _, k in heads]
    body = [
        html.Tr([html.Td(cell, className=k) for cell, k in zip(row, classes, strict=True)])
        for row in rows
    ]
    return html.Table([top, html.Tbody(body)], className=f"tbl {c}".strip())
