"""What sorting and jobs cost in tests of what migrations cost."""

from __future__ import annotations

JOBS = {"recompute_rows", "recompute_cpu_s", "side_cores", "job_s", "swap_s"}
SORTS = {"sort_rows", "sort_cpu_s"}
