"""What a migration is predicted to take, by the names under which its action tells what it took.

What they teach is learned as every other action's figures are (control/learn.py): compared as they would be predicted
now, for the rows that there really were. Lengths follow from speeds: of a row, of side jobs, of what each job takes
besides, so that the next prediction is right whatever else the machine has to do.
"""

from __future__ import annotations

from control.cost.coefficients import Coefficients
from control.migration.strategies import Estimate

# Of what a node does for one state, whatever its rows, while ticks wait and beside them: it is not the rows'.
ORDER_CPU_S, BESIDE_CPU_S = 0.008, 0.018


def figures(numbers: Coefficients, estimate: Estimate) -> dict[str, float]:
    """Of what side jobs make; the parallel track's CPU is within the ticks, which teach it themselves."""
    if estimate.strategy == "parallel":
        return {}
    recomputed, sorted_rows = estimate.rows - estimate.sorted_rows, estimate.sorted_rows
    beside = {"side_cores": numbers.side_cores, "job_s": estimate.job_s}
    return {
        "recompute_rows": recomputed,
        "recompute_cpu_s": recomputed * numbers.recompute_s_per_row,
        "sort_rows": sorted_rows,
        "sort_cpu_s": sorted_rows * numbers.sort_s_per_row,
        **({} if estimate.at_once else beside),
        "swap_s": estimate.swap_s,
    }
