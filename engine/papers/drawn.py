"""A figure as lines over evenly spaced points, and its page: claims with what was found, a plot, the figures behind it.

What draws it is elsewhere: simulated.py, live_figure.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.papers import page
from engine.papers.figure import Claim
from engine.papers.plot import svg


@dataclass(frozen=True)
class Drawn:
    """What came out: lines over evenly spaced points, the first of which is called `first`. `raw`: what else is kept
    with the figures."""

    series: Mapping[str, Sequence[float]]
    claims: Sequence[Claim]
    points: Sequence[str]  # what each point stands for, for the table
    x: str
    y: str
    first: int = 1
    notes: str = ""
    table_only: Sequence[str] = ()  # lines that would flatten all others
    raw: Any = None


class About(Protocol):
    """What a page says of a figure, whoever drew it."""

    @property
    def name(self) -> str: ...
    @property
    def paper(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def scale(self) -> str: ...
    @property
    def why(self) -> str: ...


def write(about: About, drawn: Drawn, folder: Path, command: str, where: str) -> Sequence[Claim]:
    """Write the page, the plot and the figures; the claims."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{about.paper}-{about.name}"
    title = f"{about.paper} {about.name}"
    plotted = {line: v for line, v in drawn.series.items() if line not in drawn.table_only}
    (folder / f"{name}.svg").write_text(svg(title, plotted, drawn.x, drawn.y, first=drawn.first))
    made = page.commit()
    written = f"`{command}` with commit {made}, {where}"
    (folder / f"{name}.md").write_text(_page(about, drawn, name, written))
    raw = {
        **page.record(drawn.claims, made),
        "figure": about.name,
        "points": list(drawn.points),
        "series": {line: [round(v, 6) for v in values] for line, values in drawn.series.items()},
        **({"runs": drawn.raw} if drawn.raw is not None else {}),
    }
    (folder / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    return drawn.claims


def _page(about: About, drawn: Drawn, name: str, written: str) -> str:
    lines = [
        f"# {about.paper}, {about.name.replace('fig', 'figure ')}: {about.title}",
        "",
        f"Written by {written}. Scale: {about.scale}.",
        "",
        *page.judged(drawn.claims),
    ]
    if about.why and not all(claim.holds for claim in drawn.claims):
        lines += [about.why, ""]
    if drawn.notes:
        lines += [drawn.notes, ""]
    names = list(drawn.series)
    lines += [
        f"![{about.title}]({name}.svg)",
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
