"""A store as after days of use, filled quickly through the code that fills it in use.

The last day has a sample each second, written a minute at once: of a batch only the last sample and the minute's
picture are packed, and all samples in between are rows. Earlier days have a sample a minute, which leaves the
same tiles, because raw ticks of earlier days are gone by then. `tidy` runs at each simulated hour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from control.actions import Action, to_json
from control.ledger import ActionRow, Command, Evaluation
from control.people import AuditLine, Source
from control.plans import Move, Part, step_to_json
from control.samples import NODE_FIGURES, QUERY_FIGURES, GroupChange, Sample
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from db.maintenance import checkpoint
from db.open import Store
from db.retention import tidy

END_S = 1_800_000_000.0 + 7 * 86_400
HOUR_S = 3600
QUERY = "q"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is of everything."""

    name: str
    nodes: int
    groups: int
    hours: int
    raw_hours: int
    actions: int
    audit: int
    end_s: float = END_S  # of what is recorded


FULL = Scale("full", 100, 10_000, 168, 24, 5_000, 50_000)
DEMO = Scale("demo", 4, 256, 168, 24, 500, 2_000)


class World:
    """State whose every figure differs from tick to tick: nothing compresses because it stands still."""

    def __init__(self, scale: Scale, seed: int = 5) -> None:
        self.scale, self.random = scale, np.random.default_rng(seed)
        groups = scale.groups
        share = 1 / np.arange(1, groups + 1) ** 0.8
        self.weight = self.random.permutation(share / share.sum())
        self.owner = self.random.integers(0, scale.nodes, groups)
        self.level = np.ones(scale.nodes)

    def snapshot(self, time_s: float) -> ClusterSnapshot:
        begun_s = self.scale.end_s - self.scale.hours * HOUR_S
        random, weight, groups = self.random, self.weight, self.scale.groups
        rate = 50_000 * self.scale.nodes * weight * random.lognormal(0, 0.1, groups)
        rows = (rate * (time_s - begun_s + 1000)).astype(np.int64)
        memory = (1e9 * self.scale.nodes * weight * random.lognormal(0, 0.05, groups)).astype(int)
        spilled = weight < np.quantile(weight, 0.2)
        columns = Groups.of(
            self.owner,
            np.where(spilled, memory // 3, memory),
            disk_bytes=np.where(spilled, 2 * memory // 3, 0),
            generations=spilled,
            rows_in=rows,
            rows_out=2 * rows,
            rows_in_per_s=rate,
            rows_out_per_s=2 * rate * random.lognormal(0, 0.1, groups),
            rows_in_round=(rate * 10).astype(int),
            rows_out_round=(rate * 20).astype(int),
            bytes_per_s=rate * 32,
            last_insert_s=time_s - random.integers(0, 3, groups),
            owed_rows=np.where(spilled, rate * 100, 0.0),
            owed_rows_per_s=np.where(spilled, rate, 0.0),
        )
        operators = (Operator("join", 2, groups),)
        budget = [2_000_000_000] * self.scale.nodes
        return ClusterSnapshot(QUERY, 1, time_s, Nodes.of(budget, budget), operators, columns)

    def sample(self, time_s: float, snapshot: ClusterSnapshot) -> Sample:
        """With a walk for each node; the snapshot may be the one of a neighbouring tick."""
        random, nodes = self.random, self.scale.nodes
        self.level = np.clip(self.level + 0.01 * random.standard_normal(nodes), 0.1, 2.0)
        figures = {name: float(random.lognormal(10, 0.1)) for name in QUERY_FIGURES}
        columns = {
            name: 1e6 * (i + 1) * self.level * random.lognormal(0, 0.02, nodes)
            for i, name in enumerate(NODE_FIGURES)
        }
        columns["budget_bytes"] = np.full(nodes, 2e9)
        return Sample(QUERY, time_s, int(time_s), figures, columns, snapshot)


def fill(store: Store, scale: Scale, tell: Callable[[str], None]) -> World:
    """All of it, tidied as at its end."""
    world = World(scale)
    _ledger(store, scale)
    for hour in range(scale.hours):
        start_s = scale.end_s - (scale.hours - hour) * HOUR_S
        every_s = 1 if hour >= scale.hours - scale.raw_hours else 60
        for minute in range(60):
            _minute(store, world, start_s + 60 * minute, every_s)
        tidied(store, start_s + HOUR_S + 6)
        if hour % 24 == 23:
            tell(f"  {scale.name}: {hour + 1} of {scale.hours} hours")
    return world


def _minute(store: Store, world: World, start_s: float, every_s: int) -> None:
    shot = world.snapshot(start_s)
    moved = world.random.random() < 0.05
    batch = [
        world.sample(start_s + second, replace(shot, time_s=start_s + second))
        for second in range(0, 60, every_s)
    ]
    if moved:
        batch[0] = replace(batch[0], changes=_changes(world))
    store.metrics.write(batch)


def _changes(world: World) -> tuple[GroupChange, ...]:
    """Some groups have another owner."""
    some = world.random.integers(0, world.scale.groups, max(1, world.scale.groups // 200))
    world.owner[some] = world.random.integers(0, world.scale.nodes)
    return tuple(GroupChange("join", int(g), int(world.owner[g]), "memory", "a") for g in some)


def tidied(store: Store, now_s: float) -> None:
    while tidy(store, now_s).left:
        pass
    checkpoint(store)


def _ledger(store: Store, scale: Scale) -> None:
    """Actions with their commands, evaluations and lines of audit, spread over the time."""
    step_s = scale.hours * HOUR_S / scale.audit
    every = max(1, scale.audit // scale.actions)
    for start in range(0, scale.audit, 1000):
        with store.together():
            for number in range(start, min(start + 1000, scale.audit)):
                now_s = scale.end_s - (scale.audit - number) * step_s
                who = f"user{number % 7}"
                line = AuditLine(now_s, who, Source.API, "127.0.0.1", "apply", QUERY, "accepted")
                store.audit.add(line)
                if number % every == 0:
                    _action(store, scale, number, now_s, who)


def _action(store: Store, scale: Scale, number: int, now_s: float, who: str) -> None:
    id = f"{number:08d}"
    part = Part("join", tuple(range(number % 100, number % 100 + 40)))
    step = Move((part,), number % scale.nodes, (number + 1) % scale.nodes, 45_000_000)
    command = Command(
        id, "apply", QUERY, step_to_json(step), who, Source.API, "", now_s, now_s + 60
    )
    store.commands.add(command)
    store.commands.end(id, "done", {"text": "", "actions": [id], "refusals": []}, now_s + 5)
    body = to_json(_moved(id, step, now_s))
    row = ActionRow(id, QUERY, body, who, "done", now_s, now_s + 5, 45_000_000, command=id)
    told = {"bytes": 45_000_000.0, "pause_s": 0.2}
    store.actions.keep([replace(row, predicted=told, actual=told)])
    said = {"why": [f"fill {number // 10 % 90} %"]}
    store.rules.evaluated(
        Evaluation(f"rule{number // 10 % 5}", QUERY, now_s, now_s, 3, "nothing", said)
    )


def _moved(id: str, step: Move, now_s: float) -> Action:
    """With its eight steps behind it."""
    action = Action.propose(id, QUERY, step).accept(now_s)
    while action.following is not None:
        action = action.begin(now_s).end(now_s + 5, step.bytes)
    return action.finish(now_s + 5)
