"""The cost model's worked example."""

from __future__ import annotations

import numpy as np

from control.cost.coefficients import Coefficients, Horizon, LocalRule
from control.snapshot import ClusterSnapshot
from tests.control.made import MB, cluster

EXAMPLE = Coefficients(transfer_s_per_byte=2e-9, bandwidth_bytes_per_s=100e6, tick_s=0.5)
RULE = LocalRule(threshold=1.0, percent=30)
PLAIN = Horizon(300, charge_after=False)


def example() -> ClusterSnapshot:
    """cost.md: node a holds lo, mid and hi, node b one class; 60 groups of 1 MB each."""
    rho = np.repeat([3e3, 17e3, 40e3, 20e3], 60) / 60
    return cluster(
        [[MB] * 180, [MB] * 60],
        rows_out_per_s=rho,
        bytes_per_s=np.repeat([0.10, 0.15, 0.25, 0.20], 60) * MB / 60,
        nodes={"rows_out_per_s": [60e3, 20e3]},
    )
