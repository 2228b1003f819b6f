"""Not a figure of a paper: the paper's policies and ours on an input whose hot groups change.

Two classes of groups take turns at ten times the input of the other; what was productive is not for long.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.papers.feed import Feed
from engine.papers.figure import Claim, Figure, Runs, state_bytes
from engine.papers.lines import Line
from engine.papers.liu2005 import ROWS, claim, same_in_the_end

NAME = "spillway"
SHARE = 0.2  # of the whole state, on each of three nodes
PAPERS = 3  # the first lines are the paper's policies


def _feed(long: bool) -> Feed:
    knobs = {"tuple_range": "30000", "join_ratio": "3", "classes": "2", "skew": "10"}
    return Feed(60 if long else 40, 50, {**knobs, "skew_period": "480 s"})


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
    ours = made["best gain"]
    lifetime, decayed = runs[0], runs[3]
    return [
        claim(
            "choosing victims by decayed rates leaves more results during the run than by lifetime ratios",
            f"{decayed.results[-1]:,} against {lifetime.results[-1]:,} results at the end of the run",
            decayed.results[-1] >= lifetime.results[-1],
        ),
        claim(
            "best gain does no worse than the best of the paper's policies (results so far, mean over the run)",
            f"{ours:,.0f} against {papers:,.0f}",
            ours >= 0.98 * papers,
        ),
        same_in_the_end(runs),
    ]


FIGURES = (
    Figure(
        "drift",
        NAME,
        "Policies on a drifting input",
        ROWS + "; 40 minutes; three nodes, each with a fifth of the whole state's bytes",
        _feed,
        _lines,
        _judge,
    ),
)
