"""A figure that the engine draws by the clock (live.py), as a page; its runs, each once however many figures show it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.papers import drawn
from engine.papers.drawn import Drawn
from engine.papers.figure import Claim
from engine.papers.live import LiveLine, LiveRun, run_live
from engine.papers.paced import Chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Runner:
    """Runs lines on one session. `long`: as long as asked for with `--long`."""

    spark: SparkSession
    under: Path
    long: bool = False
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
    _done: dict[tuple[Chain, LiveLine], LiveRun] = field(default_factory=dict)

    def __call__(self, chain: Chain, line: LiveLine) -> LiveRun:
        """A line over a chain."""
        at = chain, line
        if at not in self._done:
            self._done[at] = found = run_live(self.spark, chain, line, self.under)
            last = found.ticks[-1].end_s - found.begun_s
            said = ", ".join(f"{a['state']} in {a['seconds']:.2f} s" for a in found.actions)
            self.say(
                f"  {line.name}: {len(found.ticks)} ticks in {last:.1f} s; {said or 'no migration'}"
            )
        return self._done[at]


@dataclass(frozen=True)
class LiveFigure:
    """A figure of a paper. `scale` says how its parameters stand to the paper's; `why`: where a claim does not
    hold."""

    name: str
    paper: str
    title: str
    scale: str
    draw: Callable[[Runner], Drawn]
    why: str = ""


def write(figure: LiveFigure, runner: Runner, folder: Path, command: str) -> Sequence[Claim]:
    """Run it, and write the page, the plot and the figures; the claims."""
    where = f"on this engine, input by the clock, {os.cpu_count()} cores"
    return drawn.write(figure, figure.draw(runner), folder, command, where)
