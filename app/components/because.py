"""A plan's reasons as lines for people: each sentence with its figures, their units taken from their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from app.components.kit import d, s
from app.components.units import duration, figure, percent, said, said_size
from control.plans import Topic

WORDS = {
    Topic.INPUT: "why",
    Topic.CANDIDATES: "looked at",
    Topic.CHOSEN: "chosen",
    Topic.SKIPPED: "left out",
    Topic.NOTHING: "nothing because",
}
LINES_MAX = 4  # of one topic; how many more is said


def said_number(name: str, value: float) -> str:
    """`cap_bytes` → 12.0 MB, `gap_s` → 45 s, `chance` → 98 %."""
    if name.endswith("_bytes") or name == "bytes":
        return said_size(value)
    if name.endswith("row_s"):
        return f"{said(value)} row·s"
    if name.endswith("_per_s"):
        return said(value, "/s")
    if name.endswith("_s"):
        return duration(value)
    if name in ("chance", "share", "fill") or name.endswith("_share"):
        return percent(value)
    return figure(value)


def label_of(name: str) -> str:
    """Without its unit: `daily_bytes` → daily."""
    for unit in ("_row_s", "_per_s", "_bytes", "_s"):
        if name.endswith(unit):
            name = name[: -len(unit)]
            break
    return name.replace("_", " ")


def said_reason(text: str, numbers: Iterable[Sequence[Any]]) -> str:
    """The sentence, and its figures after it."""
    figures = ", ".join(f"{label_of(str(n))} {said_number(str(n), float(v))}" for n, v in numbers)
    return f"{text} ({figures})" if figures else text


def by_topic(reasons: Iterable[Sequence[Any]]) -> Mapping[str, list[str]]:
    """Word for the topic → its sentences, in the order in which a decision is made."""
    found: dict[str, list[str]] = {word: [] for word in WORDS.values()}
    for topic, text, numbers in reasons:
        word = WORDS.get(topic, str(topic))
        found.setdefault(word, []).append(said_reason(str(text), numbers))
    return {word: lines for word, lines in found.items() if lines}


def lines(reasons: Iterable[Sequence[Any]]) -> list[Component]:
    """Pairs of cells for a two-column grid: the topic, and what was said of it."""
    cells = []
    for word, texts in by_topic(reasons).items():
        more = len(texts) - LINES_MAX
        shown = texts[:LINES_MAX] + ([f"and {more} more"] if more > 0 else [])
        cells += [s(word, c="k"), d(*[d(text) for text in shown])]
    return cells
