"""Steps whose effect is predicted."""

from __future__ import annotations

import numpy as np

from control.plans import SetBudget, Step, cleanup_of, move_of, spill_of
from control.snapshot import ClusterSnapshot
from tests.control.made import MB


def steps_of(snapshot: ClusterSnapshot, seed: int) -> list[Step]:
    """Any steps that name each group once."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(snapshot.groups))
    owner, steps = snapshot.groups.owner, []
    for node in range(len(snapshot.nodes)):
        mine = np.sort(rows[owner[rows] == node])
        half = len(mine) // 2
        target = int(random.integers(0, len(snapshot.nodes)))
        if half and target != node:
            steps.append(move_of(snapshot, mine[:half], node, target))
        some = mine[half:]
        spilled = some[snapshot.groups.spilled[some]]
        held = some[~snapshot.groups.spilled[some] & (snapshot.groups.memory_bytes[some] > 0)]
        steps += [cleanup_of(snapshot, spilled, node)] if len(spilled) else []
        steps += [spill_of(snapshot, held, node)] if len(held) else []
    return [*steps, SetBudget(0, 77 * MB)]
