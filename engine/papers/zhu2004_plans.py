"""Zhu et al. 2004, figures 13 to 16: rows in between and results over time, while an optimiser's better plan takes over.

Four lines each: the old plan alone, the new plan alone, and both ways from one to the other at 10 s. The *low*
configuration leaves the processor idle, under the *high* one it falls behind with the old plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import mean

from control.migration.lengths import moving_s
from control.migration.trees import Tree
from control.simulate.migrate import Ran, Strategy, run
from control.simulate.tracks import poisson
from engine.papers.drawn import Drawn
from engine.papers.figure import Claim, claim
from engine.papers.simulated import Simulation
from engine.papers.zhu2004 import MASKS, OLD, PACE, PAPER, TIMES, model

BETTER: Tree = (((1, 2), 3), 0)
AT_S, UNTIL_S = 10.0, 50.0
SAMPLE_S = 1.0


@dataclass(frozen=True)
class Setting:
    """One configuration of table 2, section 6.3."""

    rate: float
    reduction: tuple[float, float, float]
    window_s: float


LOW = Setting(10.0, (0.1, 0.02, 0.02), 1.0)
HIGH = Setting(20.0, (0.2, 0.05, 0.05), 2.0)


def _go(setting: Setting, tree: Tree, strategy: Strategy | None, clean_all: bool) -> Ran:
    arrivals = poisson([setting.rate] * 4, MASKS, setting.reduction, UNTIL_S, 1)
    return run(
        arrivals, tree, setting.window_s, PACE, new=BETTER if strategy else None,
        strategy=strategy, at_s=AT_S, sample_s=SAMPLE_S, clean_all=clean_all,
    )  # fmt: skip


@cache
def lines(setting: Setting) -> dict[str, Ran]:
    """The four runs over one input."""
    ways: list[tuple[str, Tree, Strategy | None]] = [
        ("MS", OLD, "moving"),
        ("PT", OLD, "parallel"),
        ("New", BETTER, None),
        ("Old", OLD, None),
    ]
    return {name: _go(setting, tree, strategy, False) for name, tree, strategy in ways}


@cache
def cleaned(setting: Setting) -> Ran:
    """Moving state by the paper's main text, without its footnote 4."""
    return _go(setting, OLD, "moving", True)


def between(ran: Ran) -> list[float]:
    """Rows in between: kept or waiting inside, and what waits to be let in."""
    return [float(s.between_rows + s.waiting_rows) for s in ran.samples]


def rate(ran: Ran) -> list[float]:
    """Results of each second."""
    totals = [0, *(s.results for s in ran.samples)]
    return [float(b - a) / SAMPLE_S for a, b in pairwise(totals)]


def part(values: Sequence[float], start_s: float, end_s: float) -> list[float]:
    return list(values[int(start_s / SAMPLE_S) : int(end_s / SAMPLE_S)])


def _counts(setting: Setting, claims: Sequence[Claim], found: dict[str, list[float]]) -> Drawn:
    longest = max(map(len, found.values()))
    return Drawn(
        found,
        claims,
        [f"{n + 1} s" for n in range(longest)],
        "second",
        "rows in between",
        notes=_about(setting),
    )


def _about(setting: Setting) -> str:
    """What a reader needs to judge the figure by."""
    ran = lines(setting)
    return (
        f"Moving state: {ran['MS'].stage_s * 1e3:.1f} ms for {ran['MS'].recomputed_rows} rows (by the model "
        f"{_predicted(setting) * 1e3:.1f} ms); with all that has accumulated put through the old plan first, "
        f"{cleaned(setting).clean_s:.2f} s before that. Parallel track: {ran['PT'].stage_s:.2f} s. "
        f"All done after {', '.join(f'{r.end_s:.1f} s ({name})' for name, r in ran.items())}; {len(ran['New'].results):,} results in each."
    )


def _predicted(setting: Setting) -> float:
    one = model([setting.rate] * 4, setting.reduction, setting.window_s)
    return moving_s(one, OLD, BETTER, TIMES)


def _fig13() -> Drawn:
    found = {name: between(ran) for name, ran in lines(LOW).items()}
    whole = {name: mean(part(values, 2, 50)) for name, values in found.items()}
    settled = {
        name: next(n for n in range(10, 50) if found[name][n : n + 5] == found["New"][n : n + 5])
        for name in ("MS", "PT")
    }
    return _counts(
        LOW,
        [
            claim(
                "the new plan has far fewer rows in between than the old one",
                f"{whole['New']:.1f} against {whole['Old']:.1f} on average",
                whole["New"] < 0.6 * whole["Old"],
            ),
            claim(
                "until 10 s both migrating lines are the old plan's",
                "they are the same rows",
                found["MS"][:9] == found["PT"][:9] == found["Old"][:9],
            ),
            claim(
                "moving state has the new plan's count earlier than the parallel track",
                f"from {settled['MS'] + 1} s against {settled['PT'] + 1} s on",
                settled["MS"] <= settled["PT"],
            ),
        ],
        found,
    )


