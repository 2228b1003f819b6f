"""`python run.py reproduce`: the papers' figures on this engine, with a verdict on each claim.

A figure is known by its page's name (`zhu2004-fig9`), and by the short one where no figure before it has that. Figures of the
simulator need no Spark.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import SettingError
from engine.papers import (
    drift,
    liu2005,
    liu2005_moves,
    live_figure,
    page,
    simulated,
    zhu2004,
    zhu2004_live,
    zhu2004_live_plans,
    zhu2004_plans,
)
from engine.papers.figure import Claim, Figure
from engine.papers.lines import Run, run_line
from engine.papers.live import NODES
from engine.papers.live_figure import LiveFigure, Runner
from engine.papers.simulated import Simulation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "data" / "papers"
PAGES = ROOT / "docs" / "papers"
MOST_NODES = 5  # of liu2005's lines
Drawable = Figure | LiveFigure | Simulation
Done = dict[str, Run]  # by what a line runs
FIGURES: Sequence[Drawable] = (
    *liu2005.FIGURES,
    *liu2005_moves.FIGURES,
    *drift.FIGURES,
    *zhu2004_live.FIGURES,
    *zhu2004_live_plans.FIGURES,
    *zhu2004.FIGURES,
    *zhu2004_plans.FIGURES,
)


def full_name(figure: Drawable) -> str:
    """As its page is called."""
    return f"{figure.paper}-{figure.name}"


def known() -> dict[str, Drawable]:
    """Figures by every name that they have."""
    found: dict[str, Drawable] = {}
    for figure in FIGURES:
        found.setdefault(figure.name, figure)
    return found | {full_name(figure): figure for figure in FIGURES}


def show() -> str:
    """All figures, a line each."""
    mine = known()
    names = [f.name if mine[f.name] is f else full_name(f) for f in FIGURES]
    return "\n".join(
        f"{name:<13} {figure.paper:<9} {figure.title}{_where(figure)}"
        for name, figure in zip(names, FIGURES, strict=True)
    )


def _where(figure: Drawable) -> str:
    return " (simulated)" if isinstance(figure, Simulation) else ""


def find(names: Sequence[str]) -> list[Drawable]:
    mine = known()
    found = []
    for name in names:
        if name not in mine:
            close = difflib.get_close_matches(name, mine, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(mine)}"
            raise SettingError(f"no figure {name!r}", where="reproduce", hint=hint)
        found.append(mine[name])
    return found


def reproduce(names: Sequence[str], *, long: bool, out: Path | None) -> int:
    """Run figures one after the other, those by the clock on a Spark session with as many slots as they have nodes; how
    many have a claim that does not hold."""
    figures = find(names) if names else list(FIGURES)
    missed, done = 0, Done()
    for kind, nodes in ((Figure, MOST_NODES), (LiveFigure, NODES), (Simulation, 0)):
        mine = [figure for figure in figures if isinstance(figure, kind)]
        with _session(nodes if mine else 0) as spark:
            runner = Runner(spark, WORK, long) if spark is not None else None
            for figure in mine:
                claims = _drawn(figure, runner, long, out or PAGES, done)
                missed += not all(claim.holds for claim in claims)
                print(f"{figure.name}: {page.verdict(claims)}", flush=True)
    return missed


@contextmanager
def _session(nodes: int) -> Iterator[SparkSession | None]:
    """For so many nodes; none for none."""
    if not nodes:
        yield None
        return
    from engine.session import start_session

    master, logs = f"local[{nodes + 1},4]", WORK / "logs"
    spark = start_session(
        master=master, nodes=nodes, app_name="spillway papers", log_dir=logs, light=True
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _drawn(
    figure: Drawable, runner: Runner | None, long: bool, out: Path, done: Done
) -> Sequence[Claim]:
    """One figure with its page."""
    if isinstance(figure, Simulation):
        return simulated.write(figure, out, f"{zhu2004.COMMAND} {figure.name}")
    assert runner is not None
    command = f"python run.py reproduce {figure.name}{' --long' if long else ''}"
    if isinstance(figure, LiveFigure):
        print(f"{figure.name}:", file=sys.stderr)
        return live_figure.write(figure, runner, out, command)
    feed = figure.feed(long)
    runs = []
    for line in figure.lines(feed, long):
        # Figures that show the same line run it once.
        about = feed.key, replace(line, name="", policy={}), json.dumps(line.policy, sort_keys=True)
        key = repr(about)
        if key not in done:
            done[key] = run_line(runner.spark, line, feed, WORK)
        runs.append(replace(done[key], line=line))
        print(f"{figure.name}: {line.name}: {_said(runs[-1])}", file=sys.stderr)
    return page.write(figure, feed, runs, out, command)


def _said(run: Run) -> str:
    return f"{run.minutes:g} minutes, {run.results[-1]:,} results" if run.results else "nothing"
