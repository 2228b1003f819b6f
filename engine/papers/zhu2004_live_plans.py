"""Zhu et al. 2004, figures 13 to 16 on this engine: rows in between and results over time, while a better plan takes over.

Four lines over the same input: the old plan alone, the new plan alone, and both ways from one to the other. Under the *low*
configuration ticks are mostly idle, under the *high* one the old plan falls behind. Rows in between are those of several
inputs that are kept, and rows of input that were due and are in no tick yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import mean

from engine.papers import probe
from engine.papers.drawn import Drawn
from engine.papers.figure import Claim, claim, ours
from engine.papers.live import LiveLine, LiveRun
from engine.papers.live_figure import LiveFigure, Runner
from engine.papers.paced import Chain
from engine.papers.zhu2004 import PAPER
from engine.papers.zhu2004_live import OLD_ORDER

BETTER_ORDER = "(((b c) d) a)"
AT_S = 10.0
EARLY_S = 10.0  # the paper's "initial stage of migration"
LIVE_S, LONG_S = 30.0, 50.0
PATIENCE_S = 20.0  # the old plan may stay behind so much longer than there is input
LINES = {"MS": "moving", "PT": "parallel", "New": "", "Old": ""}
Runs = Mapping[str, LiveRun]


@dataclass(frozen=True)
class Setting:
    """Rows a second of each stream, keys of each hop, and the window."""

    rate: float
    keys: tuple[int, int, int]
    window_s: float

    def chain(self, live_s: float) -> Chain:
        # Nothing is there at the beginning, as in the paper.
        return Chain((self.rate,) * 4, self.keys, self.window_s, 0.5, live_s)


LOW = Setting(1000.0, (5000, 25_000, 25_000), 5.0)
OVERLOAD = 1.5  # the high configuration needs so many times the time that there is
HIGH_RATE, HIGH_WINDOW_S, HIGH_OTHERS = 5000.0, 5.0, (0.5, 0.025)


def low(run: Runner) -> Setting:
    return LOW


def high(run: Runner) -> Setting:
    """As high for this machine as the paper's was for its own."""
    partners = probe.partners_for(OVERLOAD, probe.row_s(run), HIGH_RATE, HIGH_OTHERS)
    near = HIGH_RATE * HIGH_WINDOW_S
    first, second, third = (round(near / n) for n in (partners, *HIGH_OTHERS))
    return Setting(HIGH_RATE, (first, second, third), HIGH_WINDOW_S)


def lines(run: Runner, setting: Setting) -> dict[str, LiveRun]:
    """The four runs over one input."""
    chain = setting.chain(LONG_S if run.long else LIVE_S)
    found = {}
    for name, strategy in LINES.items():
        order = BETTER_ORDER if name == "New" else OLD_ORDER
        to = BETTER_ORDER if strategy else ""
        line = LiveLine(name, order, to, strategy, AT_S, patience_s=PATIENCE_S)
        found[name] = run(chain, line)
    return found


def seconds(ran: LiveRun) -> int:
    """Of a run, until its last tick."""
    return int(ran.ticks[-1].end_s - ran.begun_s) + 1


def between(ran: LiveRun) -> list[float]:
    """At the end of each second: rows in between that are kept, and rows of input that wait."""
    out, taken, kept, at = [], 0, 0, 0
    for second in range(1, seconds(ran) + 1):
        while at < len(ran.ticks) and ran.ticks[at].end_s <= ran.begun_s + second:
            taken, kept = taken + ran.ticks[at].rows_in, ran.ticks[at].kept_rows
            at += 1
        out.append(float(kept + max(0, ran.chain.due_rows(second) - taken)))
    return out


def rate(ran: LiveRun) -> list[float]:
    """Results that were committed in each second."""
    out = [0.0] * seconds(ran)
    for tick in ran.live:
        out[int(tick.end_s - ran.begun_s)] += tick.rows_out
    return out


def silence_s(ran: LiveRun) -> float:
    """The longest time between two commits with results, from the migration's begin on."""
    ends = [
        tick.end_s for tick in ran.ticks if tick.rows_out and tick.end_s >= ran.begun_s + AT_S - 2
    ]
    return max((b - a for a, b in pairwise(ends)), default=0.0)


def part(values: Sequence[float], start_s: float, end_s: float) -> list[float]:
    return list(values[int(start_s) : int(end_s)])


def over_s(ran: LiveRun) -> float:
    """When the migration was over, by the clock; infinite where it was not while the run lasted."""
    if not ran.done:
        return inf
    ends = [end for _, _, end, _ in ran.action["records"] if end is not None]
    return float(max(ends)) - ran.begun_s


