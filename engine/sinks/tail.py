"""The newest result rows, for a terminal. Reads published Parquet only; never a staged file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.sinks.staged import published


def tail(directory: Path, n: int) -> pa.Table:
    """The last `n` rows of the newest published files, oldest first; no columns when none is."""
    parts: list[pa.Table] = []
    wanted = n
    for path in reversed(published(directory) if directory.is_dir() else []):
        if wanted <= 0:
            break
        try:
            part = _last_rows(path, wanted)
        except FileNotFoundError:  # merged or taken away while we looked
            continue
        parts.append(part)
        wanted -= part.num_rows
    return pa.concat_tables(reversed(parts)) if parts else pa.table({})


def newer(directory: Path, seen: set[str]) -> Iterator[Path]:
    """Published files not in `seen`, merged ones aside: their rows were published before."""
    for path in published(directory) if directory.is_dir() else []:
        if path.name not in seen:
            seen.add(path.name)
            if path.name.count("-") == 2:
                yield path


def _last_rows(path: Path, n: int) -> pa.Table:
    with pq.ParquetFile(path) as file:
        rows, first = 0, file.num_row_groups
        while first > 0 and rows < n:
            first -= 1
            rows += file.metadata.row_group(first).num_rows
        table = file.read_row_groups(range(first, file.num_row_groups))
    return table.slice(max(0, table.num_rows - n))
