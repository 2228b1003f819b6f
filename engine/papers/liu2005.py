"""Liu & Rundensteiner 2005, "Adapting State-Intensive Non-Blocking Queries over Distributed Environments".

Three streams joined on one key in 300 groups, for as many minutes as in the paper. One factor scales the paper's rows:
rates and tuple ranges, and with them the state that budgets are shares of. What the paper gives as a quotient of two figures
holds if ours is at least half of it (`as_much`). The figures about moving state are in liu2005_moves.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, claim, ours, state_bytes
from engine.papers.lines import Line, Run

NONE = {"policy": "none"}
PAPER = "liu2005"
SHORT, LONG = (
    0.5,
    30.0,
)  # times the paper's rows; the long ones have budgets of 50 MB a node and more
SAME = 0.98  # "almost the same" throughput, as a share of the best


def scaled(minutes: int, rate: float, tuple_range: int, long: bool, **knobs: str) -> Feed:
    """The paper's input by the factor."""
    factor = LONG if long else SHORT
    more = {"tuple_range": f"{tuple_range * factor:.0f}", **knobs}
    return Feed(minutes, rate * factor, more, factor=factor)


def as_much(measured: float, paper: float) -> bool:
    """At least half of the paper's quotient."""
    return measured >= paper / 2


def same_throughput(text: str, runs: Runs) -> Claim:
    """By the clock: an engine that falls behind the input, or stops for something, has less."""
    some = [run.throughput() for run in runs]
    best = max(some)
    shares = ", ".join(
        f"{one / best:.3f} ({run.line.name})" for one, run in zip(some, runs, strict=True)
    )
    late = ", ".join(f"{run.late_s():.2f}" for run in runs)
    return claim(
        text,
        f"results by the clock as shares of the best: {shares}; results are out {late} s after a tick's last row",
        best > 0 and min(some) >= SAME * best,
    )  # fmt: skip


def same_in_the_end(runs: Runs) -> Claim:
    rows = sorted({run.rows for run in runs if not run.stopped})
    return ours(
        "in the end, after clean-up, every line has all results",
        f"results of all lines: {', '.join(f'{n:,}' for n in rows)}",
        len(rows) == 1,
    )


def numbers(values: Sequence[int]) -> str:
    return ", ".join(f"{n:,}" for n in values)


def falling(values: Sequence[float]) -> bool:
    """Each less than the one before."""
    return all(a > b for a, b in pairwise(values))


# -- 6 and 7: partitioned parallel processing -------------------------------------------------------


def _fig6_feed(long: bool) -> Feed:
    return scaled(40, 50, 50_000, long, join_ratio="1")


def _fig6_lines(feed: Feed, long: bool) -> list[Line]:
    return [Line(f"M{n}", NONE, nodes=n) for n in range(1, 6)]


def _fig6(runs: Runs) -> list[Claim]:
    one, five = runs[0].throughput(), runs[4].throughput()
    return [
        same_throughput("more machines have a negligible effect on the throughput", runs),
        claim(
            "the throughput of five machines is slightly lower than that of one",
            f"{five / one:.4f} of it",
            0.95 <= five / one < 1,
        ),
        same_in_the_end(runs),
    ]


MINUTE_FULL = 25  # of one machine in the paper's figure 7: this is how its 200 MB become our bytes


def _fig7_feed(long: bool) -> Feed:
    return scaled(40, 100, 50_000, long, join_ratio="2")


def _fig7_lines(feed: Feed, long: bool) -> list[Line]:
    never = {"policy": "local_spill", "spill_percent": 0.0}
    budget = state_bytes(feed, MINUTE_FULL)
    return [Line(f"M{n}", never, nodes=n, budget=budget) for n in range(1, 6)]


def _fig7(runs: Runs) -> list[Claim]:
    ran = [run.minutes for run in runs]
    said = f"minutes run, M1 to M5: {', '.join(f'{n:g}' for n in ran)}"
    return [
        claim(
            "one machine stops for want of memory, and a second one makes the query last longer",
            said,
            bool(runs[0].stopped) and ran[1] > ran[0],
        ),
        claim(
            "two machines stop for want of memory, too, after about 35 minutes",
            said,
            bool(runs[1].stopped) and 33 <= ran[1] <= 37,
        ),
        claim(
            "four machines and five run all of the 40 minutes",
            said,
            not runs[3].stopped and not runs[4].stopped,
        ),
        same_throughput("with enough memory M4 and M5 have almost the same throughput", runs[3:]),
    ]


# -- 9 to 12: disk-based adaptation -----------------------------------------------------------------


def _fig9_feed(long: bool) -> Feed:
    return scaled(50, 100 / 3, 30_000, long, join_ratio="3")


def _half(feed: Feed) -> float:
    """θt: half of the run, in seconds."""
    return 30.0 * feed.minutes


def _fig9_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.4 * state_bytes(feed))
    common = {"policy": "local_spill", "victim": "random", "inactive_s": _half(feed)}
    shares = (10, 30, 50, 100)
    pushes = [Line(f"{k} %", {**common, "spill_percent": float(k)}, budget=budget) for k in shares]
    return [Line("0 %", NONE), *pushes]


