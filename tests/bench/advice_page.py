"""What advice.py leaves behind: two verdicts with the tables behind them, a plot, the raw figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from pathlib import Path
from statistics import median

from control.cost.recalibrate import Estimate
from engine.papers.plot import svg
from tests.bench.advice_runs import BAD, BEGUN, GOOD, LARGE, OTHERS, Ran, Setting
from tests.bench.report import machine

NEAR, NEAR_LEAST, REGRET_MOST = 0.25, 0.8, 0.10


@dataclass(frozen=True)
class At:
    """One setting: what each strategy cost by its runs, in row·s; how often each was recommended."""

    setting: Setting
    runs: Sequence[Ran]

    @property
    def strategies(self) -> list[str]:
        return list(dict.fromkeys(ran.way for ran in self.runs if ran.way != BEGUN))

    def of(self, way: str) -> list[Ran]:
        return [ran for ran in self.runs if ran.way == way]

    def costs(self, way: str) -> list[float]:
        """Each run's lateness less the median one of the new plan from the start."""
        begun = median(ran.seen.late_row_s for ran in self.of(BEGUN))
        return [ran.seen.late_row_s - begun for ran in self.of(way)]

    @property
    def cost(self) -> dict[str, float]:
        return {way: median(self.costs(way)) for way in self.strategies}

    @property
    def noise(self) -> float:
        """How far runs with the new plan from the start are apart."""
        values = [ran.seen.late_row_s for ran in self.of(BEGUN)]
        return max(values) - min(values)

    @property
    def advised(self) -> str:
        """What was recommended most often."""
        votes = Counter(ran.told.recommended for ran in self.runs if ran.told is not None)
        return votes.most_common(1)[0][0]

    @property
    def verdict(self) -> str:
        """Whether the advice is good enough; runs that differ by no more than those that are alike tell nothing."""
        if self.advised not in self.cost:
            return "not run"
        if self.regret <= REGRET_MOST:
            return "reached"
        apart = self.cost[self.advised] - self.cost[self.best]
        return "within the noise" if apart <= self.noise else "**missed**"

    @property
    def best(self) -> str:
        return min(self.cost, key=lambda way: self.cost[way])

    @property
    def regret(self) -> float:
        """How much more the advised strategy costs than the best one, as a share of that."""
        best = self.cost[self.best]
        more = self.cost.get(self.advised, best) - best
        return more / best if best > 0 else inf if more else 0.0


def settings(runs: Sequence[Ran]) -> list[At]:
    """All runs that count, setting by setting."""
    count = [ran for ran in runs if ran.number >= 0]
    known = dict.fromkeys(ran.setting for ran in count)
    return [At(setting, [ran for ran in count if ran.setting == setting]) for setting in known]


def near(runs: Sequence[Ran]) -> float:
    """The share of runs whose length was predicted within a quarter."""
    return sum(abs(ran.ratio - 1) <= NEAR for ran in runs) / len(runs)


def lengths(runs: Sequence[Ran]) -> list[str]:
    """The first result: a line for each strategy, and one for all."""
    moved = [ran for ran in runs if ran.number >= 0 and ran.way != BEGUN]
    out = [
        "| strategy | runs | within 25 % | wanted | | predicted / measured: median (range) | results stand still s |"
    ]
    out.append("|---|---|---|---|---|---|---|")
    for way in (*dict.fromkeys(ran.way for ran in moved), "together"):
        some = [ran for ran in moved if way in (ran.way, "together")]
        ratios = [ran.ratio for ran in some]
        share = near(some)
        word = "reached" if share >= NEAR_LEAST else "**missed**"
        pause = median(ran.pause_s for ran in some)
        out.append(
            f"| {way} | {len(some)} | {share:.0%} | ≥ {NEAR_LEAST:.0%} | {word} | {median(ratios):.2f} "
            f"({min(ratios):.2f}–{max(ratios):.2f}) | {pause:.2f} |"
        )
    return out


