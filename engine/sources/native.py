"""Parquet files read straight into Arrow, past the JVM, with the values that Spark would give.

Spark keeps discovery, offsets and scheduling: `open_file_list` (files.py) streams the paths, and a task reads
each file here. Types follow Spark's own Parquet reader; where that would cut values silently (an
int column declared tinyint), reading stops. Not here: JSON, CSV, nested types, partitioned
directories; `is_native` says no to those, and Spark reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import SourceError
from engine.query.model import Field, StreamSpec
from engine.query.types import arrow_type
from engine.sources.parquet_types import fits, is_bytes, mismatch, plain

# Options that choose files; any other one changes how they are read, which is left to Spark.
DISCOVERY_OPTIONS = frozenset(
    name.lower()
    for name in (
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "pathGlobFilter",
        "recursiveFileLookup",
        "latestFirst",
        "maxFileAge",
        "fileNameOnly",
        "maxCachedFiles",
    )
)
_PARTITION = re.compile(r"([^/=]+)=[^/]*/")
_REMOTE = re.compile(r"(?!file:)\w[\w+.-]*://")
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_T = pa.types


def is_native(stream: StreamSpec) -> bool:
    """May this stream's files be read by `read_native` instead of Spark?"""
    return (
        stream.format == "parquet"
        and not _REMOTE.match(stream.path)
        and all(name.lower() in DISCOVERY_OPTIONS for name in stream.options)
        and all(_T.is_primitive(t) or is_bytes(t) or _T.is_decimal(t) for t in _arrow_types(stream))
        and not _is_partitioned(local_path(stream.path))
    )


def _arrow_types(stream: StreamSpec) -> Iterator[pa.DataType]:
    return (arrow_type(field.type) for field in stream.fields)


def _is_partitioned(root: str) -> bool:
    """Does a directory below (`root` may be a glob) look like Hive's `day=2026-01-01`?"""
    if "=" in root:
        return True
    base = Path(re.split(r"[*?\[{]", root, maxsplit=1)[0])
    top = base if base.is_dir() else base.parent
    return any("=" in name for _, folders, _ in os.walk(top) for name in folders)


def local_path(uri: str) -> str:
    """The file-system path of a local path as Spark writes it (`file:/a b`, `file:///a b`, `/a b`)."""
    path = uri.removeprefix("file:")
    return "/" + path.lstrip("/") if path != uri else path


def read_native(path: str, columns: Sequence[str], fields: Sequence[Field]) -> pa.Table:
    """The named columns of one Parquet file, in the Arrow types of their declared Spark types."""
    declared = {field.name: field for field in fields}
    with _naming(path):
        file = pq.ParquetFile(local_path(path), coerce_int96_timestamp_unit="us")
        with file:
            found = {c: _find(file.schema_arrow, c, path) for c in columns}
            for name, column in found.items():
                _check(file, column, declared[name], path)
            table = file.read([c for c in found.values() if c], use_threads=False)
    arrays = [_column(table, found[c], declared[c], path) for c in columns]
    schema = pa.schema([(c, arrow_type(declared[c].type)) for c in columns])
    if not arrays:
        return table.select([])
    return pa.Table.from_arrays(arrays, schema=schema)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors of reading become SourceErrors that name the file and what to do."""
    advice = (
        "repair, replace or remove the file, then start again: nothing of it has been processed"
    )
    try:
        yield
    except FileNotFoundError:
        what = "the file has gone since it was listed"
        raise SourceError(what, where=path, hint="put it back, then start again") from None
    except PermissionError:
        what = "no permission to read the file"
        raise SourceError(what, where=path, hint="grant it, then start again") from None
    except (pa.ArrowException, OSError) as bad:
        first_line = str(bad).strip().splitlines()[0] if str(bad).strip() else type(bad).__name__
        what = f"not a readable Parquet file, or damaged: {first_line}"
        raise SourceError(what, where=path, hint=advice) from bad


def _find(schema: pa.Schema, name: str, path: str) -> str | None:
    """The file's spelling of a column, whatever its case; None if it has no such column."""
    same = [column for column in schema.names if column.lower() == name.lower()]
    if len(same) > 1:
        raise SourceError(
            f"column {name} is ambiguous: the file has {', '.join(same)}",
            where=path,
            hint="column names are compared without regard to case; rename one",
        )
    if not same and name.lower() in {part.lower() for part in _PARTITION.findall(path)}:
        raise SourceError(
            f"column {name} became a partition directory while the query ran",
            where=path,
            hint="start the query again: it will then leave reading to Spark",
        )
    return same[0] if same else None


def _check(file: pq.ParquetFile, column: str | None, field: Field, path: str) -> None:
    """Refuse, before anything is read, a file type that Spark would refuse too."""
    if column is None:
        return
    have = plain(file.schema_arrow.field(column).type)
    if not fits(have, field.type):
        raise mismatch(path, column, have, field)
    legacy = any(key in (file.metadata.metadata or {}) for key in _LEGACY)
    if legacy and (_T.is_timestamp(have) or _T.is_date(have)):
        raise SourceError(
            f"column {column} counts days by the Julian calendar of Spark before 3.0",
            where=path,
            hint="rewrite the file with a newer Spark",
        )


def _column(table: pa.Table, column: str | None, field: Field, path: str) -> pa.ChunkedArray:
    want = arrow_type(field.type)
    if column is None:
        return pa.chunked_array([pa.nulls(table.num_rows, want)])
    values = _storage(table.column(column))
    if values.type == want:
        return values
    try:
        return _to_micros(values, want) if _T.is_timestamp(values.type) else values.cast(want)
    except pa.ArrowInvalid as bad:
        error = mismatch(path, column, values.type, field)
        raise SourceError(f"{error.what} ({bad})", where=path, hint=error.hint) from None


def _to_micros(values: pa.ChunkedArray, want: pa.DataType) -> pa.ChunkedArray:
    """Nanoseconds are rounded down, and a time without a zone is one in UTC, as in Spark."""
    if values.type.unit == "ns":
        values = pc.floor_temporal(values, unit="microsecond")
    return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(want)


def _storage(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([c.storage for c in values.chunks], values.type.storage_type)
    return values
