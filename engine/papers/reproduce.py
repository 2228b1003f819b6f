"""`python run.py reproduce`: the papers' figures on this engine, with a verdict on each claim."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SettingError
from engine.papers import drift, liu2005, liu2005_moves, page
from engine.papers.figure import Figure
from engine.papers.lines import run_line

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "data" / "papers"
PAGES = ROOT / "docs" / "papers"
FIGURES: Sequence[Figure] = (
    *liu2005.FIGURES,
    *liu2005_moves.FIGURES,
    *drift.FIGURES,
)


def show() -> str:
    """All figures, a line each."""
    return "\n".join(f"{f.name:<7} {f.paper:<9} {f.title}" for f in FIGURES)


def find(names: Sequence[str]) -> list[Figure]:
    known = {figure.name: figure for figure in FIGURES}
    found = []
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
            raise SettingError(f"no figure {name!r}", where="reproduce", hint=hint)
        found.append(known[name])
    return found


def reproduce(names: Sequence[str], *, long: bool, out: Path | None) -> int:
    """Run figures one after the other on one Spark session; how many have a claim that does not hold."""
    from engine.session import start_session

    figures = find(names) if names else list(FIGURES)
    spark = start_session(
        master="local[6,4]", nodes=5, app_name="spillway papers", log_dir=WORK / "logs", light=True
    )
    spark.sparkContext.setLogLevel("ERROR")
    missed = 0
    try:
        for figure in figures:
            feed = figure.feed(long)
            runs = []
            for line in figure.lines(feed, long):
                runs.append(run_line(spark, line, feed, WORK))
                print(f"{figure.name}: {line.name}: {_said(runs[-1].results)}", file=sys.stderr)
            command = f"python run.py reproduce {figure.name}{' --long' if long else ''}"
            claims = page.write(figure, runs, out or PAGES, command)
            missed += not all(claim.holds for claim in claims)
            print(f"{figure.name}: {page.verdict(claims)}", flush=True)
    finally:
        spark.stop()
    return missed


def _said(results: Sequence[int]) -> str:
    return f"{len(results)} minutes, {results[-1]:,} results" if results else "nothing"
