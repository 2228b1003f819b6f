"""Merging small published result files into larger ones, a bounded piece at a time.

A reader with a plain glob never sees a row twice. The price: between the moment the old files go
and the moment the merged one appears it misses those rows, and a reader that listed a file just
before may find it gone; both pass when it looks again. Queries that need a still picture read
between runs, or switch compaction off.

    merge → hidden file → journal → old files go → hidden file renamed → journal goes
             └ crash: drop it      └ crash, here and later: recover() goes on from the journal

Only published files are touched; staged ones belong to parquet.py.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import SinkError
from engine.sinks.ledger import replace_text
from engine.sinks.staged import covers, parquet_writer, published

log = logging.getLogger(__name__)

SMALL_BYTES = 1 << 20
SMALL_FILES = 64


def maybe_compact(
    directory: Path, small_bytes: int = SMALL_BYTES, small_files: int = SMALL_FILES
) -> int:
    """Merge the longest run of small files when there are more than `small_files`; at most that
    many files in one call (64 MB with the defaults). Returns how many were replaced.

    Merging is never needed: when it cannot be done, the query goes on with the files as they are.
    """
    chosen = _choose(directory, small_bytes, small_files)
    if len(chosen) < 2:
        return 0
    try:
        _apply(directory, _merge(directory, chosen))
    except (OSError, pa.ArrowException, SinkError) as error:
        log.warning("result files in %s stay unmerged: %s", directory, error)
        return 0
    return len(chosen)


def recover(directory: Path) -> None:
    """Finish what a journal says was begun; drop merged files that no journal names."""
    for journal in sorted(directory.glob(".compact-*.json")):
        _apply(directory, journal)
    for pattern in (".compact-*.tmp", ".compact-*.json.new"):
        for left in directory.glob(pattern):
            left.unlink(missing_ok=True)


def _choose(directory: Path, small_bytes: int, small_files: int) -> list[Path]:
    """The longest run of neighbouring small files, so that the order of names stays the order
    of rows; empty unless small files are many."""
    runs: list[list[Path]] = [[]]
    small = 0
    for path in published(directory):
        try:
            is_small = path.stat().st_size < small_bytes
        except FileNotFoundError:  # its reader took it away
            continue
        if is_small:
            small += 1
            runs[-1].append(path)
        elif runs[-1]:
            runs.append([])
    return max(runs, key=len)[:small_files] if small > small_files else []


def _merge(directory: Path, inputs: list[Path]) -> Path:
    """Write the merged rows hidden, then the journal; from the journal on there is no way back."""
    name = f".compact-{uuid.uuid4().hex[:8]}"
    tmp = directory / f"{name}.parquet.tmp"
    (first, first_node), (last, last_node) = covers(inputs[0])[0], covers(inputs[-1])[1]
    plan = {
        "inputs": [path.name for path in inputs],
        "tmp": tmp.name,
        "final": f"part-{first:08d}-{first_node:04d}-{last:08d}-{last_node:04d}.parquet",
    }
    journal = directory / f"{name}.json"
    try:
        _concatenate(inputs, tmp)
        replace_text(journal, json.dumps(plan))
    except (OSError, pa.ArrowException, SinkError):
        tmp.unlink(missing_ok=True)
        raise
    return journal


def _concatenate(inputs: list[Path], tmp: Path) -> None:
    schema = pq.read_schema(inputs[0])
    with pa.OSFile(str(tmp), "wb") as file, _like(inputs[0], file, schema) as writer:
        for rows in _row_groups(inputs):
            writer.write_table(rows)
    shutil.copymode(inputs[0], tmp)


def _like(model: Path, file: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer with the compression of an existing file."""
    codec = pq.read_metadata(model).row_group(0).column(0).compression
    names = {"UNCOMPRESSED": "none"}
    return parquet_writer(file, schema, names.get(codec, codec.lower()))


def _row_groups(inputs: list[Path], target_rows: int = 1 << 20) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = 0
    for path in inputs:
        table = pq.ParquetFile(path).read()
        held.append(table)
        rows += table.num_rows
        if rows >= target_rows:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


def _apply(directory: Path, journal: Path) -> None:
    """From the journal to the end; can be repeated from any point."""
    plan = json.loads(journal.read_text())
    tmp = directory / plan["tmp"]
    if tmp.exists():
        for name in plan["inputs"]:
            (directory / name).unlink(missing_ok=True)
        os.rename(tmp, directory / plan["final"])
    journal.unlink()
