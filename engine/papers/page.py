"""A figure as a page: what was run, the claims with what was measured, a table, a plot; and the raw figures.

A page says with which commit its runs were made, and counts the paper's claims and ours apart.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.papers.feed import SPEED, Feed
from engine.papers.figure import Claim, Figure
from engine.papers.lines import Run
from engine.papers.plot import svg

Value = TypeVar("Value")
ROOT = Path(__file__).resolve().parents[2]
SPILLS = (
    "Spills: a row is written to the checkpoint's disk in the tick that it comes in, whether it is spilled later or not. So a spill takes rows out "
    "of memory and writes none, which leaves out what the paper's machines spent on writing them then. Before the clean-up at the end of the "
    "input all files on disk left the operating system's cache: what is owed is read from the disk."
)


def write(
    figure: Figure, feed: Feed, runs: list[Run], folder: Path, command: str
) -> Sequence[Claim]:
    """Write it; the claims."""
    claims = list(figure.judge(runs))
    folder.mkdir(parents=True, exist_ok=True)
    name, made = f"{figure.paper}-{figure.name}", commit()
    (folder / f"{name}.svg").write_text(_plot(figure, runs))
    page = _page(figure, feed, runs, claims, f"{name}.svg", f"{command}", made)
    (folder / f"{name}.md").write_text(page)
    raw = {
        **record(claims, made),
        "figure": figure.name,
        "factor": feed.factor,
        "runs": [run.as_json() for run in runs],
    }
    (folder / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    return claims


def verdict(claims: Sequence[Claim]) -> str:
    """How many of the paper's claims hold, and how many of ours."""
    parts = []
    for whose, some in (
        ("the paper's claims", [claim for claim in claims if not claim.ours]),
        ("ours", [claim for claim in claims if claim.ours]),
    ):
        if some:
            parts.append(f"of {whose} {sum(claim.holds for claim in some)} of {len(some)} hold")
    return ", ".join(parts)


def record(claims: Sequence[Claim], made: str) -> dict[str, Any]:
    """What stands beside the figures: the commit that they were made with, and what was judged."""
    said = [{"text": c.said, "measured": c.measured, "holds": c.holds} for c in claims]
    return {"commit": made, "claims": said}


def commit() -> str:
    """Of this code, as far as git knows."""
    try:
        made = _git("rev-parse", "--short=12", "HEAD")
        return (
            f"{made} with changes" if _git("status", "--porcelain", "engine", "control") else made
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def judged(claims: Sequence[Claim]) -> list[str]:
    """The verdict and the table of claims."""
    return [
        f"**Verdict: {verdict(claims)}.**",
        "",
        "| the paper's claim, or (ours) | measured here | |",
        "|---|---|---|",
        *(
            f"| {c.said} | {c.measured} | {'holds' if c.holds else '**does not hold**'} |"
            for c in claims
        ),
        "",
    ]


def _plot(figure: Figure, runs: list[Run]) -> str:
    title = f"{figure.paper} {figure.name}"
    if figure.plots == "memory":
        series = {
            f"{run.line.name}, node {node}" if run.line.nodes > 1 else run.line.name: [
                float(nodes[node]) for nodes in _by_minute(run, run.memory)
            ]
            for run in runs
            for node in range(run.line.nodes)
        }
        return svg(title, series, "minute", "bytes of state in memory")
    series = {run.line.name: [float(n) for n in _by_minute(run, run.results)] for run in runs}
    return svg(title, series, "minute", "results so far")


def _by_minute(run: Run, values: Sequence[Value]) -> Sequence[Value]:
    """Of values by tick, those at the end of each minute."""
    return values[run.ticks_a_minute - 1 :: run.ticks_a_minute]


def _page(
    figure: Figure,
    feed: Feed,
    runs: list[Run],
    claims: list[Claim],
    plot: str,
    command: str,
    made: str,
) -> str:
    lines = [
        f"# {figure.paper}, {figure.name.replace('fig', 'figure ')}: {figure.title}",
        "",
        f"Written by `{command}` with commit {made}. {_scale(figure, feed)}",
        "",
        *judged(claims),
    ]
    if figure.why and not all(claim.holds for claim in claims):
        lines += [figure.why, ""]
    if any(run.count("spill") for run in runs):
        lines += [SPILLS, ""]
    lines += [
        f"![{figure.title}]({plot})",
        "",
        "| line | nodes | budget MB | results in the run | spills | moves | tick s, median | CPU s in ticks | owed, rows | clean-up s | clean-up CPU s by node | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(run) for run in runs),
        "",
    ]
    return "\n".join(lines)


def _scale(figure: Figure, feed: Feed) -> str:
    return (
        f"Scale: rows, tuple ranges and state × {feed.factor:g} of the paper's, a tick for {feed.tick_s:g} s of its "
        f"{feed.minutes} minutes; {figure.scale}. By the clock: had rows come at {SPEED:g} times the paper's rates, a tick each "
        f"{feed.clock_s:g} s."
    )


def _row(run: Run) -> str:
    ticks = sorted(run.seconds)
    cells = [
        run.line.name,
        str(run.line.nodes),
        f"{run.line.budget / 1e6:.2f}" if run.line.budget else "–",
        f"{run.results[-1]:,}" if run.results else "0",
        str(run.count("spill")),
        str(run.count("move")),
        f"{ticks[len(ticks) // 2]:.3f}" if ticks else "–",
        f"{run.cpu_s:.2f}",
        f"{run.cleanup_rows:,}",
        f"{run.cleanup_s:.2f}",
        ", ".join(f"{s:.2f}" for s in run.cleanup_cpu_s) or "–",
        run.stopped,
    ]
    return "| " + " | ".join(cells) + " |"
