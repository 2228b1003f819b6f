"""Not figures of a paper: the paper's policies and ours on inputs whose hot groups change.

In one, two classes of groups take turns at ten times the input of the other, and each turn comes again. In the
other, four classes are hot once and then no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, ours, state_bytes
from engine.papers.lines import Line
from engine.papers.liu2005 import LONG, same_in_the_end

NAME = "spillway"
SHARE = 0.2  # of the whole state, on each of three nodes
PAPERS = 3  # the first lines are the paper's policies


KNOBS = {"join_ratio": "3", "skew": "10"}


def _again(long: bool) -> Feed:
    return _feed(long, {"classes": "2", "skew_period": "480 s"})


def _once(long: bool) -> Feed:
    return _feed(long, {"classes": "4", "skew_period": f"{60 * _minutes(long)} s"})


def _feed(long: bool, turns: dict[str, str]) -> Feed:
    """As many rows as in most figures of liu2005, or LONG times as many."""
    factor = LONG if long else 1.0
    knobs = {"tuple_range": f"{30_000 * factor:.0f}", **KNOBS, **turns}
    return Feed(_minutes(long), 50 * factor, knobs, factor=factor)


def _minutes(long: bool) -> int:
    return 60 if long else 40


def _lines(feed: Feed, long: bool) -> list[Line]:
    budget = int(SHARE * state_bytes(feed))
    lifetime = {"victim": "least_productive"}
    decayed = {"victim": "least_productive_decayed"}
    policies: Sequence[tuple[str, dict[str, object]]] = (
        ("local spill, results per byte since the start", {"policy": "local_spill", **lifetime}),
        ("lazy-disk", {"policy": "lazy_disk", "ratio": 0.8, "span_s": 45.0, **lifetime}),
        ("active-disk", {"policy": "active_disk", "ratio": 0.8, "span_s": 45.0, **lifetime}),
        ("local spill, decayed", {"policy": "local_spill", **decayed}),
        ("lazy-disk, decayed", {"policy": "lazy_disk", "ratio": 0.8, "span_s": 45.0, **decayed}),
        ("best gain", {"policy": "best_gain"}),
    )
    spread = {0: 0.5, 1: 0.25, 2: 0.25}
    return [Line(name, given, nodes=3, budget=budget, placement=spread) for name, given in policies]


def _judge(runs: Runs) -> list[Claim]:
    made = {run.line.name: sum(run.results) / max(1, len(run.results)) for run in runs}
    papers = max(list(made.values())[:PAPERS])
    best_gain = made["best gain"]
    lifetime, decayed = runs[0], runs[3]
    return [
        ours(
            "choosing victims by decayed rates leaves more results during the run than by lifetime ratios",
            f"{decayed.results[-1]:,} against {lifetime.results[-1]:,} results at the end of the run",
            decayed.results[-1] >= lifetime.results[-1],
        ),
        ours(
            "best gain does no worse than the best of the paper's policies (results so far, mean over the run)",
            f"{best_gain:,.0f} against {papers:,.0f}",
            best_gain >= 0.98 * papers,
        ),
        same_in_the_end(runs),
    ]


def _figure(name: str, title: str, feed: Callable[[bool], Feed], why: str) -> Figure:
    scale = "three nodes, each with a fifth of the whole state's bytes"
    return Figure(name, NAME, title, scale, feed, _lines, _judge, why=why)


MYOPIC = (
    "State grows for ever here: a group that is quiet now keeps the rows that later input joins. A decayed rate forgets "
    "that within two minutes and spills other groups at each turn, so that in the end most groups have something on disk; "
    "the ratio since the start spills the same ones again and again."
)

FIGURES = (
    _figure(
        "drift",
        "Policies where hot groups change and come again",
        _again,
        MYOPIC
        + " Best gain looks ahead five minutes by the rates of now, and a turn lasts four: it stays behind "
        "lazy-disk with the ratio since the start, which knows nothing of turns and is right over all of them.",
    ),
    _figure(
        "drift-once",
        "Policies where hot groups are hot once",
        _once,
        MYOPIC
        + " Without moves the node that has half of the state must spill hot groups whatever it goes by. With moves "
        "the decayed rate leaves more results than the ratio since the start, and best gain more than either.",
    ),
)
