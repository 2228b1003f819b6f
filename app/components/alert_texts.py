"""What each kind of alert means and what to do about it: one table, shown on the Alerts page and in the guide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """`name`: as people call it; `href`: the page where something can be done, and its name."""

    name: str
    means: str
    do: str
    href: str
    page: str
    grave: bool = False  # something has failed or is about to; drawn in the failure's colour


ADVICE: Mapping[str, Advice] = {
    "full_soon": Advice(
        "Full soon",
        "At today's growth a node reaches 90 % of its budget in less than ten minutes, and then spills what it chooses.",
        "Look at what would help now and preview the first: a move puts nothing off, a spill frees memory at once.",
        "/overview", "Overview",
    ),
    "over_budget": Advice(
        "Over budget",
        "A node holds more than its budget. It spills by itself unless its groups are in flight or nothing is left to spill.",
        "Wait for a running move to end; if there is none, spill or move by hand, or raise the budget where there is memory.",
        "/placement", "Placement",
    ),
    "spilling": Advice(
        "Spilling",
        "Nodes put state on disk because they overflow. No result is lost, but those of spilled groups are put off.",
        "Move groups to nodes with room, lower the rate, or clean up later while nodes are idle.",
        "/debt", "Spill debt",
    ),
    "disk_filling": Advice(
        "Disk filling",
        "A disk or /dev/shm is more than 90 % full. When it is full the query stops with an error; its state is safe.",
        "Make room: delete old results, shorten windows, give nodes smaller budgets when /dev/shm is meant.",
        "/settings", "Settings", grave=True,
    ),
    "lag_growing": Advice(
        "Lag growing",
        "The source is more than ten seconds ahead of the query, and the distance grows: the query does not keep up.",
        "Find the node that is busiest and move productive groups off it; else add nodes, or lower the rate at the source.",
        "/nodes", "Nodes",
    ),
    "process_stale": Advice(
        "Process silent",
        "The engine or control has not been heard of for ten seconds. Without the engine nothing is joined; without control no rule acts.",
        "It is started again by itself with a growing delay. If it stays away, look into logs/ in the data folder.",
        "/settings", "Settings", grave=True,
    ),
    "action_failed": Advice(
        "Action failed",
        "An action ended with an error within the last ten minutes. State is as before it, as its receipt says.",
        "Read the action's steps: the last one says why. Then propose it again or do something else.",
        "/actions", "Actions", grave=True,
    ),
    "rule_blocked": Advice(
        "Rule blocked",
        "A rule that should act was kept from it for more than an hour by something that nobody set on purpose, or cannot be read.",
        "Its interlock line says what holds it: a budget that is used up, a disabled editor, an action that does not end.",
        "/rules", "Rules",
    ),
    "late_rows": Advice(
        "Late rows",
        "Rows came after their watermark. They are not joined; they are put aside in side/late of the checkpoint, and counted.",
        "If they belong in results, give the stream a longer watermark in the query file: state is then kept longer.",
        "/queries", "Queries & plans",
    ),
    "query_failed": Advice(
        "Query failed",
        "A query stopped with an error. Its state is in its checkpoint, and nothing was published twice.",
        "Read the error beside the query, mend what it names, and start it again: it goes on where it was.",
        "/queries", "Queries & plans", grave=True,
    ),
}  # fmt: skip


def advice(kind: str) -> Advice:
    """Of a kind; one that is not known yet says so."""
    unknown = Advice(
        kind.replace("_", " "),
        "A condition of a newer version.",
        "See the guide.",
        "/overview",
        "Overview",
    )
    return ADVICE.get(kind, unknown)
