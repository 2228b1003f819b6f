"""Liu & Rundensteiner 2005, "Adapting State-Intensive Non-Blocking Queries over Distributed Environments".

Three streams joined on one key in 300 groups. A minute of the paper is a tick here, with the paper's own number of
rows; budgets are scaled to the bytes of our state, so that memory fills at the same share of the run. `small` runs are
a third to two thirds as long as the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, state_bytes
from engine.papers.lines import Line, Run

NONE = {"policy": "none"}
PAPER = "liu2005"


def claim(text: str, measured: str, holds: bool) -> Claim:
    return Claim(text, measured, bool(holds))


# -- 6 and 7: partitioned parallel processing -------------------------------------------------------


def _fig6_feed(long: bool) -> Feed:
    return Feed(40 if long else 20, 50, {"tuple_range": "50000", "join_ratio": "1"})


def _fig6_lines(feed: Feed, long: bool) -> list[Line]:
    return [Line(f"M{n}", NONE, nodes=n) for n in range(1, 6)]


def _fig6(runs: Runs) -> list[Claim]:
    last = [run.results[-1] for run in runs]
    busy = [sum(run.seconds[1:]) / len(run.seconds[1:]) for run in runs]
    return [
        claim(
            "more machines do not change the throughput of a small query",
            f"results after the run, M1 to M5: {', '.join(f'{n:,}' for n in last)}",
            max(last) == min(last),
        ),
        claim(
            "partitioning over five machines costs little",
            f"engine time for a minute of input: {busy[0]:.2f} s on M1, {busy[4]:.2f} s on M5 (of 60 s)",
            busy[4] < 0.02 * 60,
        ),
    ]


def _fig7_feed(long: bool) -> Feed:
    return Feed(40, 100 if long else 50, {"tuple_range": "50000", "join_ratio": "2"})


def _fig7_lines(feed: Feed, long: bool) -> list[Line]:
    never = {"policy": "local_spill", "spill_percent": 0.0}
    budget = state_bytes(feed, 25)
    return [Line(f"M{n}", never, nodes=n, budget=budget) for n in range(1, 6)]


def _fig7(runs: Runs) -> list[Claim]:
    ran = [len(run.results) for run in runs]
    return [
        claim(
            "one machine stops at minute 25 for want of memory, two last longer",
            f"minutes run, M1 to M5: {', '.join(map(str, ran))}",
            bool(runs[0].stopped) and 22 <= ran[0] <= 26 and ran[1] > ran[0],
        ),
        claim(
            "with enough memory more machines add nothing: M4 and M5 are the same",
            f"results, M4 and M5: {runs[3].results[-1]:,} and {runs[4].results[-1]:,}",
            runs[3].results[-1] == runs[4].results[-1] and not runs[3].stopped,
        ),
    ]


# -- 9 to 12: disk-based adaptation -----------------------------------------------------------------


def _fig9_feed(long: bool) -> Feed:
    return Feed(50 if long else 30, 33.3, {"tuple_range": "30000", "join_ratio": "3"})


def _fig9_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.4 * state_bytes(feed))
    lines = [Line("0 %", NONE)]
    for k in (10, 30, 50, 100):
        policy = {"policy": "local_spill", "spill_percent": float(k), "victim": "random"}
        lines.append(Line(f"{k} %", policy, budget=budget))
    return lines


def _fig9(runs: Runs) -> list[Claim]:
    last = [run.results[-1] for run in runs]
    pushed = [run.results[-1] for run in runs[1:]]
    return [
        claim(
            "the more state is pushed at once, the fewer results come during the run",
            f"results with 0, 10, 30, 50, 100 %: {', '.join(f'{n:,}' for n in last)}",
            last[0] > max(pushed) and pushed[0] >= pushed[2] >= pushed[3],
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
            max(over) <= 1.1,
        ),
        claim(
            "the more is pushed at once, the less often",
            f"pushes with 10, 30, 50, 100 %: {', '.join(map(str, spills))}",
            spills[0] > spills[1] > spills[2] >= spills[3],
        ),
    ]


def _most_over(run: Run) -> float:
    return max(max(nodes) for nodes in run.memory) / (run.line.budget or 1)


def same_in_the_end(runs: Runs) -> Claim:
    rows = sorted({run.rows for run in runs if not run.stopped})
    return claim(
        "in the end, after clean-up, every line has all results",
        f"results of all lines: {', '.join(f'{n:,}' for n in rows)}",
        len(rows) == 1,
    )


def _fig11_feed(long: bool) -> Feed:
    knobs = {"tuple_range": "30000", "join_ratios": "4,2,1"}
    return Feed(50 if long else 30, 33.3, knobs)


def _fig12_feed(long: bool) -> Feed:
    return Feed(50 if long else 30, 33.3, {"tuple_range": "30000", "join_ratio": "3"})


def _victim_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.6 * state_bytes(feed))

    def line(name: str, victim: str) -> Line:
        policy = {"policy": "local_spill", "spill_percent": 30.0, "victim": victim}
        return Line(name, policy, budget=budget)

    return [
        line("30 %, low output rate", "least_productive"),
        line("30 %, high output rate", "most_productive"),
        line("30 %, low, decayed", "least_productive_decayed"),
        Line("all in memory", NONE),
    ]


def _fig11(runs: Runs) -> list[Claim]:
    low, high = runs[0], runs[1]
    return [
        claim(
            "spilling what gives few results leaves more results during the run",
            f"{low.results[-1]:,} against {high.results[-1]:,} results",
            low.results[-1] > high.results[-1],
        ),
        claim(
            "and far less to clean up (paper: 194 308 rows in 26.9 s against 992 893 in 359.4 s, 13 ×)",
            f"{low.cleanup_rows:,} rows in {low.cleanup_s:.2f} s (CPU {sum(low.cleanup_cpu_s):.2f} s) against "
            f"{high.cleanup_rows:,} in {high.cleanup_s:.2f} s (CPU {sum(high.cleanup_cpu_s):.2f} s)",
            high.cleanup_rows >= 5 * low.cleanup_rows,
        ),
        same_in_the_end(runs),
    ]


def _fig12(runs: Runs) -> list[Claim]:
    low, high = runs[0], runs[1]
    return [
        claim(
            "with even join ratios the low-output choice still does no worse",
            f"{low.results[-1]:,} against {high.results[-1]:,} results",
            low.results[-1] >= 0.98 * high.results[-1],
        ),
        same_in_the_end(runs),
    ]


ROWS = "the paper's rows a minute, a tick for a minute"
FIGURES: Sequence[Figure] = (
    Figure(
        "fig6",
        PAPER,
        "Partitioning a small query",
        ROWS + "; 20 minutes of 40",
        _fig6_feed,
        _fig6_lines,
        _fig6,
    ),
    Figure(
        "fig7",
        PAPER,
        "Partitioning a large query",
        "half of the paper's rows a minute; 200 MB become our state after 25 minutes",
        _fig7_feed,
        _fig7_lines,
        _fig7,
    ),
    Figure(
        "fig9",
        PAPER,
        "Share of state that is pushed",
        ROWS + "; 30 minutes of 50; budget 40 % of the whole state",
        _fig9_feed,
        _fig9_lines,
        _fig9,
    ),
    Figure(
        "fig10",
        PAPER,
        "Memory by share that is pushed",
        ROWS + "; 30 minutes of 50; budget 40 % of the whole state",
        _fig9_feed,
        _fig9_lines,
        _fig10,
        plots="memory",
    ),
    Figure(
        "fig11",
        PAPER,
        "Which groups are pushed, join ratios 4, 2 and 1",
        ROWS + "; 30 minutes of 50; budget 60 % of the whole state",
        _fig11_feed,
        _victim_lines,
        _fig11,
    ),
    Figure(
        "fig12",
        PAPER,
        "Which groups are pushed, even join ratios",
        ROWS + "; 30 minutes of 50; budget 60 % of the whole state",
        _fig12_feed,
        _victim_lines,
        _fig12,
    ),
)
