"""What a figure is: its lines, what is plotted, and the claim that its shape must bear out. Values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.papers.feed import Feed
from engine.papers.lines import Line, Run

Runs = Sequence[Run]


@dataclass(frozen=True)
class Claim:
    """One thing that the paper says the figure shows, judged on our runs."""

    text: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. `scale` says how our parameters stand to the paper's."""

    name: str
    paper: str
    title: str
    scale: str
    feed: Callable[[bool], Feed]  # of `long`
    lines: Callable[[Feed, bool], Sequence[Line]]
    judge: Callable[[Runs], Sequence[Claim]]
    plots: str = "results"  # or memory
    why: str = ""  # where the claim does not hold here


def state_bytes(feed: Feed, minutes: float | None = None) -> int:
    """State of the query after so many minutes: hash, key and value of every row of three streams."""
    return int(3 * 24 * feed.rows_per_minute * (feed.minutes if minutes is None else minutes))
