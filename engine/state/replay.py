"""Spark's part of the checkpoint and ours must tell the same story before a query goes on.

Spark notes what a batch reads before we see it, and that it is done after our commit. Here: whether the
two agree. What they contain is commits.py's and Spark's own.
"""

from __future__ import annotations

from pathlib import Path

from engine.errors import CheckpointError

_HINT = "Parts of the checkpoint were removed or mixed: restore it from a copy, or start with a new one."


def check(checkpoint: Path, tick: int) -> None:
    """Refuse to go on when Spark would give us rows twice, or leave some out. `tick`: our last batch."""
    spark = checkpoint / "spark"
    planned, done = _last(spark / "offsets"), _last(spark / "commits")
    if tick <= planned <= tick + 1 and done <= tick:
        return
    if planned < 0:
        what = f"Spark's part of the checkpoint is missing, ours ends with batch {tick}"
    elif tick < 0:
        what = f"our part of the checkpoint is missing, Spark's ends with batch {planned}"
    else:
        what = f"Spark's part of the checkpoint ends with batch {planned}, ours with batch {tick}"
    raise CheckpointError(what, where=str(spark if planned < tick else checkpoint), hint=_HINT)


def _last(folder: Path) -> int:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)
