"""A figure that the simulator draws, as a page: claims with what was found, a plot, the figures behind it.

For papers whose processor is not ours: nested loops on one slow machine. What runs on the engine is in figure.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.papers.figure import Claim
from engine.papers.page import verdict
from engine.papers.plot import svg


@dataclass(frozen=True)
class Drawn:
    """What came out: lines over evenly spaced points, the first of which is called `first`."""

    series: Mapping[str, Sequence[float]]
    claims: Sequence[Claim]
    points: Sequence[str]  # what each point stands for, for the table
    x: str
    y: str
    first: int = 1
    notes: str = ""
    table_only: Sequence[str] = ()  # lines that would flatten all others


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
    drawn = figure.draw()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{figure.paper}-{figure.name}"
    title = f"{figure.paper} {figure.name}"
    plotted = {line: v for line, v in drawn.series.items() if line not in drawn.table_only}
    (folder / f"{name}.svg").write_text(svg(title, plotted, drawn.x, drawn.y, first=drawn.first))
    (folder / f"{name}.md").write_text(_page(figure, drawn, name, command))
    raw = {
        "figure": figure.name,
        "points": list(drawn.points),
        "series": {line: [round(v, 6) for v in values] for line, values in drawn.series.items()},
    }
    (folder / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    return drawn.claims


def _page(figure: Simulation, drawn: Drawn, name: str, command: str) -> str:
    lines = [
        f"# {figure.paper}, {figure.name.replace('fig', 'figure ')}: {figure.title}",
        "",
        f"Written by `{command}`, on the row-exact simulator (`control/simulate/tracks.py`). "
        f"Scale: {figure.scale}.",
        "",
        f"**Verdict: {verdict(list(drawn.claims))}.**",
        "",
        "| the paper's claim | found here | |",
        "|---|---|---|",
        *(
            f"| {c.text} | {c.measured} | {'holds' if c.holds else '**does not hold**'} |"
            for c in drawn.claims
        ),
        "",
    ]
    if figure.why and not all(claim.holds for claim in drawn.claims):
        lines += [figure.why, ""]
    if drawn.notes:
        lines += [drawn.notes, ""]
    names = list(drawn.series)
    lines += [
        f"![{figure.title}]({name}.svg)",
        "",
        f"| {drawn.x} | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(_row(drawn, at) for at in _rows(len(drawn.points))),
        "",
    ]
    return "\n".join(lines)


def _rows(count: int, most: int = 14) -> Sequence[int]:
    """Not every second of a long run."""
    step = max(1, -(-count // most))
    return range(0, count, step)


def _row(drawn: Drawn, at: int) -> str:
    cells = [f"{v[at]:,.4g}" if at < len(v) else "–" for v in drawn.series.values()]
    return f"| {drawn.points[at]} | " + " | ".join(cells) + " |"