def total(ran: LiveRun, until_s: float) -> int:
    """Results by then."""
    return sum(tick.rows_out for tick in ran.live if tick.end_s <= ran.begun_s + until_s)


def _drawn(
    run: Runner, found: Mapping[str, list[float]], y: str, claims: Sequence[Claim], ran: Runs
) -> Drawn:
    longest = max(map(len, found.values()))
    return Drawn(
        found,
        claims,
        [f"{n + 1} s" for n in range(longest)],
        "second",
        y,
        notes=_about(ran),
        raw=[one.as_json() for one in ran.values()],
    )


def _about(ran: Runs) -> str:
    """What a reader needs to judge the figure by."""
    ends = ", ".join(
        f"{one.ticks[-1].end_s - one.begun_s:.1f} s ({name})" for name, one in ran.items()
    )
    rows = {one.line.name: sum(tick.rows_out for tick in one.ticks) for one in ran.values()}
    whole = [name for name, one in ran.items() if one.whole]
    return (
        f"Moving state: {_took(ran['MS'])}. Parallel track: {_took(ran['PT'])}. Last ticks after {ends}; results of those that came to the end of the input: "
        f"{', '.join(f'{rows[name]:,} ({name})' for name in whole)}."
    )


def _took(ran: LiveRun) -> str:
    if not ran.done:
        return "not over when the run's time was"
    actual = ran.action["actual"]
    return f"{actual['seconds']:.2f} s, of which no tick ran for {actual['pause_s']:.2f} s"


def _same(ran: Runs) -> Claim:
    """Whoever has taken in all has made the same results."""
    rows = {sum(tick.rows_out for tick in one.ticks) for one in ran.values() if one.whole}
    return ours(
        "every line that came to the end of the input has as many results",
        ", ".join(f"{n:,}" for n in sorted(rows)),
        len(rows) == 1,
    )


# -- 13 and 14: low --------------------------------------------------------------------------------------


def _fig13(run: Runner) -> Drawn:
    ran = lines(run, low(run))
    found = {name: between(one) for name, one in ran.items()}
    end = len(found["New"])
    settled = {name: _settled(found[name], found["New"]) for name in ("MS", "PT")}
    whole = {name: mean(part(values, 5, end)) for name, values in found.items()}
    before = [mean(part(found[name], 5, 9)) for name in ("MS", "PT", "Old")]
    return _drawn(
        run,
        found,
        "rows in between",
        [
            claim(
                "the new plan has far fewer rows in between than the old one",
                f"{whole['New']:,.0f} against {whole['Old']:,.0f} on average",
                whole["New"] < 0.6 * whole["Old"],
            ),
            claim(
                "until 10 s both migrating lines are the old plan's",
                f"from 5 to 9 s: {', '.join(f'{n:,.0f}' for n in before)} (MS, PT, Old)",
                max(before) < 1.2 * min(before),
            ),
            claim(
                "moving state has the new plan's count earlier than the parallel track",
                f"from {settled['MS']} s against {settled['PT']} s on",
                settled["MS"] <= settled["PT"],
            ),
            _same(ran),
        ],
        ran,
    )


def _settled(values: Sequence[float], new: Sequence[float]) -> int:
    """The second from which on a line stays with the new plan's, to a half; the last if it never does."""
    away = [n for n in range(min(len(values), len(new))) if values[n] > 1.5 * new[n]]
    return max(away) + 2 if away else 0


def _fig14(run: Runner) -> Drawn:
    ran = lines(run, low(run))
    found = {name: rate(one) for name, one in ran.items()}
    sums = {name: sum(part(values, 9, 20)) for name, values in found.items()}
    quiet = {name: silence_s(one) for name, one in ran.items()}
    pause = float(ran["MS"].action["actual"]["pause_s"])
    return _drawn(
        run,
        found,
        "results a second",
        [
            claim(
                "no strategy has a strong advantage in output rate",
                f"results from 10 to 20 s: {', '.join(f'{n:,.0f} ({name})' for name, n in sums.items())}",
                max(sums.values()) - min(sums.values()) <= 0.1 * max(sums.values()),
            ),
            claim(
                "the silence of moving state is short enough to be neglected",
                f"no tick for {pause:.2f} s; the longest time without a result is {quiet['MS']:.2f} s, without a migration {quiet['Old']:.2f} s",
                quiet["MS"] <= 2 * quiet["Old"],
            ),
        ],
        ran,
    )