def costs(found: Sequence[At]) -> list[str]:
    """The second result: a line for each setting."""
    ways = found[0].strategies
    head = "".join(f" {way}: length s (predicted), cost k row·s (range) |" for way in ways)
    out = [f"| setting |{head} advised | best | regret | | noise k row·s |"]
    out.append("|---|" + "---|" * (len(ways) + 5))
    for one in found:
        cells = "".join(f" {_cell(one, way)} |" for way in ways)
        out.append(
            f"| {one.setting.name} |{cells} {one.advised} | {one.best} | {'∞' if isinf(one.regret) else f'{one.regret:.0%}'} | {one.verdict} | "
            f"{one.noise / 1e3:,.1f} |"
        )
    return out


def _cell(one: At, way: str) -> str:
    runs = one.of(way)
    length = median(ran.length_s for ran in runs)
    said = median(ran.told.length_s for ran in runs if ran.told is not None)
    values = [cost / 1e3 for cost in one.costs(way)]
    waited = sum(ran.waited for ran in runs)
    how = f", ticks waited {waited} of {len(runs)} times" if waited else ""
    return f"{length:.2f} ({said:.2f}{how}), {median(values):,.1f} ({min(values):,.1f}–{max(values):,.1f})"


def page(runs: Sequence[Ran], known: Mapping[str, Estimate]) -> str:
    about, found = machine(), settings(runs)
    moved = [ran for ran in runs if ran.number >= 0 and ran.way != BEGUN]
    exact = all(ran.seen.check.exact for ran in runs)
    words = Counter(one.verdict for one in found)
    taught = {name: one for name, one in known.items() if one.count}
    return "\n".join(
        [
            "# Migrations: predicted and measured, and whether the advice is right",
            "",
            f"Written by `python -m tests.bench.advice`; {about['cores']} cores, {about['memory_gib']} GiB, commit "
            f"{about['commit']}. Four streams in a chain by the clock, ticks one after the other; "
            f"`{BAD}` to `{GOOD}`. Load: the share of the time that the old plan's rows in between take. "
            f"Large: a row has {LARGE[1]:g} partners on the last hop instead of {OTHERS[1]:g}. "
            f"{max(ran.number for ran in runs) + 1} rounds after {-min(ran.number for ran in runs)} lessons of each strategy.",
            "",
            "## How long a migration takes",
            "",
            f"Within 25 % in {near(moved):.0%} of {len(moved)} runs.",
            "",
            *lengths(runs),
            "",
            f"Learned: {', '.join(f'{name} {one.value:.3g}' for name, one in taught.items()) or 'nothing'}.",
            "",
            "## Which strategy is best",
            "",
            f"The advised strategy costs at most 10 % more than the best at {words['reached']} of {len(found)} settings, and at "
            f"{words['within the noise']} more the two are closer than runs that are alike. A cost is the lateness of all results that were due "
            "within the horizon, less that with the good order from the start; medians. Noise: how far runs of the latter are apart.",
            "",
            *costs(found),
            "",
            "![Cost of each strategy at each setting](advice.svg)",
            "",
            f"Every output was compared with DuckDB's as a multiset: {'all exact' if exact else '**WRONG**'}, {len(runs)} runs.",
            "",
        ]
    )


def plot(found: Sequence[At]) -> str:
    series = {way: [max(0.0, one.cost[way]) for one in found] for way in found[0].strategies}
    names = [f"{one.setting.window_s:g} s, {one.setting.load:g}" for one in found]
    return svg("Cost of a migration", series, "window, load", "row·s", names=names)


def write(runs: Sequence[Ran], known: Mapping[str, Estimate], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "advice.md"
    path.write_text(page(runs, known))
    (folder / "advice.svg").write_text(plot(settings(runs)))
    raw = {"machine": machine(), "runs": [ran.as_json() for ran in runs]}
    (folder / "advice.json").write_text(json.dumps(raw, indent=1) + "\n")
    return path
