"""A figure that the simulator draws, as a page.

For papers whose processor is not ours: nested loops on one slow machine. What runs on the engine is in figure.py and
live_figure.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.papers import drawn
from engine.papers.drawn import Drawn
from engine.papers.figure import Claim

WHERE = "on the row-exact simulator (`control/simulate/tracks.py`)"


@dataclass(frozen=True)
class Simulation:
    """A figure of a paper. `scale` says how its parameters stand to the paper's; `why`: where a claim does not
    hold."""

    name: str
    paper: str
    title: str
    scale: str
    draw: Callable[[], Drawn]
    why: str = ""


def write(figure: Simulation, folder: Path, command: str) -> Sequence[Claim]:
    """Draw it, and write the page, the plot and the figures; the claims."""
    return drawn.write(figure, figure.draw(), folder, command, WHERE)
