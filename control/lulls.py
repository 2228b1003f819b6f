"""What is said of an alert whose condition is gone, but not for long enough that the alert has ended.

Without it the alert would go on saying what was the case before. Pure, as alerts.py is: the same view comes in,
a text about one open alert goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from control.alerts import KINDS, STALE_S, Seen, View, disk_text, full_text, heard_text, known
from control.ledger import Wanted
from control.units import said

DAY_S = 86_400.0


def lull(view: View, kind: str, subject: str) -> str:
    """How things stand with an alert's subject now, and when the alert ends if they stay so."""
    text = standing_text(view, kind, subject)
    return f"{text}; this alert ends once that has lasted {said(KINDS[kind].clear_s)}"


def standing_text(view: View, kind: str, subject: str) -> str:
    """How things stand where an alert's condition does not hold."""
    find = _TEXTS.get(kind)
    return find(view, subject) if find else "it is over"


def _seen(view: View, query: str) -> Seen | None:
    return next((seen for seen in view.queries if seen.row.name == query), None)


def _of_sample(text: Callable[[Seen], str]) -> Callable[[View, str], str]:
    """What a query's newest sample says; without a new one, why nothing is known."""

    def find(view: View, query: str) -> str:
        seen = _seen(view, query)
        if seen is None:
            return "the query is gone"
        if seen.row.wanted is not Wanted.RUNNING:
            return f"the query is {seen.row.state}"
        if seen.sample is None:
            return "nothing is known of the query now"
        age_s = view.now_s - seen.sample.time_s
        return text(seen) if age_s <= 2 * STALE_S else f"nothing new is known for {said(age_s)}"

    return find


def _full(seen: Seen) -> str:
    return full_text(seen.full_s, DAY_S) or "no node fills within a day"


def _within_budget(seen: Seen) -> str:
    assert seen.sample is not None
    nodes = seen.sample.snapshot.nodes
    alive = np.flatnonzero(nodes.alive)
    if not len(alive):
        return "no node is alive"
    node = int(alive[np.argmin(nodes.free_bytes[alive])])
    have, most = nodes.memory_bytes[node] / 1e6, nodes.budget_bytes[node] / 1e6
    return f"no node is over its budget, node {node} is closest: {have:,.0f} MB of {most:,.0f} MB"


def _lag(seen: Seen) -> str:
    lag = known(seen.recent.values.get("lag_s")) if seen.recent is not None else np.zeros(0)
    return (
        f"{lag[-1]:,.0f} s behind its source, and not more and more"
        if len(lag)
        else "no live source"
    )


def _disk(view: View, path: str) -> str:
    return disk_text(*view.disks[path]) if path in view.disks else "not looked at any more"


def _process(view: View, process: str) -> str:
    beats = {beat.process: beat for beat in view.beats}
    return heard_text(beats[process], view.now_s) if process in beats else "not expected any more"


def _rule(view: View, rule: str) -> str:
    return f"it last came to: {view.rules[rule].outcome}" if rule in view.rules else "it is off"


def _query(view: View, query: str) -> str:
    seen = _seen(view, query)
    return f"the query is {seen.row.state}" if seen else "the query is gone"


_TEXTS: Mapping[str, Callable[[View, str], str]] = {
    "full_soon": _of_sample(_full),
    "over_budget": _of_sample(_within_budget),
    "spilling": lambda view, query: "nothing was put on disk within the last minute",
    "disk_filling": _disk,
    "lag_growing": _of_sample(_lag),
    "process_stale": _process,
    "rule_blocked": _rule,
    "late_rows": _of_sample(lambda seen: "no row came too late within the last two minutes"),
    "query_failed": _query,
}
