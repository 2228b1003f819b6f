"""A running query and the orders of its joins."""

from __future__ import annotations

from dataclasses import replace

from control.cost.coefficients import Coefficients
from control.migration.model import Model
from control.migration.trees import Tree
from control.snapshot import ClusterSnapshot
from tests.control.migration.made import joins_of
from tests.control.migration.outlooks import outlook

NUMBERS = Coefficients(cores=2.0)


def running(model: Model, tree: Tree) -> ClusterSnapshot:
    """Two nodes that run a tree of this model."""
    return replace(outlook(model, tree).snapshot, joins=joins_of(model, tree))
