"""What a figure is: its lines, what is plotted, and the claims that its shape must bear out. Values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.papers.feed import Feed
from engine.papers.lines import Line, Run

Runs = Sequence[Run]
ROW_BYTES = 24  # of state: hash, key and value


@dataclass(frozen=True)
class Claim:
    """One thing that a paper says its figure shows, judged on our runs; or, if it is `ours`, one that we say."""

    text: str
    measured: str
    holds: bool
    ours: bool = False

    @property
    def said(self) -> str:
        """As pages have it."""
        return f"(ours) {self.text}" if self.ours else self.text


def claim(text: str, measured: str, holds: bool) -> Claim:
    """Of the paper."""
    return Claim(text, measured, bool(holds))


def ours(text: str, measured: str, holds: bool) -> Claim:
    """Of ours."""
    return Claim(text, measured, bool(holds), ours=True)


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. `scale` says what differs from the paper's parameters beside the feed's factor."""

    name: str
    paper: str
    title: str
    scale: str
    feed: Callable[[bool], Feed]  # of `long`
    lines: Callable[[Feed, bool], Sequence[Line]]
    judge: Callable[[Runs], Sequence[Claim]]
    plots: str = "results"  # or memory
    why: str = ""  # where a claim does not hold here


def state_bytes(feed: Feed, minutes: float | None = None) -> int:
    """State of the query after so many minutes, of its three streams."""
    return int(3 * ROW_BYTES * 60 * feed.rate * (feed.minutes if minutes is None else minutes))