def _fig14() -> Drawn:
    found = {name: rate(ran) for name, ran in lines(LOW).items()}
    sums = {name: sum(part(values, 9, 20)) for name, values in found.items()}
    quiet = {name: ran.silence_s for name, ran in lines(LOW).items()}
    return Drawn(
        found,
        [
            claim(
                "no strategy has a strong advantage in output rate",
                f"results from 10 to 20 s: {sums['MS']:.0f} (MS), {sums['PT']:.0f} (PT), {sums['New']:.0f} (New)",
                max(sums.values()) - min(sums.values()) <= 0.1 * max(sums.values()),
            ),
            claim(
                "the silence of moving state is short enough to be neglected",
                f"{lines(LOW)['MS'].stage_s * 1e3:.1f} ms; the longest time without a result is {quiet['MS']:.2f} s, without any migration {quiet['Old']:.2f} s",
                lines(LOW)["MS"].stage_s < 0.05 * quiet["Old"],
            ),
        ],
        [f"{n + 1} s" for n in range(max(map(len, found.values())))],
        "second",
        "results a second",
        notes=_about(LOW),
    )


def _fig15() -> Drawn:
    found = {name: between(ran) for name, ran in lines(HIGH).items()}
    ran = lines(HIGH)
    early = {name: mean(part(values, 10, 14)) for name, values in found.items()}
    later = {name: mean(part(values, 20, 50)) for name, values in found.items()}
    return _counts(
        HIGH,
        [
            claim(
                "the new plan and both migrations do far better than the old plan",
                f"rows in between from 20 to 50 s: {', '.join(f'{v:,.0f} ({k})' for k, v in later.items())}",
                max(later["MS"], later["PT"], later["New"]) < 0.5 * later["Old"],
            ),
            claim(
                "the parallel track has fewer rows in between at first",
                f"from 10 to 14 s: {early['PT']:,.0f} (PT) against {early['MS']:,.0f} (MS)",
                early["PT"] < early["MS"],
            ),
            claim(
                "moving state's migration is over first, and its run ends no later",
                f"after {ran['MS'].stage_s:.2f} against {ran['PT'].stage_s:.2f} s; runs end at {ran['MS'].end_s:.1f} and {ran['PT'].end_s:.1f} s",
                ran["MS"].stage_s < ran["PT"].stage_s and ran["MS"].end_s <= ran["PT"].end_s + 0.1,
            ),
        ],
        found,
    )


def _fig16() -> Drawn:
    found = {name: rate(ran) for name, ran in lines(HIGH).items()}
    ran = lines(HIGH)
    early = {name: mean(part(values, 10, 14)) for name, values in found.items()}
    whole = {name: sum(part(values, 0, 50)) for name, values in found.items()}
    return Drawn(
        found,
        [
            claim(
                "the old plan falls far behind",
                f"results in 50 s: {', '.join(f'{v:,.0f} ({k})' for k, v in whole.items())}",
                whole["Old"] < 0.6 * min(whole["MS"], whole["PT"], whole["New"]),
            ),
            claim(
                "the parallel track has a higher output rate at first",
                f"from 10 to 14 s: {early['PT']:,.0f} (PT) against {early['MS']:,.0f} (MS) a second",
                early["PT"] > early["MS"],
            ),
            claim(
                "moving state is silent for seconds",
                f"longest time without a result: {ran['MS'].silence_s:.2f} s (MS), {ran['PT'].silence_s:.2f} s (PT)",
                ran["MS"].silence_s > 1.0,
            ),
        ],
        [f"{n + 1} s" for n in range(max(map(len, found.values())))],
        "second",
        "results a second",
        notes=_about(HIGH),
    )


_SILENCE = (
    "States hold what a window holds, some hundred rows, however far behind the processor is: joining them again takes "
    "a fraction of a second, and the new plan then catches up. Had all that accumulated to go through the old plan first, it "
    "would take seconds, but not silent ones. The paper's silence of ten seconds needs states that grew while the processor fell "
    "behind, as they may where operators are scheduled one by one with queues between them; here each row goes through the "
    "whole plan before the next. It is the parallel track that is slower at first: an overloaded processor has two plans to do, "
    "and holds what the new one makes."
)
_SCALE_LOW = "the paper's set 1 of section 6.3 (10 rows a second, W 1 s), T_j 20 µs and T_s 10 µs"
_SCALE_HIGH = "the paper's set 2 of section 6.3 (20 rows a second, W 2 s), T_j 20 µs and T_s 10 µs"
FIGURES: Sequence[Simulation] = (
    Simulation("fig13", PAPER, "Rows in between, low configuration", _SCALE_LOW, _fig13),
    Simulation("fig14", PAPER, "Output rate, low configuration", _SCALE_LOW, _fig14),
    Simulation(
        "fig15", PAPER, "Rows in between, high configuration", _SCALE_HIGH, _fig15, _SILENCE
    ),
    Simulation("fig16", PAPER, "Output rate, high configuration", _SCALE_HIGH, _fig16, _SILENCE),
)