def _fig9(runs: Runs) -> list[Claim]:
    last = [run.results[-1] for run in runs]
    return [
        claim(
            "the more state is pushed at once, the fewer results come during the run",
            f"results with 0, 10, 30, 50, 100 %: {numbers(last)}",
            falling(last),
        ),
        same_in_the_end(runs),
    ]


def _fig10(runs: Runs) -> list[Claim]:
    spills = [run.count("spill") for run in runs[1:]]
    over = [_most_over(run) for run in runs[1:]]
    return [
        claim(
            "memory stays under control",
            f"most memory as a share of the budget, 10 to 100 %: {', '.join(f'{o:.2f}' for o in over)}",
            max(over) <= 1.0,
        ),
        claim(
            "the more is pushed at once, the less often",
            f"pushes with 10, 30, 50, 100 %: {numbers(spills)}",
            falling(spills),
        ),
        same_in_the_end(runs),
    ]


def _most_over(run: Run) -> float:
    return max(max(nodes) for nodes in run.memory) / (run.line.budget or 1)


def _fig11_feed(long: bool) -> Feed:
    return scaled(50, 100 / 3, 30_000, long, join_ratios="4,2,1")


def _victim_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.6 * state_bytes(feed))
    common = {"policy": "local_spill", "spill_percent": 30.0, "inactive_s": _half(feed)}

    def line(name: str, victim: str) -> Line:
        return Line(name, {**common, "victim": victim}, budget=budget)

    return [
        line("30 %, low output rate", "least_productive"),
        line("30 %, high output rate", "most_productive"),
        line("30 %, low, decayed", "least_productive_decayed"),
        Line("all in memory", NONE),
    ]


def _fig11(runs: Runs) -> list[Claim]:
    low, high = runs[0], runs[1]
    rows = high.cleanup_rows / max(1, low.cleanup_rows)
    longer = high.cleanup_s / max(1e-3, low.cleanup_s)
    return [
        claim(
            "spilling what gives few results has a much higher throughput: half as much again",
            f"{low.results[-1]:,} against {high.results[-1]:,} results during the run",
            low.results[-1] >= 1.5 * high.results[-1],
        ),
        claim(
            "it leaves far fewer results to the clean-up (paper: 194 308 against 992 893, 5.1 ×)",
            f"{low.cleanup_rows:,} against {high.cleanup_rows:,}, {rows:.1f} ×",
            as_much(rows, 5.1),
        ),
        claim(
            "and its clean-up is far shorter (paper: 26.9 s against 359.4 s, 13.4 ×)",
            f"{low.cleanup_s:.2f} s against {high.cleanup_s:.2f} s, {longer:.1f} ×",
            as_much(longer, 13.4),
        ),
        same_in_the_end(runs),
    ]


def _fig12(runs: Runs) -> list[Claim]:
    low, high = runs[0], runs[1]
    return [
        claim(
            "with even join ratios the low-output choice still has slightly more results during the run",
            f"{low.results[-1]:,} against {high.results[-1]:,}",
            low.results[-1] > high.results[-1],
        ),
        same_in_the_end(runs),
    ]


CLEANUP = (
    "A clean-up here joins sorted runs column by column, and begins as a job of Spark: while there is little state, its beginning is most of the "
    "time, whatever it has to do. `make reproduce-long` has 60 times as much."
)
FIGURES: Sequence[Figure] = (
    Figure(
        "fig6", PAPER, "Partitioning a small query", "no budget", _fig6_feed, _fig6_lines, _fig6,
        why="Machines are processes of one computer here, whose cores they share.",
    ),
    Figure(
        "fig7",
        PAPER,
        "Partitioning a large query",
        f"the paper's 200 MB are the bytes that our state has after {MINUTE_FULL} minutes, so that one machine stops then by "
        "choice; how long two last is not chosen",
        _fig7_feed,
        _fig7_lines,
        _fig7,
        why="What counts against a budget here is state, of which two machines have half each: they would be full after 50 minutes. "
        "The paper's 200 MB held the queues and what else a query processor needs, which a second machine does not halve.",
    ),
    Figure(
        "fig9", PAPER, "Share of state that is pushed", "budget 40 % of the whole state",
        _fig9_feed, _fig9_lines, _fig9,
    ),
    Figure(
        "fig10", PAPER, "Memory by share that is pushed", "budget 40 % of the whole state",
        _fig9_feed, _fig9_lines, _fig10, plots="memory",
    ),
    Figure(
        "fig11", PAPER, "Which groups are pushed, join ratios 4, 2 and 1", "budget 60 % of the whole state",
        _fig11_feed, _victim_lines, _fig11, why=CLEANUP,
    ),
    Figure(
        "fig12", PAPER, "Which groups are pushed, even join ratios", "budget 60 % of the whole state",
        _fig9_feed, _victim_lines, _fig12,
    ),
)  # fmt: skip
