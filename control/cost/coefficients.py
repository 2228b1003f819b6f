"""The numbers of the cost model: one frozen set, defaults to start from, corrected by recalibrate.py."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True, slots=True)
class Coefficients:
    """CPU·s per byte or row (κ), speeds and times. Defaults are guesses until measured."""

    write_s_per_byte: float = 2.0 / GB  # κw
    read_s_per_byte: float = 1.0 / GB  # κ1
    join_s_per_row: float = 1e-6  # κ2
    owed_factor: float = 1.0  # κo, corrects the owed rows' forecast
    transfer_s_per_byte: float = 2.0 / GB  # κx
    bandwidth_bytes_per_s: float = 100e6  # w
    tick_s: float = 0.5  # τ
    side_slice: float = 0.2  # q, of one core, for side jobs
    cores: float = 0.0  # of the machine all nodes share; 0: load is left out
    work_s_per_row: float = 0.0  # of a tick, for load; 0: taken from how busy nodes are
    # Of migrations, as `python -m tests.bench.migrating` found them (docs/benchmarks/migrating.md).
    recompute_s_per_row: float = 1.7e-7  # κj, a row read or made when state is computed anew
    sort_s_per_row: float = 1.7e-7  # a row put under another key
    side_cores: float = 0.6  # what a side job's tasks get beside the ticks
    job_ticks: float = 1.1  # that each of these jobs takes, whatever it does: it ends between two
    swap_s: float = 0.1  # each job that a tick waits for, with the new plan's commit


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far ahead options are compared. What is still owed then waits min(W, H) more.

    `charge_after` off leaves that last charge out; cost.md's worked example does."""

    seconds: float = 300.0
    charge_after: bool = True
    events_max: int = 64  # spills per node that are rolled forward


@dataclass(frozen=True, slots=True)
class LocalRule:
    """The nodes' own spill rule, as nothing rolls it forward."""

    threshold: float = 1.0  # share of the budget
    percent: float = 30.0  # of the memory in use


NODE_RULE = LocalRule(threshold=0.9, percent=30.0)  # the engine's own, where nobody says another
