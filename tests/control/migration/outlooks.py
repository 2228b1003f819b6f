"""Join orders and what is known of their joins: plain, skewed, at a certain pace."""

from __future__ import annotations

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.cost.outlook import Outlook, look
from control.migration.model import Model
from control.migration.strategies import Change, Pace
from control.migration.trees import Tree
from control.snapshot import NO_LIMIT, Operator
from tests.control.made import cluster

CHAIN = [[0, 1], [1, 2], [2, 3]]
OLD: Tree = (((0, 1), 2), 3)
NEW: Tree = (((2, 3), 1), 0)
PACE = Pace()
NUMBERS = Coefficients(cores=2.0)


def skewed(window: float = 60.0, rate: float = 1000.0) -> Model:
    """a ⋈ b makes twenty times what c ⋈ d makes."""
    return Model.of([rate] * 4, CHAIN, [1e-3, 1e-4, 5e-5], window)


def outlook(
    model: Model,
    tree: Tree,
    budget: int = NO_LIMIT,
    busy: float = 0.7,
    window: float | None = 60.0,
    disk: list[int] | None = None,
) -> Outlook:
    """Two nodes with the state of a tree; `disk`: bytes of each group that are there besides."""
    size = int(Change.of(model, tree, tree).old.state_bytes / 20) + 1
    taken = cluster(
        [[size] * 10, [size] * 10],
        budget=budget,
        bytes_per_s=size / 60,
        rows_out_per_s=model.rate(model.everything) / 20,
        nodes={"rows_out_per_s": [model.rate(model.everything) / 2] * 2, "busy": busy},
        operators=(Operator("join-1", 2, 20, window),),
        **({"disk_bytes": disk, "owed_rows": [1000.0] * 20} if disk else {}),
    )
    return look(taken, NUMBERS, Horizon(), LocalRule())
