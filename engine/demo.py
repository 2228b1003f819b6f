"""The demo that `run.py up` begins with: a skewed market of three streams, on nodes with little memory.

Its results are for looking at; those older than an hour are deleted, so that it can run for weeks.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from engine.errors import QueryFileError

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "examples" / "console-demo.toml"
NAME = "demo"
KEPT_S = 3_600.0


def text() -> str:
    try:
        return FILE.read_text()
    except OSError as error:
        raise QueryFileError("the demo's query file is missing", where=str(FILE)) from error


def prune(folder: Path, now_s: float) -> int:
    """Delete results older than an hour; how many files."""
    gone = 0
    for path in folder.glob("part-*.parquet"):
        with contextlib.suppress(OSError):  # gone already: compacted, or its reader took it
            if now_s - path.stat().st_mtime > KEPT_S:
                path.unlink()
                gone += 1
    return gone
