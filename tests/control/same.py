"""Values that are compared through all their fields."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from control.codec import RATES
from control.snapshot import ClusterSnapshot, Groups, Nodes


def assert_same(found: ClusterSnapshot, given: ClusterSnapshot) -> None:
    for name in ("query", "version", "time_s", "operators", "history"):
        assert getattr(found, name) == getattr(given, name)
    for kind, lossy in ((Nodes, frozenset[str]()), (Groups, RATES)):
        part = "nodes" if kind is Nodes else "groups"
        for column in fields(kind):
            one = getattr(getattr(found, part), column.name)
            other = getattr(getattr(given, part), column.name)
            assert one.dtype == other.dtype
            if column.name in lossy:
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-37)
            else:
                np.testing.assert_array_equal(one, other)
