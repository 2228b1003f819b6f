"""Learning coefficients from what actions really took: a scalar Kalman filter per coefficient, in logs.

ε = ln(actual / predicted), clipped to ± ln 4; ℓ += Kε, K = P / (P + R). Gains are counterfactual and never
used here. Brier scores say how good overflow forecasts were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

from control.cost.coefficients import Coefficients

CLIP = log(4)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One coefficient: ln of its value, how unsure that is, and how noisy one measurement is."""

    log_value: float
    variance: float = 1.0  # P
    noise: float = 0.25  # R
    drift: float = 0.002  # added to P each time: old knowledge fades
    count: int = 0

    @staticmethod
    def of(value: float) -> Estimate:
        return Estimate(log(value))

    @property
    def value(self) -> float:
        return exp(self.log_value)

    @property
    def spread(self) -> float:
        """Standard deviation in logs, for draws."""
        return float(self.variance**0.5)

    def learn(self, actual: float, predicted: float, weight: float = 1.0) -> Estimate:
        """After one action. What cannot be compared (nothing predicted, nothing taken) teaches nothing; `weight`: how
        much there is to be learned of it."""
        if actual <= 0 or predicted <= 0:
            return self
        error = max(-CLIP, min(CLIP, log(actual / predicted)))
        before = self.variance + self.drift
        gain = before / (before + self.noise / weight)
        return replace(
            self,
            log_value=self.log_value + gain * error,
            variance=(1 - gain) * before,
            count=self.count + 1,
        )


# What each kind of action measures: figure → the coefficient it corrects.
CORRECTS: dict[str, str] = {
    "spill_cpu_s": "write_s_per_byte",
    "move_cpu_s": "transfer_s_per_byte",
    "cleanup_read_cpu_s": "read_s_per_byte",
    "cleanup_join_cpu_s": "join_s_per_row",
    "cleanup_rows": "owed_factor",
    "move_bandwidth": "bandwidth_bytes_per_s",
    "tick_s": "tick_s",
    "recompute_cpu_s": "recompute_s_per_row",
    "sort_cpu_s": "sort_s_per_row",
    "side_cores": "side_cores",
    "job_s": "job_ticks",
    "swap_s": "swap_s",
}


def learned(
    estimates: dict[str, Estimate],
    figure: str,
    actual: float,
    predicted: float,
    weight: float = 1.0,
) -> dict[str, Estimate]:
    """All estimates after one figure was measured."""
    name = CORRECTS[figure]
    return {**estimates, name: estimates[name].learn(actual, predicted, weight)}


def estimates_of(numbers: Coefficients) -> dict[str, Estimate]:
    return {name: Estimate.of(getattr(numbers, name)) for name in CORRECTS.values()}


def numbers_of(base: Coefficients, estimates: dict[str, Estimate]) -> Coefficients:
    return replace(base, **{name: estimate.value for name, estimate in estimates.items()})
