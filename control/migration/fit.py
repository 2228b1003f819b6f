"""Selectivities of key classes from those of sets of inputs: weighted least squares in logs.

ln s(S) = Σ over classes of (members of S in it − 1) · x. An unseen class keeps what it usually is: a row finds one
partner in the largest input. Where the sets seen leave a class open, its spread says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from control.migration.model import Known
from control.migration.trees import Mask

OPEN = 2.0  # in logs: nothing was seen, it may be seven times more or less
MISFIT = 0.5  # a class is not equally selective between all its inputs
FLOOR = 0.05  # nothing is known better
FEWEST = 0.5  # rows taken to have been there where none were


@dataclass(frozen=True, slots=True)
class Evidence:
    """Combinations of rows tried and those that agreed, both decayed alike."""

    combinations: float = 0.0
    rows: float = 0.0

    def faded(self, keep: float) -> Evidence:
        return Evidence(self.combinations * keep, self.rows * keep)

    @property
    def log_selectivity(self) -> float:
        return log((self.rows + FEWEST) / (self.combinations + FEWEST))

    @property
    def variance(self) -> float:
        """Of a count of rare events, in logs."""
        return 1 / (self.rows + FEWEST) + FLOOR**2


def fit(
    classes: Sequence[Mask], usual: Sequence[float], evidence: Mapping[Mask, Evidence]
) -> tuple[tuple[Known, ...], dict[Mask, Known]]:
    """What each class multiplies by, and the selectivity of each set that was seen."""
    count = len(classes)
    precision = np.eye(count) / OPEN**2
    toward = np.array(usual) / OPEN**2
    rows = {mask: _exponents(classes, mask) for mask in evidence}
    for mask, seen in evidence.items():
        exponents = rows[mask]
        precision += np.outer(exponents, exponents) / seen.variance
        toward += exponents * seen.log_selectivity / seen.variance
    covariance = np.linalg.inv(precision)
    mean = covariance @ toward
    spreads = np.sqrt(np.diag(covariance))
    factors = tuple(Known(float(x), float(sd)) for x, sd in zip(mean, spreads, strict=True))
    known = {}
    for mask, seen in evidence.items():
        exponents = rows[mask]
        variance = float(exponents @ covariance @ exponents) + MISFIT**2
        known[mask] = _both(float(exponents @ mean), variance, seen)
    return factors, known


def _exponents(classes: Sequence[Mask], mask: Mask) -> np.ndarray:
    more = [max(0, (span & mask).bit_count() - 1) for span in classes]
    return np.array(more, dtype=np.float64)


def _both(said: float, variance: float, seen: Evidence) -> Known:
    """What the classes say and what was counted, each by how sure it is."""
    weight = variance / (variance + seen.variance)
    left = variance * seen.variance / (variance + seen.variance)
    return Known(said + weight * (seen.log_selectivity - said), left**0.5)
