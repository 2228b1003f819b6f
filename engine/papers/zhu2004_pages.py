"""The pages of Zhu et al. 2004 in docs/papers: `python -m engine.papers.zhu2004_pages [FIGURE…]`, no Spark.

`costs` is the plot of zhu2004-costs.md, whose text is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from control.migration.lengths import moving_s, printed_moving_s, span_s
from control.migration.model import Model
from engine.errors import SettingError
from engine.papers import zhu2004, zhu2004_plans
from engine.papers.page import verdict
from engine.papers.plot import svg
from engine.papers.reproduce import PAGES
from engine.papers.simulated import Simulation, write
from engine.papers.zhu2004 import COMMAND, NEW, OLD, SET_3, TIMES, model

FIGURES: Sequence[Simulation] = (*zhu2004.FIGURES, *zhu2004_plans.FIGURES)


def costs_plot() -> str:
    """Set 3: T_MS as printed and derived again, T_PT by eq. 4 and with the purge that is enough."""
    windows = [0.1 * n for n in range(21)]

    def line(of: Callable[[Model], float]) -> list[float]:
        return [0.0, *(of(model(*SET_3, w)) for w in windows[1:])]

    return svg(
        "zhu2004, set 3",
        {
            "T_MS as printed": line(lambda m: printed_moving_s(m, OLD, NEW, TIMES)),
            "T_MS derived again": line(lambda m: moving_s(m, OLD, NEW, TIMES)),
            "T_PT, lemma 2.2: 2W": [span_s(OLD, w) for w in windows],
            "T_PT, exact purge: W": [span_s(OLD, w, exact_purge=True) for w in windows],
        },
        "window, × 0.1 s",
        "seconds",
        first=0,
    )


def main(names: Sequence[str], out: Path = PAGES) -> int:
    """Write the pages of some figures, or of all; how many have a claim that does not hold."""
    known = ["costs", *(figure.name for figure in FIGURES)]
    for name in names:
        if name not in known:
            hint = f"there are: {', '.join(known)}"
            raise SettingError(f"no figure {name!r}", where="zhu2004", hint=hint)
    if not names or "costs" in names:
        (out / "zhu2004-costs.svg").write_text(costs_plot())
    missed = 0
    for figure in FIGURES:
        if not names or figure.name in names:
            claims = write(figure, out, f"{COMMAND} {figure.name}")
            missed += not all(claim.holds for claim in claims)
            print(f"{figure.name}: {verdict(list(claims))}", flush=True)
    return missed


if __name__ == "__main__":
    main(sys.argv[1:])
