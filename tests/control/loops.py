"""Rules that are evaluated, and a cluster that is calm."""

from __future__ import annotations

from dataclasses import replace

from tests.control.fluid.workloads import Workload, drifting

MB = 1_000_000
TEXT = """
name = "even"
mode = "{mode}"
every = "15s"
cooldown = "60s"
needs_gain = {needs}
[policy]
name = "relocate"
ratio = 0.8
span_s = 0
"""


def text(mode: str = "auto", needs: str = "false") -> str:
    return TEXT.format(mode=mode, needs=needs)


def calm() -> Workload:
    """64 groups that grow evenly, 20 KB/s in all."""
    return replace(drifting(64, 200, 64 * 4000, 1, 3), row_bytes=100.0)