# -- 15 and 16: high -------------------------------------------------------------------------------------


def _fig15(run: Runner) -> Drawn:
    ran = lines(run, high(run))
    found = {name: between(one) for name, one in ran.items()}
    last = int(ran["New"].chain.end_s)
    later = {name: mean(part(values, last - 10, last)) for name, values in found.items()}
    early = {name: mean(part(values, AT_S, AT_S + EARLY_S)) for name, values in found.items()}
    ends = {name: one.ticks[-1].end_s - one.begun_s for name, one in ran.items()}
    return _drawn(
        run,
        found,
        "rows in between",
        [
            claim(
                "the new plan and both migrations do far better than the old plan",
                f"from {last - 10} to {last} s: {', '.join(f'{n:,.0f} ({name})' for name, n in later.items())}",
                max(later["MS"], later["PT"], later["New"]) < 0.5 * later["Old"],
            ),
            claim(
                "the parallel track has fewer rows in between at first",
                f"from 10 to 20 s: {early['PT']:,.0f} (PT) against {early['MS']:,.0f} (MS)",
                early["PT"] < early["MS"],
            ),
            claim(
                "moving state's migration is over first, and its run ends no later",
                f"over at {over_s(ran['MS']):.1f} against {over_s(ran['PT']):.1f} s; runs end at {ends['MS']:.1f} and {ends['PT']:.1f} s",
                over_s(ran["MS"]) < over_s(ran["PT"]) and ends["MS"] <= ends["PT"] + 1,
            ),
            _same(ran),
        ],
        ran,
    )


def _fig16(run: Runner) -> Drawn:
    ran = lines(run, high(run))
    found = {name: rate(one) for name, one in ran.items()}
    whole = {name: total(one, one.chain.end_s) for name, one in ran.items()}
    early = {name: mean(part(values, AT_S, AT_S + EARLY_S)) for name, values in found.items()}
    quiet = {name: silence_s(one) for name, one in ran.items()}
    return _drawn(
        run,
        found,
        "results a second",
        [
            claim(
                "the old plan falls far behind",
                f"results while there is input: {', '.join(f'{n:,} ({name})' for name, n in whole.items())}",
                whole["Old"] < 0.6 * whole["New"],
            ),
            claim(
                "the parallel track has a higher output rate at first",
                f"from 10 to 20 s: {early['PT']:,.0f} (PT) against {early['MS']:,.0f} (MS) a second",
                early["PT"] > early["MS"],
            ),
            claim(
                "moving state is silent for seconds",
                f"longest time without a result: {', '.join(f'{n:.2f} s ({name})' for name, n in quiet.items())}",
                quiet["MS"] > 1.5 * quiet["Old"],
            ),
        ],
        ran,
    )


_GOES_ON = (
    "Here ticks go on with the old plan while states are computed, and results with them: what stands still is the last bit and the commit. "
    "Each side job ends at a boundary between two ticks, so under an overload it would wait for some of the long ticks that still do the old "
    "plan's work. There ticks wait for all of it, as in the paper: so it is where it is predicted to take no longer than a tick, and costs "
    "less. States hold what a window holds however far behind the query is, so computing them is not what an overload makes long. The "
    "parallel track waits for the window alone, counted in event time; its ticks do both plans' work."
)
_HIGH = (
    "5000 rows a second, W 5 s, 250 × and 2.5 × those of set 2 of section 6.3, and so many partners of a row of B in A that the old plan needs one and a half times the time that there is, "
    "by what a row in between was measured to take just before"
)
_SCALE = (
    "100 × and 5 × those of set 1 of section 6.3, and reductions 1/500 of its own: a row has as many partners as in the paper, "
    "a window 500 times as many rows"
)
FIGURES: Sequence[LiveFigure] = (
    LiveFigure("live-fig13", PAPER, "Rows in between, low configuration, on this engine",
               f"1000 rows a second, W 5 s, {_SCALE}", _fig13, _GOES_ON),
    LiveFigure("live-fig14", PAPER, "Output rate, low configuration, on this engine",
               f"1000 rows a second, W 5 s, {_SCALE}", _fig14, _GOES_ON),
    LiveFigure("live-fig15", PAPER, "Rows in between, high configuration, on this engine",
               _HIGH, _fig15, _GOES_ON),
    LiveFigure("live-fig16", PAPER, "Output rate, high configuration, on this engine",
               _HIGH, _fig16, _GOES_ON),
)  # fmt: skip
