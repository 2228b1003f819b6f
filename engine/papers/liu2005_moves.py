"""Liu & Rundensteiner 2005, figures 14 to 21: moving state between machines, alone and beside the disk."""

from __future__ import annotations

from collections.abc import Sequence

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, state_bytes
from engine.papers.lines import Line, Run
from engine.papers.liu2005 import NONE, PAPER, ROWS, claim, same_in_the_end

# -- 14 to 17: distributed adaptation ---------------------------------------------------------------


def _fig14_feed(long: bool) -> Feed:
    knobs = {"tuple_range": "30000", "join_ratio": "2", "classes": "2", "skew": "10"}
    return Feed(60 if long else 40, 50, {**knobs, "skew_period": "600 s"})


def _relocate(ratio: float, span_s: float) -> dict[str, object]:
    return {"policy": "relocate", "ratio": ratio, "span_s": span_s}


def _fig14_lines(feed: Feed, long: bool) -> list[Line]:
    lines = [Line("no adaptation", NONE, nodes=2)]
    ratios = (0.5, 0.6, 0.7, 0.8, 0.9) if long else (0.5, 0.7, 0.9)
    return lines + [Line(f"{100 * r:.0f} %", _relocate(r, 45.0), nodes=2) for r in ratios]


def _fig14(runs: Runs) -> list[Claim]:
    moves = [run.count("move") for run in runs[1:]]
    last = {run.results[-1] for run in runs}
    cost = max(run.cpu_s for run in runs[1:]) / runs[0].cpu_s
    return [
        claim(
            "a higher threshold moves more often",
            f"moves: {', '.join(map(str, moves))}",
            moves[0] < moves[-1] and moves == sorted(moves),
        ),
        claim(
            "throughput is the same whatever the threshold, and as without adaptation",
            f"results: {', '.join(f'{n:,}' for n in sorted(last))}; "
            f"CPU of the ticks at most {cost:.2f} × that without",
            len(last) == 1 and cost <= 1.15,
        ),
    ]


def _fig15_lines(feed: Feed, long: bool) -> list[Line]:
    lines = [Line("no adaptation", NONE, nodes=2)]
    return lines + [
        Line(f"every {s} s", _relocate(0.9, float(s)), nodes=2) for s in (15, 60, 120, 240)
    ]


def _fig15(runs: Runs) -> list[Claim]:
    moves = [run.count("move") for run in runs[1:]]
    last = {run.results[-1] for run in runs}
    return [
        claim(
            "a shorter least time-span moves more often",
            f"moves: {', '.join(map(str, moves))}",
            moves[0] >= moves[1] >= moves[2] and moves[0] > moves[-1],
        ),
        claim("throughput is the same", f"results: {sorted(last)}", len(last) == 1),
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
            f"largest ratio of their memory: {without:.2f} without, {with_:.2f} with adaptation",
            with_ < without and with_ < 1.35,
        )
    ]


SKEWED = {0: 2 / 3, 1: 1 / 6, 2: 1 / 6}


def _fig17_feed(long: bool) -> Feed:
    return Feed(60 if long else 40, 50, {"tuple_range": "30000", "join_ratio": "2"})


def _spread_lines(share: float, feed: Feed) -> list[Line]:
    budget = int(share * state_bytes(feed))
    local = {"policy": "local_spill", "victim": "least_productive"}
    lazy = {"policy": "lazy_disk", "ratio": 0.8, "span_s": 45.0, "victim": "least_productive"}
    return [
        Line("no distributed adaptation", local, nodes=3, budget=budget, placement=SKEWED),
        Line("lazy-disk", lazy, nodes=3, budget=budget, placement=SKEWED),
    ]


def _fig17_lines(feed: Feed, long: bool) -> list[Line]:
    return _spread_lines(0.45, feed)


def _fig17(runs: Runs) -> list[Claim]:
    local, lazy = runs
    return [
        claim(
            "moving state keeps all of it in memory, so results go on; without, the full machine spills",
            f"{lazy.results[-1]:,} against {local.results[-1]:,} results; spills {lazy.count('spill')} "
            f"and {local.count('spill')}, moves {lazy.count('move')}",
            lazy.results[-1] > local.results[-1] and not lazy.count("spill"),
        ),
        same_in_the_end(runs),
    ]


