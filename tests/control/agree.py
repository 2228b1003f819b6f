"""A rule that really ran against its replay: how many of its actions would the replay have done too?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from control.actions import State
from control.ledger import ActionRow
from control.plans import nodes_of, step_from_json
from control.rules import Rule
from control.simulate.backtest import Fired, Setting, through
from control.snapshot import ClusterSnapshot

NEAR_S = 60.0  # snapshots are recorded once a minute


def replay_agreement(
    rule: Rule,
    snapshots: Iterable[ClusterSnapshot],
    really: Sequence[ActionRow],
    setting: Setting | None = None,
) -> dict[str, Any]:
    """How many of the rule's real actions the replay wants too: same kind, same nodes, near in time. `really`:
    everything that was done to the query meanwhile."""
    setting = replace(setting or Setting(), really=really)
    tally, _ = through(rule, snapshots, setting)
    inside = [row for row in really if tally.from_s < row.started_s <= tally.until_s]
    did = [row for row in inside if row.rule == rule.name and row.state == State.DONE]
    return agreement(tally.fired, did, max(NEAR_S, rule.schedule.every_s or 0.0))


def agreement(
    fired: Sequence[Fired], really: Sequence[ActionRow], within_s: float
) -> dict[str, Any]:
    """Each real action is matched with at most one replayed one, the nearest in time that is left."""
    left = list(fired)
    missed = []
    for row in sorted(really, key=lambda row: row.started_s):
        step = row.body["step"]
        near = [
            f
            for f in left
            if f.do == step["do"]
            and f.nodes == nodes_of(step_from_json(step))
            and abs(f.time_s - row.started_s) <= within_s
        ]
        if near:
            left.remove(min(near, key=lambda f: abs(f.time_s - row.started_s)))
        else:
            missed.append(row.id)
    matched = len(really) - len(missed)
    return {
        "actions": len(really),
        "matched": matched,
        "share": matched / len(really) if really else 1.0,
        "missed": missed,
        "extra": len(left),
    }
