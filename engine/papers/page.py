"""A figure as a page: what was run, the claims with what was measured, a table, a plot; and the raw figures."""

from __future__ import annotations

import json
from pathlib import Path

from engine.papers.figure import Claim, Figure
from engine.papers.lines import Run
from engine.papers.plot import svg


def write(figure: Figure, runs: list[Run], folder: Path, command: str) -> list[Claim]:
    """Write it; the claims."""
    claims = list(figure.judge(runs))
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{figure.paper}-{figure.name}"
    (folder / f"{name}.svg").write_text(_plot(figure, runs))
    (folder / f"{name}.md").write_text(_page(figure, runs, claims, f"{name}.svg", command))
    raw = json.dumps({"figure": figure.name, "runs": [run.as_json() for run in runs]}, indent=1)
    (folder / f"{name}.json").write_text(raw + "\n")
    return claims


def verdict(claims: list[Claim]) -> str:
    held = sum(claim.holds for claim in claims)
    return "the claims hold" if held == len(claims) else f"{held} of {len(claims)} claims hold"


def _plot(figure: Figure, runs: list[Run]) -> str:
    title = f"{figure.paper} {figure.name}"
    if figure.plots == "memory":
        series = {
            f"{run.line.name}, node {node}" if run.line.nodes > 1 else run.line.name: [
                float(nodes[node]) for nodes in run.memory
            ]
            for run in runs
            for node in range(run.line.nodes)
        }
        return svg(title, series, "minute", "bytes of state in memory")
    series = {run.line.name: [float(n) for n in run.results] for run in runs}
    return svg(title, series, "minute", "results so far")


def _page(figure: Figure, runs: list[Run], claims: list[Claim], plot: str, command: str) -> str:
    first = runs[0]
    lines = [
        f"# {figure.paper}, {figure.name.replace('fig', 'figure ')}: {figure.title}",
        "",
        f"Written by `{command}`. Scale: {figure.scale}. {len(first.results)} minutes run on the first line.",
        "",
        f"**Verdict: {verdict(claims)}.**",
        "",
        "| the paper's claim | measured here | |",
        "|---|---|---|",
        *(
            f"| {c.text} | {c.measured} | {'holds' if c.holds else '**does not hold**'} |"
            for c in claims
        ),
        "",
    ]
    if figure.why and not all(claim.holds for claim in claims):
        lines += [figure.why, ""]
    lines += [
        f"![{figure.title}]({plot})",
        "",
        "| line | nodes | budget MB | results in the run | spills | moves | tick s, median | CPU s in ticks | owed, rows | clean-up s | clean-up CPU s by node | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(run) for run in runs),
        "",
    ]
    return "\n".join(lines)


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