# -- 20 and 21: both -----------------------------------------------------------------------------------


def _fig20_lines(feed: Feed, long: bool) -> list[Line]:
    return _spread_lines(0.22, feed)


def _fig20(runs: Runs) -> list[Claim]:
    local, lazy = runs
    slow, quick = max(local.cleanup_cpu_s, default=0.0), max(lazy.cleanup_cpu_s, default=1.0)
    return [
        claim(
            "lazy-disk uses all machines' memory and gives more results during the run",
            f"{lazy.results[-1]:,} against {local.results[-1]:,}",
            lazy.results[-1] > local.results[-1],
        ),
        claim(
            "its clean-up is spread over the machines (paper: 400 s against 1 600 s, 4 ×)",
            f"busiest machine's CPU in the clean-up {quick:.2f} s against {slow:.2f} s ({slow / quick:.1f} ×); wall, "
            f"three machines on two cores, {lazy.cleanup_s:.2f} s against {local.cleanup_s:.2f} s",
            slow >= 2.5 * quick,
        ),
        same_in_the_end(runs),
    ]


def _fig21_feed(long: bool) -> Feed:
    knobs = {"tuple_range": "30000", "classes": "3", "join_ratios": "4,1,1"}
    return Feed(90 if long else 60, 50, knobs)


def _fig21_lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(0.2 * state_bytes(feed))
    common = {"ratio": 0.8, "span_s": 45.0, "victim": "least_productive"}
    return [
        Line("lazy-disk", {"policy": "lazy_disk", **common}, nodes=3, budget=budget),
        Line(
            "active-disk",
            {"policy": "active_disk", **common, "query_bytes": state_bytes(feed)},
            nodes=3,
            budget=budget,
        ),
    ]


def _fig21(runs: Runs) -> list[Claim]:
    lazy, active = runs
    return [
        claim(
            "active-disk ends with more results: productive groups keep the memory",
            f"{active.results[-1]:,} against {lazy.results[-1]:,}",
            active.results[-1] > lazy.results[-1],
        ),
        same_in_the_end(runs),
    ]


FIGURES: Sequence[Figure] = (
    Figure(
        "fig14",
        PAPER,
        "Threshold to start moving",
        ROWS + "; 40 minutes of 60; the skew turns every 10 minutes",
        _fig14_feed,
        _fig14_lines,
        _fig14,
    ),
    Figure(
        "fig15",
        PAPER,
        "Least time between two moves",
        ROWS + "; 40 minutes of 60; a tick is a minute, so the spans are 15, 60, 120 and 240 s",
        _fig14_feed,
        _fig15_lines,
        _fig15,
        why="A tick stands for a minute, so spans of 15 and 60 s come to the same. And a move of half of the "
        "difference leaves memory so even that the next difference of a tenth takes minutes to build up: the "
        "trigger sets the pace of the moves, not the least time between them. What the paper concludes from the "
        "figure, that the span hardly matters for throughput, holds.",
    ),
    Figure(
        "fig16",
        PAPER,
        "Memory with and without moving",
        ROWS + "; 40 minutes of 60",
        _fig14_feed,
        _fig16_lines,
        _fig16,
        plots="memory",
    ),
    Figure(
        "fig17",
        PAPER,
        "Distributed against disk adaptation",
        ROWS + "; 40 minutes; a budget of 45 % of the whole state on each of three machines",
        _fig17_feed,
        _fig17_lines,
        _fig17,
    ),
    Figure(
        "fig20",
        PAPER,
        "Lazy-disk against no distributed adaptation",
        ROWS + "; 40 minutes; a budget of 22 % of the whole state on each of three machines",
        _fig17_feed,
        _fig20_lines,
        _fig20,
    ),
    Figure(
        "fig21",
        PAPER,
        "Lazy-disk against active-disk",
        ROWS + "; 60 minutes; a budget of 20 % of the whole state on each of three machines",
        _fig21_feed,
        _fig21_lines,
        _fig21,
    ),
)
