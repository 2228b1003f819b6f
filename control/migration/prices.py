"""T_j and T_s, CPU seconds of a row joined and of a row kept, measured while the query runs.

Tasks tell the CPU of an operator as a whole. Operators differ in how many rows they make of those they take, so least
squares over operators and ticks tells the two apart; what a task costs before its first row is the third unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

START = (1e-6, 1e-6, 5e-3)  # guesses: joined, kept, each task
TRUST = (
    0.01  # a guess weighs as much as so many CPU·ms: no more than keeps sums from being singular
)


@dataclass(frozen=True, slots=True)
class RowWork:
    """What one operator did: rows probed and made, rows kept, CPU."""

    joined: float
    kept: float
    cpu_s: float
    join_cpu_s: float | None = None
    insert_cpu_s: float | None = None


@dataclass
class RowPrices:
    """Decayed sums. `join_s` and `insert_s` are T_j and T_s."""

    squares: list[list[float]] = field(default_factory=lambda: [[0.0] * 3 for _ in range(3)])
    products: list[float] = field(default_factory=lambda: [0.0] * 3)
    direct: list[float] = field(default_factory=lambda: [0.0] * 4)  # rows, CPU; rows, CPU

    def decay(self, keep: float) -> None:
        self.squares = [[x * keep for x in row] for row in self.squares]
        self.products = [x * keep for x in self.products]
        self.direct = [x * keep for x in self.direct]

    def add(self, work: RowWork) -> None:
        if work.join_cpu_s is not None and work.insert_cpu_s is not None:
            told = (work.joined, work.join_cpu_s, work.kept, work.insert_cpu_s)
            self.direct = [a + b for a, b in zip(self.direct, told, strict=True)]
        if not work.joined + work.kept:
            return
        # In units of the guesses, and each tick by the CPU that it was expected to take: a long tick says more,
        # but not as the square of its length.
        x = np.array([work.joined * START[0], work.kept * START[1], START[2]])
        scale = max(float(x.sum()), 1e-9)
        self.squares = (np.array(self.squares) + np.outer(x, x) / scale).tolist()
        self.products = (np.array(self.products) + x * work.cpu_s / scale).tolist()

    @property
    def join_s(self) -> float:
        return self._direct(0) or self._solved()[0]

    @property
    def insert_s(self) -> float:
        return self._direct(2) or self._solved()[1]

    def _direct(self, at: int) -> float:
        rows, cpu = self.direct[at : at + 2]
        return cpu / rows if rows > 1 else 0.0

    def _solved(self) -> tuple[float, float, float]:
        """The least squares, none of them below nothing: what would be is taken as nothing, the others again."""
        weight = TRUST / 1e3
        left = np.array(self.squares) + weight * np.eye(3)
        right = np.array(self.products) + weight
        free = np.ones(3, dtype=bool)
        times = np.zeros(3)
        for _ in range(3):
            times[:] = 0.0
            times[free] = np.linalg.solve(left[np.ix_(free, free)], right[free])
            if (times >= 0).all():
                break
            free &= times >= 0
        out = times * np.array(START)
        return float(out[0]), float(out[1]), float(out[2])

    def pack(self) -> dict[str, Any]:
        return {"squares": self.squares, "products": self.products, "direct": self.direct}

    @staticmethod
    def unpack(raw: dict[str, Any]) -> RowPrices:
        return RowPrices(raw["squares"], raw["products"], raw["direct"])
