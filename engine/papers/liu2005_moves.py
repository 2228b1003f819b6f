"""Liu & Rundensteiner 2005, figures 14 to 21: moving state between machines, alone and beside the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, claim, state_bytes
from engine.papers.lines import Line, Run
from engine.papers.liu2005 import (
    CLEANUP,
    NONE,
    PAPER,
    as_much,
    numbers,
    same_in_the_end,
    same_throughput,
    scaled,
)

# -- 14 to 17: distributed adaptation ---------------------------------------------------------------

SPANS = (15, 30, 45)


def _fig14_feed(long: bool) -> Feed:
    turns = {"classes": "2", "skew": "10", "skew_period": "600 s"}
    # Ticks as short as the shortest time between two moves.
    return replace(scaled(60, 50, 30_000, long, join_ratio="2", **turns), tick_s=float(min(SPANS)))


def _relocate(ratio: float, span_s: float) -> dict[str, object]:
    return {"policy": "relocate", "ratio": ratio, "span_s": span_s}


def _fig14_lines(feed: Feed, long: bool) -> list[Line]:
    lines = [Line("no adaptation", NONE, nodes=2)]
    ratios = (0.5, 0.6, 0.7, 0.8, 0.9) if long else (0.5, 0.7, 0.9)
    return lines + [Line(f"{100 * r:.0f} %", _relocate(r, 45.0), nodes=2) for r in ratios]


def _fig14(runs: Runs) -> list[Claim]:
    moves = [run.count("move") for run in runs[1:]]
    times = moves[-1] / max(1, moves[0])
    return [
        claim(
            "a higher threshold moves more often (paper: 2 times with 50 %, 24 times with 90 %, 12 ×)",
            f"moves: {numbers(moves)}, {times:.1f} ×",
            moves == sorted(moves) and moves[0] > 0 and as_much(times, 12.0),
        ),
        same_throughput(
            "throughput is almost the same whatever the threshold, and as without adaptation", runs
        ),
        same_in_the_end(runs),
    ]


def _fig15_lines(feed: Feed, long: bool) -> list[Line]:
    lines = [Line("no adaptation", NONE, nodes=2)]
    return lines + [Line(f"every {s} s", _relocate(0.9, float(s)), nodes=2) for s in SPANS]


def _fig15(runs: Runs) -> list[Claim]:
    moves = [run.count("move") for run in runs[1:]]
    return [
        claim(
            "a shorter least time-span moves more often (paper: 31, 27 and 24 times)",
            f"moves every 15, 30 and 45 s: {numbers(moves)}",
            moves[0] > moves[1] > moves[2],
        ),
        same_throughput("throughput is almost the same, and as without adaptation", runs),
        same_in_the_end(runs),
    ]


def _fig16_lines(feed: Feed, long: bool) -> list[Line]:
    return [Line("no adaptation", NONE, nodes=2), Line("90 %", _relocate(0.9, 15.0), nodes=2)]


def _fig16(runs: Runs) -> list[Claim]:
    def uneven(run: Run) -> float:
        tail = run.memory[len(run.memory) // 5 :]
        return max(max(nodes) / max(1, min(nodes)) for nodes in tail)

    without, with_ = uneven(runs[0]), uneven(runs[1])
    return [
        claim(
            "moving keeps the two machines' memory even",
            f"largest ratio of their memory after the first fifth: {without:.2f} without, {with_:.2f} with adaptation",
            with_ < without and with_ < 1.35,
        )
    ]


SKEWED = {0: 2 / 3, 1: 1 / 6, 2: 1 / 6}
THRESHOLD = 0.9  # of its budget, at which a node spills
MINUTE_FULL = 40  # of the paper's figure 17: then the machine with most groups begins to spill


def _fig17_feed(long: bool) -> Feed:
    return scaled(60, 50, 30_000, long, join_ratio="2")


def _spread_lines(share: float, feed: Feed, more: str = "") -> list[Line]:
    budget = int(share * state_bytes(feed))
    spills = {"victim": "least_productive", "threshold": THRESHOLD}
    local = {"policy": "local_spill", **spills}
    lazy = {"policy": "lazy_disk", "ratio": 0.8, "span_s": 45.0, **spills}
    return [
        Line(f"no distributed adaptation{more}", local, nodes=3, budget=budget, placement=SKEWED),
        Line(f"lazy-disk{more}", lazy, nodes=3, budget=budget, placement=SKEWED),
    ]


def _fig17_lines(feed: Feed, long: bool) -> list[Line]:
    return _spread_lines(SKEWED[0] * MINUTE_FULL / feed.minutes / THRESHOLD, feed)


def _fig17(runs: Runs) -> list[Claim]:
    local, lazy = runs
    return [
        claim(
            "without adaptation the full machine spills, and throughput drops",
            f"spills {local.count('spill')}; {local.results[-1]:,} of {local.rows:,} results during the run",
            local.count("spill") > 0 and local.results[-1] < 0.98 * local.rows,
        ),
        claim(
            "moving state keeps all of it in memory, so that results go on",
            f"moves {lazy.count('move')}, spills {lazy.count('spill')}; {lazy.results[-1]:,} of {lazy.rows:,} results during the run",
            not lazy.count("spill") and lazy.results[-1] == lazy.rows > local.results[-1],
        ),
        same_in_the_end(runs),
    ]


# -- 20 and 21: both -----------------------------------------------------------------------------------

LITTLE = ", little memory"


def _fig20_lines(feed: Feed, long: bool) -> list[Line]:
    return [*_spread_lines(0.22, feed), *_spread_lines(0.14, feed, LITTLE)]


def _fig20(runs: Runs) -> list[Claim]:
    local, lazy, little, spread = runs
    nodes = [
        len({a["step"]["node"] for a in run.actions if a["course"] == "spill"}) for run in runs
    ]
    alike = min(little.results[-1], spread.results[-1]) / max(
        little.results[-1], spread.results[-1]
    )
    shorter = little.cleanup_s / max(1e-3, spread.cleanup_s)
    return [
        claim(
            "without distributed adaptation only one machine is full, with lazy-disk all three are in the end",
            f"machines that spill: {nodes[0]} and {nodes[1]}",
            nodes[:2] == [1, 3],
        ),
        claim(
            "lazy-disk uses all machines' memory and gives more results during the run",
            f"{lazy.results[-1]:,} against {local.results[-1]:,}",
            lazy.results[-1] > local.results[-1],
        ),
        claim(
            "with very little memory the results during the run are similar: within 15 %",
            f"{spread.results[-1]:,} against {little.results[-1]:,}",
            alike >= 0.85,
        ),
        claim(
            "but the clean-up, spread over all machines, is much shorter (paper: 400 s against 1 600 s, 4 ×)",
            f"{spread.cleanup_s:.2f} s against {little.cleanup_s:.2f} s, {shorter:.1f} ×",
            as_much(shorter, 4.0),
        ),
        same_in_the_end(runs),
    ]  # fmt: skip


def _fig21_feed(long: bool) -> Feed:
    return scaled(60, 50, 30_000, long, classes="3", join_ratios="4,1,1")


def _fig21_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.2 * state_bytes(feed))
    common = {"ratio": 0.8, "span_s": 45.0, "victim": "least_productive"}
    active = {"policy": "active_disk", **common, "query_bytes": state_bytes(feed)}
    return [
        Line("lazy-disk", {"policy": "lazy_disk", **common}, nodes=3, budget=budget),
        Line("active-disk", active, nodes=3, budget=budget),
    ]


def _fig21(runs: Runs) -> list[Claim]:
    lazy, active = runs
    behind = [n for n, (a, b) in enumerate(zip(active.results, lazy.results, strict=True)) if a < b]
    most = max((1 - active.results[n] / lazy.results[n] for n in behind), default=0.0)
    when = f"in {len(behind)} minutes, by at most {most:.1%}" if behind else "never"
    return [
        claim(
            "active-disk drops behind after it has begun to push",
            f"fewer results so far than lazy-disk: {when}",
            bool(behind),
        ),
        claim(
            "in the long run it has more results: productive groups keep the memory",
            f"{active.results[-1]:,} against {lazy.results[-1]:,}",
            active.results[-1] > lazy.results[-1],
        ),
        same_in_the_end(runs),
    ]


_TURNS = "ticks of 15 s; the skew turns every 10 minutes, the first time after 10, in the paper after 5; no budget"
FIGURES: Sequence[Figure] = (
    Figure(
        "fig14", PAPER, "Threshold to start moving", _TURNS, _fig14_feed, _fig14_lines, _fig14,
        why="A move takes the groups with most output first, which are those whose turn it is: after it both machines have some of them, "
        "and the next difference takes longer to build up than in the paper.",
    ),
    Figure(
        "fig15", PAPER, "Least time between two moves", _TURNS, _fig14_feed, _fig15_lines, _fig15,
        why="A move takes the groups with most output first, which are those whose turn it is: after it both machines have some of them, "
        "and the next difference of a tenth takes longer to build up than any of these spans, but for the first minutes.",
    ),
    Figure(
        "fig16", PAPER, "Memory with and without moving", _TURNS, _fig14_feed, _fig16_lines, _fig16,
        plots="memory",
    ),
    Figure(
        "fig17",
        PAPER,
        "Distributed against disk adaptation",
        f"three machines, of which one has two thirds of the groups; its budget is chosen so that it begins to spill after {MINUTE_FULL} minutes",
        _fig17_feed,
        _fig17_lines,
        _fig17,
    ),
    Figure(
        "fig20",
        PAPER,
        "Lazy-disk against no distributed adaptation",
        "a budget of 22 % of the whole state on each of three machines, of which one has two thirds of the groups; with little memory 14 %, "
        "and 60 minutes, in the paper 6 hours",
        _fig17_feed,
        _fig20_lines,
        _fig20,
        why=CLEANUP + " And three machines are processes on one computer: where it has fewer cores, spreading the work does not make it shorter.",
    ),
    Figure(
        "fig21",
        PAPER,
        "Lazy-disk against active-disk",
        "a budget of 20 % of the whole state on each of three machines; the paper names neither the rate nor the time",
        _fig21_feed,
        _fig21_lines,
        _fig21,
    ),
)  # fmt: skip
