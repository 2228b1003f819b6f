"""What to look at where two plans run side by side."""

from __future__ import annotations

import pyarrow.parquet as pq

from tests.engine.local import Local


def seen_rows(local: Local) -> int:
    """Results that a reader with a plain glob sees."""
    files = (local.root / "out").glob("*.parquet")
    return sum(pq.read_metadata(path).num_rows for path in files)
